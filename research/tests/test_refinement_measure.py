"""Refinement tokens measured: word lists by hand, shares equal to what `refine` shows, controls, the command."""

import hashlib
import json
from itertools import count, islice

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from tiny_models import family_encoder, save_tiny_model

from embedder.encoder import Encoder
from embedder.refinement_steps import RefinementStep, RefinementToken
from research.evaluation.token_measure import CONTROLS, LISTS, TokenScores, select_rows, token_measure
from research.evaluation.tokens import added_words, main
from research.evaluation.word_lists import WordLists, likelihood_ratio

INSTRUCTIONS = {
    "papers": {"method": "Identify the method.", "kind": "Identify the kind."},
    "posts": {"topic": "Identify the topic."},
}
TYPICAL = {"retrieval": "query documents", "clustering": "semantic similar", "title": "forum", "question": "answers"}


def is_reported(text: str) -> bool:
    return hashlib.sha1(text.encode()).digest()[-1] % 2 == 1


def texts_about(words: str, *, reported: bool, number: int) -> list[str]:
    """Different texts that hold the words and belong to the wanted half."""
    variants = (f"{words} {'very ' * (n % 3)}{chr(97 + n % 26)}x{n}" for n in count())
    return list(islice((text for text in variants if is_reported(text) is reported), number))


def labelled(task: str, aspects: dict[str, str], *, reported: int = 3, tuned: int = 6) -> list[dict]:
    words = " ".join(TYPICAL[label] for label in aspects.values())
    texts = texts_about(words, reported=True, number=reported) + texts_about(words, reported=False, number=tuned)
    return [{"task": task, "text": text, "labels": aspects} for text in texts]


def all_rows() -> list[dict]:
    return [
        *labelled("papers", {"method": "retrieval", "kind": "title"}),
        *labelled("papers", {"method": "clustering", "kind": "question"}),
        *labelled("posts", {"topic": "retrieval"}),
        *labelled("posts", {"topic": "clustering"}),
    ]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model"), "qwen2")


@pytest.fixture(scope="module")
def encoder(model_folder) -> Encoder:
    return family_encoder(model_folder)


@pytest.fixture(scope="module")
def scores(encoder: Encoder) -> TokenScores:
    return token_measure(encoder, all_rows(), INSTRUCTIONS, limit=8, first_step=3, last_step=5)


def test_likelihood_ratio_is_the_statistics_text_book_s() -> None:
    with_in, with_out = np.array([8, 3, 0]), np.array([2, 3, 5])
    expected = [
        chi2_contingency([[a, 10 - a], [b, 20 - b]], correction=False, lambda_="log-likelihood").statistic
        for a, b in zip(with_in, with_out, strict=True)
    ]
    np.testing.assert_allclose(likelihood_ratio(with_in, 10, with_out, 20), expected)


def test_typical_words_come_from_other_texts_with_the_label() -> None:
    lists = WordLists([row for row in all_rows() if row["task"] == "papers"])
    assert lists.typical_words("method", "retrieval", without="") == {"query", "documents", "forum"}
    assert lists.typical_words("method", "clustering", without="") == {"semantic", "similar", "answers"}


def test_a_text_does_not_make_its_own_list() -> None:
    rows = [
        {"task": "t", "text": text, "labels": {"a": label}}
        for text, label in [("lake boat", "water"), ("lake fish", "water"), *((f"hill {n}", "land") for n in range(20))]
    ]
    assert WordLists(rows).typical_words("a", "water", without="") == {"lake"}
    # Without the measured text one text holds the word, and one is an anecdote.
    assert WordLists(rows).typical_words("a", "water", without="lake boat") == frozenset()


def test_a_label_without_rival_has_no_typical_words() -> None:
    assert WordLists(labelled("t", {"a": "retrieval"})).typical_words("a", "retrieval", without="") == frozenset()


def test_stop_words_are_in_no_list() -> None:
    assert WordLists(all_rows()).words_of("What is the Interest on my loan?") == {"interest", "loan"}


def test_only_the_reporting_half_is_measured_evenly() -> None:
    rows = labelled("papers", {"method": "retrieval"}, reported=2) + labelled("posts", {"topic": "title"}, reported=20)
    chosen = select_rows(rows * 2, limit=12, seed=1)
    assert [row["task"] for row in chosen].count("papers") == 2
    assert len({row["text"] for row in chosen}) == len(chosen) == 12
    assert all(is_reported(row["text"]) for row in chosen)
    assert chosen == select_rows(rows * 2, limit=12, seed=1) != select_rows(rows * 2, limit=12, seed=2)


def test_shares_are_what_refine_shows(encoder: Encoder, scores: TokenScores) -> None:
    """The own share of label names, and under another instruction, summed by hand over steps 3 to 5."""
    measured = [row for row in select_rows(all_rows(), limit=8, seed=0) if row["task"] == "papers"]
    own, shuffled = [], []
    for row in measured:
        method, kind = (shares(encoder, row, instruction) for instruction in INSTRUCTIONS["papers"].values())
        own.append(method)
        shuffled.append(kind)
    aspect = next(each for each in scores.aspects if each.aspect == "method")
    assert aspect.lists["name"].own == pytest.approx(np.mean(own), rel=1e-4)
    control = aspect.lists["name"].controls["shuffled_instruction"]
    assert control is not None
    assert control.share == pytest.approx(np.mean(shuffled), rel=1e-4)
    assert control.ratio == pytest.approx(np.mean(own) / np.mean(shuffled), rel=1e-4)


def shares(encoder: Encoder, row: dict, instruction: str) -> float:
    """Mean probability of the method's name at steps 3 to 5."""
    refinement = encoder.refine(row["text"], instruction=instruction, steps=5, top_tokens=100_000)
    name = row["labels"]["method"]
    return float(np.mean([{t.token: t.probability for t in step.tokens}[name] for step in refinement.steps[2:]]))


def test_words_of_the_text_itself_can_be_left_out(scores: TokenScores) -> None:
    # Every text holds all typical words of its label; only the label's name is no word of the text.
    assert "typical_unseen" not in scores.overall
    assert scores.overall["either_unseen"].own == pytest.approx(scores.overall["name"].own)
    assert scores.overall["either"].own == pytest.approx(scores.overall["name"].own + scores.overall["typical"].own)


def test_intervals_hold_the_ratio(scores: TokenScores) -> None:
    assert set(scores.overall) == set(LISTS) - {"typical_unseen"}
    for name in CONTROLS:
        control = scores.headline.controls[name]
        assert control is not None
        assert control.low <= control.ratio <= control.high
    assert len(scores.by_step["own"]) == 5


def test_an_untrained_model_heeds_no_instruction(scores: TokenScores) -> None:
    assert scores.headline.controls["shuffled_instruction"].ratio == pytest.approx(1, abs=0.25)


def test_nothing_to_measure_is_said(encoder: Encoder) -> None:
    with pytest.raises(ValueError, match="No text of the reporting half"):
        token_measure(encoder, labelled("posts", {"topic": "title"}), INSTRUCTIONS)
    with pytest.raises(ValueError, match="steps 6 to 5"):
        token_measure(encoder, all_rows(), INSTRUCTIONS, last_step=5)


def refinement_step(number: int, **words: float) -> RefinementStep:
    return RefinementStep(number, tuple(RefinementToken(word, probability) for word, probability in words.items()))


def test_later_groups_show_what_they_add() -> None:
    steps = [
        refinement_step(1, the=0.9, money=0.2, card=0.1),
        refinement_step(5, card=0.2, bank=0.1),
        refinement_step(6, card=0.9, refund=0.1),
        refinement_step(11, bank=0.5, refund=0.3, delay=0.2),
    ]
    assert added_words(steps, count=2) == [["card", "money"], ["refund"], ["bank", "delay"]]


def test_command_writes_numbers_table_picture_and_readings(model_folder, tmp_path, capsys) -> None:
    data = tmp_path / "dev"
    data.mkdir()
    (tmp_path / "instructions.json").write_text(json.dumps(INSTRUCTIONS))
    (data / "labels.all.jsonl").write_text("\n".join(json.dumps(row) for row in all_rows()))
    out = tmp_path / "out"
    arguments = ["--data", str(data), "--model", str(model_folder), "--out", str(out), "--limit", "4", "--steps", "6"]
    assert main([*arguments, "--readings", "2"]) == 0
    found = json.loads((out / "tokens.json").read_text())
    assert found["texts"] == 4
    assert found["overall"]["either_unseen"]["own"] > 0
    assert (out / "tokens.png").read_bytes().startswith(b"\x89PNG")
    assert "| papers, method |" in capsys.readouterr().out
    table = [line for line in (out / "readings.md").read_text().splitlines() if "Identify the" in line]
    assert [line.split("|")[2].strip() for line in table] == ["Identify the method.", "Identify the kind."] * 2
    assert all(line.split("|")[4].strip() for line in table)


def test_command_says_what_is_missing(tmp_path, capsys) -> None:
    assert main(["--data", str(tmp_path / "none"), "--model", str(tmp_path), "--out", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err
