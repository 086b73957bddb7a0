"""The benchmark of detected languages reads the files of its folder and counts distinct queries."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from research.benchmarks.query_languages import english_queries, mistaken, recognised, translated_queries


def write_rows(path: Path, *rows: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def test_queries_are_counted(tmp_path: Path) -> None:
    ferry, jus = {"query": "When does the ferry leave?"}, {"query": "je ne sais quoi"}
    write_rows(tmp_path / "train" / "pairs.a.jsonl.gz", ferry, jus)
    write_rows(tmp_path / "train" / "labels.a.jsonl.gz", {"text": "not a query"})
    write_rows(tmp_path / "train" / "pairs.acl_title_abstract.jsonl.gz", {"query": "Vers un corpus de la langue"})
    write_rows(tmp_path / "dev" / "ir.b.queries.jsonl.gz", {"text": ferry["query"]}, {"text": "Who sat?"})
    write_rows(tmp_path / "dev2" / "pairs.c.jsonl.gz", ferry)
    write_rows(
        tmp_path / "languages" / "ir.xquad_de.queries.jsonl.gz", {"text": "Wer hat das gesagt?"}, {"text": "Wo?"}
    )
    assert list(english_queries(tmp_path)) == [ferry["query"], jus["query"], "Who sat?"]
    assert mistaken(english_queries(tmp_path)) == (3, [("je ne sais quoi", "French")])
    german = translated_queries(tmp_path)["de"]
    assert recognised(german) == 0.5
