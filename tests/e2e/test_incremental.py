"""Ingesting again costs only what changed, and what is deleted is gone: counted in the engine itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from gircse_program import Gircse, Server
from patience import wait_until

from app.edge import EdgeProcess
from app.vectors import QdrantVectorIndex

pytestmark = pytest.mark.timeout(900)  # the first test waits for the sample library

_REPORT = re.compile(r"IngestReport\(embedded=(\d+), reused=(\d+), deleted=(\d+), labelled=0\)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three real files: many chunks of prose, a page of Markdown, a table."""
    folder = tmp_path / "papers"
    folder.mkdir()
    rows = [json.loads(line) for line in files("sample").joinpath("library.jsonl").read_text("utf-8").splitlines()]
    (folder / "prose.txt").write_text("\n\n".join(row["text"] for row in rows[:60]), encoding="utf-8")
    (folder / "credits.md").write_text(files("sample").joinpath("ATTRIBUTION.md").read_text("utf-8"), encoding="utf-8")
    table = "\n".join(f'"{row["title"]}","{row["metadata"]["source"]}"' for row in rows[:12])
    (folder / "titles.csv").write_text(f"title,source\n{table}\n", encoding="utf-8")
    return folder


@pytest.fixture
def index_of() -> Iterator[Callable[[Gircse], QdrantVectorIndex]]:
    """The engine of an installation, started or found running, and kept up between its commands."""
    opened: list[tuple[EdgeProcess, QdrantVectorIndex]] = []

    def connect(gircse: Gircse) -> QdrantVectorIndex:
        edge = EdgeProcess(gircse.home / "edge")
        opened.append((edge, QdrantVectorIndex.over_edge(edge)))
        return opened[-1][1]

    yield connect
    for edge, index in opened:
        index.close()
        edge.stop()


def reports(caplog: pytest.LogCaptureFixture) -> list[tuple[int, ...]]:
    """(embedded, reused, deleted) of every job that the worker did since the last call."""
    found = [tuple(map(int, match.groups())) for match in map(_REPORT.search, caplog.messages) if match]
    caplog.clear()
    return found


def test_second_ingestion_embeds_nothing_and_an_edit_only_its_chunks(
    folder: Path,
    gircse_factory: Callable[..., Gircse],
    index_of: Callable[[Gircse], QdrantVectorIndex],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="ingest.worker")
    gircse = gircse_factory()
    index = index_of(gircse)

    assert "3 added or updated" in gircse.call("ingest", str(folder)).stdout
    before = set(index.point_ids("library"))
    first = reports(caplog)
    assert len(first) == 3
    assert sum(embedded for embedded, _, _ in first) == len(before) > 20

    assert "0 added or updated (0 chunks), 3 unchanged, 0 failed." in gircse.call("ingest", str(folder)).stdout
    assert reports(caplog) == []
    assert set(index.point_ids("library")) == before

    prose = (folder / "prose.txt").read_text(encoding="utf-8")
    middle = prose.index(" ", len(prose) // 2)
    (folder / "prose.txt").write_text(prose[:middle] + " unexpectedly" + prose[middle:], encoding="utf-8")
    assert "1 added or updated" in gircse.call("ingest", str(folder)).stdout
    after = set(index.point_ids("library"))
    ((embedded, reused, deleted),) = reports(caplog)
    assert embedded == len(after - before)
    assert deleted == len(before - after)
    assert 1 <= embedded <= 3
    assert reused > 5 * embedded


@pytest.mark.parametrize("interface", ["command", "http"])
def test_deleted_document_leaves_no_point(
    interface: str,
    folder: Path,
    sample_gircse: Gircse,
    sample_server: Server,
    index_of: Callable[[Gircse], QdrantVectorIndex],
) -> None:
    collection, index = f"deleting-{interface}", index_of(sample_gircse)
    (folder / "prose.txt").unlink()  # the shorter ones will do
    sample_gircse.call("ingest", str(folder), "--collection", collection)
    documents = sample_server.ask(f"/api/v1/documents?collection={collection}").body
    (victim,) = [each for each in documents if each["uri"].endswith("credits.md")]
    rest = index.count(collection) - victim["chunk_count"]
    assert index.count(collection, document_id=victim["id"]) == victim["chunk_count"] > 0

    if interface == "command":
        sample_gircse.call("documents", "delete", victim["id"])
    else:
        assert sample_server.ask(f"/api/v1/documents/{victim['id']}", method="DELETE").status == 202
    wait_until_gone(sample_server, victim["id"])

    assert index.count(collection, document_id=victim["id"]) == 0
    assert index.count(collection) == rest > 0
    hits = sample_server.search("credits and titles", collection=collection, limit=100, explain=False)["hits"]
    assert len(hits) == rest
    assert victim["id"] not in {hit["document"]["id"] for hit in hits}


def wait_until_gone(server: Server, document_id: str) -> None:
    wait_until(
        lambda: server.ask(f"/api/v1/documents/{document_id}").status == 404,
        told=lambda: "the worker did not delete the document",
    )
