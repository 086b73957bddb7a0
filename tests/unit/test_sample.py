"""The sample library and its planted queries: well-formed, well populated, credited and found nowhere else."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("app", "embedder", "ingest", "ui", "tests", "scripts", "docs", "research", "sample")
PHRASE_WORDS = 6  # a run of this many words of a planted query counts as the phrase
MIN_CARRIERS = 8


@dataclass(frozen=True, slots=True)
class View:
    instruction: str
    aspect: str
    label: str


@dataclass(frozen=True, slots=True)
class Planted:
    query: str
    views: tuple[View, ...]


@cache
def load_library() -> list[dict[str, Any]]:
    text = files("sample").joinpath("library.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def load_planted() -> list[Planted]:
    rows = json.loads(files("sample").joinpath("planted.json").read_text(encoding="utf-8"))
    return [Planted(row["query"], tuple(View(**view) for view in row["views"])) for row in rows]


def normalise(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def phrases(text: str) -> list[str]:
    words = normalise(text).split()
    return [" ".join(words[start : start + PHRASE_WORDS]) for start in range(len(words) - PHRASE_WORDS + 1)]


def carriers(view: View) -> set[str]:
    return {row["id"] for row in load_library() if row["metadata"].get(view.aspect) == view.label}


def source_files() -> list[Path]:
    folders = [REPOSITORY / name for name in SOURCE_FOLDERS]
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".md", ".json"}]
    return [*found, *REPOSITORY.glob("*.md")]


def test_library_has_300_to_600_distinct_texts() -> None:
    rows = load_library()
    assert 300 <= len(rows) <= 600
    assert len({row["id"] for row in rows}) == len(rows)
    assert len({normalise(row["text"]) for row in rows}) == len(rows)


def test_rows_are_complete_and_short() -> None:
    for row in load_library():
        assert set(row) == {"id", "title", "text", "metadata"}
        assert re.fullmatch(r"[a-z]+-[0-9a-f]{8}", row["id"])
        assert row["title"].strip()
        assert 5 <= len(row["text"].split()) <= 170, row["id"]
        assert all(isinstance(value, str | int) for value in row["metadata"].values())


def test_no_contact_details_are_shown() -> None:
    contact = re.compile(r"\S+@\S+\.\w+|\b\d{3}[-. ]\d{3}[-. ]\d{4}\b|\b\d{3}-\d{2}-\d{4}\b")
    assert [row["id"] for row in load_library() if contact.search(row["text"])] == []


def test_attribution_names_every_source() -> None:
    attribution = files("sample").joinpath("ATTRIBUTION.md").read_text(encoding="utf-8")
    credited = set(re.findall(r"^\| (\w+) \|.*(?:CC BY|CC0|public domain).*github\.com", attribution, re.MULTILINE))
    assert credited == {row["metadata"]["source"] for row in load_library()}


def test_there_are_at_least_six_planted_queries() -> None:
    assert len({planted.query for planted in load_planted()}) == len(load_planted()) >= 6


@pytest.mark.parametrize("planted", load_planted(), ids=lambda planted: planted.query[:32])
def test_planted_query_has_two_views_that_pull_apart(planted: Planted) -> None:
    first, second = planted.views
    assert first.instruction != second.instruction
    assert first.label != second.label
    both = carriers(first) & carriers(second)
    for view in planted.views:
        assert len(carriers(view)) >= MIN_CARRIERS, view
        # Fewer than a full result page of five shares both labels, so the two pages cannot be the same five.
        assert len(both) < 5
        assert len(both) <= len(carriers(view)) / 3, view


@pytest.mark.parametrize("planted", load_planted(), ids=lambda planted: planted.query[:32])
def test_planted_query_is_no_text_of_the_library(planted: Planted) -> None:
    texts = [normalise(row["text"]) for row in load_library()]
    assert not [text for text in texts if normalise(planted.query) in text or text in normalise(planted.query)]
    assert not [phrase for phrase in phrases(planted.query) if any(phrase in text for text in texts)]


def test_planted_phrases_stand_in_no_source_file() -> None:
    wanted = {phrase for planted in load_planted() for phrase in phrases(planted.query)}
    assert wanted
    pattern = re.compile("|".join(map(re.escape, sorted(wanted))))
    planted_file = REPOSITORY / "sample" / "planted.json"
    found = Counter(
        str(path.relative_to(REPOSITORY))
        for path in source_files()
        if path != planted_file and pattern.search(normalise(path.read_text(encoding="utf-8")))
    )
    assert not found
    assert pattern.search(normalise(planted_file.read_text(encoding="utf-8")))
