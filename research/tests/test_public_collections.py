"""Test collections of public repositories are read into documents, queries and grades."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from research.benchmarks.judged_collections import Collection
from research.benchmarks.public_collections import COLLECTIONS, FILES, LANGUAGES, read_public

PARAGRAPHS = json.dumps({"data": [{"paragraphs": [{"context": "A cat sat.", "qas": [{"question": "Who sat?"}]}]}]})
LIVEQA = """<all><NLM-QUESTION qid="Q1"><NLM-Summary> What helps? </NLM-Summary><ReferenceAnswers>
<ReferenceAnswer aid="Q1A1"><ANSWER>Rest
helps.</ANSWER></ReferenceAnswer></ReferenceAnswers></NLM-QUESTION></all>"""
CONTENT = {
    "cacm.all": ".I 1\n.T\nOn cats\n.W\nCats sit.\n.X\n1\t5\t1\n.I 2\n.T\nDogs\n",
    "query.text": ".I 1\n.W\n who\nsat?\n.N\n a person\n.I 2\n.W\nnobody\n",
    "qrels.text": "01 0001  0 0\n",
    "doc-text": "1\ncats\nsit\n   /\n2\ndogs run\n   /\n",
    "query-text": "1\nWHO SAT\n/\n",
    "rlv-ass": "1\n 1 2\n   /\n",
    "WikiQA-test.tsv": (
        "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n"
        'Q0\twho sat\tD0\tCat\tD0-0\tA "cat sat.\t1\nQ0\twho sat\tD0\tCat\tD0-1\tIt ran.\t0\n'
        "Q1\twho ran\tD0\tCat\tD0-0\tA cat sat.\t0\n"
    ),
    **{f"xquad.{language}.json": PARAGRAPHS for language in LANGUAGES},
    "test.json": PARAGRAPHS,
    "TREC-2017-LiveQA-Medical-Test-Questions-w-summaries.xml": LIVEQA,
    "test.csv": 'qtext,label,atext\nwho sat,1,"A cat, sat."\nwho sat,0,It ran.\n',
}
EXPECTED = {
    "cacm": Collection({"1": "On cats\n\nCats sit.", "2": "Dogs"}, {"1": "who sat?"}, {"1": {"1": 1}}),
    "npl": Collection({"1": "cats sit", "2": "dogs run"}, {"1": "who sat"}, {"1": {"1": 1, "2": 1}}),
    "wikiqa": Collection({"D0-0": "A cat sat.", "D0-1": "It ran."}, {"Q0": "who sat"}, {"Q0": {"D0-0": 1}}),
    "liveqa": Collection({"Q1A1": "Rest helps."}, {"Q1": "What helps?"}, {"Q1": {"Q1A1": 1}}),
    "trecqa": Collection({"0": "A cat, sat.", "1": "It ran."}, {"who sat": "who sat"}, {"who sat": {"0": 1}}),
    **dict.fromkeys(
        ("policyqa", *(f"xquad_{language}" for language in LANGUAGES)),
        Collection({"0": "A cat sat."}, {"Who sat?": "Who sat?"}, {"Who sat?": {"0": 1}}),
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for each in FILES:
        path = each.below(tmp_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CONTENT[path.name], encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_collection_is_read(folder: Path, name: str) -> None:
    assert read_public(folder, name) == EXPECTED[name]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cacm\.all"):
        read_public(tmp_path, "cacm")
