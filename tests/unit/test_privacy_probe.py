"""What can be read back from vectors: all of what a vector spells out, nothing of what it does not hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_models import contract, family_backbone, save_tiny_model, tiny_tokenizer

from embedder.encoder import Encoder
from embedder.evaluation.data import DataError
from embedder.evaluation.privacy import (
    LinearAttacker,
    f1_of,
    in_int8,
    leak_table,
    measure_leaks,
    normalised,
    protections,
    read_texts,
    soft_token_leak,
    words_of,
)

WORDS = ["anchor", "bottle", "candle", "dagger", "engine", "feather", "garden", "hammer"]


@pytest.fixture
def spelled() -> tuple[np.ndarray, list[frozenset[str]]]:
    """Vectors with an axis for every word, and the words."""
    rng = np.random.default_rng(0)
    held = rng.random((400, len(WORDS))) < 0.3
    held[np.arange(400), rng.integers(len(WORDS), size=400)] = True
    return normalised(held.astype(float)), [frozenset(np.array(WORDS)[row]) for row in held]


def test_vectors_that_spell_their_words_are_read_back(spelled) -> None:
    vectors, words = spelled
    read = LinearAttacker(vectors[:300], words[:300]).read(vectors[300:])
    assert f1_of(read, words[300:]).mean() > 0.95


def test_what_a_vector_does_not_hold_is_not_read_back(spelled) -> None:
    vectors, words = spelled
    shuffled = words[150:] + words[:150]
    told = f1_of(LinearAttacker(vectors[:300], words[:300]).read(vectors[300:]), words[300:]).mean()
    chance = f1_of(LinearAttacker(vectors[:300], shuffled[:300]).read(vectors[300:]), shuffled[300:]).mean()
    assert chance < told - 0.3


def test_f1_counts_both_what_is_missing_and_what_is_too_much() -> None:
    read = [frozenset("ab"), frozenset("abcd"), frozenset(), frozenset("x")]
    held = [frozenset("ab"), frozenset("ab"), frozenset("ab"), frozenset("ab")]
    np.testing.assert_allclose(f1_of(read, held), [1, 2 / 3, 0, 0])


def test_protections_keep_the_length_and_lose_more_and_more(spelled) -> None:
    vectors = np.random.default_rng(1).standard_normal((50, 64))
    vectors = normalised(vectors)
    cosines = {}
    for name, protect in protections(0).items():
        stored = protect(vectors)
        np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1, atol=1e-6)
        cosines[name] = float((stored * vectors).sum(axis=1).mean())
    assert cosines["none"] == pytest.approx(1)
    assert len(np.unique(np.abs(protections(0)["binary"](vectors)).round(9))) == 1
    np.testing.assert_allclose(in_int8(vectors), vectors, atol=0.01)
    assert cosines["int8"] > cosines["noise 0.25"] > cosines["noise 0.5"] > cosines["noise 1"] > cosines["noise 2"]


def test_leaks_of_a_model_are_measured_and_told(tmp_path: Path) -> None:
    encoder = Encoder(family_backbone(save_tiny_model(tmp_path, "llama")), tiny_tokenizer(), contract())
    rng = np.random.default_rng(0)
    texts = sorted({" ".join(rng.permutation(WORDS)[:3]) for _ in range(80)})
    rows = [{"text": text, "labels": {}} for text in texts]
    (tmp_path / "labels.tiny.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_texts(tmp_path, limit=1000) == texts
    with pytest.raises(DataError, match="at least 20"):
        read_texts(tmp_path, limit=5)
    leaks = {each.protection: each for each in measure_leaks(encoder, texts, steps=1, resamples=20)}
    assert leaks["none"].kept == pytest.approx(100)
    assert leaks["none"].telling.value > leaks["no vector"].telling.value
    assert leaks["no vector"].kept is None
    assert leaks["none"].kept > leaks["noise 2"].kept
    said = soft_token_leak(encoder, texts, steps=2, resamples=20)
    assert 0 <= said.all.value <= 100
    assert "| no vector |" in leak_table(list(leaks.values()))


def test_words_are_letters_or_numbers() -> None:
    assert words_of("Don't pay 40 EUR, pay_later!") == {"don", "pay", "40", "eur", "later"}
