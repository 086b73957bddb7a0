"""The evaluate page in a real headless Chromium, at desk and phone width: API, page, catalog and evaluations are real,
the embedder's neighbours can be computed by hand."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import DESKTOP, PHONE, OpenPage, opened_page
from patience import PATIENCE_S
from playwright.sync_api import BrowserContext, Page, expect
from served import served

from app.search.fusion import WEIGHTS
from app.search.judgements import new_judgement, new_lens
from app.testing import ToyEmbedder, text_source
from app.types.search import Leg
from app.wiring.web import open_web
from embedder.refinement import Refinement

pytestmark = pytest.mark.xdist_group("evaluate-page")

HOSTILE = "<img src=x onerror=window.attacked=1> <script>window.attacked=1</script> ${window.attacked=1}"
FRUITS = ("apple", "pear", "plum", "fig", "cherry", "quince", "peach", "grape")
DISHES = ("tart", "jam", "cake", "juice")


class PatientEmbedder(ToyEmbedder):
    """After so many queries it waits until it may go on, so that a test can look at a running evaluation."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._before = 0

    def wait_after(self, queries: int) -> None:
        self._before = queries
        self.may_go_on.clear()

    def embed_query(self, text: str, **options: Any) -> Refinement:
        self._before -= 1
        if self._before < 0:
            self.may_go_on.wait(PATIENCE_S)
        return super().embed_query(text, **options)


def fill(application: Any) -> None:
    """Three collections, of which the last one by its name is judged. An instruction helps every other query."""
    documents: dict[str, str] = {}
    for collection in ("kitchen", "copy", "bare"):
        # Without titles in the vectors, which one of the titles would move.
        application.services.library.create_collection(collection, chunk_context=False)
        for fruit in FRUITS:
            for dish in DISHES:
                title = f"{HOSTILE} {fruit} {dish}" if (fruit, dish) == ("fig", "jam") else f"{fruit} {dish}"
                document, _ = application.services.library.add_document(
                    collection, text_source(f"notes://{fruit}-{dish}", f"{fruit} {dish} with sugar", title=title)
                )
                if collection == "kitchen":
                    documents[f"{fruit} {dish}"] = document.id
    application.work_off()
    for number, fruit in enumerate(FRUITS):
        for dish in DISHES[:3]:
            # A dish that is asked for in the instruction alone is found through it, and by chance without it.
            instruction = f"{dish} {dish}" if number % 2 else ""
            query = fruit if instruction else f"{fruit} {dish}"
            said = new_judgement(documents[f"{fruit} {dish}"], query=query, instruction=instruction, grade=3)
            application.services.catalog.save_judgement(said)
    application.services.catalog.save_lens(new_lens("<b>lens</b>", "sugar"))
    fill_orchard(application)


def fill_orchard(application: Any) -> None:
    """Rare words find what answers; vectors find what shares the other words of the query."""
    application.services.library.create_collection("orchard", chunk_context=False)
    for number in range(8):
        texts = {f"rare{number} " + " ".join(f"leaf{number}x{word}" for word in range(12)): 3}
        texts |= {f"tell me more about the {kind} tree {number}": 0 for kind in ("big", "small", "old")}
        for text, grade in texts.items():
            document, _ = application.services.library.add_document("orchard", text_source(f"tree://{text}", text))
            said = new_judgement(document.id, query=f"tell me more about the rare{number}", instruction="", grade=grade)
            application.services.catalog.save_judgement(said)
    application.work_off()


@pytest.fixture(scope="module")
def embedder() -> PatientEmbedder:
    return PatientEmbedder()


@pytest.fixture(scope="module")
def server_url(
    toy_services_class: Any, embedder: PatientEmbedder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with ExitStack() as opened:
        application = toy_services_class(tmp_path_factory.mktemp("home"), opened, embedder=embedder)
        fill(application)
        yield opened.enter_context(served(opened.enter_context(open_web(application.services))))


@pytest.fixture(params=["desk", pytest.param("phone", marks=pytest.mark.long)])
def opened(
    request: pytest.FixtureRequest, window: BrowserContext, server_url: str, embedder: PatientEmbedder
) -> Iterator[OpenPage]:
    """At the evaluate page. In the end: no text of others ran, nothing sticks out, and what `opened_page` asserts."""
    size, is_dark = (DESKTOP, False) if request.param == "desk" else (PHONE, True)
    with opened_page(window, server_url, size=size, is_dark=is_dark) as opened:
        opened.go("/evaluate")
        expect(opened.page.locator("#evaluate-sources")).not_to_be_empty()
        yield opened
        embedder.may_go_on.set()
        assert opened.page.evaluate("window.attacked") is None
        assert opened.overflows() == []


@pytest.fixture
def page(opened: OpenPage) -> Page:
    return opened.page


def choose_collection(page: Page, name: str) -> None:
    field = page.get_by_label("Judged queries of the collection")
    field.click()
    page.get_by_role("option", name=name, exact=True).click()
    expect(page.get_by_role("option")).to_have_count(0)  # its list fades


def measure(page: Page, collection: str = "kitchen") -> None:
    choose_collection(page, collection)
    page.get_by_role("button", name="Evaluate", exact=True).click()


def expect_report(page: Page) -> None:
    expect(page.locator("#evaluate-report h2").first).to_have_text("nDCG@10")
    expect(page.locator("#evaluate-progress .progress")).to_have_count(0)


@pytest.mark.parametrize("opened", [pytest.param("desk", marks=pytest.mark.long), "phone"], indirect=True)
def test_measure_and_read_the_results(opened: OpenPage, axe: Callable[[OpenPage], None]) -> None:
    page = opened.page
    choose_collection(page, "kitchen")
    expect(page.locator(".sources")).to_contain_text("24 queries · 24 judgements")
    modes = page.locator("#evaluate-modes")
    expect(modes.get_by_label("Both")).to_be_checked()  # as searches are by default
    for mode in ("Meaning", "Words"):
        modes.get_by_label(mode).check()
    modes.get_by_label("Both").uncheck()
    page.get_by_label("Instructions to compare").click()
    page.get_by_role("option", name="No instruction").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect_report(page)

    rows = page.locator("#evaluate-report section").first.locator("tbody tr")
    expect(rows).to_have_count(7)  # three K by two instructions, and words alone
    expect(rows.first.locator("th")).to_have_text("Meaning · 1 step · instruction as in the judgements")
    expect(rows.first.locator(".figure")).to_contain_text("1.000")
    expect(page.locator(".curve-figure .legend li")).to_have_text(
        ["Meaning · instruction as in the judgements", "Meaning · no instruction", "Words"]
    )
    against = page.locator("table.differences tr", has_text="Meaning · 1 step · no instruction")
    expect(against).to_contain_text("worse")
    expect(page.locator("#evaluate-report h3").first).to_contain_text("no instruction")

    page.get_by_label("Measure shown", exact=True).click()
    page.get_by_role("option", name="MRR@10").click()
    expect(page.locator("#evaluate-report h2").first).to_have_text("MRR@10")

    address = page.locator("table.queries a").first.get_attribute("href")
    assert address is not None
    with page.expect_download() as download:
        page.get_by_role("link", name="Table (CSV)").click()
    table = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
    assert {
        row["mrr_10"] for row in table if row["queries_judged_through"] == "all" and row["instruction"] == "judged"
    } == {"1.000000"}
    axe(opened)
    opened.go(address)
    expect(page.get_by_label("Search for")).to_have_value(re.compile("|".join(FRUITS)))


def test_a_measurement_goes_on_when_the_page_is_left_and_can_be_stopped(
    opened: OpenPage, embedder: PatientEmbedder
) -> None:
    page = opened.page
    embedder.wait_after(30)
    measure(page)
    expect(page.locator(".progress")).to_contain_text("of 72 searches")
    opened.go("/")
    expect(page.get_by_label("Search for")).to_be_visible()
    opened.go("/evaluate")
    expect(page.locator(".progress")).to_contain_text(
        re.compile(r"Evaluating: [1-9]\d* of 72 searches, about \d+ s left")
    )

    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="already running")).to_be_visible()
    opened.go("/evaluate")
    page.get_by_role("button", name="Stop").click()
    embedder.may_go_on.set()
    expect(page.locator("#evaluate-progress")).to_contain_text(re.compile("Stopped after .* of 24 queries"))


def test_judgements_are_brought_in_and_removed(opened: OpenPage, tmp_path: Path) -> None:
    page = opened.page
    queries, qrels = tmp_path / "queries.jsonl", tmp_path / "fruit.tsv"
    texts = {"1": "apple jam", "2": HOSTILE}
    queries.write_text("\n".join(json.dumps({"_id": number, "text": text}) for number, text in texts.items()))
    qrels.write_text("query-id\tcorpus-id\tscore\n1\tapple-jam\t2\n2\tplum-jam\t1\n2\tnowhere\t1\n")
    choose_collection(page, "bare")
    expect(page.locator(".empty")).to_contain_text("This collection has no judgements yet")
    page.get_by_role("button", name="Import judgements from files").click()
    page.locator("#evaluate-files input[type=file]").set_input_files([queries, qrels])
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.locator("#evaluate-message")).to_contain_text("Imported judgements: 2 (queries: 2, documents: 2).")
    expect(page.locator("#evaluate-message")).to_contain_text("skipped, not in this collection: nowhere")
    expect(page.locator(".sources")).to_contain_text("fruit imported")

    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect_report(page)
    expect(page.locator(".caution")).to_contain_text("with fewer than 20 queries")
    expect(page.locator("table.queries")).to_contain_text(HOSTILE)

    opened.accept_next_dialog()
    page.get_by_role("button", name="Remove the import fruit").click()
    expect(page.locator(".empty")).to_contain_text("This collection has no judgements yet")


@pytest.mark.long
def test_collections_are_compared(page: Page) -> None:
    choose_collection(page, "kitchen")
    page.get_by_role("button", name="More settings").click()
    page.get_by_label("Compare with other collections").click()
    page.get_by_role("option", name="copy").click()
    page.keyboard.press("Escape")
    for steps in ("1", "20"):
        page.locator("#evaluate-steps").get_by_label(steps, exact=True).uncheck()
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect_report(page)
    expect(page.locator("table.differences tbody tr")).to_have_count(1)
    expect(page.locator("table.differences")).to_contain_text("not significant")
    expect(page.locator("#evaluate-report section").first.locator("tbody th")).to_have_text(["kitchen", "copy"])


def test_a_file_without_judgements_is_refused(opened: OpenPage, tmp_path: Path) -> None:
    page = opened.page
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader,\nthere is nothing to judge here.\n")
    page.get_by_role("button", name="Import judgements from files").click()
    page.locator("#evaluate-files input[type=file]").set_input_files(letter)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("letter.txt, line 1")
    [refused] = opened.complaints
    assert "status of 422" in refused
    opened.complaints.clear()


def test_nothing_judged_and_nothing_chosen_get_advice(page: Page) -> None:
    measure(page, "bare")
    expect(page.get_by_role("alert")).to_contain_text("The collection 'bare' has no judged query")
    choose_collection(page, "kitchen")
    page.locator("#evaluate-modes").get_by_label("Both").uncheck()
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("at least one collection and one mode")


@pytest.mark.long
def test_a_measurement_in_the_address_is_shown_again(opened: OpenPage) -> None:
    page = opened.page
    measure(page)
    expect_report(page)
    page.wait_for_url(re.compile(r"/evaluate\?run=[0-9a-f]{32}"))
    opened.go(urlsplit(page.url).path + "?" + urlsplit(page.url).query)
    expect_report(page)
    opened.go("/evaluate?run=nothing-like-it")
    expect_report(page)  # the newest one


def test_weights_are_tuned_by_the_judgements_shown_and_undone(opened: OpenPage) -> None:
    page = opened.page
    choose_collection(page, "bare")
    page.get_by_role("button", name="Weights of meaning and words").click()
    page.get_by_role("button", name="Tune with these judgements").click()
    expect(page.locator("#evaluate-message")).to_contain_text("tuning needs at least 20 judgements of 5")

    choose_collection(page, "orchard")
    expect(page.locator("#evaluate-weights td").first).to_have_text(f"{WEIGHTS[Leg.DENSE]:g}")
    page.get_by_role("button", name="Tune with these judgements").click()
    expect(page.locator("#evaluate-message")).to_contain_text("are now in use")
    expect(page.locator(".tunings li").first).to_contain_text("in use quality of the first ten")
    expect(page.locator(".tunings li").first).to_contain_text("8 queries, 32 judgements")
    page.get_by_role("button", name="Undo: restore defaults").click()
    expect(page.locator("#evaluate-message")).to_contain_text("default weights were restored")
    expect(page.locator(".tunings li").first).to_contain_text("undone")
    expect(page.get_by_role("button", name="Undo: restore defaults")).to_have_count(0)
