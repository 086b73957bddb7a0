"""What travels between the stages of a shard, how a cluster is shared out, and what is refused before it begins."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyarrow")  # comes with Ray

from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from app.cli import app
from app.commands.bulk import require_ray
from app.errors import ConflictError, NotFoundError
from app.types.documents import Chunk, Job, JobKind, JobState
from ingest.ray_engine.gathering import GatheredDocument
from ingest.ray_engine.rows import SCHEMA, ChunkRow, DocumentRow, FailedRow, rows_of, to_table, written

texts = st.text(st.characters(), max_size=20)  # lone surrogates among them
numbers = st.floats(-1, 1, width=32)
vectors = st.lists(numbers, min_size=3, max_size=3)


def chunk(text: str = "text", ordinal: int = 0) -> Chunk:
    return Chunk(f"{ordinal:032x}", "d", ordinal, text, "f" * 64, ordinal, ordinal + 1, None)


@settings(deadline=None)
@given(text=texts, title=texts, steps=st.none() | st.lists(vectors, min_size=1, max_size=2))
def test_rows_come_back_as_they_were(text: str, title: str, steps: list[list[float]] | None) -> None:
    rows = [
        ChunkRow("a", chunk(text), {"page_content": text, "metadata": {"year": 1999, "is_draft": True}}, steps),
        DocumentRow("a", title, {"weight": 0.5}, 1, ["stale"]),
        FailedRow("b", title, is_its_own=False, is_missing=True),
    ]
    table = to_table(rows)
    assert table.schema == SCHEMA
    assert list(rows_of(table)) == rows


def test_what_is_written_travels_without_its_text() -> None:
    row = ChunkRow("a", chunk("a long text"), {"page_content": "a long text"}, [[0.5]])
    assert "a long text" not in str(list(rows_of(to_table([written(row)]))))


@settings(deadline=None)
@given(cpus=st.integers(1, 500), gpus=st.integers(0, 64))
def test_a_cluster_has_room_for_all_embedders_and_a_reader(cpus: int, gpus: int) -> None:
    from ingest.ray_engine.cluster import share_out  # imports Ray

    slots = share_out(cpus=cpus, gpus=gpus)
    assert slots.embedders == gpus or not gpus
    assert slots.embedders * slots.gpus_each <= gpus
    assert slots.embedders * slots.cpus_each + slots.readers * slots.cpus_per_reader <= cpus
    assert min(slots.embedders, slots.readers) >= 1
    assert gpus or 2 * max(slots.cpus_each, slots.cpus_per_reader) <= 1  # any two have room on a node of one CPU


def test_a_cluster_without_a_cpu_is_refused() -> None:
    from ingest.ray_engine.cluster import share_out

    with pytest.raises(ConflictError, match="no CPU"):
        share_out(cpus=0, gpus=8)


@settings(deadline=None)
@given(order=st.permutations(range(6)), repeated=st.integers(0, 5))
def test_a_document_is_gathered_in_any_order(order: list[int], repeated: int) -> None:
    now = None
    job = Job("j", JobKind.INGEST, "c", "d", JobState.RUNNING, 1, 0, None, None, now, 1, now, now, now)  # type: ignore[arg-type]
    ids = [f"00000000-0000-0000-0000-{number:012}" for number in range(5)]
    rows = [ChunkRow("j", Chunk(ids[n], "d", n, "", "f" * 64, n, n + 1, None)) for n in range(5)]
    arriving = [*rows, DocumentRow("j", "", {}, 5, ())]
    gathered = GatheredDocument(job, byte_count=5)
    for position, number in enumerate(order):
        assert not gathered.is_whole
        gathered.add(arriving[number])
        if position == repeated:
            gathered.add(arriving[number])
        assert 0 < gathered.progress < 1
    assert gathered.is_whole
    assert [each.id for each in gathered.chunks] == ids
    gathered.close()


def test_without_its_extra_the_engine_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.commands.bulk.find_spec", lambda name: None)
    with pytest.raises(NotFoundError, match=r"pip install 'gircse-search\[ray\]'"):
        require_ray()


def test_the_engine_cannot_work_for_a_command_that_does_not_wait() -> None:
    result = CliRunner().invoke(app, ["ingest", "a.txt", "--engine", "ray", "--no-wait"])
    assert result.exit_code == 2
    assert "while this command waits" in re.sub(r"[│\s]+", " ", result.output)
