"""A short `make api-fuzz`: an application on Qdrant Edge and the embedding server, asked what they describe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import api_fuzz
import pytest
from embedding_server import WatchedServer
from tiny_models import save_tiny_model

from app.edge import EdgeProcess
from app.vectors import QdrantVectorIndex
from embedder import load_encoder, load_model_tokenizer
from embedder.engine.limits import Limits
from embedder.server.application import create_application

CASES, SEED = 180, 5
CASES_OF_EMBEDDER = 400
KEY = "a-secret"


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


@pytest.mark.long
def test_the_embedding_server_answers_as_it_is_described(tmp_path: Path) -> None:
    folder = str(save_tiny_model(tmp_path / "tiny", "llama"))
    encoder = load_encoder(folder, dtype="float32")
    engine = WatchedServer(encoder, Limits(query_wait_s=60.0)).engine
    tokenizer = load_model_tokenizer(folder).to_str()
    api = create_application(engine, tokenizer=lambda: tokenizer, api_key=KEY)
    known = {"model": encoder.name}
    report = api_fuzz.fuzz_api(api, lambda: known, cases=CASES_OF_EMBEDDER, first_seed=SEED, key=KEY)
    assert not report.errors, "\n\n".join(report.errors[:10])
    assert report.cases >= CASES_OF_EMBEDDER
    assert max(report.statuses) < 500
    asked = {"POST /v1/embeddings", "POST /embed", "POST /v1/rerank", "POST /v2/rerank", "POST /rerank"}
    asked |= {"POST /api/v1/refine", "POST /api/v1/embed"}
    assert asked - report.answered.keys() == set()
