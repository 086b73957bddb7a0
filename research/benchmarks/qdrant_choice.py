"""Which Qdrant a benchmark measures: the embedded engine, and beside it a server where an address is given.

    python -m research.benchmarks.search_scale --qdrant http://host:6333 --points 10000 100000 1000000
    python -m research.benchmarks.search_scale --qdrant http://a:6333,http://b:6333,http://c:6333

The key is GIRCSE_QDRANT_API_KEY. `--qdrant stand-in` has the embedded engine in the place of a server, as a process
that is asked over HTTP by an address; its rows are marked so, and are no figures of a server.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from app.edge import EdgeProcess
from app.edge.connection import TITLE
from app.vectors import Sharding

STAND_IN = "stand-in"
EMBEDDED = "embedded"
_SERVER = "server"


@dataclass(frozen=True)
class QdrantChoice:
    """`name`: embedded, server or stand-in. `url`: addresses with commas between; None of the embedded engine."""

    name: str
    url: str | None = None
    api_key: str | None = None
    nodes: int = 1

    @property
    def sharding(self) -> Sharding:
        """A shard for each node, and two copies of each, as on a cluster that loses a node."""
        return Sharding(shards=self.nodes, replicas=2) if self.nodes > 1 else Sharding()

    @property
    def label(self) -> str:
        return self.name if self.nodes == 1 else f"{self.name}, {self.nodes} nodes"

    @property
    def settings(self) -> dict[str, object]:
        """For `load_settings`."""
        if self.url is None:
            return {}
        sharding = {"qdrant_shards": self.nodes, "qdrant_replicas": 2} if self.nodes > 1 else {}
        return {"qdrant_url": self.url, **({"qdrant_api_key": self.api_key} if self.api_key else {}), **sharding}

    @property
    def environment(self) -> dict[str, str]:
        return {f"GIRCSE_{name.upper()}": str(value) for name, value in self.settings.items()}


def add_qdrant_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--qdrant", metavar="URL[,URL…]", help=f"also measure this server; or {STAND_IN}")
    parser.add_argument("--nodes", type=int, help="of its cluster; default: as many as addresses")
    parser.add_argument("--no-embedded", action="store_true", help="measure the server alone")


@contextmanager
def qdrant_choices(options: argparse.Namespace) -> Iterator[list[QdrantChoice]]:
    """The embedded engine first. Takes the address and key of the environment away from it."""
    os.environ.pop("GIRCSE_QDRANT_URL", None)
    api_key = os.environ.pop("GIRCSE_QDRANT_API_KEY", None)
    found = [] if options.no_embedded and options.qdrant else [QdrantChoice(EMBEDDED)]
    if options.qdrant == STAND_IN:
        with tempfile.TemporaryDirectory(prefix="gircse-stand-in-") as folder, EdgeProcess(Path(folder)) as edge:
            connection = edge.start()
            yield [*found, QdrantChoice(STAND_IN, connection.url, connection.token)]
    elif options.qdrant:
        nodes = options.nodes or len(options.qdrant.split(","))
        yield [*found, QdrantChoice(_name_of(options.qdrant, api_key), options.qdrant, api_key, nodes)]
    else:
        yield found


def _name_of(url: str, api_key: str | None) -> str:
    """What answers there: an embedded engine says so."""
    headers = {"api-key": api_key} if api_key else {}
    answer = httpx.get(url.split(",")[0], headers=headers, timeout=30).raise_for_status()
    return STAND_IN if answer.json()["title"] == TITLE else _SERVER
