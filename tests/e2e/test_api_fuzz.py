"""A short `make api-fuzz`: an application on Qdrant Edge, asked whatever the description allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import api_fuzz
import pytest

from app.edge import EdgeProcess
from app.vectors import QdrantVectorIndex

CASES, SEED = 180, 5


@pytest.fixture
def edge_application(toy_services_factory: Any, tmp_path: Path) -> Iterator[Any]:
    with EdgeProcess(tmp_path / "edge") as edge:
        index = QdrantVectorIndex.over_edge(edge)
        yield toy_services_factory("application", index=index)
        index.close()


@pytest.mark.long
def test_no_request_is_answered_with_an_error_of_ours(edge_application: Any) -> None:
    api_fuzz.fill(edge_application.services)
    edge_application.work_off()
    report = api_fuzz.fuzz(edge_application.services, cases=CASES, first_seed=SEED)
    assert not report.errors, "\n\n".join(report.errors[:10])
    assert report.cases >= CASES
    assert max(report.statuses) < 500
    # Not only refusals: searches, lists, uploads and deletions were answered.
    asked = {"POST /api/v1/search", "POST /api/v1/documents", "GET /api/v1/documents"}
    asked |= {"DELETE /api/v1/documents/{document_id}"}
    assert asked - report.answered.keys() == set()
    assert sum(report.answered.values()) > CASES / 8
