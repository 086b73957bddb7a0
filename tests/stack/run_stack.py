"""Tries docker-compose.yml under Docker, step by step, and writes a table: each step, its failures, its duration.

make stack-test ARGS="--profiles cpu,single --out build/stack-test.md"
make stack-test ARGS="--only memory --chunks 100000"

Images: GIRCSE_IMAGE, QDRANT_IMAGE, POSTGRES_IMAGE, and GIRCSE_IMAGE_BEFORE for the upgrade. IMAGE_ARGS go to
`docker build`.
It has a project, a port and secrets of its own, and removes all of it at the end.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compose_stack import SEARCHES_AT_ONCE, ComposeStack, Images, StackError, docker, reason_to_skip
from stack_images import choose_images
from stack_memory import measure
from stack_steps import Row, Steps

SINGLE = "cpu,single"
CLUSTER = "cpu,cluster"
TABLE_MARK = "<!-- table -->"
HEADINGS = (
    "profiles", "step", "s", "searches", "failed", "later than 5 s", "slowest, s", "documents: accepted, refused",
    "result", "seen",
)  # fmt: skip


def main() -> int:
    options = _options()
    if reason := reason_to_skip():
        print(f"Skipped: {reason}.")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves no container behind
    try:
        images = choose_images()
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    rows: list[Row] = []
    if options.only == "memory":
        with _stack(SINGLE, images) as stack:
            text = f"{conditions(images)}\n\n{measure(stack, options.chunks)}\n"
    else:
        for profiles in options.profiles:
            with _stack(profiles, images) as stack:
                _walk(Steps(stack, rows, _report), is_cluster="cluster" in profiles, only=options.only)
        text = table(rows, images)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, "utf-8")
    print(f"\n{text}\nWritten to {options.out}")
    if options.into is not None:
        write_into(options.into, text)
    return 1 if any(row.failures for row in rows) else 0


@contextmanager
def _stack(profiles: str, images: Images) -> Iterator[ComposeStack]:
    with tempfile.TemporaryDirectory(prefix="gircse-stack-") as folder:
        stack = ComposeStack(Path(folder), images=images, profiles=profiles, port=_free_port())
        try:
            yield stack
        finally:
            stack.remove()


def _walk(steps: Steps, *, is_cluster: bool, only: str) -> None:
    """All steps, or with `only` start, sample and searches."""
    steps.up()
    steps.take_sample_in()
    steps.search_by_rest()
    steps.search_by_page()
    if only != "start":
        steps.index_lens()
        steps.quiet_load()
        if is_cluster:
            _lose_nodes(steps)
        else:
            _lose_services(steps)
            steps.rolling_restart()
            steps.scale_workers()
            steps.back_up_and_restore()
            steps.upgrade(os.environ.get("GIRCSE_IMAGE_BEFORE") or "")
    steps.down()


def _lose_services(steps: Steps) -> None:
    """Each is there once: searches may fail while it is away, but for the worker, which no search needs."""
    for service in steps.stack.services():
        for kind in ("killed", "paused"):
            # Nobody answers for web itself.
            steps.fault(service, kind, may_fail=service != "worker", must_answer=service != "web")
    for service in ("qdrant", "embedder", "postgres"):
        steps.fault(service, "cut_off", may_fail=True, must_answer=True)


def _lose_nodes(steps: Steps) -> None:
    """With two replicas of everything no search fails for longer than the first seconds."""
    is_replicated = "qdrant" not in steps.stack.images.stand_ins
    for node in ("qdrant-1", "qdrant-2", "qdrant-3"):
        # The stand-ins have one engine, in node 1, which the others forward to.
        has_others = is_replicated or node != "qdrant-1"
        for kind in ("killed", "paused", "cut_off"):
            steps.fault(node, kind, may_fail=not has_others, must_answer=True)


def table(rows: list[Row], images: Images) -> str:
    """Markdown."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row.cells() for row in rows)]
    return "\n".join([conditions(images), "", *("| " + " | ".join(line) + " |" for line in lines), ""])


def write_into(page: Path, text: str) -> None:
    """Replaces what stands below the mark of the page."""
    above, mark, _ = page.read_text("utf-8").partition(TABLE_MARK)
    if not mark:
        raise StackError(f"{page} has no line {TABLE_MARK}")
    page.write_text(f"{above}{mark}\n{text}", "utf-8")


def conditions(images: Images) -> str:
    """What ran, and what stood in for what."""
    version = docker("version", "--format", "{{.Server.Version}}").strip()
    compose = docker("compose", "version", "--short").strip()
    said = [
        f"Docker {version}, Compose {compose}, {os.cpu_count()} cores; `GIRCSE_SEARCHES_AT_ONCE={SEARCHES_AT_ONCE}`."
    ]
    if "qdrant" in images.stand_ins:
        said.append(
            "No image of Qdrant was to be had: the embedded engine of gircse stood in for it. In the profile `cluster` "
            "that is one engine, in `qdrant-1`; `qdrant-2` and `qdrant-3` forward to it, and nothing is replicated."
        )
    if "postgres" in images.stand_ins:
        said.append("Debian's PostgreSQL stood in for PostgreSQL's image.")
    return " ".join(said)


def _report(row: Row) -> None:
    print(" | ".join(row.cells()), flush=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", action="append", choices=[SINGLE, CLUSTER], help="Both by default.")
    parser.add_argument("--only", choices=["start", "memory"], default="", help="start: up, sample, searches.")
    parser.add_argument("--chunks", type=int, default=100_000, help="Of --only memory.")
    parser.add_argument("--out", type=Path, default=Path("build/stack-test.md"))
    parser.add_argument("--into", type=Path, help=f"A page that gets the table below its line {TABLE_MARK}.")
    options = parser.parse_args()
    options.profiles = options.profiles or [SINGLE, CLUSTER]
    return options


if __name__ == "__main__":
    sys.exit(main())
