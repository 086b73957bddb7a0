from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingest_parts import INDEX, IngestParts

from app.documents.garbage import remove_unneeded
from app.errors import DocumentError, FingerprintMismatchError, LeaseLostError
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import DocumentState, Job, ScoredPoint
from ingest.pipeline import IngestPipeline
from ingest.points import IngestReport

LEASE = timedelta(seconds=30)
FIVE = "\n".join(f"Paragraph {name} of five." for name in ("one", "two", "three", "four", "five"))


@pytest.fixture
def run(parts: IngestParts, embedder: ToyEmbedder) -> Callable[..., IngestReport]:
    """Submits the text when one is given, and does the next job."""

    def run_next(
        content: str | bytes | None = None, *, pipeline: IngestPipeline | None = None, **submission: object
    ) -> IngestReport:
        if content is not None:
            parts.submit(content, **submission)  # type: ignore[arg-type]
        job = parts.catalog.claim("test", lease=LEASE)
        assert job is not None
        return (pipeline or parts.pipeline(embedder)).run(job, heartbeat=lambda _: None)

    return run_next


def payloads(parts: IngestParts) -> list[Mapping[str, object]]:
    """Of all points, in the order of the chunks."""
    found = parts.index.search(INDEX, [1.0] * 256, limit=1000)
    return [point.payload for point in sorted(found, key=_ordinal)]


def _ordinal(point: ScoredPoint) -> int:
    metadata = point.payload["metadata"]
    assert isinstance(metadata, Mapping)
    return int(metadata["ordinal"])


def texts(parts: IngestParts) -> list[object]:
    return [payload["page_content"] for payload in payloads(parts)]


def test_a_new_document_is_embedded_whole(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    assert run(FIVE, title="Five") == IngestReport(embedded=5)
    document = parts.catalog.documents()[0]
    assert (document.state, document.title, document.chunk_count) == (DocumentState.READY, "Five", 5)
    assert texts(parts) == FIVE.split("\n")
    assert parts.blobs.get_text(document.content_hash) == FIVE
    chunks = parts.catalog.chunks(document.id)
    assert {chunk.id for chunk in chunks} == set(parts.index.point_ids(INDEX))
    assert [FIVE[chunk.start : chunk.end] for chunk in chunks] == FIVE.split("\n")


def test_a_payload_follows_the_convention_of_langchain(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    run("Only one.", title="One", metadata={"year": 1999, "kind": "note"})
    document = parts.catalog.documents()[0]
    chunk = parts.catalog.chunks(document.id)[0]
    assert payloads(parts) == [
        {
            "page_content": "Only one.",
            "metadata": {
                "year": 1999,
                "kind": "note",
                "document_id": document.id,
                "title": "One",
                "uri": "a.txt",
                "ordinal": 0,
                "start": 0,
                "end": 9,
                "page": None,
                "text_hash": chunk.text_hash,
            },
        }
    ]


MARKDOWN = "# Algeria\n## Climate\nArid to semiarid.\n## People\nMost live in the north."


def test_chunks_are_embedded_with_title_and_headings_where_the_collection_says_so(
    tmp_path: Path, embedder: ToyEmbedder
) -> None:
    parts = IngestParts.open(tmp_path, InMemoryVectorIndex())
    parts.add_collection(embedder, chunk_context=True)

    def ingest(**submission: object) -> IngestReport:
        parts.submit(MARKDOWN, uri="algeria.md", **submission)  # type: ignore[arg-type]
        job = parts.catalog.claim("test", lease=LEASE)
        assert job is not None
        return parts.pipeline(embedder).run(job, heartbeat=lambda _: None)

    ingest()
    assert embedder.embedded_texts[2] == "Algeria › Climate\nArid to semiarid."
    assert texts(parts) == MARKDOWN.split("\n")  # as they stand in the document
    assert [payload["metadata"]["chunk_context"] for payload in payloads(parts)] == [  # type: ignore[index]
        "Algeria",
        "Algeria",
        "Algeria › Climate",
        "Algeria",
        "Algeria › People",
    ]
    assert parts.index.search_sparse(INDEX, "climate", limit=5)[0].payload["page_content"] == "## Climate"
    assert len(parts.index.search_sparse(INDEX, "climate", limit=5)) == 2
    assert ingest(title="The Sahara") == IngestReport(embedded=5, deleted=5)  # another title is another context
    assert embedder.embedded_texts[-1] == "The Sahara › Algeria › People\nMost live in the north."


def test_the_name_of_a_file_and_signs_in_plain_text_are_no_context(tmp_path: Path, embedder: ToyEmbedder) -> None:
    parts = IngestParts.open(tmp_path, InMemoryVectorIndex())
    parts.add_collection(embedder, chunk_context=True)
    parts.submit("# rm -rf\nOne.", uri="a.txt")
    job = parts.catalog.claim("test", lease=LEASE)
    assert job is not None
    parts.pipeline(embedder).run(job, heartbeat=lambda _: None)
    assert embedder.embedded_texts == ["# rm -rf", "One."]


def test_a_document_that_is_read_again_has_the_same_context(tmp_path: Path, embedder: ToyEmbedder) -> None:
    parts = IngestParts.open(tmp_path, InMemoryVectorIndex())
    parts.add_collection(embedder, chunk_context=True)
    for uri in ("a.txt", "a.md"):
        parts.submit("# One\nTwo.", uri=uri)
        job = parts.catalog.claim("test", lease=LEASE)
        assert job is not None
        parts.pipeline(embedder).run(job, heartbeat=lambda _: None)
        document = parts.catalog.document(job.document_id)
        assert document.title == {"a.txt": "a", "a.md": "One"}[uri]
        embedder.embedded_texts.clear()
        with parts.pipeline(embedder).index_documents(
            [document], parts.catalog.collection("library"), heartbeat=lambda *_: None
        ) as indexed:
            assert indexed.reports[document.id] == IngestReport(reused=2)
    assert embedder.embedded_texts == []


def test_texts_of_a_block_are_synced_together_and_are_there_before_their_points(
    tmp_path: Path, embedder: ToyEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = IngestParts.open(tmp_path, InMemoryVectorIndex())
    parts.add_collection(embedder)
    documents = [parts.submit(f"Text {number}.", uri=f"{number}.txt")[0] for number in range(30)]
    upsert, synced, seen = parts.index.upsert, [], []

    def watched(name: str, points: Any) -> None:
        seen.append([parts.blobs.get_text(each.content_hash) for each in documents])
        upsert(name, points)

    monkeypatch.setattr(parts.index, "upsert", watched)
    monkeypatch.setattr("app.documents.blob_batch._sync_files", lambda _, files: synced.append(len(list(files))))
    with parts.pipeline(embedder).index_documents(
        documents, parts.catalog.collection("library"), heartbeat=lambda *_: None
    ) as indexed:
        assert len(indexed.reports) == 30
    assert synced == [30]
    assert seen == [[f"Text {number}." for number in range(30)]]


def test_instruction_and_steps_are_those_of_the_collection(
    run: Callable[..., IngestReport], parts: IngestParts, embedder: ToyEmbedder
) -> None:
    run("Only one.")
    with_instruction = embedder.embed_documents(["Only one."], instruction="For the tests.", steps=3)[0]
    assert parts.index.search(INDEX, with_instruction, limit=1)[0].score == pytest.approx(1.0)
    without = embedder.embed_documents(["Only one."], instruction="", steps=3)[0]
    assert parts.index.search(INDEX, without, limit=1)[0].score < 0.95


def test_an_unchanged_document_is_no_work_and_a_repeated_job_embeds_nothing(
    run: Callable[..., IngestReport], parts: IngestParts, embedder: ToyEmbedder
) -> None:
    run(FIVE)
    assert parts.submit(FIVE)[1] is None
    # The metadata makes a job, the text stays.
    assert run(FIVE, metadata={"kind": "note"}) == IngestReport(reused=5)
    assert len(embedder.embedded_texts) == 5
    assert [payload["metadata"]["kind"] for payload in payloads(parts)] == ["note"] * 5  # type: ignore[index]


def test_an_edit_in_the_middle_embeds_only_what_changed(
    run: Callable[..., IngestReport], parts: IngestParts, embedder: ToyEmbedder
) -> None:
    run(FIVE)
    embedder.embedded_texts.clear()
    edited = FIVE.replace("three of five", "three, now longer than before")
    assert run(edited) == IngestReport(embedded=1, reused=4, deleted=1)
    assert embedder.embedded_texts == ["Paragraph three, now longer than before."]
    assert texts(parts) == edited.split("\n")
    # What follows the edit moved, and its payload says where to.
    spans = [(payload["metadata"]["start"], payload["metadata"]["end"]) for payload in payloads(parts)]  # type: ignore[index]
    assert [edited[start:end] for start, end in spans] == edited.split("\n")


def test_repeated_paragraphs_are_points_of_their_own(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    assert run("Same.\nSame.\nOther.\nSame.") == IngestReport(embedded=4)
    assert run("Same.\nOther.\nSame.") == IngestReport(reused=3, deleted=1)
    assert texts(parts) == ["Same.", "Other.", "Same."]


def test_the_same_text_in_two_documents_is_two_points(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    run("Same.", uri="a.txt")
    run("Same.", uri="b.txt")
    assert parts.index.count(INDEX) == 2


def test_a_deleted_document_leaves_no_point(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    run(FIVE, uri="a.txt")
    run("Stays.", uri="b.txt")
    parts.catalog.submit_delete(parts.catalog.documents()[0].id)
    assert run() == IngestReport(deleted=5)
    assert texts(parts) == ["Stays."]
    assert [document.uri for document in parts.catalog.documents()] == ["b.txt"]


@pytest.mark.parametrize("content", ["", " \n\t ", "\ufeff\n"])
def test_a_document_without_text_is_refused(run: Callable[..., IngestReport], content: str) -> None:
    with pytest.raises(DocumentError, match=r"empty|no text|No text"):
        run(content)


def test_another_model_is_refused_with_what_to_do(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    other = ToyEmbedder(fingerprint="toy-2")
    with pytest.raises(FingerprintMismatchError, match=r"toy-1.*toy-2.*gircse up --model.*gircse reindex library"):
        run(FIVE, pipeline=parts.pipeline(other))
    assert (other.embedded_texts, parts.index.count(INDEX)) == ([], 0)


def test_a_document_deleted_while_it_is_read_leaves_nothing(parts: IngestParts, embedder: ToyEmbedder) -> None:
    parts.submit(FIVE, uri="a.txt")
    job = parts.catalog.claim("test", lease=timedelta())  # runs out, as of a worker that stood still
    assert job is not None

    def delete() -> None:
        """By another worker, after the last look at the job."""
        parts.catalog.submit_delete(job.document_id)
        deletion = parts.catalog.claim("another", lease=LEASE)
        assert deletion is not None
        parts.pipeline(embedder).run(deletion, heartbeat=lambda _: None)

    with pytest.raises(LeaseLostError):
        parts.pipeline(embedder, batch_size=5, before_embedding=delete).run(job, heartbeat=lambda _: None)
    assert parts.catalog.documents() == []
    assert (list(parts.blobs.hashes()), parts.index.count(INDEX)) == ([], 0)


def test_the_text_of_a_version_replaced_while_it_is_read_is_not_kept(parts: IngestParts, embedder: ToyEmbedder) -> None:
    parts.submit(FIVE, uri="a.txt")
    job = parts.catalog.claim("test", lease=LEASE)
    assert job is not None

    def replace() -> None:
        parts.submit("Another version.", uri="a.txt")
        remove_unneeded(garbage=parts.catalog.garbage, index=parts.index, blobs=parts.blobs)

    with pytest.raises(LeaseLostError):
        parts.pipeline(embedder, batch_size=5, before_embedding=replace).run(job, heartbeat=lambda _: None)
    assert list(parts.blobs.hashes()) == [parts.catalog.documents()[0].content_hash]


def test_deleting_needs_no_model(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    run(FIVE)
    parts.catalog.submit_delete(parts.catalog.documents()[0].id)
    assert run(pipeline=parts.pipeline(ToyEmbedder(fingerprint="toy-2"))) == IngestReport(deleted=5)


class BrokenEmbedder(ToyEmbedder):
    """Gives NaN for texts that hold "poison", as a model in half precision may."""

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        vectors = super().embed_documents(texts, instruction=instruction, steps=steps)
        return [[float("nan")] * 256 if "poison" in text else v for text, v in zip(texts, vectors, strict=True)]


def test_a_vector_of_nan_is_an_error_and_not_stored(run: Callable[..., IngestReport], parts: IngestParts) -> None:
    with pytest.raises(ValueError, match="characters 6 to 12"):
        run("Fine.\npoison", pipeline=parts.pipeline(BrokenEmbedder()))
    assert parts.index.count(INDEX) == 0


@pytest.mark.parametrize("beats", range(1, 5))
def test_a_job_left_at_any_heartbeat_is_finished_by_the_next_worker(
    parts: IngestParts, embedder: ToyEmbedder, beats: int
) -> None:
    parts.submit(FIVE)
    job = parts.catalog.claim("first", lease=timedelta(0))
    assert job is not None
    with pytest.raises(LeaseLostError):
        parts.pipeline(embedder).run(job, heartbeat=lost_after(beats, parts, job))
    successor = parts.catalog.claim("second", lease=LEASE)
    assert successor is not None
    kept = parts.index.count(INDEX)
    report = parts.pipeline(embedder).run(successor, heartbeat=lambda _: None)
    assert report == IngestReport(embedded=5 - kept, reused=kept)
    assert texts(parts) == FIVE.split("\n")


def lost_after(beats: int, parts: IngestParts, job: Job) -> Callable[[float], None]:
    left = iter(range(beats))

    def heartbeat(progress: float) -> None:
        if next(left, None) is None:
            raise LeaseLostError("killed here")
        parts.catalog.heartbeat(job, lease=timedelta(0), progress=progress)

    return heartbeat


def test_progress_grows_to_one(parts: IngestParts) -> None:
    parts.submit(FIVE)
    job = parts.catalog.claim("test", lease=LEASE)
    assert job is not None
    seen: list[float] = []
    parts.pipeline().run(job, heartbeat=seen.append)
    assert seen == sorted(seen)
    assert (len(seen), seen[-1]) == (5, 1.0)


words = st.sampled_from(["alpha", "beta", "gamma", "delta"])
versions = st.lists(st.lists(words, min_size=1, max_size=8).map("\n".join), min_size=1, max_size=4)


@given(history=versions)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_history_the_points_are_those_of_the_last_version(
    parts: IngestParts, run: Callable[..., IngestReport], history: list[str]
) -> None:
    for version in history:
        if parts.submit(version)[1] is not None:
            run()
    assert texts(parts) == history[-1].split("\n")
