"""Bulk ingestion in shards leaves what a worker would leave, whatever breaks on the way. Without a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from bulk_parts import ApplicationParts, KilledError, OneNode, away_at, breaking_at, engine_of

from app.documents.blobs import FolderBlobStore
from app.errors import ConflictError, FingerprintMismatchError, UnavailableError
from app.testing import ToyEmbedder, text_source
from app.types.documents import DocumentState, Job, JobState

COLLECTION = "library"
WEATHERS = ("rain", "wind", "snow", "sun", "hail", "fog")
TEXTS = {
    "short.txt": "One sentence about the sea.",
    "long.txt": "\n\n".join(f"Paragraph {n} tells of {WEATHERS[n % 6]}." for n in range(100)),
    "twice.txt": "The same line.\n\n" * 60,
    "empty.txt": "   ",
    "page.html": "<html><head><title>A page</title></head><body><p>Words on a page.</p></body></html>",
}


class _BlindEmbedder(ToyEmbedder):
    """Gives no usable vector for a text with this word."""

    def embed_documents(self, texts, *, instruction, steps):
        vectors = super().embed_documents(texts, instruction=instruction, steps=steps)
        return [[float("nan")] * len(v) if "hail" in text else v for text, v in zip(texts, vectors, strict=True)]


class _MortalEmbedder(ToyEmbedder):
    """Its process is killed at these calls."""

    def __init__(self, *, dies_at):
        super().__init__()
        self._calls, self._dies_at = 0, dies_at

    def embed_documents(self, texts, *, instruction, steps):
        self._calls += 1
        if self._calls in self._dies_at:
            raise KilledError
        return super().embed_documents(texts, instruction=instruction, steps=steps)


def submit(application, texts=TEXTS, **metadata) -> dict[str, Job]:
    application.services.library.ensure_collection(COLLECTION)
    jobs = {}
    for uri, text in texts.items():
        media_type = "text/html" if uri.endswith(".html") else "text/plain"
        _, job = application.services.library.add_document(
            COLLECTION, text_source(uri, text, media_type=media_type, metadata=metadata)
        )
        jobs[uri] = job
    return jobs


def state_of(application):
    """All that can be told of the collection, without the ids of documents, which are random."""
    services = application.services
    active = services.catalog.collection(COLLECTION).active_index
    points = {}
    for document in services.catalog.documents(COLLECTION):
        chunks = services.catalog.chunks(document.id)
        found = {point.id: point for point in services.index.retrieve(active, [chunk.id for chunk in chunks])}
        assert services.index.count(active, document_id=document.id) == len(found) == len(chunks)
        points[document.uri] = (
            replace(document, id="", created_at=None, updated_at=None, revision=0),
            services.catalog.jobs()[0].lease_owner,
            [(c.ordinal, c.text_hash, c.start, c.end, c.page) for c in chunks],
            [([round(value, 6) for value in found[c.id].vector], _payload(found[c.id].payload)) for c in chunks],
        )
    return points


def _payload(payload):
    return {**payload, "metadata": {**payload["metadata"], "document_id": ""}}


@pytest.fixture
def bulk_application(toy_services_factory) -> Callable[..., tuple]:
    """An application with documents, its cluster and its engine."""

    def build(name="bulk", *, at_block=lambda _: None, texts=TEXTS, embedder=None, shard_documents=100, per_block=1):
        application = toy_services_factory(name, embedder=embedder)
        submit(application, texts)
        cluster = OneNode(ApplicationParts(application.services, batch_size=2), at_block, per_block)
        return application, cluster, engine_of(application.services, cluster, shard_documents=shard_documents)

    return build


@pytest.fixture(scope="module")
def expected(toy_services_class, tmp_path_factory):
    with ExitStack() as opened:
        application = toy_services_class(tmp_path_factory.mktemp("worker"), opened, embedder=ToyEmbedder())
        submit(application)
        application.work_off()
        return state_of(application)


def test_a_shard_leaves_what_the_worker_leaves(bulk_application, expected):
    application, cluster, engine = bulk_application()
    assert engine.run_shard(COLLECTION)
    assert state_of(application) == expected
    assert cluster.runs == [len(TEXTS)]
    assert application.services.catalog.document(_document(application, "empty.txt").id).state is DocumentState.FAILED
    assert not engine.run_shard(COLLECTION)


def test_shards_are_no_larger_than_said(bulk_application, expected):
    application, cluster, engine = bulk_application(shard_documents=2)
    while engine.run_shard(COLLECTION):
        pass
    assert cluster.runs == [2, 2, 1]
    assert state_of(application) == expected


def test_what_a_broken_run_has_written_is_not_embedded_again(bulk_application, expected):
    embedder = _MortalEmbedder(dies_at=(3, 5))  # in the middle of the long document, and again
    application, cluster, engine = bulk_application(embedder=embedder)
    engine.run_shard(COLLECTION)
    assert state_of(application) == expected
    assert cluster.runs == [5, 4, 4]
    texts = application.embedder.embedded_texts
    assert len(texts) - len(set(texts)) == _repeated_chunks(expected)


def test_a_run_that_always_breaks_puts_its_jobs_off(bulk_application):
    application, cluster, engine = bulk_application(at_block=breaking_at(*range(100)))
    engine.run_shard(COLLECTION)
    jobs = application.services.catalog.jobs()
    assert {(job.state, job.attempts) for job in jobs} == {(JobState.QUEUED, 0)}
    assert all("A node of the test was lost." in (job.error or "") for job in jobs)
    assert len(cluster.runs) == 6


def test_a_part_that_is_away_puts_the_rest_off(bulk_application, expected):
    application, _, engine = bulk_application(at_block=away_at(1))
    engine.run_shard(COLLECTION)
    states = [job.state for job in application.services.catalog.jobs()]
    assert sorted(states) == [JobState.DONE] + [JobState.QUEUED] * (len(TEXTS) - 1)


def test_one_text_without_a_usable_vector_fails_its_document_alone(bulk_application):
    application, _, engine = bulk_application(embedder=_BlindEmbedder())
    engine.run_shard(COLLECTION)
    states = {document.uri: document.state for document in application.services.catalog.documents(COLLECTION)}
    assert states["short.txt"] is states["page.html"] is DocumentState.READY
    job = next(job for job in application.services.catalog.jobs() if job.state is JobState.FAILED)
    assert job.document_id == _document(application, "long.txt").id
    assert "gave no usable vector" in (job.error or "")
    assert job.not_before > job.created_at  # it is tried again


def test_a_cancelled_document_is_left_and_the_others_are_done(bulk_application):
    jobs: dict[str, Job] = {}
    application = None

    def cancel(number: int) -> None:
        if number == 1:  # the long document is read
            application.services.catalog.cancel(jobs["long.txt"].id)
            cancelled.wait(1.5)  # the leases are looked up every second

    cancelled = threading.Event()
    application, _, engine = bulk_application(at_block=cancel)
    jobs |= {_uri(application, job): job for job in application.services.catalog.jobs()}
    engine.run_shard(COLLECTION)
    catalog = application.services.catalog
    assert catalog.job(jobs["long.txt"].id).state is JobState.CANCELLED
    assert catalog.job(jobs["twice.txt"].id).state is JobState.DONE
    active = catalog.collection(COLLECTION).active_index
    assert application.services.index.count(active, document_id=jobs["long.txt"].document_id) == 0


def test_a_stop_gives_the_jobs_back(bulk_application):
    stop = threading.Event()
    application, _, engine = bulk_application(at_block=lambda number: stop.set() if number == 1 else None)
    engine.run(COLLECTION, stop)
    counts = application.services.catalog.job_counts()
    assert counts[JobState.RUNNING] == 0
    assert counts[JobState.QUEUED] >= len(TEXTS) - 2
    assert {job.attempts for job in application.services.catalog.jobs(state=JobState.QUEUED)} == {0}


def test_changes_and_deletions_leave_no_point_behind(bulk_application, toy_services_factory):
    changed = {"long.txt": TEXTS["long.txt"].replace("snow", "dew"), "short.txt": "Another sentence about the sea."}
    application, _, engine = bulk_application()
    engine.run_shard(COLLECTION)
    before = len(application.embedder.embedded_texts)
    submit(application, changed, kind="changed")
    application.services.library.delete_document(_document(application, "twice.txt").id)
    engine.run_shard(COLLECTION)
    assert 0 < len(application.embedder.embedded_texts) - before < before

    other = toy_services_factory("other")
    submit(other)
    other.work_off()
    submit(other, changed, kind="changed")
    other.services.library.delete_document(_document(other, "twice.txt").id)
    other.work_off()
    assert state_of(application) == state_of(other)
    assert sorted(application.services.blobs.hashes()) == sorted(other.services.blobs.hashes())


def test_a_node_with_another_model_is_refused_and_the_jobs_are_given_back(bulk_application):
    application, cluster, engine = bulk_application()
    other_model = replace(application.services, embedder=ToyEmbedder(fingerprint="another"))
    cluster.parts = ApplicationParts(other_model)
    with pytest.raises(FingerprintMismatchError):
        engine.run_shard(COLLECTION)
    assert {job.state for job in application.services.catalog.jobs()} == {JobState.QUEUED}


def test_a_node_that_does_not_see_the_files_is_refused_and_no_document_fails(bulk_application, tmp_path):
    application, cluster, engine = bulk_application()
    elsewhere = FolderBlobStore(tmp_path / "elsewhere")
    cluster.parts = ApplicationParts(replace(application.services, blobs=elsewhere))
    with pytest.raises(ConflictError, match="all nodes share"):
        engine.run_shard(COLLECTION)
    assert {job.state for job in application.services.catalog.jobs()} == {JobState.QUEUED}


def test_a_file_that_is_missing_everywhere_fails_its_document(bulk_application):
    application, _, engine = bulk_application()
    lost = _document(application, "short.txt")
    application.services.blobs.path(lost.content_hash).unlink()
    engine.run_shard(COLLECTION)
    assert application.services.catalog.document(lost.id).state is DocumentState.FAILED
    assert application.services.catalog.job_counts()[JobState.DONE] == len(TEXTS) - 2


def test_an_absent_catalog_is_waited_for(bulk_application, monkeypatch):
    application, _, engine = bulk_application()
    stop = threading.Event()
    claim = application.services.catalog.shards.claim
    calls = []

    def absent_at_first(*args, **options):
        calls.append(1)
        if len(calls) < 3:
            raise UnavailableError("The catalog of the test is away.")
        if len(calls) > 3:
            stop.set()
        return claim(*args, **options)

    monkeypatch.setattr(application.services.catalog.shards, "claim", absent_at_first)
    engine.run(COLLECTION, stop)
    assert application.services.catalog.job_counts()[JobState.DONE] == len(TEXTS) - 1


def _document(application, uri: str):
    return next(d for d in application.services.catalog.documents(COLLECTION) if d.uri == uri)


def _uri(application, job: Job) -> str:
    return application.services.catalog.document(job.document_id).uri


def _repeated_chunks(state) -> int:
    hashes = [text_hash for _, _, chunks, _ in state.values() for _, text_hash, *_ in chunks]
    return len(hashes) - len(set(hashes))
