"""Parses relevance judgements: BEIR and TREC qrels with their queries, or a table of query, document, grade.

Detects the format by the rows, not by the file's name. Knows neither catalog nor collections.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from app.errors import InputError, NotFoundError
from app.types.documents import require_text
from app.types.evaluation import JudgementFile, NamedJudgement, NamedJudgements

MAX_BYTES = 256 * 1024 * 1024  # per file, after decompression
MAX_LINE_BYTES = 1_000_000
MAX_JUDGEMENTS = 500_000

_QUERY_ID = ("query-id", "query_id", "qid", "topic")
_DOCUMENT = ("corpus-id", "corpus_id", "did", "doc_id", "docid", "docno", "document_id", "document", "uri")
_GRADE = ("score", "grade", "relevance", "rel")
_TEXT = ("text", "query", "title")
_OWN_ID = ("_id", "id", *_QUERY_ID)
_TREC = ("qid", "", "document", "grade")  # the second column (iteration) is ignored
_HEADLESS = {2: ("qid", "text"), 3: ("qid", "document", "grade")}
_GZIP = b"\x1f\x8b"


Row = Mapping[str, Any]


@dataclass(slots=True)
class _Found:
    queries: dict[str, tuple[str, str]] = field(default_factory=dict)  # id → text, instruction
    by_id: list[tuple[str, str, float]] = field(default_factory=list)  # query id, document, grade
    whole: list[NamedJudgement] = field(default_factory=list)


def read_judgements(files: Iterable[JudgementFile], *, instruction: str | None = None) -> NamedJudgements:
    """Parses all files. instruction: replaces the files' own. Raises InputError, which names the file and line."""
    found = _Found()
    for file in files:
        for line, row in _rows(file):
            try:
                _take(row, found)
            except InputError as error:
                raise InputError(f"{file.name}, line {line}: {error}") from None
            if len(found.by_id) + len(found.whole) > MAX_JUDGEMENTS:
                raise InputError(f"{file.name} has more than {MAX_JUDGEMENTS:,} judgements. Split it.")
    if not found.by_id and not found.whole:
        raise InputError(
            "The files contain no judgements. Give judgements of BEIR or TREC (query id, document id, grade) with a "
            "file of queries, or a table with the columns query, document and grade."
        )
    judgements = list(found.whole)
    for query_id, document, grade in found.by_id:
        if query_id in found.queries:
            judgements.append(NamedJudgement(*found.queries[query_id], document, grade))
    if not judgements:
        raise InputError("None of the judged queries has a text. Give the file of queries with the judgements.")
    if instruction is not None:
        require_text(instruction, name="instruction")
        judgements = [NamedJudgement(one.query, instruction.strip(), one.document, one.grade) for one in judgements]
    unknown = dict.fromkeys(query_id for query_id, _, _ in found.by_id if query_id not in found.queries)
    return NamedJudgements(tuple(judgements), tuple(unknown))


def find_judgement_files(path: Path, *, split: str | None = None) -> list[Path]:
    """Finds queries and qrels in a folder with BEIR's layout; for a file of qrels, adds the queries file beside it."""
    if path.is_dir():
        return [*_queries_of(path), *_qrels_of(path, split)]
    if not path.is_file():
        raise NotFoundError(f"There is no file or folder {str(path)!r}.")
    if split is not None:
        raise InputError("A split can only be chosen for a folder of judgements.")
    beside = path.with_name(path.name.replace("qrels", "queries"))
    return [beside, path] if beside != path and beside.is_file() else [path]


def _queries_of(folder: Path) -> list[Path]:
    return [path for path in (folder / f"queries.jsonl{end}" for end in ("", ".gz")) if path.is_file()][:1]


def _qrels_of(folder: Path, split: str | None) -> list[Path]:
    where = folder / "qrels" if (folder / "qrels").is_dir() else folder
    found = sorted(path for end in ("tsv", "jsonl", "jsonl.gz", "txt") for path in where.glob(f"*.{end}"))
    if where == folder:
        found = [path for path in found if "qrels" in path.name]
    by_split = {path.name.partition(".")[0]: path for path in found}
    if len(found) == 1 and split is None:
        return found
    chosen = split or "test"
    if chosen not in by_split:
        splits = ", ".join(by_split) or "none"
        raise InputError(f"{str(where)!r} has no judgements {chosen!r}. There are: {splits}. Choose one with --split.")
    return [by_split[chosen]]


def _take(row: Row, found: _Found) -> None:
    query_id, document = _text_of(row, _QUERY_ID), _text_of(row, _DOCUMENT)
    query = _text_of(row, ("query",))
    if query_id and document:
        found.by_id.append((query_id, document, _grade(row)))
    elif query.strip() and document:
        found.whole.append(NamedJudgement(query.strip(), _instruction(row), document, _grade(row)))
    elif (own_id := _text_of(row, _OWN_ID)) and (text := _text_of(row, _TEXT).strip()):
        query_row = text, _instruction(row)
        if found.queries.setdefault(own_id, query_row) != query_row:
            raise InputError(f"The query {own_id!r} has two different texts. Leave out files without queries.")
    else:
        columns = ", ".join(key for key in row if key) or "none"
        raise InputError(
            "This is neither a query (with _id and text) nor a judgement (with query-id or query, corpus-id or "
            f"document, and score or grade). Its columns: {columns[:200]}."
        )


def _instruction(row: Row) -> str:
    metadata = row.get("metadata")
    value = row.get("instruction") or (metadata.get("instruction") if isinstance(metadata, dict) else None)
    return require_text(value, name="instruction").strip() if isinstance(value, str) else ""


def _text_of(row: Row, names: Sequence[str]) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return require_text(str(value), name=name)
    return ""


def _grade(row: Row) -> float:
    """The row's grade; 1 without such a column: then all listed documents are relevant."""
    value = next((row[name] for name in _GRADE if row.get(name) not in (None, "")), 1)
    try:
        grade = float(value)
    except (TypeError, ValueError):
        grade = math.nan
    if not math.isfinite(grade):
        raise InputError(f"The grade {str(value)[:40]!r} is not a number.")
    return grade


def _rows(source: JudgementFile) -> Iterator[tuple[int, Row]]:
    lines = _lines(source)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    lines = itertools.chain([first], lines)
    yield from _json_rows(source.name, lines) if first[1].lstrip().startswith("{") else _table_rows(source.name, lines)


def _lines(source: JudgementFile) -> Iterator[tuple[int, str]]:
    """Yields (number, line) and decompresses gzip. Checks the size per line, to stop a decompression bomb in time."""
    head = source.file.read(2)
    whole = io.BufferedReader(_Rejoined(head, source.file))  # not by seek(), which an upload may lack
    file: BinaryIO = gzip.GzipFile(fileobj=whole) if head == _GZIP else whole  # type: ignore[assignment]
    read = number = 0
    try:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            read += len(line)
            if len(line) > MAX_LINE_BYTES or read > MAX_BYTES:
                raise InputError(f"{source.name} is too long at line {number}. Is it really a file of judgements?")
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{source.name}, line {number}: not UTF-8 ({error.reason}). Save it in UTF-8.") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{source.name} cannot be read ({error}).") from error


class _Rejoined(io.RawIOBase):
    """A file made of bytes that were already read, and the rest."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(part) :] if self._head else b""
        buffer[: len(part)] = part
        return len(part)


def _json_rows(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    for number, line in lines:
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{name}, line {number}: not JSON ({error}).") from None
            if not isinstance(row, dict):
                raise InputError(f"{name}, line {number}: not a JSON object.")
            yield number, row


def _table_rows(name: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    number, first = next(lines)
    lines = itertools.chain([(number, first)], lines)
    cells = first.split()
    if len(cells) == 4 and _is_whole_number(cells[3]) and not _has_header(cells):
        yield from _trec_rows(name, lines)
        return
    delimiter = max("\t,;", key=first.count)
    reader = csv.reader((line for _, line in lines), delimiter=delimiter)
    try:
        header = [cell.strip().lower() for cell in next(reader)]
        if not _has_header(header):
            if delimiter != "\t" or len(header) not in _HEADLESS:
                raise InputError(f"{name}, line {number}: the columns have no names, such as query, document, grade.")
            yield number, dict(zip(_HEADLESS[len(header)], next(csv.reader([first], delimiter=delimiter)), strict=True))
            header = list(_HEADLESS[len(header)])
        for row in reader:
            if row:
                yield number + reader.line_num - 1, dict(zip(header, row, strict=False))
    except csv.Error as error:
        raise InputError(f"{name}, line {number + reader.line_num - 1}: {error}.") from None


def _trec_rows(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    for number, line in lines:
        cells = line.split()
        if cells:
            if len(cells) != 4:
                raise InputError(f"{name}, line {number}: {len(cells)} columns, but judgements of TREC have four.")
            yield number, dict(zip(_TREC, cells, strict=True))


def _has_header(cells: Sequence[str]) -> bool:
    names = {cell.strip().lower() for cell in cells}
    return bool(names & {*_QUERY_ID, "query", "_id", "id"}) and bool(names & {*_DOCUMENT, *_TEXT})


def _is_whole_number(text: str) -> bool:
    return text.lstrip("+-").isdecimal()
