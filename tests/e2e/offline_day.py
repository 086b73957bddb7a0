"""A program for the offline test: ingests, searches and serves in this network namespace, and says how it went.

Usage: offline_day.py HOME FOLDER. Prints JSON; `refused_by_kernel` counts packets that had nowhere to go.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # what tests of all kinds share
from gircse_program import Gircse
from patience import PATIENCE_S


def refused_by_kernel() -> int:
    """Every connection or packet to another machine, native code's too, in a namespace that only has loopback."""
    lines = Path("/proc/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Ip:"))
    count = int(dict(zip(names, values, strict=True))["OutNoRoutes"])
    snmp6 = Path("/proc/net/snmp6")
    if snmp6.exists():
        count += sum(
            int(line.split()[1]) for line in snmp6.read_text().splitlines() if line.startswith("Ip6OutNoRoutes")
        )
    return count


def main(home: str, folder: str) -> None:
    settings = {name: os.environ[name] for name in ("PYTHONPATH", "NETWORK_ATTEMPTS")}
    gircse = Gircse(home=Path(home), settings=settings)
    summary = gircse.run("ingest", folder).stdout
    with gircse.serving() as server:
        result = json.loads(gircse.run("search", "a sleeping animal", "--json").stdout)
        with urllib.request.urlopen(f"{server.url}/", timeout=PATIENCE_S) as answer:
            page = answer.read().decode()
        found = server.search("a sleeping animal")["hits"]
    report = {
        "summary": summary,
        "texts": [hit["chunk"]["text"] for hit in result["hits"]],
        "texts_over_http": [hit["chunk"]["text"] for hit in found],
        "page": page,
        "refused_by_kernel": refused_by_kernel(),
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
