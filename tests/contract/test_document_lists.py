"""What people look at: documents by name and state, their latest jobs, pages, and counts by metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from catalog_samples import LIBRARY, Clock, claimed, new_chunk, new_document
from qdrant_client import QdrantClient

from app.catalog import SqlCatalog
from app.catalog.facets import MAX_KEYS, MAX_VALUES
from app.errors import FilterError, UnknownCollectionError
from app.types.documents import DocumentState, Job, JobState, PageStart, Point
from app.vectors import QdrantVectorIndex

Described = Callable[..., str]


@pytest.fixture
def described(catalog: SqlCatalog) -> Described:
    """Adds a searchable document with this metadata. Returns its id."""
    numbers = iter(range(10_000))

    def describe(metadata: Mapping[str, Any], *, collection: str = "library", title: str = "Title") -> str:
        document = new_document(f"{collection}/{next(numbers)}", title=title, metadata=metadata)
        catalog.submit(collection, document)
        job = claimed(catalog)
        catalog.complete_ingest(job, title=title, metadata=metadata, chunks=[new_chunk(job.document_id)])
        return job.document_id

    return describe


class TestFacets:
    def test_counts_documents_by_value_and_keys_by_documents(self, catalog: SqlCatalog, described: Described) -> None:
        described({"kind": "note", "year": 1999})
        described({"kind": "note", "year": 2001})
        described({"kind": "letter"})
        assert catalog.facets("library") == {"kind": [("note", 2), ("letter", 1)], "year": [("1999", 1), ("2001", 1)]}

    def test_what_is_spelled_alike_is_one_value(self, catalog: SqlCatalog, described: Described) -> None:
        for value in (7, 7.0, "7", True, "true", 0.1, -2.5e-9, 12345678901234567890):
            described({"value": value})
        counts = dict(catalog.facets("library")["value"])
        assert counts == {"7": 3, "true": 2, "0.1": 1, "-2.5e-09": 1, "1.2345678901234567e+19": 1}

    def test_other_filters_narrow_the_counts_and_its_own_does_not(
        self, catalog: SqlCatalog, described: Described
    ) -> None:
        described({"kind": "note", "year": 1999})
        described({"kind": "note", "year": "1999"})
        described({"kind": "letter", "year": 2001})
        assert catalog.facets("library", without={"kind"}).keys() == {"year"}
        assert catalog.facets("library", {"kind": "note"}, without={"kind"}).keys() == {"kind", "year"}
        facets = catalog.facets("library", {"kind": "note"})
        assert facets == {"kind": [("note", 2), ("letter", 1)], "year": [("1999", 2)]}
        assert catalog.facets("library", {"kind": "note", "year": "2001"}) == {
            "kind": [("letter", 1)],
            "year": [("1999", 2)],
        }
        assert catalog.facets("library", {"kind": "other"})["kind"] == [("note", 2), ("letter", 1)]
        assert "year" not in catalog.facets("library", {"kind": "other"})

    @pytest.mark.parametrize(
        ("value", "count"), [("1", 3), ("1.0", 2), ("1e0", 2), ("true", 2), ("TRUE", 1), ("a'b", 1), ("", 0), ("é", 1)]
    )
    def test_filters_are_read_as_in_a_search(
        self, catalog: SqlCatalog, described: Described, value: str, count: int
    ) -> None:
        index = QdrantVectorIndex(QdrantClient(":memory:"))
        index.create("library--1", dimension=2)
        for each in (1, 1.0, "1", True, "true", "a'b", "é", "2"):
            document_id = described({"value": each, "all": "yes"})
            index.upsert("library--1", [Point(document_id, [1, 0], {"metadata": {"value": each}})])
        found = index.search("library--1", [1, 0], limit=10, filters={"value": value})
        assert len(found) == count
        assert dict(catalog.facets("library", {"value": value}).get("all", [])).get("yes", 0) == count

    def test_its_title_and_its_uri_filter_too(self, catalog: SqlCatalog, described: Described) -> None:
        described({"kind": "note"}, title="One")
        document_id = described({"kind": "letter"}, title="Two")
        for key, value in (("title", "Two"), ("uri", "library/1"), ("document_id", document_id)):
            assert catalog.facets("library", {key: value}) == {"kind": [("letter", 1)]}
        with pytest.raises(FilterError, match="'page' is a field of passages"):
            catalog.facets("library", {"page": "3"})

    def test_only_what_can_be_found_counts(
        self, catalog: SqlCatalog, described: Described, submitted: Callable[..., Job]
    ) -> None:
        catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
        described({"kind": "note"}, collection="other")
        catalog.submit_delete(described({"kind": "note"}))
        submitted("waiting.txt")
        assert catalog.facets("library") == {}
        assert catalog.facets("other") == {"kind": [("note", 1)]}
        with pytest.raises(UnknownCollectionError):
            catalog.facets("third")

    def test_are_bounded_and_hold_nothing_that_no_filter_can_name(
        self, catalog: SqlCatalog, described: Described
    ) -> None:
        for number in range(MAX_VALUES + 5):
            described({"number": number, "same": "s", "text": "long " * 100, "blank": "  ", 'quo"te': 1, "back\\": 1})
        described({f"key{number:02}": number for number in range(40)} | {"same": "s"})
        facets = catalog.facets("library")
        assert list(facets)[:3] == ["same", "number", "key00"]
        assert len(facets) == MAX_KEYS
        assert len(facets["number"]) == MAX_VALUES
        assert list(catalog.facets("library", {"key39": "39"}))[-1] == "key39"

    @pytest.mark.parametrize("key", ["", 'a"b', "a\\b", "\ud800", "a\0"])
    def test_keys_that_no_metadata_has_are_refused(self, catalog: SqlCatalog, key: str) -> None:
        with pytest.raises(FilterError):
            catalog.facets("library", {key: "x"})


class TestDocumentLists:
    def test_newest_first_by_part_of_name_and_state(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job], clock: Clock
    ) -> None:
        for uri in ("notes/one_a.txt", "notes/100%.txt", "Letters/one-a.txt"):
            ingested(uri)
            clock.advance(timedelta(seconds=1))
        submitted("last.txt", title="The ONE")
        found = lambda **chosen: [each.uri for each in catalog.find_documents("library", **chosen)]  # noqa: E731
        assert found() == ["last.txt", "Letters/one-a.txt", "notes/100%.txt", "notes/one_a.txt"]
        assert found(text="letters/") == ["Letters/one-a.txt"]
        assert found(text="e_a") == ["notes/one_a.txt"]
        assert found(text="0%") == ["notes/100%.txt"]
        assert found(text="the one") == ["last.txt"]
        assert found(state=DocumentState.QUEUED) == ["last.txt"]
        assert found(limit=2, offset=1) == ["Letters/one-a.txt", "notes/100%.txt"]
        assert catalog.find_documents("other") == []
        counts = catalog.count_documents("library", text="one")
        assert counts == {
            DocumentState.QUEUED: 1, DocumentState.READY: 2, DocumentState.FAILED: 0, DocumentState.DELETING: 0,
        }  # fmt: skip

    def test_the_latest_job_of_each_document(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job], clock: Clock
    ) -> None:
        first, second = ingested("a.txt"), ingested("b.txt")
        clock.advance(timedelta(seconds=1))
        again = submitted("a.txt", content="b")
        jobs = catalog.latest_jobs([first, second, "no-such-id"])
        assert jobs[first] == again
        assert (jobs[second].state, set(jobs)) == (JobState.DONE, {first, second})
        assert catalog.latest_jobs([]) == {}

    def test_pages_begin_where_their_first_passage_does(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        submitted()
        job = claimed(catalog)
        places = [(1, 0), (1, 50), (2, 90), (4, 200), (None, 300)]
        chunks = [
            replace(new_chunk(job.document_id, number), page=page, start=start, end=start + 60)
            for number, (page, start) in enumerate(places)
        ]
        catalog.complete_ingest(job, title="T", metadata={}, chunks=chunks)
        starts = catalog.page_starts(job.document_id, start=0, end=10_000)
        assert starts == [PageStart(1, 0), PageStart(2, 90), PageStart(4, 200)]
        assert catalog.page_starts(job.document_id, start=50, end=200) == [PageStart(2, 90)]
        assert catalog.page_starts("no-such-id", start=0, end=10) == []
