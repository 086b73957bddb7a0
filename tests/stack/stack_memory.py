"""Memory of the containers of a stack: empty, with so many chunks, and at most under searches and documents."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from compose_stack import ROOT, ComposeStack, docker
from stack_load import load
from stack_steps import COLLECTION, ROWS

LOAD_S = 120
QUERIES = [row["title"] for row in ROWS]
_QUIET_S = 20
_UNITS = {"B": 1e-6, "KiB": 1024e-6, "MiB": 1.048576, "GiB": 1073.741824}


def memory_of(containers: Mapping[str, str]) -> dict[str, float]:
    """MB of each container (id → service), without the page cache that the kernel can drop."""
    lines = docker("stats", "--no-stream", "--no-trunc", "--format", "{{.ID}} {{.MemUsage}}", *containers).splitlines()
    used = {}
    for line in lines:
        container, size, unit = re.match(r"(\w+) ([\d.]+)([KMG]?i?B)", line).groups()  # type: ignore[union-attr]
        used[containers[container]] = float(size) * _UNITS[unit]
    return used


@contextmanager
def most_memory(containers: Mapping[str, str]) -> Iterator[dict[str, float]]:
    """The largest of each service until the block ends."""
    most: dict[str, float] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for service, used in memory_of(containers).items():
                most[service] = max(used, most.get(service, 0))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def measure(stack: ComposeStack, chunks: int) -> str:
    """A table in Markdown. Leaves the stack up."""
    stack.up()
    time.sleep(_QUIET_S)
    containers = {stack.container(service): service for service in stack.services()}
    columns = {"empty": memory_of(containers)}
    stack.compose("stop", "worker")
    fill = ("run", "--rm", "--no-TTY", "--no-deps", "--volume", f"{ROOT / 'tests/stack'}:/stack:ro", "worker")
    others = {container: service for container, service in containers.items() if service != "worker"}
    with most_memory(others) as filling:
        said = stack.compose(*fill, "python", "/stack/fill_index.py", str(chunks), timeout_s=4 * 3600)
    columns["at most while they came in"] = filling
    stack.compose("restart")
    stack.up()
    time.sleep(_QUIET_S)
    columns["after a restart"] = memory_of(containers)
    with most_memory(containers) as most, load(stack.client, QUERIES, collection=COLLECTION, label="memory") as asked:
        time.sleep(LOAD_S)
    columns[f"at most in {LOAD_S} s of load"] = most
    head = ["MB", *columns]
    rows = [
        [service, *(f"{column[service]:.0f}" if service in column else "–" for column in columns.values())]
        for service in stack.services()
    ]
    total = ["all", *("–" if len(each) < len(rows) else f"{sum(each.values()):.0f}" for each in columns.values())]
    lines = [head, ["---", *("---:" for _ in columns)], *rows, total]
    asked_s = f"{len(asked.searches)} searches ({len(asked.failed)} failed) and {len(asked.accepted)} documents"
    return "\n".join(
        [f"{said.strip()}; the load was {asked_s}.", "", *("| " + " | ".join(each) + " |" for each in lines)]
    )
