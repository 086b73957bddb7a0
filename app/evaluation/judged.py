"""Groups the catalog's judgements into judged queries, and imports judgements from files."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from app.errors import ConflictError, InputError, NotFoundError
from app.evaluation.qrels import read_judgements
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

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

NAMES_SHOWN = 10
_GENERIC = {"queries", "qrels", "jsonl", "json", "ndjson", "csv", "tsv", "txt", "gz"}  # parts of file names
_IDS = ("_id", "id")  # metadata keys by which a file of judgements may refer to documents


class Judged:
    """Judged queries of the catalog. Implements `JudgedQueries`."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog

    def sources(self, collection: str) -> list[JudgementSource]:
        return self._catalog.judgement_sources(self._catalog.collection(collection).name)

    def queries(self, collection: str, *, judged_by: Sequence[str] = ()) -> list[JudgedQuery]:
        all_grades: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for page in self._catalog.judgement_pages(self._catalog.collection(collection).name):
            for judgement in page:
                if not judged_by or judgement.judged_by in judged_by:
                    by_document = all_grades[judgement.query, judgement.instruction]
                    by_document[judgement.document_id].append(judgement.grade)
        return [
            JudgedQuery(query, instruction, {document: _mean_grade(grades) for document, grades in documents.items()})
            for (query, instruction), documents in sorted(all_grades.items())
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
        documents = self._documents_named(known, {judgement.document for judgement in read.judgements})
        unmatched = [name for name, ids in documents.items() if not ids]
        ambiguous = [name for name, ids in documents.items() if len(ids) > 1]
        judgements = _kept(read.judgements, documents, judged_by)
        if not judgements:
            raise InputError(
                f"None of the {len(documents):,} judged documents is in the collection {known!r}: {_listed(unmatched)}."
                " Documents match by uri, by its last part, or by the metadata `_id` and `id`."
            )
        count = self._catalog.replace_judgements(known, judged_by, judgements)
        highest = max(judgement.grade for judgement in read.judgements)
        return ImportReport(
            judged_by=judged_by,
            query_count=len({(judgement.query, judgement.instruction) for judgement in judgements}),
            judgement_count=count,
            document_count=len({judgement.document_id for judgement in judgements}),
            unmatched_count=len(unmatched),
            unmatched=tuple(unmatched[:NAMES_SHOWN]),
            ambiguous_count=len(ambiguous),
            ambiguous=tuple(ambiguous[:NAMES_SHOWN]),
            unknown_query_count=len(read.unknown_queries),
            unknown_queries=read.unknown_queries[:NAMES_SHOWN],
            scaled_from=highest if highest > BEST_GRADE else None,
        )

    def forget_import(self, collection: str, judged_by: str) -> int:
        if not judged_by.startswith(IMPORT_PREFIX):
            raise ConflictError(f"{judged_by!r} is not an import; only imports can be deleted as a whole.")
        for source in self.sources(collection):
            if source.judged_by == judged_by:
                self._catalog.replace_judgements(collection, judged_by, [])
                return source.judgement_count
        imports = ", ".join(source.judged_by for source in self.sources(collection) if source.is_import) or "none"
        raise NotFoundError(f"The collection {collection!r} has no {judged_by!r}. Its imports: {imports}.")

    def _documents_named(self, collection: str, names: set[str]) -> dict[str, list[str]]:
        """Name → ids of the best matching documents: by uri, else by metadata, else by the end of the uri."""
        fits: dict[str, dict[int, list[str]]] = {name: defaultdict(list) for name in sorted(names)}
        for page in self._catalog.transfer.document_records(collection):
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
    """Derives a name from file names: `queries.jsonl` and `ir.papers.qrels.tsv` give `ir.papers`."""
    names = [PurePosixPath(file.name).name for file in files]
    specific = (".".join(part for part in name.split(".") if part.lower() not in _GENERIC) for name in names)
    return next(filter(None, specific), "import")[:MAX_NAME_CHARACTERS]


def _names_of(document: Document) -> list[str]:
    """Names by which judgements may refer to a document, the most specific first; "" for names that it lacks."""
    last = unquote(document.uri.rstrip("/").rpartition("#" if "#" in document.uri else "/")[2])
    ids = [str(document.metadata[key]) if key in document.metadata else "" for key in _IDS]
    return [document.uri, *ids, last, PurePosixPath(last).stem]


def _kept(
    judgements: Sequence[NamedJudgement], documents: Mapping[str, Sequence[str]], judged_by: str
) -> list[Judgement]:
    """The judgements whose document is known and unambiguous, with grades on our scale."""
    highest = max(judgement.grade for judgement in judgements)
    return [
        new_judgement(
            documents[judgement.document][0],
            query=judgement.query,
            instruction=judgement.instruction,
            grade=_grade_of(judgement.grade, highest),
            judged_by=judged_by,
        )
        for judgement in judgements
        if len(documents[judgement.document]) == 1
    ]


def _grade_of(grade: float, highest: float) -> int:
    """Converts a grade to 0 to 3. Scales down if `highest` is above 3; a positive grade becomes at least 1."""
    if grade <= 0:
        return 0
    scaled = grade * BEST_GRADE / highest if highest > BEST_GRADE else grade
    return min(BEST_GRADE, max(1, math.floor(scaled + 0.5)))


def _mean_grade(grades: Sequence[int]) -> int:
    return math.floor(sum(grades) / len(grades) + 0.5)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name if len(name) <= 60 else name[:59] + "…" for name in names[:NAMES_SHOWN])
    return f"{shown}, …" if len(names) > NAMES_SHOWN else shown
