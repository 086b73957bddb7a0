"""One body for every implementation of the port `Reranker`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from cross_encoders import save_tiny_cross_encoder
from rerank_server import cohere_answer, rerank_server, tei_answer

from app.ports.rerank import Reranker, RerankPassage
from app.search.gircse_reranker import EmbedderReranker
from app.settings import Settings
from app.testing import ToyEmbedder
from app.wiring.embedding import LocalEmbedder
from app.wiring.query_template import QueryTemplate
from app.wiring.rerank_server import ServerReranker
from app.wiring.rerankers import reranker_for

TEXTS = ("the cat sleeps on the sofa", "interest rates rise again", "a cat dreams of mice")
READS_WORDS = ("toy", "gircse-mini", "cohere", "tei")  # the cross-encoder has random weights


@pytest.fixture(scope="module", params=["toy", "gircse-mini", "cross-encoder", "cohere", "tei"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reranker(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reranker]:
    template = QueryTemplate("{instruction} {query}")
    if kind == "toy":
        yield EmbedderReranker(ToyEmbedder())
    elif kind == "gircse-mini":
        with closing(LocalEmbedder("gircse-mini", dtype="float32")) as embedder:
            yield EmbedderReranker(embedder)
    elif kind == "cross-encoder":
        model = save_tiny_cross_encoder(tmp_path_factory.mktemp("cross-encoder"))
        with closing(reranker_for(Settings(rerank_by="cross-encoder", rerank_model=str(model)), ToyEmbedder())) as made:
            yield made
    else:
        with rerank_server(cohere_answer if kind == "cohere" else tei_answer) as server:
            api = "tei" if kind == "tei" else "cohere"
            with closing(ServerReranker(server.url, api=api, template=template)) as made:
                yield made


def passages(texts: Sequence[str]) -> list[RerankPassage]:
    return [RerankPassage(f"id-{text}", text, hashlib.sha256(text.encode()).hexdigest()) for text in texts]


def test_every_passage_has_a_score_in_its_place(reranker: Reranker, kind: str) -> None:
    scores = reranker.scores("my cat", passages(TEXTS), instruction="Identify the animal.")
    assert len(scores) == len(TEXTS)
    assert all(type(each) is float and math.isfinite(each) and -1 <= each <= 1 + 1e-6 for each in scores)
    backwards = reranker.scores("my cat", passages(TEXTS[::-1]), instruction="Identify the animal.")
    assert backwards[::-1] == pytest.approx(scores, abs=1e-5)
    if kind in READS_WORDS:
        assert min(scores[0], scores[2]) > scores[1]


def test_instruction_and_query_count(reranker: Reranker) -> None:
    def scores(query: str, instruction: str) -> list[float]:
        return reranker.scores(query, passages(TEXTS), instruction=instruction)

    assert scores("my cat", "") != pytest.approx(scores("rates", ""), abs=1e-6)
    assert scores("my cat", "") != pytest.approx(scores("my cat", "Which rates rise?"), abs=1e-6)


def test_equal_texts_have_equal_scores_and_none_have_none(reranker: Reranker) -> None:
    first, second = reranker.scores("cat", passages([TEXTS[0], TEXTS[0]]), instruction="")
    assert first == pytest.approx(second, abs=1e-6)
    assert reranker.scores("cat", [], instruction="") == []


def test_long_odd_and_many_passages(reranker: Reranker) -> None:
    odd = [
        "cat " * 5_000,
        "Ω≈ç√ \x01 🐈",
        "[MASK] [SEP] </s>",
        '{"index": 0}',
        *(f"cat number {at}" for at in range(80)),
    ]
    scores = reranker.scores("cat", passages(odd), instruction="Identify the animal.")
    assert len(scores) == len(odd)
    assert all(map(math.isfinite, scores))
