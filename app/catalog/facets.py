"""Document counts by metadata value. Both databases expand the JSON themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

from sqlalchemy import (
    REAL,
    ColumnElement,
    Dialect,
    FromClause,
    Numeric,
    Select,
    Text,
    and_,
    case,
    cast,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
)

from app.catalog.sessions import CatalogPart, collection_row
from app.catalog.tables import DocumentRow
from app.errors import FilterError
from app.search.filters import check_filters, read_filter
from app.search.retrieval import CHUNK_KEYS
from app.types.documents import DocumentState, FacetValue

MAX_KEYS = 12
MAX_VALUES = 20
MAX_VALUE_CHARACTERS = 120  # longer values are texts, not choices
# If a key has more distinct values than this, its facet lists only values of two documents or more. A key without such
# values, as an address, has no facet. A number and a text with the same spelling count as one value.
_CANDIDATES = 2 * MAX_VALUES
_TEXT, _NUMBER, _TRUTH = "text", "number", "truth"
_EXACT_WHOLE = 10**15  # larger numbers keep the float spelling

_OF_DOCUMENT = {"document_id": DocumentRow.id, "title": DocumentRow.title, "uri": DocumentRow.uri}


class SqlFacets(CatalogPart):
    def facets(
        self, collection: str, filters: Mapping[str, str] | None = None, *, without: Iterable[str] = ()
    ) -> dict[str, list[FacetValue]]:
        entries = _entries(self._database.engine.dialect)
        conditions = {key: _has(entries, key, value) for key, value in check_filters(filters or {}).items()}
        counted = [
            _counted(entries, collection, list(conditions.values()), entries.key.not_in({*conditions, *without}))
        ]
        # counts ignore the key's own filter, to show what its other values would give
        for key in conditions.keys() - CHUNK_KEYS:
            others = [condition for other, condition in conditions.items() if other != key]
            counted.append(_counted(entries, collection, others, entries.key == key))
        with self._database.reading() as session:
            collection_row(session, collection)
            rows = list(chain.from_iterable(session.execute(statement) for statement in counted))
        coverage: dict[str, int] = {}
        values: dict[str, Counter[str]] = {}
        for key, kind, value, count, documents in rows:
            coverage[key] = int(documents)
            values.setdefault(key, Counter())[_spelled(kind, value)] += count
        by_coverage = sorted(values, key=lambda key: (-coverage[key], key))
        # filtered keys are always kept, so that the user can undo them
        kept = sorted(by_coverage, key=lambda key: key not in conditions)[:MAX_KEYS]
        return {key: _most(values[key]) for key in by_coverage if key in kept}


@dataclass(frozen=True, slots=True)
class _Entries:
    """A document's metadata as rows. Numbers have a canonical form in `value`."""

    source: FromClause
    key: ColumnElement[str]
    kind: ColumnElement[str]
    value: ColumnElement[Any]
    number: ColumnElement[Any]


def _entries(dialect: Dialect) -> _Entries:
    if dialect.name == "postgresql":
        entry = func.json_each(DocumentRow.document_metadata).table_valued("key", "value", name="entry")
        kinds = {"string": _TEXT, "number": _NUMBER, "boolean": _TRUTH}
        kind = case(kinds, value=func.json_typeof(entry.c.value))
        text = literal_column("entry.value #>> '{}'", Text)
        # CASE, because a database may cast before it compares.
        number = case((kind == _NUMBER, cast(text, Numeric)))
        value = case((kind == _NUMBER, cast(func.trim_scale(cast(text, Numeric)), Text)), else_=text)
        return _Entries(entry, entry.c.key.collate("C"), kind, value.collate("C"), number)
    entry = func.json_each(DocumentRow.document_metadata).table_valued("key", "value", "type", name="entry")
    kinds = dict.fromkeys(("integer", "real"), _NUMBER) | dict.fromkeys(("true", "false"), _TRUTH) | {"text": _TEXT}
    kind = case(kinds, value=entry.c.type)
    value = case((kind == _TRUTH, entry.c.type), else_=entry.c.value)
    return _Entries(entry, entry.c.key, kind, value, case((kind == _NUMBER, cast(entry.c.value, REAL))))


def _has(entries: _Entries, key: str, value: str) -> ColumnElement[bool]:
    """Condition: the document has this value, parsed as in a search filter."""
    if key in _OF_DOCUMENT:
        return _OF_DOCUMENT[key] == value
    if key in CHUNK_KEYS:
        raise FilterError(f"{key!r} is a field of passages, not of documents, so documents cannot be counted by it.")
    reading = read_filter(value)
    readings = [and_(entries.kind == _TEXT, entries.value.in_(reading.texts))]
    if reading.truth is not None:
        readings.append(and_(entries.kind == _TRUTH, entries.value == str(reading.truth).lower()))
    if reading.number is not None:
        readings.append(entries.number == reading.number)
    return exists().select_from(entries.source).where(entries.key == key, or_(false(), *readings))


def _counted(
    entries: _Entries, collection: str, conditions: Sequence[ColumnElement[bool]], of_keys: ColumnElement[bool]
) -> Select[Any]:
    """Rows of key, kind, value, number of documents with the value, number of documents with the key."""
    is_choice = and_(func.length(entries.value) <= MAX_VALUE_CHARACTERS, func.trim(entries.value) != "")
    counted = (
        select(
            entries.key.label("key"),
            entries.kind.label("kind"),
            entries.value.label("value"),
            func.count().label("count"),
        )
        .select_from(DocumentRow)
        .join(entries.source, true())
        .where(DocumentRow.collection == collection, DocumentRow.chunk_count > 0)
        .where(DocumentRow.state != DocumentState.DELETING, *conditions)
        .where(of_keys, entries.key.not_in(CHUNK_KEYS), entries.kind.is_not(None), is_choice)
        # Keys with quotes or backslashes cannot be filtered.
        .where(func.replace(func.replace(entries.key, '"', ""), "\\", "") == entries.key)
        .group_by(literal_column("1"), literal_column("2"), literal_column("3"))
        .cte("counted")
        .prefix_with("MATERIALIZED")
    )
    documents = func.sum(counted.c.count).label("documents")
    keys = (
        select(counted.c.key, documents, func.count().label("different"))
        .group_by(counted.c.key)
        .having(or_(func.count() <= _CANDIDATES, func.max(counted.c.count) > 1))
        .order_by(documents.desc(), counted.c.key)
        .limit(MAX_KEYS)
        .cte("keys")
        .prefix_with("MATERIALIZED")
    )
    best_first = [counted.c.count.desc(), counted.c.value]
    ranked = (
        select(counted, keys.c.documents)
        .add_columns(func.row_number().over(partition_by=counted.c.key, order_by=best_first).label("rank"))
        .join(keys, keys.c.key == counted.c.key)
        # Most values may belong to one document only; ranking all of them would take as long as counting.
        .where(or_(counted.c.count > 1, keys.c.different <= _CANDIDATES))
        .subquery()
    )
    columns = (ranked.c.key, ranked.c.kind, ranked.c.value, ranked.c.count, ranked.c.documents)
    return select(*columns).where(ranked.c.rank <= _CANDIDATES)


def _spelled(kind: str, value: object) -> str:
    """The value as written in a filter."""
    if kind != _NUMBER:
        return str(value)
    number = Decimal(str(value))
    is_whole = abs(number) < _EXACT_WHOLE and number == number.to_integral_value()
    return str(int(number)) if is_whole else repr(float(number))


def _most(counts: Counter[str]) -> list[FacetValue]:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [FacetValue(value, count) for value, count in ranked[:MAX_VALUES]]
