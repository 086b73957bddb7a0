"""Pieces of words are not shown as words: how they are found, and what of the shipped vocabulary is left."""

from __future__ import annotations

import gzip
import json
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from embedder import GircseEmbeddings
from embedder.checkpoint import find_checkpoint, load_model_tokenizer
from embedder.model.backbone import saved_pieces
from embedder.text.sentences import sentence_spans
from embedder.text.tokens import FRAGMENTS_FILE, read_fragments, shown_word_of
from embedder.training import fragments
from embedder.training.fragments import find_fragments

DICTIONARY = Path("/usr/share/dict/american-english-large")  # of Debian's wamerican-large
NAMES = """abu afl alexa amc asean beyonce bing burkina connor esa faso ibrahim idf ioc isa jakob kanye marino
parana uae uber ui usc zhang behaviour buena cafe centre labour colour colours defence deutsche favour fibre flavour
harbour honour kilometres kuala jiang lumpur metre metres nana neighbour neighbourhood organisation porto recognised"""
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
    assert len(found) == len((adapter / FRAGMENTS_FILE).read_text("utf-8").splitlines()) < 700
    assert {"em", "eva", "imp", "fe", "po", "ar", "def", "micro", "inter", "didn", "ang", "ng", "les"} <= found
    assert {"cat", "red", "go", "open", "wild", "military", "water", "africa"} <= shown


@pytest.fixture(scope="module")
def words() -> set[str]:
    if not DICTIONARY.is_file():
        pytest.skip("There is no dictionary: apt-get install wamerican-large.")
    known = DICTIONARY.read_text("utf-8").casefold().split()
    return {each.removesuffix("'s") for each in known} | set(NAMES.split())


def test_whatever_can_be_shown_is_in_a_dictionary(words: set[str]) -> None:
    adapter = find_checkpoint("gircse-mini").adapter
    assert adapter is not None
    found, tokenizer, pieces = read_fragments(adapter), load_model_tokenizer(), saved_pieces(adapter)
    assert pieces is not None
    shown = {shown_word_of(each, tokenizer, fragments=found) for each in pieces.tolist()} - {""}
    assert sorted(shown - words) == []


@pytest.mark.long
def test_a_thousand_queries_show_words_alone(words: set[str]) -> None:
    """Sentences of the sample library, and pieces of them: whatever people type, what is shown are words."""
    rows = files("sample").joinpath("library.jsonl").read_text("utf-8").splitlines()
    texts = [str(json.loads(row)["text"]) for row in rows]
    sentences = [text[start:end] for text in texts for start, end in sentence_spans(text)[:2]]
    queries = [*sentences[:500], *(" ".join(each.split()[:3]) for each in sentences[500:700])]
    queries += [f"{each[::-1]}" for each in sentences[:300]]  # no language at all
    assert len(queries) == 1_000
    embeddings = GircseEmbeddings()
    shown = {token.token for query in queries for step in embeddings.refine(query).steps for token in step.tokens}
    assert len(shown) > 1_000
    assert sorted(shown - words) == []
