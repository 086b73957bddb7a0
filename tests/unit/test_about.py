"""The about page: what it says of the model and its parts, what it keeps to itself, and Markdown that others wrote."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seen_html import HOSTILE, Seen, assert_harmless

import embedder
from app.errors import CatalogUnavailableError, VectorIndexUnavailableError
from app.settings import Settings
from app.types.documents import CountedCollection
from app.wiring.about import FAITHFULNESS, catalog_kind, describe_installation, index_kind, read_card
from embedder.model_info import ModelInfo
from ui.about_handlers import AboutHandlers
from ui.contract import AboutInfo
from ui.handler_inputs import as_handler
from ui.render.about import (
    render_card,
    render_collections,
    render_faithfulness,
    render_health,
    render_help,
    render_introduction,
    render_model,
    render_versions,
)
from ui.render.markdown import render_markdown

FACTS = ModelInfo(
    name="toy",
    fingerprint="f" * 64,
    dimension=384,
    max_length=512,
    max_steps=64,
    default_query_instruction="",
    default_query_steps=20,
    default_document_instruction="Say it briefly.",
    default_document_steps=5,
    card="# A model\n\nIt *embeds*.",
)
ABOUT = AboutInfo("a-model", "1.2", model=FACTS, versions={"Python": "3.11"}, catalog_kind="SQLite file")


def collection(name: str, fingerprint: str) -> CountedCollection:
    return CountedCollection(name, fingerprint, 4, "", 1, 200, 30, f"{name}--1", document_count=1234, chunk_count=5678)


def test_the_model_is_described_by_what_changes_its_vectors() -> None:
    text = Seen(render_model(ABOUT)).text
    for said in ("a-model", "ffffffffffff", "384", "20 by default, at most 64", "5 by default", "Say it briefly."):
        assert said in text
    assert "f" * 13 not in text
    assert "none by default" in text
    assert "Python3.11DatabaseSQLite file" in Seen(render_versions(ABOUT)).text
    assert "a-model" in Seen(render_model(AboutInfo("a-model", "1.2"))).text


def test_a_card_is_shown_and_its_absence_said() -> None:
    seen = Seen(render_card(ABOUT))
    assert "A model" in seen.text
    assert seen.of("em")
    assert "has no card" in Seen(render_card(AboutInfo("a-model", "1.2"))).text
    assert render_faithfulness(ABOUT) == ""
    measured = AboutInfo("m", "1", faithfulness="Measured: **0.5**")
    assert "Measured: 0.5" in Seen(render_faithfulness(measured)).text


def test_health_waits_then_tells_each_part_and_what_an_error_means() -> None:
    assert "Checking all parts" in render_health({"catalog": None})
    assert "All parts work." in render_health({"catalog": True, "index": True})
    text = Seen(render_health({"catalog": True, "index": False, "else": False})).text
    assert "2 of 3 parts do not work." in text
    assert "The search index does not respond" in text
    assert "gircse doctor" in text
    assert "This part does not respond." in text


def test_every_check_is_asked_in_turn_and_no_error_of_one_hides_another(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> bool:
        raise VectorIndexUnavailableError("away: http://someone:hunter2@index")

    nothing: Any = None
    handlers = AboutHandlers(catalog=nothing, checks={"index": broken, "catalog": lambda: True}, fingerprint="")
    with caplog.at_level(logging.ERROR):
        views = [view for (view,) in handlers.health()]
    assert len(views) == 3
    assert "checking" in views[0]
    assert "1 of 2 parts do not work." in views[-1]
    assert "hunter2" not in "".join(views)
    assert "hunter2" in caplog.text


def test_collections_are_counted_and_those_of_another_model_marked() -> None:
    seen = Seen(render_collections([collection("mine", "f1"), collection("theirs", "f2")], "f1"))
    assert "1,234" in seen.text
    assert "5,678" in seen.text
    assert seen.text.count("another model") == 1
    assert "gircse reindex theirs" in seen.text
    assert "None yet" in render_collections([], "f1")


def test_collections_come_from_the_catalog(toy_services: Any) -> None:
    toy_services.add("One text.")
    handlers = AboutHandlers(catalog=toy_services.services.catalog, checks={}, fingerprint="toy-1")
    text = Seen(handlers.collections()[0]).text
    assert "library11" in text
    assert "another model" not in text


def test_a_catalog_that_is_away_is_said_so() -> None:
    class Away:
        def collections(self) -> list[CountedCollection]:
            raise CatalogUnavailableError("The catalog does not answer.")

    away: Any = Away()
    (said,) = as_handler(AboutHandlers(catalog=away, checks={}, fingerprint="").collections, outputs=1)()
    assert "The catalog does not answer at present." in said


def test_this_installation_is_described_without_saying_where_anything_is(toy_services: Any, tmp_path: Path) -> None:
    said = describe_installation(toy_services.services)
    assert said.model is not None
    assert (said.model_name, said.model.fingerprint, said.model.dimension) == ("toy", "toy-1", 256)
    assert (said.model.default_query_steps, said.model.default_document_steps, said.model.max_steps) == (2, 1, 20)
    assert said.versions["gradio"]
    assert (said.catalog_kind, said.index_kind) == ("SQLite file", "Qdrant Edge, the embedded engine")
    assert str(tmp_path) not in repr(said)


def test_no_address_or_key_of_a_part_is_told(tmp_path: Path) -> None:
    kept = Settings(
        home=tmp_path,
        database_url="postgresql+psycopg://user:hunter2@db.example/gircse",
        qdrant_url="http://user:hunter2@qdrant.example:6333",
        qdrant_api_key="hunter2",
    )
    assert (catalog_kind(kept), index_kind(kept)) == ("PostgreSQL server", "Qdrant server")


def test_the_shipped_card_is_read_without_what_the_hub_wants() -> None:
    card = embedder.read_model_card()
    assert card is not None
    assert card.startswith("# gircse-small")
    assert "pipeline_tag" not in card
    assert "<!--" not in str(render_markdown(card))
    assert_harmless(str(render_markdown(card)))


def test_a_folder_may_have_no_card_and_an_unknown_model_has_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert embedder.read_model_card(str(tmp_path)) is None
    (tmp_path / "README.md").write_bytes(b"---\nlicense: x\n---\nA card \xff.")
    assert embedder.read_model_card(str(tmp_path)) == "A card \N{REPLACEMENT CHARACTER}."
    assert read_card(str(tmp_path / "absent")) is None


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# One\n## Two", "<h3>One</h3>\n<h4>Two</h4>\n"),
        ("###### Six", "<h6>Six</h6>\n"),
        (
            "[a](https://a.example)",
            '<p><a href="https://a.example" target="_blank" rel="noopener noreferrer">a</a></p>\n',
        ),
        ("[a](other.md)", "<p><span>a</span></p>\n"),
        ("<b onclick=x>a</b>", "<p>a</p>\n"),
        ("<!-- note -->\n\na", "<p>a</p>\n"),
        ("```html\n<b>\n```", '<pre tabindex="0"><code>&lt;b&gt;\n</code></pre>\n'),
        ("    <b>", '<pre tabindex="0"><code>&lt;b&gt;\n</code></pre>\n'),
        ("`<b>` & c", "<p><code>&lt;b&gt;</code> &amp; c</p>\n"),
    ],
)
def test_markdown_becomes_plain_html(text: str, html: str) -> None:
    assert str(render_markdown(text)) == html


@pytest.mark.parametrize(
    "text",
    [
        "![a](https://a.example/a.png)",
        "![a][1]\n\n[1]: https://a.example/a.png",
        "[a](javascript:alert(1))",
        "[a](//a.example)",
        "[a](data:text/html,x)",
        "<img src=https://a.example/a.png>",
        "<style>@import 'https://a.example/a.css'</style>",
        "<script>\nalert(1)\n</script>",
        '[a](https://a.example "x\\" onmouseover=\\"alert(1)")',
        "| a |\n|:-:|\n| <iframe src=x> |",
        "```html\n<script>alert(1)</script>\n```",
    ],
)
def test_no_markdown_runs_or_fetches(text: str) -> None:
    html = str(render_markdown(text))
    assert_harmless(html)
    assert not Seen(html).of("img")


@settings(deadline=None)
@given(HOSTILE, HOSTILE, st.lists(st.sampled_from(["[", "](", ")", "<", ">", "!", "`", "|", "\n", "a", "http://a"])))
def test_hostile_texts_stay_text(text: str, name: str, pieces: list[str]) -> None:
    facts = replace(
        FACTS,
        fingerprint=text,
        default_query_instruction=name,
        default_document_instruction=text,
        card=f"# {text}\n[{name}]({text})\n\n{''.join(pieces)}",
    )
    about = AboutInfo(name, text, model=facts, versions={name: text}, catalog_kind=text, faithfulness=text)
    for render in (render_model, render_versions, render_card, render_faithfulness):
        assert_harmless(str(render(about)))
    assert_harmless(str(render_health({name: False, text: None})))
    assert_harmless(str(render_collections([collection(name, text)], "mine")))


def test_help_answers_what_people_ask() -> None:
    text = Seen(render_introduction() + render_help()).text
    for question in ("What is a step?", "What does the instruction do?", "What are the words?", "Keys"):
        assert question in text
    assert_harmless(str(render_introduction() + render_help()))


def test_a_application_without_checks_has_nothing_to_ask(toy_services_factory: Callable[..., Any]) -> None:
    handlers = AboutHandlers(catalog=toy_services_factory().services.catalog, checks={}, fingerprint="")
    assert "nothing to check" in list(handlers.health())[-1][0]


def test_what_is_said_of_explanations_is_what_was_measured() -> None:
    report = (Path(__file__).parents[2] / "docs" / "evaluation" / "faithfulness.md").read_text(encoding="utf-8")

    def row(name: str) -> list[str]:
        (line,) = (line for line in report.splitlines() if line.startswith(f"| {name} | all |"))
        return [cell.strip() for cell in line.strip("|").split("|")]

    nearest, words = row("nearest sentence (shipped)"), row("marked sentence")
    added = row("word of the query's refinement alone deleted")
    said = FAITHFULNESS["gircse-small"]
    other = "does not fall" if float(nearest[4]) < 0 else f"falls by {float(nearest[4]):.3f}"
    assert f"falls by {float(nearest[3]):.3f}; without another sentence of the same length, it {other}" in said
    assert f"In {nearest[6].replace('%', ' %')} of {nearest[2]} passages" in said
    assert f"falls by {float(words[3]):.0%}; without another one, by {float(words[4]):.0%}".replace("%", " %") in said
    assert f"the most important one, its score falls by {float(added[3]):.3f}" in said
