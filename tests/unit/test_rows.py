"""JSONL and CSV files row by row: every good row is a document, every bad one is named by its line."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.types.documents import Source, SourceFailure
from ingest.rows import MAX_ROW_BYTES, RowFields, read_rows


@pytest.fixture
def rows_of(tmp_path: Path) -> Callable[..., list[Source | SourceFailure]]:
    """Reads the rows of a file with this content."""

    def read(content: str | bytes, *, suffix: str = ".jsonl", **fields: str) -> list[Source | SourceFailure]:
        file = tmp_path / f"rows{suffix}"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        with file.open("rb") as opened:
            return list(read_rows(file, opened, RowFields(**fields)))

    return read


def told(found: list[Source | SourceFailure]) -> dict[int, str]:
    """Number of the line → why there is no document."""
    return {int(each.name.rpartition(" ")[2]): each.reason for each in found if isinstance(each, SourceFailure)}


def uris(found: list[Source | SourceFailure]) -> list[str]:
    return [each.uri.partition("#")[2] for each in found if isinstance(each, Source)]


def test_row_is_a_document_with_its_scalars_as_metadata(rows_of: Callable[..., list]) -> None:
    row = {"id": "a/1", "title": "Tides", "text": "The tide.", "year": 2024, "score": 0.5, "open": True, "x": None}
    (source,) = rows_of("\ufeff" + json.dumps(row | {"tags": ["a"], "where": {"lat": 1}}) + "\n\n")
    assert source.data == b"The tide."
    assert source.media_type == "text/plain"
    assert source.title == "Tides"
    assert source.metadata == {"year": 2024, "score": 0.5, "open": True}
    assert source.uri.startswith("file:///")
    assert source.uri.endswith("/rows.jsonl#a/1")


def test_long_fields_of_a_row_are_shortened_and_short_ones_are_whole(rows_of: Callable[..., list]) -> None:
    row = {"text": "The tide.", "title": "T" * 1_001, "note": "n" * 15_000, "q" * 210: "x"}
    (whole,) = rows_of(json.dumps(row))
    assert (len(whole.title), whole.metadata) == (1_000, {"note": "n" * 15_000, "q" * 200: "x"})
    (cut,) = rows_of(json.dumps(row | {"html": "h" * 21_000}))
    assert set(cut.metadata) == {"note", "html", "q" * 200}
    assert sum(len(key) + len(value) for key, value in cut.metadata.items()) <= 20_000


def test_fields_may_have_other_names(rows_of: Callable[..., list]) -> None:
    row = {"key": 7, "body": "The tide.", "head": "Tides", "id": "x", "text": "other", "title": "t"}
    (source,) = rows_of(json.dumps(row), text="body", id="key", title="head")
    assert (source.data, source.title, uris([source])) == (b"The tide.", "Tides", ["7"])
    assert source.metadata == {"id": "x", "text": "other", "title": "t"}


BAD_ROWS = {
    '{"text": ': "not JSON",
    "[" * 50_000: "not JSON",
    '["text"]': "not an object",
    '{"body": "x"}': "Choose another with --text-field: body",
    '{"text": "  "}': "no text",
    '{"text": 7}': "no text",
    '{"text": "a", "id": 1.5}': "no id",
    '{"text": "a", "id": [1]}': "no id",
    '{"text": "a", "id": "first"}': "already used on line 1",
    '{"text": "a \\udfff b"}': "surrogate",
    '{"text": "a\\u0000b"}': "NUL",
    '{"text": "a", "id": "\\ud800"}': "surrogate",
}


def test_bad_rows_are_named_by_their_line_and_the_others_are_there(rows_of: Callable[..., list]) -> None:
    lines = ['{"text": "good", "id": "first"}', *BAD_ROWS, '{"text": "good", "id": "last"}', '{"text": "good"}']
    found = rows_of("\n".join(lines))
    assert uris(found) == ["first", "last", f"line-{len(lines)}"]
    reasons = told(found)
    assert list(reasons) == list(range(2, 2 + len(BAD_ROWS)))
    for reason, expected in zip(reasons.values(), BAD_ROWS.values(), strict=True):
        assert expected in reason


def test_id_field_that_was_named_must_be_there(rows_of: Callable[..., list]) -> None:
    found = rows_of('{"text": "a", "key": "k"}\n{"text": "b"}', id="key")
    assert uris(found) == ["k"]
    assert "'key' holds no id" in told(found)[2]


def test_row_that_is_too_long_is_passed_over(rows_of: Callable[..., list]) -> None:
    long = json.dumps({"text": "x" * (2 * MAX_ROW_BYTES)})
    found = rows_of(f'{long}\n{{"text": "good"}}\n')
    assert uris(found) == ["line-2"]
    assert "longer than" in told(found)[1]


def test_csv_keeps_its_columns_and_the_lines_of_its_rows(rows_of: Callable[..., list]) -> None:
    table = '\ufeff;text;year;kind\n0;"The tide\nand the moon.";2024;\n1;Two.;2025;note;x\n2;Three.;2026;note\n'
    found = rows_of(table, suffix=".csv")
    assert uris(found) == ["line-2", "line-5"]
    assert [each.metadata for each in found if isinstance(each, Source)] == [
        {"year": "2024"},
        {"year": "2026", "kind": "note"},
    ]
    assert told(found) == {4: "The row has 5 cells, the header 4."}


def test_table_that_is_no_utf8_is_told(rows_of: Callable[..., list]) -> None:
    (error,) = rows_of("text\ncafé\n".encode("latin-1"), suffix=".csv")
    assert "UTF-8" in error.reason
    assert rows_of("", suffix=".csv") == rows_of("") == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=300), suffix=st.sampled_from([".jsonl", ".csv"]))
def test_any_bytes_give_documents_or_reasons(rows_of: Callable[..., list], content: bytes, suffix: str) -> None:
    for each in rows_of(content, suffix=suffix):
        assert each.data.decode().strip() if isinstance(each, Source) else each.reason


def test_rows_are_read_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    with file.open("w") as lines:
        for number in range(600):
            lines.write(json.dumps({"text": f"{number} " + "x" * 10_000}) + "\n")
    tracemalloc.start()
    with file.open("rb") as opened:
        count = sum(1 for _ in read_rows(file, opened, RowFields()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 600
    assert peak < 1_500_000  # of a file of 6 MB
