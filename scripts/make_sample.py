"""Builds sample/library.jsonl from openly licensed label files: `python scripts/make_sample.py DATA_FOLDER`.

DATA_FOLDER holds `labels.<source>.jsonl.gz` with rows {"text", "labels"}. The result depends on those files alone.
Every cell (one label of each of two aspects) is capped, so that no label dominates and either aspect can rank.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from embedder.command.standard_output import run_program

OUTPUT = Path(__file__).resolve().parent.parent / "sample" / "library.jsonl"
MAX_WORDS = 170
NEAR_DUPLICATE = 0.6  # Jaccard similarity of the word sets
FREQUENT_COMPANIES = frozenset(
    {
        "Equifax, Inc.",
        "Experian Information Solutions Inc.",
        "Transunion Intermediate Holdings, Inc.",
        "Wells Fargo & Company",
        "Bank Of America, National Association",
        "Citibank, N.A.",
        "Capital One Financial Corporation",
    }
)
# Factbook fields that hold bare lists; rows without a field hold several unrelated facts.
LIST_FIELDS = frozenset(
    {
        "political parties",
        "ports",
        "legislative branch",
        "legislative branch - lower chamber",
        "legislative branch - upper chamber",
        "national heritage",
        "diplomatic representation from the us",
        "international environmental agreements",
        "major urban areas - population",
        "major rivers (by length in km)",
        "trafficking in persons",
        "dependent areas",
    }
)
MAX_REDACTIONS = 8
Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    text: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class Source:
    """`cap`: how many rows may share a row's cell; 0 drops the row."""

    name: str
    prefix: str
    min_words: int
    cell: Callable[[Labels], tuple[str, ...]]
    cap: Callable[[Labels], int]
    title: Callable[[Row], str]
    aspects: tuple[str, ...]


def first_words(text: str, count: int = 7) -> str:
    words = text.split()
    return " ".join(words[:count]).rstrip(".,;:?!") + ("…" if len(words) > count else "")


def capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def factbook_cap(labels: Labels) -> int:
    if labels.get("field", "") in ("", *LIST_FIELDS):
        return 0
    if "region" in labels:
        return 6 if labels["topic"] == "government" else 4
    return {"economy": 14, "government": 0, "military": 0, "history": 0}.get(labels["topic"], 8)


def factbook_title(row: Row) -> str:
    field = capitalise(row.labels["field"])
    return f"{row.labels['country']} – {field}" if "country" in row.labels else f"{field} – {first_words(row.text)}"


def openstax_cap(labels: Labels) -> int:
    if "chapter" not in labels:  # prefaces and lists of contributors
        return 0
    return {"textbook explanation": 8, "feature box": 5}.get(labels["kind"], 4)


def openstax_title(row: Row) -> str:
    if row.labels["kind"] == "definition":
        return capitalise(row.text.partition(":")[0])
    return f"{row.labels['chapter']} – {first_words(row.text)}"


def complaint_cell(labels: Labels) -> tuple[str, ...]:
    """Frequent companies have their own cells; all others share one per product."""
    return labels["product"], labels["company"] if labels["company"] in FREQUENT_COMPANIES else ""


def pep_cap(labels: Labels) -> int:
    return 16 if labels.get("topic") == "packaging" else 5


def hwu_cap(labels: Labels) -> int:
    return 3 if labels["scenario"] in {"calendar", "alarm", "lists", "email", "music", "transport"} else 0


SOURCES = (
    Source(
        name="factbook",
        prefix="fb",
        min_words=12,
        cell=lambda labels: (labels.get("region", ""), labels["topic"]),
        cap=factbook_cap,
        title=factbook_title,
        aspects=("topic", "field", "country", "region"),
    ),
    Source(
        name="openstax",
        prefix="os",
        min_words=8,
        cell=lambda labels: (labels["subject"], labels["kind"]),
        cap=openstax_cap,
        title=openstax_title,
        aspects=("subject", "kind", "chapter"),
    ),
    Source(
        name="cfpb_complaints",
        prefix="cf",
        min_words=15,
        cell=complaint_cell,
        cap=lambda labels: 7,
        title=lambda row: f"Complaint: {row.labels['product']} – {row.labels['issue']}",
        aspects=("product", "issue", "company", "outcome"),
    ),
    Source(
        name="python_peps",
        prefix="pep",
        min_words=20,
        cell=lambda labels: (labels["type"], labels["status"], labels.get("topic", "")),
        cap=pep_cap,
        title=lambda row: f"Python proposal – {first_words(row.text)}",
        aspects=("type", "status", "topic", "decade"),
    ),
    Source(
        name="hwu64",
        prefix="hw",
        min_words=5,
        cell=lambda labels: (labels["intent"],),
        cap=hwu_cap,
        title=lambda row: first_words(row.text),
        aspects=("scenario", "intent", "action"),
    ),
)

# Contact details, masked account numbers, honorifics with names, and words unsuitable for a demonstration.
UNWANTED = re.compile(
    r"\S+@\S+|\(?\d{3}\)?[ -]\d{3}-\d{4}|\b(?:Mr|Mrs|Ms|Dr)\.? [A-Z][a-z]+ [A-Z]|\d{7,}"
    r"|\b(?:nigg\w*|negro\w*|rap(?:e|ed|ist)|suicid\w*|bitch\w*|fuck\w*|shit\w*|evil|genocide|lynch\w*|sexual\w*"
    r"|sex|porn\w*|incest|abus\w*|retard\w*|died|death of my|my ssn|passed away)\b",
    re.IGNORECASE,
)
# Steps of worked examples, form headings and reference lists make no sense on their own.
FRAGMENT = re.compile(r"^Step \d|Step 1 :|Date of Birth :|Buyer :|\b\d{4}\. [A-Z]")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“])|(?<=;)\s+")


def digest(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def trim(text: str) -> str:
    """Whole sentences (or clauses that end in a semicolon) from the beginning, at most MAX_WORDS words."""
    if len(text.split()) <= MAX_WORDS:
        return text
    kept = ""
    for sentence in SENTENCE_END.split(text):
        longer = f"{kept} {sentence}".strip()
        if len(longer.split()) > MAX_WORDS:
            break
        kept = longer
    return kept.rstrip(";")


def read_rows(folder: Path, source: Source) -> Iterator[Row]:
    """Rows of the even half by SHA-1 come first, so that the odd half, used for reported scores, stays mostly
    unseen.
    """
    with gzip.open(folder / f"labels.{source.name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    by_hash = sorted(
        (int(digest(record["text"]), 16) % 2, digest(record["text"]), index, record)
        for index, record in enumerate(records)
    )
    for _, _, _, record in by_hash:
        labels = record["labels"]
        if source.name == "hwu64":  # the intent "lists remove" of the scenario "lists" is the action "remove"
            labels["action"] = labels["intent"].removeprefix(labels["scenario"]).strip()
        yield Row(trim(record["text"]), {aspect: str(labels[aspect]) for aspect in source.aspects if aspect in labels})


def is_near_duplicate(words: set[str], kept: list[set[str]]) -> bool:
    return any(len(words & other) >= NEAR_DUPLICATE * len(words | other) for other in kept)


def is_presentable(row: Row, source: Source) -> bool:
    return (
        len(row.text.split()) >= source.min_words
        and row.text.count("[redacted]") <= MAX_REDACTIONS
        and not UNWANTED.search(row.text)
        and not FRAGMENT.search(row.text)
    )


def select(folder: Path, source: Source) -> Iterator[dict[str, object]]:
    filled: Counter[tuple[str, ...]] = Counter()
    kept: list[set[str]] = []
    for row in read_rows(folder, source):
        words = set(re.findall(r"\w+", row.text.lower()))
        cap = source.cap(row.labels)
        if cap == 0 or not is_presentable(row, source):
            continue
        cell = source.cell(row.labels)
        if filled[cell] >= cap or is_near_duplicate(words, kept):
            continue
        filled[cell] += 1
        kept.append(words)
        yield {
            "id": f"{source.prefix}-{digest(row.text)[:8]}",
            "title": source.title(row),
            "text": row.text,
            "metadata": {"source": source.name, **row.labels},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_folder", type=Path)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    rows = [row for source in SOURCES for row in select(arguments.data_folder, source)]
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    arguments.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(rows)} texts written to {arguments.output}")


if __name__ == "__main__":
    run_program(main)
