"""What was found as CSV, Markdown and citations: nothing is lost, and what documents contain stays text."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from markdown_it import MarkdownIt

from app.search.export import citation, search_csv, search_markdown
from app.types.printable import printable
from app.types.search import Highlight, Hit, HitChunk, HitDocument, Match, SearchResult
from app.types.values import ValueReading

TEXT = "It rained. The ferry sank\nin the storm. Nobody drowned."
BEST = (TEXT.index("The ferry"), TEXT.index(" Nobody"))


def hit(rank: int = 1, *, text: str = TEXT, title: str = "Logbook", **metadata: Any) -> Hit:
    document = HitDocument(f"document-{rank}", title, f"file:///{rank}.pdf", metadata)
    return Hit(
        rank, 0.5, document, HitChunk(f"chunk-{rank}", text, 10, 10 + len(text), 3), why=Highlight(*BEST, 0.9),
        match=Match.FAIR, value=ValueReading("sea", 0.8, 0.9),
    )  # fmt: skip


def result_of(*hits: Hit) -> SearchResult:
    return SearchResult("ferry", "Which disaster?", 5, "library", hits, (), {}, notes=("A note.",))


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def rendered(text: str) -> str:
    return MarkdownIt("gfm-like", {"linkify": False}).render(text)


def test_a_table_holds_every_hit_with_all_metadata() -> None:
    first, second = rows_of(search_csv(result_of(hit(year=1912), hit(2, ship="Vasa"))))
    assert (first["rank"], first["score"], first["match"], first["value"], first["page"]) == (
        "1",
        "0.5",
        "fair",
        "sea",
        "3",
    )
    assert (first["title"], first["uri"], first["text"]) == ("Logbook", "file:///1.pdf", TEXT)
    assert first["best_sentence"] == "The ferry sank\nin the storm."
    assert (first["document_id"], first["chunk_id"], first["start"]) == ("document-1", "chunk-1", "10")
    assert (first["metadata.year"], first["metadata.ship"]) == ("1912", "")
    assert (second["metadata.year"], second["metadata.ship"]) == ("", "Vasa")


def test_no_cell_is_a_formula_or_steers_a_terminal() -> None:
    hostile = '=HYPERLINK("https://x")\x1b[2J'
    text = search_csv(result_of(hit(title=hostile, **{"+key": "@sum"})))
    assert "\x1b" not in text
    [row] = rows_of(text)
    assert row["title"].startswith("'=HYPERLINK")
    assert row["metadata.+key"] == "'@sum"


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "＝", "＋", "－", "＠"]
)  # the latter where people type wide signs
def test_every_sign_of_a_formula_counts(sign: str) -> None:
    [row] = rows_of(search_csv(result_of(hit(title=f"{sign}1+1"))))
    assert row["title"] == f"'{sign}1+1"


def test_no_mark_turns_a_name_around() -> None:
    """Shown as `reportexe.pdf` otherwise."""
    found = hit(title="report\u202efdp.exe", text="a \u2066b\u2069 \u200fc")
    assert citation(found).count("reportfdp.exe") == 1
    assert "\u202e" not in search_csv(result_of(found)) + search_markdown(result_of(found))
    assert printable("a \u2066b\u2069 \u200fc\x9b\r\n\t") == "a b \u200fc\ufffd\ufffd\n\t"


def test_a_text_reads_as_the_result_did() -> None:
    html = rendered(search_markdown(result_of(hit(), hit(2, title="Second"))))
    assert "<h1>ferry</h1>" in html
    assert "In library, hybrid, 5 steps, instruction: Which disaster?" in html
    assert "<p>A note.</p>" in html
    assert "<h2>1. Logbook</h2>" in html
    assert "<h2>2. Second</h2>" in html
    assert "<blockquote>\n<p>It rained. <strong>The ferry sank</strong>\n<strong>in the storm.</strong> Nobody" in html
    assert "<p>p. 3, file:///1.pdf</p>" in html


@pytest.mark.parametrize(
    "text",
    [
        "# heading", "> quote", "<script>alert(1)</script>", "![x](https://evil)", "[x](https://evil)", "a *b* _c_ `d`",
        "|a|b|\n|-|-|\n|1|2|", "~~~\ncode", "***", "&lt;b&gt;", "\\*a\\*", "<https://evil>", "x\n===", "\x1b]0;t\x07",
    ],
)  # fmt: skip
def test_documents_bring_no_markup_into_it(text: str) -> None:
    plain = replace(hit(text=text, title=text.replace("\n", " ")), why=None)
    html = rendered(search_markdown(result_of(plain)))
    tags = {"<h1>", "<h2>", "<p>", "<blockquote>", "</h1>", "</h2>", "</p>", "</blockquote>"}
    for tag in tags:
        html = html.replace(tag, "")
    assert "<" not in html.replace("&lt;", "")
    assert "\x1b" not in html


def test_a_citation_is_one_line_with_its_place() -> None:
    assert citation(hit()) == "“The ferry sank in the storm.” (Logbook, p. 3, file:///1.pdf)"
    long = replace(hit(text="word " * 200), why=None)
    cited = citation(replace(long, chunk=replace(long.chunk, page=None)))
    assert cited.startswith("“word word")
    assert cited.endswith("word …” (Logbook, file:///1.pdf)")
    assert len(cited) < 360
    upload = replace(hit(), document=replace(hit().document, uri="upload://log%20books/of%20May.pdf"))
    assert citation(upload).endswith("(Logbook, p. 3, log books/of May.pdf)")
    assert "\n" not in citation(hit(title="two\nlines\x07"))


def test_rest_answers_in_the_form_that_is_asked_for(toy_services: Any) -> None:
    toy_services.add("The cat sleeps on the sofa.", metadata={"kind": "animal"})
    with TestClient(api_of(toy_services.services), base_url="http://127.0.0.1") as client:

        def ask(accept: str) -> Any:
            return client.post("/api/v1/search", json={"query": "cat"}, headers={"accept": accept})

        table = ask("text/csv")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        [row] = rows_of(table.content.decode("utf-8-sig"))
        assert (row["text"], row["metadata.kind"]) == ("The cat sleeps on the sofa.", "animal")
        text = ask("text/markdown")
        assert text.headers["content-type"] == "text/markdown; charset=utf-8"
        assert "# cat" in text.text
        assert json.loads(ask("*/*").text)["hits"]
        assert client.post("/api/v1/search", json={"query": " "}, headers={"accept": "text/csv"}).status_code == 422
