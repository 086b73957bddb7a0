"""What compares texts beside the index takes a document's best step, too, where its model has one for every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.ports.rerank import RerankPassage
from app.search.calibration import MatchCalibration, Scale
from app.search.gircse_reranker import EmbedderReranker
from app.search.instructed_matches import InstructedMatches
from app.search.max_sim import best_cosines
from app.search.standing import MatchableSearch, StandingSet
from app.search.value_reader import ValueReader
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import Chunk, Collection, Point
from app.types.search import Match, SearchRequest
from app.types.standing import Strength
from embedder.model_info import ModelInfo
from ingest.points import embed_chunks

STEPS = 3
COLLECTION = Collection("library", "toy-1", 256, "", STEPS, 200, 30, "library--1", vectors_per_chunk=STEPS)
PAYLOAD = {"page_content": "a text", "metadata": {"document_id": "d"}}


class StepsEmbedder(ToyEmbedder):
    """After step k it has read the k-th word alone."""

    @property
    def info(self) -> ModelInfo:
        return replace(super().info, similarity="max_sim")

    def embed_steps(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[list[float]]]:
        return [self.embed_documents((text.split() * steps)[:steps], instruction="", steps=1) for text in texts]


def word(text: str) -> list[float]:
    return ToyEmbedder().embed_documents([text], instruction="", steps=1)[0]


def of_words(number: int, *words: str) -> Point:
    return Point.of_steps(f"point-{number}", [word(each) for each in words], PAYLOAD)


def test_the_best_of_all_vectors_counts_for_each_query() -> None:
    points = [of_words(1, "owl", "eel", "bat"), of_words(2, "fox")]
    asked = np.stack([word("owl"), word("bat"), word("fox"), word("yak")], axis=1)
    assert best_cosines(points, asked).round(6).tolist() == [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]


def test_a_second_look_takes_the_best_step() -> None:
    reranker = EmbedderReranker(StepsEmbedder(), steps=STEPS)
    passages = [RerankPassage("a", "owl eel bat", "a"), RerankPassage("b", "yak hen cod", "b")]
    assert reranker.scores("owl", passages, instruction="") == pytest.approx([1.0, 0.0])
    assert reranker.scores("bat", passages, instruction="") == pytest.approx([1.0, 0.0])  # from what is kept
    assert EmbedderReranker(StepsEmbedder(), steps=1).scores("owl", passages, instruction="")[0] < 0.7  # one vector


def test_a_match_is_that_of_the_best_step() -> None:
    index = InMemoryVectorIndex()
    index.create("library--1", dimension=256, vectors_per_point=STEPS)
    index.upsert("library--1", [of_words(1, "owl", "eel", "bat"), of_words(2, "yak", "hen", "cod")])
    calibration = MatchCalibration(index, StepsEmbedder())
    passages = {"point-1": "owl", "point-2": "yak", "gone": ""}
    found = calibration.matches("owl", word("owl"), passages, COLLECTION)
    assert found == {"point-1": Match.STRONG, "point-2": Match.WEAK}
    assert calibration.matches("owl", word("owl"), {"gone": ""}, COLLECTION) == {}


def test_a_standing_search_finds_by_the_best_step() -> None:
    asked = MatchableSearch(
        "s", "me", SearchRequest("owl", "library"), Strength.STRONG, np.asarray(word("owl")), Scale(0.2, 0.1)
    )
    embedder = StepsEmbedder()
    graded = InstructedMatches(InMemoryVectorIndex(), embedder)
    standing = StandingSet(1, [asked], COLLECTION, ValueReader(embedder), graded)
    points = [of_words(1, "owl", "eel", "bat"), of_words(2, "yak", "hen", "cod")]
    assert standing.find(points, visible=()) == []
    found = standing.find(points, visible={"s"})
    assert [(each.chunk_id, each.score) for each in found] == [("point-1", pytest.approx(1.0))]


@pytest.mark.parametrize("steps", [STEPS - 1, STEPS + 1])
def test_another_number_of_vectors_than_the_collection_holds_is_refused(steps: int) -> None:
    chunk = Chunk("c", "d", 0, "owl eel bat", "f" * 64, 0, 11)
    assert np.shape(embed_chunks(StepsEmbedder(), COLLECTION, [chunk])) == (1, STEPS, 256)
    with pytest.raises(ValueError, match=f"{steps} vectors, not {STEPS}"):
        embed_chunks(StepsEmbedder(), replace(COLLECTION, document_steps=steps), [chunk])


def test_how_many_vectors_a_document_has_follows_from_model_and_steps() -> None:
    assert [StepsEmbedder().info.vectors_per_document(steps) for steps in (1, 4)] == [1, 4]
    assert [ToyEmbedder().info.vectors_per_document(steps) for steps in (1, 4)] == [1, 1]
