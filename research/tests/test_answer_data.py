"""Pairs for the reader of answers, written from clones of public data."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from research.training import answer_data

TEXT = "The bakery opens at six. It sells rye bread. On Mondays it is closed."
TABLE = (
    '"Bridge","Opened","Length (m)"\n"Stone Bridge","1851","240"\n"Mill Bridge","1932","88"\n'
    '"The \\"New\\" Bridge","2004","88"\n'
)
ASKED = (
    "id\tutterance\tcontext\ttargetValue\n"
    "1\twhen was stone bridge built?\tcsv/1.csv\t1851\n"
    "2\twhich bridge is the longest?\tcsv/1.csv\tStone Bridge\n"  # compares rows
    "3\thow long is mill bridge?\tcsv/1.csv\t88\n"  # another row has this cell, too
    "4\twhich year was it?\tcsv/1.csv\t2004\n"  # names no row
)


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    start = TEXT.index("sells")
    asked = [{"question": "What can I buy?", "answers": [{"text": "sells rye bread", "answer_start": start}]}]
    squad = json.dumps({"data": [{"title": "Bakery", "paragraphs": [{"context": TEXT, "qas": asked}]}]})
    files = {
        answer_data.SHIFTS: {f"datasets/{name}_v1.0.json": squad for name in ("reddit", "amazon_reviews", "new_wiki")},
        answer_data.POLICY: {f"data/{name}.json": squad for name in ("dev", "test")},
        answer_data.TABLES: {"data/training.tsv": ASKED, "csv/1.csv": TABLE},
    }
    commits = {}
    for repository, contents in files.items():
        folder = tmp_path / "clones" / repository.replace("/", "+")
        for path, text in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        for command in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", "-C", folder, *command], check=True)
        said = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        commits[repository] = said.stdout.strip()
    monkeypatch.setattr(answer_data, "COMMITS", commits)
    return tmp_path / "clones"


def written(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_a_pair_has_what_answers_and_what_stands_beside_it(
    repositories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    arguments = ["answer_data", "--repositories", str(repositories), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    answer_data.main()
    read = {name: written(out / f"pairs.{name}.jsonl.gz") for name in answer_data.KINDS}
    assert (
        read["squad_shifts"]
        == [
            {
                "task": "squad_shifts",
                "query": "What can I buy?",
                "pos": ["It sells rye bread."],
                "neg": ["The bakery opens at six.", "On Mondays it is closed."],
            }
        ]
        * 3
    )
    assert len(read["policy_qa"]) == 2
    asked, *made = read["wiki_tables"]
    assert (asked["query"], asked["pos"]) == (
        "when was stone bridge built?",
        ["Bridge: Stone Bridge; Opened: 1851; Length (m): 240"],
    )
    assert sorted(asked["neg"]) == [
        "Bridge: Mill Bridge; Opened: 1932; Length (m): 88",
        'Bridge: The "New" Bridge; Opened: 2004; Length (m): 88',
    ]
    assert len(made) == 3  # one for each row, by its name
    assert all(any(name in each["query"] for name in ("Stone", "Mill", "New")) for each in made)
