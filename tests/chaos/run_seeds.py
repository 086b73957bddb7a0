"""Runs many seeds, one after the other, and records each in a log; seeds that have passed there are left out.

make chaos ARGS="--seeds 1-20 --catalog postgres --model gircse-mini"
make chaos ARGS="--seeds 1-4 --engine server"    # that of GIRCSE_TEST_QDRANT_URL or GIRCSE_TEST_QDRANT
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # what tests of all kinds share

from chaos_model import tiny_model
from chaos_run import ChaosSettings, run_seed
from qdrant_servers import opened_server, told

from app.errors import GircseError

DEFAULT_LOG = Path("runs/chaos.jsonl")
TINY = "tiny"


def main() -> int:
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers and their engine share the machine
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")  # it counts what killed workers held
    logging.basicConfig(level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves no process behind
    with tempfile.TemporaryDirectory(prefix="gircse-chaos-") as folder:
        model = options.model
        if model == TINY:
            model = str(tiny_model(Path(folder) / "model"))
        settings = ChaosSettings(model, options.catalog, options.documents, options.kills, options.engine)
        key = {
            "model": options.model,
            "catalog": options.catalog,
            "kills": options.kills,
            "documents": options.documents,
            "engine": options.engine,
        }
        if options.engine == "server":
            print(told())
        done = _passed(options.log, key)
        failed = []
        for seed in options.seeds:
            if seed in done:
                print(f"seed {seed} has passed before")
            elif not _run(seed, settings, key, Path(folder) / f"seed-{seed}", options):
                failed.append(seed)
    print(_summary(options.log, key))
    return 1 if failed else 0


def _run(
    seed: int, settings: ChaosSettings, key: Mapping[str, object], folder: Path, options: argparse.Namespace
) -> bool:
    print(f"seed {seed} on {settings.catalog} with {key['model']} …", flush=True)
    record: dict[str, Any]
    try:
        with (
            opened_server(folder.with_name(f"{folder.name}-qdrant"))
            if settings.engine == "server"
            else nullcontext() as server
        ):
            record = run_seed(seed, settings, folder, server=server).to_record()
    except (TimeoutError, GircseError) as error:
        record = {"passed": False, "seed": seed, "differences": [str(error)]}
    record["settings"] = dict(key)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    with options.log.open("a", encoding="utf-8") as log:
        log.write(json.dumps(record) + "\n")
    if record["passed"]:
        shutil.rmtree(folder)
        print(f"seed {seed} passed: {_figures(record)}", flush=True)
        return True
    kept = Path(tempfile.mkdtemp(prefix=f"gircse-chaos-seed-{seed}-"))
    shutil.copytree(folder, kept, dirs_exist_ok=True)
    print(f"seed {seed} FAILED; what it left is in {kept}", *record["differences"][:20], sep="\n  ", flush=True)
    return False


def _figures(record: Mapping[str, Any]) -> str:
    kills = ", ".join(f"{count} {target}" for target, count in record["kills"].items())
    return (
        f"{sum(record['kills'].values())} kills ({kills}; {record['in_flight']} workers with a job in flight), "
        f"{sum(record['injected'].values())} network faults, {record['operations']} operations, "
        f"{record['documents']} documents, {record['chunks']} chunks, {record['seconds']} s"
    )


def _records(log: Path, key: Mapping[str, object]) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return [record for record in records if {"engine": "embedded", **record["settings"]} == key]


def _passed(log: Path, key: Mapping[str, object]) -> set[int]:
    return {record["seed"] for record in _records(log, key) if record["passed"]}


def _summary(log: Path, key: Mapping[str, object]) -> str:
    last = {record["seed"]: record for record in _records(log, key)}
    passed = [record for record in last.values() if record["passed"]]
    if not passed:
        return f"{len(last)} seeds, none passed"
    kills = sum(sum(record["kills"].values()) for record in passed)
    in_flight, faults = (
        sum(record["in_flight"] for record in passed),
        sum(sum(r["injected"].values()) for r in passed),
    )
    slowest = max(record["seconds"] for record in passed)
    return (
        f"{len(passed)} of {len(last)} seeds passed: {sorted(record['seed'] for record in passed)}; {kills} kills, "
        f"{in_flight} of them of a worker with a job in flight, {faults} network faults; slowest seed {slowest} s"
    )


def _seeds(text: str) -> Sequence[int]:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=_seeds, default=range(1, 4), help="one, or a range as 1-20 (default: 1-3)")
    parser.add_argument("--catalog", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--engine", choices=("embedded", "server"), default="embedded")
    parser.add_argument("--model", default=TINY, help="a tiny random one (default), gircse-mini, or a folder")
    parser.add_argument("--documents", type=int, default=320)
    parser.add_argument("--kills", type=int, default=32)
    parser.add_argument("--log", type=Path, default=DEFAULT_LOG, help=f"JSON lines (default: {DEFAULT_LOG})")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
