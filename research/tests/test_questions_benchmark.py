"""The benchmark of questions: its list holds what it says, and its figures are those of the product's own hits."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from app.types.answers import Answer, AnswerKind, AnswerSentence, Passage
from app.types.search import HitChunk, HitDocument
from research.benchmarks import hybrid
from research.benchmarks import questions as benchmark
from research.benchmarks.hybrid import services_at
from research.benchmarks.questions import DOCUMENTS, Outcome, Question, ask, outcome_of, read_questions, render
from research.benchmarks.reading import Listed, clone_of, listed_files, write_files

TEXTS = {
    "docs/picnic.md": "# Summer picnic\n\nA bouncy castle\nis set up for the children on Saturday.\n",
    "boats.txt": "The ferry to the island leaves at nine every morning.\n",
}
PICNIC = Question(
    "q1",
    "Is there anything for the children at the picnic?",
    "paraphrased",
    ("some/one/docs/picnic.md",),
    ("A bouncy castle is set up for the children",),
)
FERRY = Question("q2", "When does the ferry leave?", "paraphrased", ("some/one/boats.txt",), ("leaves at noon",))
UNKNOWN = Question("q3", "Who invented the telephone?", "unanswerable", (), ())


@pytest.fixture
def clones(tmp_path: Path) -> tuple[Path, list[Listed]]:
    """A bare clone of a repository with the two documents, and their list."""
    work = tmp_path / "work"
    for path, text in TEXTS.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text, encoding="utf-8")
    person = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "."), (*person, "commit", "-q", "-m", "documents")):
        subprocess.run(["git", "-C", str(work), *command], check=True)
    head = subprocess.run(["git", "-C", str(work), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    bare = tmp_path / "clones" / "some+one" / "repo"
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return tmp_path / "clones", [Listed("some/one", head.stdout.strip(), path) for path in TEXTS]


def test_the_list_holds_what_it_says() -> None:
    questions, listed = read_questions(), listed_files(DOCUMENTS)
    assert Counter(each.kind for each in questions) == {"paraphrased": 50, "no shared word": 30, "unanswerable": 40}
    assert len({each.text for each in questions}) == len({each.id for each in questions}) == 120
    known = {f"{each.repository}/{each.path}" for each in listed}
    assert len(known) == len(listed) == 200
    assert len({each.format for each in listed}) >= 12
    assert max(Counter(each.repository for each in listed).values()) <= 40
    assert max(Counter(each for question in questions for each in question.documents).values()) <= 2
    for each in questions:
        assert set(each.documents) <= known
        assert bool(each.documents) == bool(each.quotes) == (each.kind != "unanswerable")
        assert all(3 <= len(quote.split()) <= 40 and quote == " ".join(quote.split()) for quote in each.quotes), each


def test_figures_of_a_small_set(
    clones: tuple[Path, list[Listed]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hybrid, "_LOOK_S", 0.1)
    repositories, listed = clones
    files = tmp_path / "files"
    with services_at(tmp_path / "home") as services:
        benchmark.ingest_files(services, listed, repositories, files)
        asked = [ask(services, each, files) for each in (PICNIC, FERRY, UNKNOWN)]
        with pytest.raises(SystemExit, match=r"also holds file:.*boats\.txt"):
            benchmark.ingest_files(services, listed[:1], repositories, files)
    picnic, ferry, unknown = asked
    assert set(picnic.passages.values()) == {1}
    assert ferry.documents["default"] == 1  # the document is right, but no passage holds the quote
    assert ferry.passages["default"] is None
    assert set(unknown.documents.values()) == {None}
    assert unknown.outcome is Outcome.REFUSED
    table = render(asked)
    assert "| paraphrased | 2 | default | 50.0% | 50.0% | 50.0% | 100.0% | 100.0% | 100.0% |" in table
    assert "| unanswerable | 1 | 0.0% | 0.0% | 100.0% |" in table
    assert "| all answerable | 2 |" in table
    assert benchmark.line_of(ferry).startswith("q2\tparaphrased\tdefault - (1), ")


def test_a_document_or_clone_that_is_missing_ends_the_run(clones: tuple[Path, list[Listed]], tmp_path: Path) -> None:
    repositories, listed = clones
    with pytest.raises(SystemExit, match=r"could not show some/one/gone\.md"):
        write_files([listed[0]._replace(path="gone.md")], tmp_path / "files", repositories=repositories)
    with pytest.raises(SystemExit, match=r"holds no clone of https://github\.com/some/other"):
        write_files([listed[0]._replace(repository="some/other")], tmp_path / "files", repositories=repositories)


def test_files_are_fetched_from_github_without_clones(
    clones: tuple[Path, list[Listed]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repositories, listed = clones
    clone = clone_of(listed[0].repository, repositories)
    # Git reads the local clone in place of GitHub's address.
    for name, value in (
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", f"url.{clone.as_uri()}.insteadOf"),
        ("GIT_CONFIG_VALUE_0", f"https://github.com/{listed[0].repository}"),
    ):
        monkeypatch.setenv(name, value)
    write_files(listed, tmp_path / "fetched")
    write_files(listed, tmp_path / "cloned", repositories=repositories)
    for each in listed:
        text = each.below(tmp_path / "fetched").read_text("utf-8")
        assert text == TEXTS[each.path] == each.below(tmp_path / "cloned").read_text("utf-8")


def _answer(text: str, *, uri: str, told: str | None = None) -> Answer:
    document = HitDocument("d", "", uri, {})
    passages = (Passage(1, document, HitChunk("c", text, 0, len(text), None)),)
    at = text.index(told) if told else None
    sentence = AnswerSentence(told or "Yes.", (1,), start=at, end=None if at is None else at + len(told or ""))
    return Answer("?", "?", "questions", AnswerKind.EXTRACT, passages, (sentence,))


def test_an_answer_is_right_by_its_own_sentence_and_its_document() -> None:
    text = "Lunch is at one. A bouncy castle\nis set up for the children on Saturday."
    right = frozenset(["file:///picnic"])
    sentence = "A bouncy castle\nis set up for the children on Saturday."
    assert outcome_of(_answer(text, uri="file:///picnic", told=sentence), PICNIC, right) is Outcome.RIGHT
    assert outcome_of(_answer(text, uri="file:///other", told=sentence), PICNIC, right) is Outcome.WRONG
    assert outcome_of(_answer(text, uri="file:///picnic", told="Lunch is at one."), PICNIC, right) is Outcome.WRONG
    part = "set up for the children"
    assert outcome_of(_answer(text, uri="file:///picnic", told=part), PICNIC, right) is Outcome.RIGHT
    assert outcome_of(_answer(text, uri="file:///picnic", told="set up"), PICNIC, right) is Outcome.WRONG
    assert outcome_of(_answer(text, uri="file:///picnic"), PICNIC, right) is Outcome.WRONG  # the passage is not enough
