"""Judged queries: made of what people said of documents, or imported. The catalog keeps them as judgements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

from app.errors import ConflictError, InputError, NotFoundError
from app.evaluation.qrels import read_judgements
from app.ports.ledger import Ledger
from app.search.judgements import BEST_GRADE, MAX_NAME_CHARACTERS, new_judgement
from app.types.documents import Document, Judgement, require_text
from app.types.evaluation import (
    IMPORT_PREFIX,
    ImportReport,
    JudgedQuery,
    JudgementFile,
    JudgementSource,
    NamedJudgement,
)

NAMES_TOLD = 10
_SAY_NOTHING = {"queries", "qrels", "jsonl", "json", "ndjson", "csv", "tsv", "txt", "gz"}
_IDS = ("_id", "id")  # metadata by which a collection's documents may be called in a file of judgements


class Judged:
    """Implements `JudgedQueries`."""

    def __init__(self, catalog: Ledger) -> None:
        self._catalog = catalog

    def sources(self, collection: str) -> list[JudgementSource]:
        return self._catalog.judgement_sources(self._catalog.collection(collection).name)

    def queries(self, collection: str, *, judged_by: Sequence[str] = ()) -> list[JudgedQuery]:
        said: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for page in self._catalog.judgement_pages(self._catalog.collection(collection).name):
            for each in page:
                if not judged_by or each.judged_by in judged_by:
                    said[each.query, each.instruction][each.document_id].append(each.grade)
        return [
            JudgedQuery(query, instruction, {document: _agreed(grades) for document, grades in documents.items()})
            for (query, instruction), documents in sorted(said.items())
        ]

    def import_files(
        self,
        collection: str,
        files: Iterable[JudgementFile],
        *,
        name: str | None = None,
        instruction: str | None = None,
    ) -> ImportReport:
        files = list(files)
        judged_by = IMPORT_PREFIX + check_import_name(name if name is not None else name_of_import(files))
        known = self._catalog.collection(collection).name
        read = read_judgements(files, instruction=instruction)
        documents = self._documents_named(known, {each.document for each in read.judgements})
        unmatched = [name for name, ids in documents.items() if not ids]
        ambiguous = [name for name, ids in documents.items() if len(ids) > 1]
        judgements = _kept(read.judgements, documents, judged_by)
        if not judgements:
            raise InputError(
                f"None of the {len(documents):,} judged documents is in the collection {known!r}: {_told(unmatched)}. "
                "They are looked for by uri, by the last part of it, and by the metadata `_id` and `id`."
            )
        count = self._catalog.replace_judgements(known, judged_by, judgements)
        highest = max(each.grade for each in read.judgements)
        return ImportReport(
            judged_by=judged_by,
            query_count=len({(each.query, each.instruction) for each in judgements}),
            judgement_count=count,
            document_count=len({each.document_id for each in judgements}),
            unmatched_count=len(unmatched),
            unmatched=tuple(unmatched[:NAMES_TOLD]),
            ambiguous_count=len(ambiguous),
            ambiguous=tuple(ambiguous[:NAMES_TOLD]),
            unknown_query_count=len(read.unknown_queries),
            unknown_queries=read.unknown_queries[:NAMES_TOLD],
            scaled_from=highest if highest > BEST_GRADE else None,
        )

    def forget_import(self, collection: str, judged_by: str) -> int:
        if not judged_by.startswith(IMPORT_PREFIX):
            raise ConflictError(f"{judged_by!r} is no import; only imports are deleted as a whole.")
        for source in self.sources(collection):
            if source.judged_by == judged_by:
                self._catalog.replace_judgements(collection, judged_by, [])
                return source.judgement_count
        there = ", ".join(each.judged_by for each in self.sources(collection) if each.is_import) or "none"
        raise NotFoundError(f"The collection {collection!r} has no {judged_by!r}. Its imports: {there}.")

    def _documents_named(self, collection: str, names: set[str]) -> dict[str, list[str]]:
        """Name → ids of the documents that it fits best: by uri before metadata before the end of the uri."""
        fits: dict[str, dict[int, list[str]]] = {name: defaultdict(list) for name in sorted(names)}
        for page in self._catalog.document_records(collection):
            for record in page:
                seen: set[str] = set()
                for closeness, name in enumerate(_names_of(record.document)):
                    if name in fits and name not in seen:
                        fits[name][closeness].append(record.document.id)
                    seen.add(name)
        return {name: by_closeness[min(by_closeness)] if by_closeness else [] for name, by_closeness in fits.items()}


def check_import_name(name: str) -> str:
    name = require_text(name, name="name of the import").strip()
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise InputError(f"An import needs a name of 1 to {MAX_NAME_CHARACTERS} printable characters.")
    return name


def name_of_import(files: Sequence[JudgementFile]) -> str:
    """What the names of its files say: `queries.jsonl` and `ir.papers.qrels.tsv` are `ir.papers`."""
    names = [PurePosixPath(each.name).name for each in files]
    said = (".".join(part for part in name.split(".") if part.lower() not in _SAY_NOTHING) for name in names)
    return next(filter(None, said), "import")[:MAX_NAME_CHARACTERS]


def _names_of(document: Document) -> list[str]:
    """The closest first; "" for one that it lacks."""
    last = unquote(document.uri.rstrip("/").rpartition("#" if "#" in document.uri else "/")[2])
    ids = [str(document.metadata[key]) if key in document.metadata else "" for key in _IDS]
    return [document.uri, *ids, last, PurePosixPath(last).stem]


def _kept(
    judgements: Sequence[NamedJudgement], documents: Mapping[str, Sequence[str]], judged_by: str
) -> list[Judgement]:
    highest = max(each.grade for each in judgements)
    return [
        new_judgement(
            documents[each.document][0],
            query=each.query,
            instruction=each.instruction,
            grade=_grade_of(each.grade, highest),
            judged_by=judged_by,
        )
        for each in judgements
        if len(documents[each.document]) == 1
    ]


def _grade_of(grade: float, highest: float) -> int:
    """0 to 3. What is above 0 stays above 0; a scale that goes higher than 3 is shrunk."""
    if grade <= 0:
        return 0
    scaled = grade * BEST_GRADE / highest if highest > BEST_GRADE else grade
    return min(BEST_GRADE, max(1, math.floor(scaled + 0.5)))


def _agreed(grades: Sequence[int]) -> int:
    return math.floor(sum(grades) / len(grades) + 0.5)


def _told(names: Sequence[str]) -> str:
    shown = ", ".join(name if len(name) <= 60 else name[:59] + "…" for name in names[:NAMES_TOLD])
    return f"{shown}, …" if len(names) > NAMES_TOLD else shown
