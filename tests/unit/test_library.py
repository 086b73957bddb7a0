"""What is kept: collections are made once, documents come in and go out, the sample library is taken in once."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from app.documents.library import Library, check_metadata, sample_rows
from app.errors import CatalogUnavailableError, ConflictError, InputError, UnknownCollectionError
from app.testing import text_source
from app.types.defaults import SAMPLE_COLLECTION


@pytest.fixture
def library(toy_services: Any) -> Library:
    return toy_services.services.library


def test_collection_carries_the_contract_of_the_model(library: Library, toy_services: Any) -> None:
    made = library.create_collection("letters", document_instruction="Identify the writer", document_steps=3)
    assert (made.fingerprint, made.dimension) == ("toy-1", 256)
    assert (made.document_instruction, made.document_steps) == ("Identify the writer", 3)
    assert made.active_index == "letters--1"
    assert toy_services.index.exists("letters")


def test_ensured_collection_is_made_once(library: Library) -> None:
    assert library.ensure_collection("letters") == library.ensure_collection("letters")
    with pytest.raises(ConflictError, match="letters"):
        library.create_collection("letters")


@pytest.mark.parametrize(
    "contract",
    [
        {"document_steps": 0},
        {"document_steps": 21},
        {"chunk_tokens": 15},
        {"chunk_tokens": 100, "chunk_overlap": 51},
        {"chunk_overlap": -1},
        {"document_instruction": "a\x00b"},
    ],
)
def test_unusable_contract_leaves_nothing_behind(library: Library, toy_services: Any, contract: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        library.create_collection("letters", **contract)
    assert not toy_services.index.exists("letters--1")


def test_document_needs_its_collection(library: Library) -> None:
    with pytest.raises(UnknownCollectionError):
        library.add_document("letters", text_source("text://1", b"text"))


@pytest.mark.parametrize(
    "metadata",
    [
        {"": "x"},
        {"document_id": "x"},
        {"a": "\ud800"},
        {"a\x00": "x"},
        {"a": float("nan")},
        {f"k{i}": i for i in range(65)},
        {"a": "x" * 20_000},
        {f"k{i}": "x" * 1_000 for i in range(20)},
        {"k" * 20_000: True},
    ],
)
def test_unusable_metadata_is_refused(library: Library, toy_services: Any, metadata: dict[str, Any]) -> None:
    library.ensure_collection("letters")
    with pytest.raises(InputError):
        library.add_document("letters", text_source("text://1", b"text", metadata=metadata))
    assert toy_services.services.catalog.documents() == []


def test_long_titles_are_refused(library: Library, toy_services: Any) -> None:
    library.ensure_collection("letters")
    with pytest.raises(InputError, match="1,000"):
        library.add_document("letters", text_source("text://1", b"text", title="x" * 1_001))
    assert toy_services.services.catalog.documents() == []


def test_deleted_collection_leaves_no_points_and_can_be_made_again(library: Library, toy_services: Any) -> None:
    toy_services.add("The cat sleeps.", collection="letters")
    library.delete_collection("letters")
    assert not toy_services.index.exists("letters--1")
    again = library.create_collection("letters")
    assert again.active_index == "letters--2"  # a name never comes twice
    assert toy_services.index.count("letters--2") == 0


def test_shipped_sample_is_whole() -> None:
    rows = list(sample_rows())
    assert 300 <= len(rows) <= 600
    assert len({row.uri for row in rows}) == len(rows)
    for row in rows:
        assert row.text.strip()
        assert check_metadata(row.metadata)["source"]


def test_sample_is_taken_in_once_with_labels(library: Library, toy_services: Any) -> None:
    rows = list(islice(sample_rows(), 5))
    assert len(library.add_sample(rows[:3])) == 3
    assert [job.collection for job in library.add_sample(rows)] == [SAMPLE_COLLECTION] * 2
    assert library.add_sample(rows) == []
    documents = toy_services.services.catalog.documents(SAMPLE_COLLECTION)
    assert {each.uri: (each.title, each.metadata) for each in documents} == {
        row.uri: (row.title, row.metadata) for row in rows
    }


@pytest.mark.parametrize("is_written", [False, True])
def test_a_catalog_that_goes_away_during_an_upload_leaves_no_file_that_no_document_has(
    library: Library, toy_services: Any, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    library.ensure_collection("letters")
    catalog, blobs = toy_services.services.catalog, toy_services.services.blobs
    submit_many = catalog.submit_many

    def goes_away(*given: Any, **named: Any) -> None:
        if is_written and named:  # and only the answer is lost
            submit_many(*given, **named)
        raise CatalogUnavailableError("The catalog does not answer.")

    def add(text: bytes) -> None:
        library.add_document("letters", text_source(f"text://{text!r}", text))

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "submit_many", goes_away)
        with pytest.raises(CatalogUnavailableError):
            add(b"The first letter.")
    assert len(set(blobs.hashes())) == 1  # nobody knows yet whether a document has it
    with monkeypatch.context() as patched:
        patched.setattr(catalog.garbage, "needs_file", goes_away)
        with pytest.raises(CatalogUnavailableError):
            add(b"The second letter.")
    add(b"The second letter.")
    documents = catalog.documents("letters")
    assert len(documents) == (2 if is_written else 1)
    assert set(blobs.hashes()) == {each.content_hash for each in documents}
