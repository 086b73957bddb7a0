"""The measures of the model cards, on a reader whose vectors are known, and with a model from files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import family_encoder, save_tiny_model
from torch import Tensor

from embedder import DEFAULT_MODEL, load_encoder
from embedder.text.relevance import SENTENCE_TEMPERATURE
from research.evaluation.value_reading import measures
from research.evaluation.value_reading.__main__ import main
from research.evaluation.value_reading.measures import NamedValues, Outcomes, compose_aspects, read_aspects
from research.evaluation.value_reading.reader import Reader

SIZES = NamedValues(
    "size",
    "animals",
    ("How large is it?",),
    {"small": ("the mouse", "the ant"), "large": ("the whale", "the elephant")},
    {
        "the mouse": frozenset({"small"}),
        "the ant": frozenset({"small"}),
        "the whale": frozenset({"large"}),
        "the elephant": frozenset({"large"}),
    },
)
COLOURS = NamedValues(
    "colour", "things", ("Which colour?",), {"red": ("blood", "rust"), "green": ("grass", "moss")}, {}
)


class SizeReader:
    """Reads sizes under their instruction, and nothing else: without it, all texts are alike."""

    def plain(self, texts: Sequence[str]) -> Tensor:
        return torch.ones(len(texts), 2) / 2**0.5

    def vectors(self, texts: Sequence[str], instruction: str) -> Tensor:
        if instruction != "How large is it?":
            return self.plain(texts)
        large = [any(word in text for word in ("whale", "elephant", "large")) for text in texts]
        return torch.nn.functional.one_hot(torch.tensor(large).long(), 2).float()

    def scores(self, texts: Sequence[str], instruction: str, names: Sequence[str]) -> Tensor:
        return 10 * self.vectors(texts, instruction) @ self.vectors(names, instruction).T


def overall(found: Outcomes, measure: str) -> float:
    scores = [score for half in measures.HALVES for row in found.items[measure, half].values() for score in row]
    return sum(scores) / len(scores)


def test_names_are_told_under_the_instruction_that_the_reader_knows() -> None:
    found = Outcomes()
    measures.names_of_aspects(SizeReader(), [SIZES], found, "names")  # type: ignore[arg-type]
    assert overall(found, "names") == 1.0
    unknown = NamedValues("size", "animals", ("How heavy is it?",), SIZES.values, SIZES.labels)
    measures.names_of_aspects(SizeReader(), [unknown], found, "unknown")  # type: ignore[arg-type]
    assert overall(found, "unknown") == 0.5  # all the first name


def test_the_positive_of_a_composed_text_shares_the_wanted_value_alone() -> None:
    rows = compose_aspects([SIZES, COLOURS], count=40, seed=3)
    for row in (each for each in rows if each.wording == "How large is it?"):
        large = ["whale" in text or "elephant" in text for text in (row.query, row.positive, row.negative)]
        assert large[0] == large[1] != large[2]
    found = Outcomes()
    sizes = [each for each in rows if each.wording == "How large is it?"]
    measures.composed_texts(SizeReader(), sizes, found, "composed")  # type: ignore[arg-type]
    assert overall(found, "composed, both sides") == 1.0
    assert overall(found, "composed, values") == 1.0
    assert overall(found, "composed, query side") == 0.0  # documents without an instruction are all alike


def test_an_interval_of_equal_scores_has_no_width() -> None:
    found = Outcomes()
    for number in range(50):
        found.add("names", "all", f"text {number}", 1.0)
    assert found.mean("names", "report") == 100.0
    assert found.interval("names", "report", samples=20) == (100.0, 100.0)
    assert np.isnan(found.mean("another", "report"))


def write_rows(path: Path, rows: Sequence[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Retrieval, similarity and one aspect, as the command reads them."""
    folder = tmp_path / "data"
    aspect = {"aspect": "size", "domain": "animals", "instructions": ["How large is it?"]}
    values = {name: list(texts) for name, texts in SIZES.values.items()}
    other = {**aspect, "aspect": "colour", "domain": "things", "values": {"red": ["rust"], "green": ["moss"]}}
    write_rows(folder / "dev/aspects.jsonl.gz", [{**aspect, "values": values}, other])
    write_rows(folder / "train/aspects.jsonl.gz", [{**aspect, "values": values}])
    pairs = [{"a": "the mouse", "b": f"word {n}", "score": n, "instruction": "Is it alike?"} for n in range(6)]
    write_rows(folder / "dev/sts.stsbenchmark.dev.jsonl.gz", pairs)
    documents = [{"_id": str(n), "title": None, "text": f"document {n} about {n * 7}"} for n in range(30)]
    write_rows(folder / "dev/ir.some.corpus.jsonl.gz", documents)
    asked = [{"_id": f"q{n}", "text": documents[n]["text"], "instruction": "Find it."} for n in range(20)]
    write_rows(folder / "dev/ir.some.queries.jsonl.gz", asked)
    write_rows(folder / "dev/ir.some.qrels.jsonl.gz", [{"qid": f"q{n}", "did": str(n), "score": 1} for n in range(20)])
    return folder


def test_aspects_are_read_from_their_file(data: Path) -> None:
    assert read_aspects(data / "train/aspects.jsonl.gz") == [SIZES]


def test_a_document_that_is_asked_for_word_by_word_is_found(data: Path, tmp_path: Path) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path / "model", "qwen2"))
    found = Outcomes()
    reader = Reader(encoder, steps=2, is_plain=True)
    measures.retrieval(reader, data / "dev", tmp_path / "cache", found)
    # Under no instruction a query that repeats a document is its vector.
    assert overall(found, "nDCG, no instruction") == pytest.approx(1.0)
    assert found.items["nDCG, instruction", "report"] == found.items["nDCG, no instruction", "report"]
    [kept] = (tmp_path / "cache").rglob("*.npy")
    np.save(kept, np.zeros((30, encoder.dimension), dtype=np.float32))  # another model's would be taken as they are
    another = Outcomes()
    measures.retrieval(Reader(encoder, steps=1, is_plain=True), data / "dev", tmp_path / "cache", another)
    assert overall(another, "nDCG, no instruction") == pytest.approx(1.0)


def test_a_joined_sum_adds_both_sides_under_the_instruction_and_mentions(tmp_path: Path) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path / "model", "qwen2"))
    texts, names = ["the dog and the whale", "an ant"], ["whale", "insect"]
    asked, names_asked = (encoder.encode_queries(each, instruction="How large?", steps=2) for each in (texts, names))
    plain, names_plain = (encoder.encode_queries(each, instruction="", steps=2) for each in (texts, names))
    apart = asked @ names_plain.T + plain @ names_asked.T
    joined = apart + asked @ names_asked.T / 2 + 0.2 * np.array([[1, 0], [0, 0]])
    for is_joined, expected in ((False, apart), (True, joined)):
        found = Reader(encoder, steps=2, is_joined=is_joined).scores(texts, "How large?", names)
        np.testing.assert_allclose(found, 10 * expected, atol=1e-4)


def test_a_text_of_unrelated_sentences_is_read_in_them_too() -> None:
    encoder, instruction, names = load_encoder(DEFAULT_MODEL, dtype="float32"), "Which animal?", ["owl", "cow"]
    sentences = ["An owl hunts at night.", "Our bank raised its rates."]
    texts = [" ".join(sentences), "The cow eats grass."]

    def sums(texts: list[str]) -> np.ndarray:
        asked, asked_names = (encoder.encode_queries(each, instruction=instruction, steps=1) for each in (texts, names))
        plain, plain_names = (encoder.encode_queries(each, instruction="", steps=0) for each in (texts, names))
        return asked @ plain_names.T + plain @ asked_names.T

    whole = sums(texts)
    near = encoder.encode_queries(sentences, instruction=instruction, steps=1)
    near = near @ encoder.encode_queries([instruction], instruction="", steps=0)[0] / SENTENCE_TEMPERATURE
    weights = np.exp(near) / np.exp(near).sum()
    mixed = SENTENCE_TEMPERATURE * np.log(weights @ np.exp(sums(sentences) / SENTENCE_TEMPERATURE))
    for reads_sentences, first in ((False, whole[0]), (True, whole[0] / 3 + 2 * mixed / 3)):
        found = Reader(encoder, steps=1, reads_sentences=reads_sentences).scores(texts, instruction, names)
        np.testing.assert_allclose(found, 10 * np.stack([first, whole[1]]), atol=1e-4)
    assert np.abs(mixed - whole[0]).max() > 0.05


def test_the_command_measures_the_shipped_model(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    chosen = ["--only", "names", "sts", "retrieval", "--joined", "--steps", "1", "--out", str(out)]
    assert main(["--data", str(data), "--cache", str(tmp_path / "cache"), *chosen]) == 0
    figures = json.loads(out.read_text(encoding="utf-8"))
    wanted = {
        "names, dev aspects",
        "sts, no instruction",
        "sts, instruction",
        "nDCG, no instruction",
        "nDCG, instruction",
    }
    assert wanted <= set(figures)
    assert figures["nDCG, no instruction"]["report"][0] > 90
    assert "nDCG, instruction" in capsys.readouterr().out
