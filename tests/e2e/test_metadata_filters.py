"""Metadata of sidecars and rows is found again: ingested by the command line, filtered by the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gircse_program import Gircse

from app.edge import EdgeProcess

TINY_MODEL = Path(__file__).parents[1] / "golden" / "reference" / "tiny-qwen2"


@pytest.fixture
def gircse(gircse_factory: Callable[..., Gircse]) -> Iterator[Gircse]:
    gircse = gircse_factory(settings={"GIRCSE_MODEL": str(TINY_MODEL)})
    with EdgeProcess(gircse.home / "edge"):  # kept up between commands, of which each would start its own
        yield gircse


def found(gircse: Gircse, *filters: str) -> dict[str, dict]:
    """End of its URI → the document of a hit, for a search with these filters."""
    options = [part for each in filters for part in ("--filter", each)]
    answer = json.loads(gircse.call("search", "the tide", "--limit", "100", "--json", *options).stdout)
    return {hit["document"]["uri"].rpartition("/")[2]: hit["document"] for hit in answer["hits"]}


def test_sidecars_and_rows_are_found_by_their_metadata(gircse: Gircse, tmp_path: Path) -> None:
    (tmp_path / "cat.txt").write_text("The cat sleeps.")
    (tmp_path / "tide.txt").write_text("The tide comes in.")
    sidecar = tmp_path / "tide.txt.meta.json"
    sidecar.write_text('{"title": "On Tides", "metadata": {"year": 2024, "kind": "paper"}}')
    table = tmp_path / "rows.csv"
    table.write_text("key,body,kind\na,A row about the tide.,letter\nb,A row about cats.,note\n")
    rows = tmp_path / "rows.jsonl"
    lines = [
        {"id": n, "text": f"Row {n} of the sea.", "title": f"Row {n}", "kind": "row", "even": not n % 2}
        for n in range(4)
    ]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"id": 9}\n')

    result = gircse.call("ingest", str(tmp_path), "--exclude", "rows.*")
    assert "2 added or updated (2 chunks), 0 unchanged, 0 failed." in result.stdout
    result = gircse.call("ingest", str(rows), "--rows", code=1)
    assert "4 added or updated (4 chunks), 0 unchanged, 1 failed." in result.stdout
    assert "rows.jsonl, line 5 The field 'text' holds no text" in " ".join(result.stderr.split())
    gircse.call("ingest", str(table), "--text-field", "body", "--id-field", "key")

    assert found(gircse, "year=2024").keys() == {"tide.txt"}
    assert found(gircse, "kind=paper")["tide.txt"]["title"] == "On Tides"
    assert found(gircse, "kind=row", "even=true").keys() == {"rows.jsonl#0", "rows.jsonl#2"}
    assert found(gircse, "kind=letter").keys() == {"rows.csv#a"}
    assert len(found(gircse)) == 8

    sidecar.write_text('{"metadata": {"year": 2025}}')
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines[:3]))
    (tmp_path / "cat.txt").rename(tmp_path / "tomcat.txt")
    table.unlink()
    kept = gircse.call("ingest", str(tmp_path), "--rows", "--prune", code=1)  # nobody answers the question
    assert "3 documents" in kept.stderr
    assert len(found(gircse)) == 8
    pruned = gircse.call("ingest", str(tmp_path), "--rows", "--prune", "--yes")
    assert "3 deleted, 0 failed." in pruned.stdout
    assert found(gircse).keys() == {"tomcat.txt", "tide.txt", "rows.jsonl#0", "rows.jsonl#1", "rows.jsonl#2"}
    assert found(gircse, "year=2025")["tide.txt"]["title"] == "tide"
    assert found(gircse, "year=2024").keys() == set()


def test_urls_are_fetched_only_where_that_is_allowed(gircse: Gircse, tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text("# nothing here\nhttp://127.0.0.1:9/page  # of this machine\n\n")
    result = gircse.call("ingest", "--urls", str(listed), "http://me:key@localhost/", "ftp://localhost/x", code=1)
    told = " ".join(result.stderr.split())
    assert "127.0.0.1 is at 127.0.0.1, which is not on the public internet. GIRCSE_ALLOW_PRIVATE_URLS=true" in told
    assert "contains a user name or password" in told
    assert "Only http:// and https://" in told
    assert "0 added or updated (0 chunks), 0 unchanged, 3 failed." in result.stdout
    assert "name a file" in " ".join(gircse.call("ingest", code=2).stderr.split())
