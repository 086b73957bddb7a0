"""A document of several parts: told from one of a single part by its size alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from ingest_parts import INDEX, IngestParts

from app.errors import DocumentError, LeaseLostError
from app.ports.texts import TextSink
from app.types.texts import Findings, TextPart
from ingest.points import IngestReport

PARAGRAPHS = [f"Paragraph {number}. " + "filler " * 150 for number in range(2_500)]
LONG = "\n\n".join(paragraph.strip() for paragraph in PARAGRAPHS)  # 2.6 million characters


@pytest.fixture
def take_in(parts: IngestParts) -> Callable[..., IngestReport]:
    def run(content: str, *, heartbeat: Callable[[float], None] = lambda _: None, **changes: object) -> IngestReport:
        parts.submit(content)
        job = parts.catalog.claim("test", lease=timedelta(minutes=5))
        assert job is not None
        return parts.pipeline(batch_size=64, **changes).run(job, heartbeat=heartbeat)  # type: ignore[arg-type]

    return run


def test_places_ids_and_text_are_those_of_the_whole(take_in: Callable[..., IngestReport], parts: IngestParts) -> None:
    seen: list[float] = []
    assert take_in(LONG, heartbeat=seen.append) == IngestReport(embedded=2_500)
    document = parts.catalog.documents()[0]
    chunks = parts.catalog.chunks(document.id)
    assert document.chunk_count == len(chunks) == 2_500
    assert [chunk.ordinal for chunk in chunks] == list(range(2_500))
    assert [LONG[chunk.start : chunk.end] for chunk in chunks] == LONG.split("\n\n")
    assert parts.blobs.get_text(document.content_hash) == LONG
    assert {chunk.id for chunk in chunks} == set(parts.index.point_ids(INDEX))
    assert seen == sorted(seen)
    assert (seen[0] < 0.05, len(seen) > 40, seen[-1]) == (True, True, 1.0)


def test_an_edit_in_front_embeds_what_is_new(take_in: Callable[..., IngestReport], parts: IngestParts) -> None:
    take_in(LONG)
    assert take_in("In front of it all.\n\n" + LONG) == IngestReport(embedded=1, reused=2_500)
    assert take_in(LONG.split("\n\n")[7]) == IngestReport(reused=1, deleted=2_500)
    assert parts.index.count(INDEX) == 1


def test_a_document_that_fails_in_its_last_part_leaves_the_index_as_it_was(
    take_in: Callable[..., IngestReport], parts: IngestParts
) -> None:
    take_in("The version before.")
    before = parts.catalog.documents()[0]

    def read(path: Path, *, uri: str, media_type: str, into: TextSink) -> Findings:
        into.write(TextPart("The first part. "))
        raise DocumentError("Page 2 cannot be read.")

    with pytest.raises(DocumentError, match="Page 2"):
        take_in("The version after.", read=read)
    (point,) = parts.index.retrieve(INDEX, list(parts.index.point_ids(INDEX)))
    assert point.payload["page_content"] == "The version before."
    assert parts.blobs.get_text(before.content_hash) == "The version before."


def test_a_job_that_is_lost_while_a_long_document_is_read_is_left(take_in: Callable[..., IngestReport]) -> None:
    def lose(progress: float) -> None:
        assert progress < 0.05
        raise LeaseLostError("taken over")

    with pytest.raises(LeaseLostError):
        take_in(LONG, heartbeat=lose)


def test_a_file_that_is_put_aside_while_it_is_opened_is_looked_for_again(
    take_in: Callable[..., IngestReport], parts: IngestParts
) -> None:
    content_hashes = iter(["gone", ""])

    def read(path: Path, *, uri: str, media_type: str, into: TextSink) -> Findings:
        if next(content_hashes):
            into.write(TextPart("Half of "))
            raise FileNotFoundError(path)
        into.write(TextPart(path.read_text("utf-8")))
        return Findings("", media_type)

    assert take_in("The whole.", read=read) == IngestReport(embedded=1)
    assert parts.blobs.get_text(parts.catalog.documents()[0].content_hash) == "The whole."
