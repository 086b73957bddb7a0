"""Documents embedded batch by batch, through the embedder and through the core's port."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tiny_models import family_encoder, save_tiny_model

from app.errors import InputError
from app.wiring.embedding import LocalEmbedder
from embedder import Encoder, GircseEmbeddings, TextError, load_encoder
from embedder.vector_cache import VectorCache

TEXTS = [f"{number} " + "a river runs " * (number % 5) for number in range(20)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen2")


@pytest.fixture(scope="module")
def encoder(model: Path) -> Encoder:
    return family_encoder(model)


def test_batches_hold_each_text_once_with_the_vector_of_a_whole_call(encoder: Encoder) -> None:
    found = np.full((len(TEXTS), encoder.dimension), np.nan, dtype=np.float32)
    for rows, vectors in encoder.encode_in_batches(TEXTS, steps=2, batch_size=6):
        assert np.isnan(found[rows]).all()
        found[rows] = vectors
    np.testing.assert_allclose(found, encoder.encode_documents(TEXTS, steps=2), atol=1e-5)


def test_a_batch_holds_texts_of_similar_length(encoder: Encoder) -> None:
    batches = [rows for rows, _ in encoder.encode_in_batches(TEXTS, steps=1, batch_size=4)]
    assert [len(rows) for rows in batches] == [4, 4, 4, 4, 4]
    lengths = [[len(TEXTS[row]) for row in rows] for rows in batches]
    assert all(min(longer) >= max(shorter) - 1 for longer, shorter in itertools.pairwise(lengths))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts are computed, at each time."""
    computed: list[int] = []
    prefixes = Encoder._prefixes

    def counted(self: Encoder, prompts: list[object], *rest: object) -> np.ndarray:
        computed.append(len(prompts))
        return prefixes(self, prompts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "_prefixes", counted)
    return computed


def test_nothing_is_computed_before_it_is_asked_for(encoder: Encoder, computed: list[int]) -> None:
    batches = encoder.encode_in_batches(TEXTS, steps=1, batch_size=8)
    assert not computed
    next(batches)
    assert computed == [8]


@pytest.mark.parametrize(("texts", "options"), [("one text", {}), (["", "b"], {}), (["a"], {"batch_size": 0})])
def test_what_cannot_be_embedded_is_refused(encoder: Encoder, texts: list[str], options: dict[str, int]) -> None:
    with pytest.raises(TextError):
        list(encoder.encode_in_batches(texts, **options))  # type: ignore[arg-type]


def test_the_port_gives_the_same_and_tells_errors_as_its_own(model: Path) -> None:
    local = LocalEmbedder(str(model))
    found = local.for_ingestion(lambda: False).embed_documents(TEXTS, instruction="", steps=2)
    expected = load_encoder(str(model)).encode_documents(TEXTS, instruction="", steps=2)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    with pytest.raises(InputError):
        local.embed_documents(["fine", " "], instruction="", steps=2)


def test_what_remains_of_a_step_is_its_distance_from_the_final_vector(model: Path, encoder: Encoder) -> None:
    found = LocalEmbedder(str(model)).embed_query("a river runs", steps=5).steps
    shorter = [encoder.refine("a river runs", steps=count).vector for count in range(1, 6)]
    expected = [1 - float(vector @ shorter[-1]) for vector in shorter]

    assert [step.step for step in found] == [1, 2, 3, 4, 5]
    assert [step.remaining for step in found] == pytest.approx(expected, abs=1e-6)
    assert found[0].remaining > 1e-3
    assert found[-1].remaining == 0.0


def test_a_query_takes_no_more_steps_than_it_needs_where_that_is_set(model: Path, encoder: Encoder) -> None:
    text, steps = "a river runs", 12
    prefixes = encoder.refine(text, steps=steps).prefix_vectors
    moved = [1 - float(one @ other) for one, other in itertools.pairwise(prefixes)]
    converged = moved.index(min(moved[:-3])) + 2
    tolerance = moved[converged - 2] * 1.001
    needed = next(number for number, each in enumerate(moved, start=2) if each <= tolerance)

    found = LocalEmbedder(str(model), query_tolerance=tolerance).embed_query(text, steps=steps)
    assert found.step_count == needed < steps
    np.testing.assert_allclose(found.vector, prefixes[needed - 1], atol=1e-5)
    embeddings = GircseEmbeddings(model=str(model), tolerance=tolerance, query_steps=steps, dtype="float32")
    np.testing.assert_allclose(embeddings.embed_query(text), found.vector, atol=1e-5)
    assert len(embeddings.refine(text).steps) == needed


def test_what_comes_again_is_not_computed_again(model: Path, computed: list[int]) -> None:
    encoder = load_encoder(str(model), cache_mb=1)
    first = encoder.encode_documents(TEXTS, instruction="", steps=2)
    computed.clear()
    more = [*TEXTS[::-1], "a text that is new", TEXTS[0]]
    again = encoder.encode_documents(more, instruction="", steps=2)
    assert computed == [1]
    np.testing.assert_array_equal(again[: len(TEXTS)], first[::-1])
    np.testing.assert_array_equal(again[-1], first[0])
    for options in ({"instruction": "Represent the weather.", "steps": 2}, {"instruction": "", "steps": 3}):
        computed.clear()
        other = encoder.encode_documents(TEXTS, **options)
        assert sum(computed) == len(TEXTS)
        assert np.abs(other - first).max() > 1e-4
    computed.clear()
    biased = encoder.encode_queries(TEXTS, instruction="", steps=2, token_bias={"river": 5.0})
    assert sum(computed) == len(TEXTS)
    assert np.abs(biased - first).max() > 1e-4
    np.testing.assert_array_equal(encoder.encode_documents(TEXTS, instruction="", steps=2), first)


def test_an_encoder_remembers_nothing_unless_it_is_asked_to(encoder: Encoder, computed: list[int]) -> None:
    for _ in range(2):
        encoder.encode_documents(TEXTS, instruction="", steps=2)
    assert sum(computed) == 2 * len(TEXTS)


def test_the_oldest_vectors_are_forgotten_first() -> None:
    recent = VectorCache(most_mb=0.002)  # room for one of 384 dimensions
    vectors = np.eye(3, 384, dtype=np.float32)
    for number, vector in enumerate(vectors):
        recent.keep((1, number), 5, vector)
    assert recent.get((1, 0), 5) is None
    assert recent.get((1, 1), 5) is None
    np.testing.assert_array_equal(recent.get((1, 2), 5), vectors[2])
    vectors[2] = 0  # what was kept is a copy
    np.testing.assert_array_equal(recent.get((1, 2), 5), np.eye(3, 384)[2])
