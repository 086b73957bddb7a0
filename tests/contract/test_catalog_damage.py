"""Altered values of rows, on both databases: they are told as damage, and everything else is compared as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from app.catalog import SqlCatalog, check_rows
from app.errors import DamagedCatalogError, NotFoundError
from app.types.documents import Chunk


def alter(engine: Engine, change: str, **values: object) -> None:
    with engine.begin() as connection:
        connection.execute(text(change), values)


def test_a_value_that_no_column_holds_is_damage_wherever_it_is_read(
    engine: Engine, catalog: SqlCatalog, ingested: Callable[..., str]
) -> None:
    document_id = ingested()
    check_rows(engine)
    alter(engine, "UPDATE document SET state = 'reaey' WHERE id = :id", id=document_id)
    reads: list[Callable[[], Any]] = [
        lambda: catalog.document(document_id),
        lambda: catalog.documents(),
        lambda: list(catalog.consistency.stored_files("library")),
        lambda: check_rows(engine),
    ]
    for read in reads:
        with pytest.raises(DamagedCatalogError, match=r"'reaey' is not among.*gircse restore"):
            read()


@pytest.mark.parametrize(
    ("column", "value"), [("created_at", "2026-0a-01 00:00:00"), ("metadata", '{"year": 1'), ("title", b"\xff")]
)
def test_a_value_of_another_type_is_damage_in_sqlite(
    engine: Engine, catalog: SqlCatalog, ingested: Callable[..., str], column: str, value: object
) -> None:
    if engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL holds no such value")
    document_id = ingested()
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE document SET {column} = CAST(? AS TEXT)", (value,))
    with pytest.raises(DamagedCatalogError):
        catalog.document(document_id)
    with pytest.raises(DamagedCatalogError):
        check_rows(engine)


def test_what_is_named_and_not_there_is_no_damage(catalog: SqlCatalog) -> None:
    with pytest.raises(NotFoundError):
        catalog.document("0" * 36)


def test_rows_of_chunks_and_of_documents_at_rest(
    catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., object]
) -> None:
    document_id = ingested()
    submitted("b.txt")
    waiting = next(each for each in catalog.documents() if each.uri == "b.txt")
    assert catalog.consistency.documents_at_rest([document_id, waiting.id, "0" * 36]) == {
        document_id: catalog.document(document_id)
    }
    chunks: list[Chunk] = catalog.chunks(document_id)
    assert chunks
    assert catalog.consistency.chunk_rows("library--1", [*(each.id for each in chunks), "0" * 36]) == {
        each.id: each for each in chunks
    }
    assert catalog.consistency.chunk_rows("library--2", [each.id for each in chunks]) == {}


@pytest.mark.parametrize("change", ["chunk_count = chunk_count + 1", "revision = 9"])
def test_documents_that_are_counted_wrongly(
    engine: Engine, catalog: SqlCatalog, ingested: Callable[..., str], change: str
) -> None:
    document_id = ingested()
    assert catalog.consistency.miscounted_documents("library", "library--1") == []
    alter(engine, f"UPDATE document SET {change}")
    assert catalog.consistency.miscounted_documents("library", "library--1") == [document_id]


def test_an_id_that_no_index_looks_for_is_damage(
    engine: Engine, catalog: SqlCatalog, ingested: Callable[..., str]
) -> None:
    ingested()
    alter(engine, "UPDATE chunk SET id = replace(id, '-', 'x')")
    for read in (
        lambda: list(catalog.consistency.chunk_pages("library--1")),
        lambda: catalog.consistency.sample_chunks("library--1", count=2),
    ):
        with pytest.raises(DamagedCatalogError, match="malformed id"):
            read()
