"""`gircse train data ROWS --out FOLDER`: data for training and evaluation from texts that have labels already.

A row is `{"title": …, "text": …, "metadata": {aspect: label}}`, as in sample/library.jsonl. The hash of a
text decides between `train` and `dev`, so the same rows give the same files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from pathlib import Path

from embedder.errors import DataError
from embedder.evaluation.data import MAX_LABELS, MIN_LABELS, Row, read_rows

TITLES = "titles"
TITLE_INSTRUCTION = "Given a title, retrieve the text that it belongs to."
ASPECT_INSTRUCTION = "Identify the {aspect} of the text."
_DEV_SHARE = 4  # one text in four is held out
_MIN_TEXTS = 4  # per label; with fewer, it is useless for training and for evaluation
_TRIPLETS = 200  # per ordered pair of aspects
_NOT_IN_A_FILE_NAME = re.compile(r"[^\w-]+")


@dataclass(frozen=True, slots=True)
class LabelledRow:
    title: str
    text: str
    group: str
    labels: Mapping[str, str]

    @property
    def is_held_out(self) -> bool:
        return hashlib.sha256(self.text.encode()).digest()[-1] % _DEV_SHARE == 0


def write_data(path: Path, out: Path, *, group_by: str) -> str:
    """Write `out/train`, `out/dev` and `out/instructions.json`; returns a summary.

    Raises DataError for a malformed row, and if no row has a text and a label that several texts share.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file.")
    labelled = (_row(row, group_by, f"{path}, line {line}") for line, row in enumerate(read_rows(path), start=1))
    rows = _with_shared_labels([row for row in labelled if row.text.strip()])
    if not rows:
        raise DataError(f"{path} has no row with a text and a label that {_MIN_TEXTS} texts share.")
    train, dev = [row for row in rows if not row.is_held_out], [row for row in rows if row.is_held_out]
    groups = sorted({row.group for row in rows})
    for group in groups:
        _write(out / "train" / f"labels.{group}.jsonl", _labels(train, group))
        _write(out / "dev" / f"labels.{group}.jsonl", _labels(dev, group))
        _write(out / "train" / f"triplets.{group}.jsonl", _triplets(train, group))
        _write(out / "dev" / f"triplets.{group}.jsonl", _triplets(dev, group))
    _write(out / "train" / f"pairs.{TITLES}.jsonl", _title_pairs(train))
    _write_retrieval(out / "dev", [row for row in dev if row.title])
    aspects = {
        group: sorted({aspect for row in rows if row.group == group for aspect in row.labels}) for group in groups
    }
    instructions = {
        group: {aspect: ASPECT_INSTRUCTION.format(aspect=aspect) for aspect in names}
        for group, names in aspects.items()
    }
    (out / "instructions.json").write_text(json.dumps(instructions, indent=1) + "\n", encoding="utf-8")
    return f"{out}: {len(train)} texts for training, {len(dev)} held out, in {len(groups)} groups."


def _row(row: Row, group_by: str, place: str) -> LabelledRow:
    """place: file and line, for the error. Raises DataError if the row or its metadata is no object."""
    metadata = row.get("metadata") or {} if isinstance(row, dict) else None
    if not isinstance(metadata, dict):
        raise DataError(f'{place}: not an object with "text" and an object "metadata".')
    group = _NOT_IN_A_FILE_NAME.sub("_", str(metadata.get(group_by, "texts")))
    labels = {aspect: str(label) for aspect, label in metadata.items() if aspect != group_by}
    return LabelledRow(str(row.get("title") or ""), str(row.get("text") or ""), group, labels)


def _with_shared_labels(rows: Sequence[LabelledRow]) -> list[LabelledRow]:
    """Removes labels with fewer than _MIN_TEXTS texts, then aspects with too few or too many labels, then rows without
    labels."""
    counts = Counter((row.group, aspect, label) for row in rows for aspect, label in row.labels.items())
    shared = {key for key, number in counts.items() if number >= _MIN_TEXTS}
    sizes = Counter((group, aspect) for group, aspect, _ in shared)
    kept = []
    for row in rows:
        labels = {
            aspect: label
            for aspect, label in row.labels.items()
            if (row.group, aspect, label) in shared and MIN_LABELS <= sizes[row.group, aspect] <= MAX_LABELS
        }
        if labels:
            kept.append(LabelledRow(row.title, row.text, row.group, labels))
    return kept


def _labels(rows: Sequence[LabelledRow], group: str) -> Iterator[Row]:
    for row in rows:
        if row.group == group:
            yield {"text": row.text, "labels": dict(row.labels)}


def _triplets(rows: Sequence[LabelledRow], group: str) -> Iterator[Row]:
    """For each ordered pair of aspects, at most _TRIPLETS rows: a text as query, one with the same label only in the
    first aspect (`pos`), and one with the same label only in the second (`neg`)."""
    rows = [row for row in rows if row.group == group]
    for aspect, other in permutations(sorted({aspect for row in rows for aspect in row.labels}), 2):
        both = [row for row in rows if aspect in row.labels and other in row.labels]
        for query, pos, neg in islice(_triplets_of(both, aspect, other), _TRIPLETS):
            yield {
                "task": f"{group}:{aspect}|{other}",
                "instruction": ASPECT_INSTRUCTION.format(aspect=aspect),
                "query": query.text,
                "pos": [pos.text],
                "neg": [neg.text],
            }


def _triplets_of(
    rows: Sequence[LabelledRow], aspect: str, other: str
) -> Iterator[tuple[LabelledRow, LabelledRow, LabelledRow]]:
    for number, query in enumerate(rows):
        others = [*rows[number + 1 :], *rows[:number]]
        pos = next((row for row in others if _shares_only(query, row, aspect, other)), None)
        neg = next((row for row in others if _shares_only(query, row, other, aspect)), None)
        if pos is not None and neg is not None:
            yield query, pos, neg


def _shares_only(row: LabelledRow, other: LabelledRow, same: str, different: str) -> bool:
    return row.labels[same] == other.labels[same] and row.labels[different] != other.labels[different]


def _title_pairs(rows: Sequence[LabelledRow]) -> Iterator[Row]:
    for row in rows:
        if row.title:
            yield {"instruction": TITLE_INSTRUCTION, "query": row.title, "pos": [row.text], "neg": []}


def _write_retrieval(folder: Path, rows: Sequence[LabelledRow]) -> None:
    """Writes a test collection: each title is a query, and all texts with this title are relevant to it."""
    answers = defaultdict(list)
    for number, row in enumerate(rows):
        answers[row.title].append(f"d{number}")
    corpus = ({"_id": f"d{number}", "title": "", "text": row.text} for number, row in enumerate(rows))
    queries = [(f"q{number}", title) for number, title in enumerate(answers)]
    _write(folder / f"ir.{TITLES}.corpus.jsonl", corpus)
    _write(
        folder / f"ir.{TITLES}.queries.jsonl",
        ({"_id": name, "text": title, "instruction": TITLE_INSTRUCTION} for name, title in queries),
    )
    _write(
        folder / f"ir.{TITLES}.qrels.jsonl",
        ({"qid": name, "did": answer, "score": 1} for name, title in queries for answer in answers[title]),
    )


def _write(path: Path, rows: Iterable[Row]) -> None:
    """No file if there are no rows."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gircse train data",
        description="Write data for `gircse train` and `gircse eval` from texts with labels.",
    )
    parser.add_argument("rows", type=Path, help='JSON lines, plain or gzip: {"title": …, "text": …, "metadata": {…}}')
    parser.add_argument("--out", type=Path, required=True, help="folder for train/, dev/ and instructions.json")
    parser.add_argument(
        "--group-by", default="source", help="metadata whose value separates texts with other aspects; default: source"
    )
    return parser.parse_args(arguments)
