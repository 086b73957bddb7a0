"""Requests as the description of the API allows them, and as it does not: none may be answered with a 5xx.

Run by itself it asks an application of real parts: SQLite, Qdrant Edge and the built-in model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schemathesis
from api_application import api_of
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from patience import PATIENCE_S
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction, load_all_checks
from schemathesis.core.failures import FailureGroup

from app.commands.serve import running_worker
from app.documents.fetching import BackgroundFetching
from app.errors import DocumentError
from app.maintenance.background_reindex import BackgroundReindexing
from app.services import Services
from app.settings import load_settings
from app.testing import text_source
from app.types.documents import DocumentState, Lens, Source
from app.wiring.ingestion import open_reindexer
from app.wiring.services import open_services

COLLECTION = "library"
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")


@dataclass(slots=True)
class Report:
    """`errors`: what was asked, and what was wrong with the answer."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)  # 2xx, by operation
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0


def fetch_nothing(url: str) -> Source:
    raise DocumentError(f"{url[:80]!r} is not fetched while the API is being tried.")


@contextmanager
def open_api(services: Services) -> Iterator[FastAPI]:
    catalog = services.catalog
    reindexing = BackgroundReindexing(
        catalog, open_reindexer=lambda is_stopping: open_reindexer(services, is_stopping=is_stopping)
    )
    with (
        closing(reindexing),
        closing(BackgroundFetching(catalog, services.library, read_url=fetch_nothing)) as fetching,
    ):
        yield api_of(
            services, read_url=fetch_nothing, fetching=fetching, reindexing=reindexing, max_body_bytes=1_000_000
        )


def fill(services: Services) -> dict[str, str]:
    """Makes sure that there is something to find; what ids stand for in paths and queries."""
    services.library.ensure_collection(COLLECTION)
    text = "The cat sleeps on the sofa."
    document, _ = services.library.add_document(COLLECTION, text_source("cat", text))
    job = services.catalog.latest_jobs([document.id])[document.id]
    services.catalog.save_lens(Lens(COLLECTION, "Identify the feeling."))
    return {"document_id": document.id, "job_id": job.id, "collection": COLLECTION, "name": COLLECTION}


def fuzz(services: Services, *, cases: int, first_seed: int) -> Report:
    with open_api(services) as api:
        return fuzz_api(api, lambda: fill(services), cases=cases, first_seed=first_seed)


def fuzz_api(
    api: FastAPI, know: Callable[[], dict[str, str]], *, cases: int, first_seed: int, key: str | None = None
) -> Report:
    """At least so many cases, spread evenly over all operations.

    know: values of fields that the server accepts. key: is sent as a bearer.
    """
    report, started = Report(), time.monotonic()
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", api, headers=headers)
    operations = [result.ok() for result in schema.get_all_operations()]
    round_seed = first_seed
    while report.cases < cases:  # an operation with nothing to vary ends a round early
        each = -(-(cases - report.cases) // len(operations))
        for operation in operations:
            ask_operation(operation, know(), report, each, round_seed, headers)
        round_seed += 1
    report.seconds = time.monotonic() - started
    return report


def ask_operation(
    operation: Any,
    known: Mapping[str, str],
    report: Report,
    cases: int,
    first_seed: int,
    headers: Mapping[str, str],
) -> None:
    """One case is well formed and names what is there; the others are of all kinds."""
    checks = _checks(operation)
    modes = [operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]

    def ask(case: Any, is_known: bool) -> None:
        if is_known:
            name_what_is_there(case, known)
        answer = case.call(headers=headers, timeout=PATIENCE_S)
        report.cases += 1
        report.statuses[answer.status_code] += 1
        if answer.status_code < 300:
            report.answered[operation.label] += 1
        try:
            case.validate_response(answer, checks=checks)
        except FailureGroup as group:
            report.errors += [f"{operation.label}: {error}\n{case.as_curl_command()}" for error in group.exceptions]

    def run(count: int, case: Any, is_known: Any) -> None:
        limits = settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        seed(first_seed)(limits(given(case=case, is_known=is_known)(ask)))()

    run(1, modes[0], st.just(True))
    if cases > 1:
        run(cases - 1, st.one_of(modes), st.booleans())


def name_what_is_there(case: Any, known: Mapping[str, str]) -> None:
    """A random id is not found, and of many options one is refused: half of the cases name what is there, and ask for a
    search without options."""
    if case.operation.label == "POST /api/v1/search" and isinstance(case.body, dict) and "query" in case.body:
        case.body = {"query": case.body["query"] or "cat", "collection": COLLECTION}
    for place in (case.path_parameters, case.query, case.body):
        if isinstance(place, dict):
            place |= {key: known[key] for key in place.keys() & known.keys()}


def _checks(operation: Any) -> list[CheckFunction]:
    """A service that is not ready says so with a documented 503."""
    load_all_checks()
    names = CHECKS[1:] if operation.path == "/readyz" else CHECKS
    return [schemathesis.checks.CHECKS.get_one(name) for name in names]


def wait_until_read(services: Services) -> None:
    until = time.monotonic() + 60
    while services.catalog.count_documents(COLLECTION)[DocumentState.READY] == 0 and time.monotonic() < until:
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        open_services(load_settings(home=Path(folder))) as services,
        running_worker(services),
    ):
        fill(services)
        wait_until_read(services)
        report = fuzz(services, cases=chosen.cases, first_seed=chosen.seed)
    print(f"{report.cases} cases in {report.seconds:.0f} s: {dict(sorted(report.statuses.items()))}")
    print("\n\n".join(report.errors))
    sys.exit(bool(report.errors))


if __name__ == "__main__":
    main()
