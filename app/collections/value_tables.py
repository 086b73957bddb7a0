"""Tables of a collection's chunks with their values under an indexed lens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from app.errors import ConflictError, InputError, NotFoundError
from app.ports.catalog import SearchedCatalog
from app.ports.parts import Labels
from app.search.csv_table import csv_rows
from app.search.value_labels import ValueLabels
from app.search.value_syntax import parse_values
from app.types.documents import Point
from app.types.lens_indexes import ValueRow
from app.types.values import value_names


class CsvValueTables:
    """Reads tables page by page, so that memory does not grow with the collection."""

    def __init__(self, catalog: SearchedCatalog, index: Labels) -> None:
        self._catalog = catalog
        self._index = index

    def _pages(self, collection: str, lens: str, *, value: str | None = None) -> Iterator[list[ValueRow]]:
        """Pages of rows in no particular order; with `value` only rows with this value.

        Raises UnknownCollectionError, NotFoundError without an index of this lens, ConflictError while it is not built,
        InputError for an unknown value; all of them at the call, before the first page is read.
        """
        contract = self._catalog.collection(collection)
        found = next((each for each in self._catalog.lens_indexes.of_collection(collection) if each.lens == lens), None)
        if found is None:
            raise NotFoundError(
                f"The collection {collection!r} has no index of the lens {lens!r}: `gircse lenses index build` "
                "creates one."
            )
        if not found.is_built_for(contract):
            raise ConflictError(
                f"The index of the lens {lens!r} is not built yet, or of an earlier state of the collection: `gircse "
                f"lenses index list -c {collection}` shows its progress."
            )
        names = value_names(parse_values(found.values))
        if value is not None and value not in names:
            raise InputError(f"{value[:80]!r} is not a value of the lens. Its values: {', '.join(names)}.")
        number = None if value is None else names.index(value)
        pages = self._index.labelled(contract.active_index, found.built_field, value=number)
        return (_rows(page, found.built_field, names) for page in pages)

    def csv(self, collection: str, lens: str, *, value: str | None = None) -> Iterator[str]:
        """Every chunk of the collection with its value, as CSV with a header. Raises the errors of `_pages`."""
        pages = self._pages(collection, lens, value=value)
        return _csv(pages)


def _csv(pages: Iterator[list[ValueRow]]) -> Iterator[str]:
    yield csv_rows([ValueRow._fields])
    for page in pages:
        yield csv_rows(_cells(each) for each in page)


def _rows(points: Sequence[Point], field: str, names: Sequence[str]) -> list[ValueRow]:
    labels = ValueLabels.of_payloads([each.payload[field] for each in points], len(names) - 1)
    best = labels.probabilities.max(axis=1, initial=0.0).tolist()
    return [
        _row(point, names[number], probability)
        for point, number, probability in zip(points, labels.numbers.tolist(), best, strict=True)
    ]


def _row(point: Point, value: str, probability: float) -> ValueRow:
    metadata = cast("Mapping[str, object]", point.payload["metadata"])
    return ValueRow(
        value=value,
        probability=round(probability, 4),
        title=str(metadata["title"]),
        uri=str(metadata["uri"]),
        page=cast("int | None", metadata.get("page")),
        text=str(point.payload["page_content"]),
        document_id=str(metadata["document_id"]),
        chunk_id=point.id,
    )


def _cells(row: ValueRow) -> list[object]:
    return ["" if cell is None else cell for cell in row]
