"""Pieces of words are not shown as words: how they are found, and what of the shipped vocabulary is left."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from embedder.backbone import saved_pieces
from embedder.checkpoint import find_checkpoint, load_model_tokenizer
from embedder.tokens import FRAGMENTS_FILE, read_fragments, shown_word_of
from embedder.training import fragments
from embedder.training.fragments import find_fragments

PIECES = ["em", "cat", "im", "##press", "##bassy", "##peror", "##s", "red", "##uce", "[UNK]"]


@pytest.fixture
def tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    return made


def test_what_begins_longer_words_and_hardly_stands_alone_is_a_fragment(tokenizer: Tokenizer) -> None:
    texts = ["The embassy of the emperor.", "Impress the cat; two cats.", "em", "reduce " * 9_000, "red " * 3_000]
    assert find_fragments(tokenizer, texts, PIECES) == ["em", "im"]
    assert find_fragments(tokenizer, ["em em em embassy"], PIECES) == []


def test_pieces_within_words_and_fragments_are_not_shown(tokenizer: Tokenizer) -> None:
    shown = [shown_word_of(at, tokenizer, fragments={"em", "im"}) for at in range(len(PIECES))]
    assert [word for word in shown if word] == ["cat", "red", "[unk]"]


def test_the_list_is_written_beside_the_model(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert read_fragments(tmp_path) == frozenset()
    rows = [{"text": "the embassy", "labels": {"topic": ["impress"]}}, {"query": "a cat"}]
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)
    monkeypatch.setattr(fragments, "saved_pieces", lambda folder: None)  # a model without a soft head
    monkeypatch.setattr(sys, "argv", ["fragments", str(tmp_path), str(tmp_path / "rows.jsonl.gz"), "--also", "red"])
    fragments.main()
    assert read_fragments(tmp_path) == {"em", "im", "red"}


def test_words_are_left_of_the_shipped_vocabulary() -> None:
    adapter = find_checkpoint("gircse-mini").adapter
    assert adapter is not None
    found, tokenizer, pieces = read_fragments(adapter), load_model_tokenizer(), saved_pieces(adapter)
    assert pieces is not None
    shown = {shown_word_of(each, tokenizer, fragments=found) for each in pieces.tolist()} - {""}
    assert len(shown) == len(pieces) - len(found)
    assert len(found) == len((adapter / FRAGMENTS_FILE).read_text("utf-8").splitlines()) < 600
    assert {"em", "eva", "imp", "fe", "po", "ar", "def", "micro", "inter"} <= found
    assert {"cat", "red", "go", "open", "wild", "military", "water", "africa"} <= shown
