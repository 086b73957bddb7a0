"""The web service under twice the searches it can answer: `python -m research.benchmarks.overload_web`.

As `overload` does with an embedding server, over a service with access control and all its processes.
Exit code 1 where what `judge` asks does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from embedder.command.standard_output import run_program
from embedder.model_info import DEFAULT_MODEL
from research.benchmarks.load.__main__ import fill
from research.benchmarks.load.application import COLLECTION, WEB, end_in_order, service_application
from research.benchmarks.overload import Client, measure, report

ROWS = 200
WAITING = 'gircse_requests_admitted{lane="searches"'


class SearchClient(Client):
    def question(self, text: str) -> tuple[str, object]:
        return "/api/v1/search", {"query": text, "collection": COLLECTION}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of overload; 10 for a quick look")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--embedder", action="store_true", help="the model in a process of its own")
    parser.add_argument("--at-once", type=int, help="GIRCSE_SEARCHES_AT_ONCE of the service")
    options = parser.parse_args()
    chosen = {} if options.at_once is None else {"GIRCSE_SEARCHES_AT_ONCE": str(options.at_once)}
    end_in_order()
    with (
        tempfile.TemporaryDirectory(prefix="gircse-overload-") as folder,
        service_application(Path(folder), model=options.model, has_embedder=options.embedder, **chosen) as application,
    ):
        fill(application, ROWS)
        client = SearchClient(application.url, options.model, key=application.admin_key)
        process = application.process_of(WEB)
        outcome = asyncio.run(measure(client, process, seconds=options.seconds, waiting_as=WAITING))
    report(outcome, print)


if __name__ == "__main__":
    run_program(main)
