"""The page's handlers, called with untrusted values, and the page as a server gives it out."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gradio.routes import App as GradioApp
from hypothesis import given, settings
from hypothesis import strategies as st

from app.collections.lens_indexes import QueuedLensIndexes
from app.collections.own_searches import RecordedSearches
from app.errors import InputError, UnknownCollectionError, UnknownDocumentError, UnknownLensError
from app.search.stages import FIRST_STEPS
from app.types.documents import (
    Collection,
    CountedCollection,
    Document,
    DocumentState,
    FacetValue,
    Job,
    JobKind,
    JobState,
    Judgement,
    Lens,
)
from app.types.search import SearchRequest, SearchResult, UnreadLanguage, UnreadRanking
from app.wiring.web import open_web
from ui.choices import Choices, read_choices
from ui.contract import Example, ExampleHit, ShownExample
from ui.handler_inputs import as_handler, as_stream_handler, read_choice, read_text, read_whole_number
from ui.language import speaking
from ui.lens_names import NO_LENS, OWN_WORDS
from ui.render.hits import render_results
from ui.search_handlers import MAX_INSTRUCTION_CHARS, MAX_QUERY_CHARS, SearchHandlers

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class NoHits:
    """A search over nothing, which remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[SearchRequest] = []

    def search(self, request: SearchRequest, /, *, highlight: bool = True) -> SearchResult:
        self.requests.append(request)
        return SearchResult(request.query, request.instruction or "", 1, request.collection, (), (), {})


class KeptSearches:
    def __init__(self) -> None:
        self.recorded: list[tuple[object, ...]] = []

    def record_search(self, owner: str, request: Mapping[str, Any], *, keep: int) -> None:
        self.recorded.append((owner, dict(request), keep))


class OneDocumentCatalog:
    """The collections `library` and `other`, and one document in `library`."""

    def __init__(self) -> None:
        self.stored = Document(
            "d1", "library", "a.txt", "A", "text/plain", "0" * 64, 3, {}, DocumentState.READY, None, 2, NOW, NOW
        )

        self.saved: dict[str, Lens] = {}
        self.judged: list[Judgement] = []
        self.searches = KeptSearches()

    def facets(
        self, collection: str, filters: Mapping[str, str], *, without: Iterable[str]
    ) -> dict[str, list[FacetValue]]:
        assert "topic" not in without
        return {"topic": [FacetValue("economy", 1), FacetValue("sport", 1)]} if collection == "library" else {}

    def lenses(self) -> list[Lens]:
        return list(self.saved.values())

    def lens(self, name: str) -> Lens:
        if name not in self.saved:
            raise UnknownLensError(name, list(self.saved))
        return self.saved[name]

    def save_lens(self, lens: Lens) -> None:
        self.saved[lens.name] = lens

    def save_judgement(self, judgement: Judgement) -> Judgement:
        self.judged.append(judgement)
        return judgement

    def delete_judgement(self, judgement: Judgement) -> bool:
        kept = [each for each in self.judged if each.document_id != judgement.document_id]
        is_there, self.judged = len(kept) < len(self.judged), kept
        return is_there

    def collections(self) -> list[CountedCollection]:
        return [
            CountedCollection(name, "f", 4, "", 1, 200, 30, f"{name}--1", document_count=1, chunk_count=2)
            for name in ("library", "other")
        ]

    def collection(self, name: str) -> Collection:
        return self.counted_collection(name)

    def counted_collection(self, name: str) -> CountedCollection:
        for each in self.collections():
            if each.name == name:
                return each
        raise UnknownCollectionError(name, ["library", "other"])

    def documents(self, collection: str | None = None, *, limit: int = 100) -> list[Document]:
        return [self.stored] if collection == "library" else []

    def document(self, document_id: str) -> Document:
        if document_id != self.stored.id:
            raise UnknownDocumentError(f"No document {document_id!r}.")
        return self.stored

    def jobs(self, *, collection: str | None = None, limit: int = 100) -> list[Job]:
        return []

    def submit_delete(self, document_id: str) -> Job:
        self.stored = replace(self.document(document_id), state=DocumentState.DELETING)
        return Job("j", JobKind.DELETE, "library", "d1", JobState.QUEUED, 0, 0.0, None, None, None, 1, NOW, NOW, None)


def handlers_over(search: NoHits, stored: OneDocumentCatalog | None = None) -> SearchHandlers:
    catalog: Any = stored or OneDocumentCatalog()
    return SearchHandlers(
        search_service=search,
        catalog=catalog,
        lens_indexes=QueuedLensIndexes(catalog),
        own_searches=RecordedSearches(catalog.searches, owner=lambda: "somebody", history_limit=5),
        max_steps=20,
    )


def fields(*values: object) -> dict[str, object]:
    """By the names that the page gives them; those at the end may be left out."""
    names = ("query", "instruction", "steps", "mode", "collection", "limit", "choices", "values", "less", "diversity")
    return dict(zip((*names, "second_look"), values, strict=False))


@pytest.fixture
def search() -> NoHits:
    return NoHits()


@pytest.fixture
def handlers(search: NoHits) -> SearchHandlers:
    return handlers_over(search)


@pytest.fixture
def catalog() -> OneDocumentCatalog:
    return OneDocumentCatalog()


def test_a_search_passes_on_what_was_chosen(handlers: SearchHandlers, search: NoHits) -> None:
    list(handlers.search(fields("  card  ", " Same topic. ", 17.0, "hybrid", "library", 3, "")))
    assert search.requests == [
        SearchRequest("card", "library", "Same topic.", FIRST_STEPS, 3, rerank=0, per_document=3),
        SearchRequest(
            "card", "library", "Same topic.", 17, 3, rerank=0, per_document=3
        ),  # which finds nothing to look at again
    ]


def test_a_search_is_recorded_once_it_is_complete(search: NoHits, catalog: OneDocumentCatalog) -> None:
    handlers = handlers_over(search, catalog)
    stages = handlers.search(fields("card", "Same topic.", 17, "dense", "library", 10, ""))
    next(stages)
    assert catalog.searches.recorded == []
    list(stages)
    list(handlers.search_again(fields("", "", 5, "hybrid", "library", 3, "")))
    question = {"query": "card", "collection": "library", "instruction": "Same topic.", "steps": 17, "mode": "dense"}
    assert catalog.searches.recorded == [("somebody", {**question, "per_document": 3}, 5)]


def test_an_emptied_instruction_means_none_rather_than_the_default(handlers: SearchHandlers, search: NoHits) -> None:
    list(handlers.search(fields("card", "", 5, "hybrid", "library", 3, "")))
    assert search.requests[0].instruction == ""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("", "", 5, "hybrid", "library", 3, ""), "empty"),
        ((" \n\t", "", 5, "hybrid", "library", 3, ""), "empty"),
        ((None, "", 5, "hybrid", "library", 3, ""), "empty"),
        ((["card"], "", 5, "hybrid", "library", 3, ""), "must be text"),
        (("x" * (MAX_QUERY_CHARS + 1), "", 5, "hybrid", "library", 3, ""), "10,001 characters"),
        (("card", "x" * (MAX_INSTRUCTION_CHARS + 1), 5, "hybrid", "library", 3, ""), "instruction has 2,001"),
        (("card", {"a": 1}, 5, "hybrid", "library", 3, ""), "must be text"),
        (("card", "", 0, "hybrid", "library", 3, ""), "from 1 to 20"),
        (("card", "", 21, "hybrid", "library", 3, ""), "from 1 to 20"),
        (("card", "", 5.5, "hybrid", "library", 3, ""), "whole number"),
        (("card", "", True, "hybrid", "library", 3, ""), "whole number"),
        (("card", "", float("nan"), "hybrid", "library", 3, ""), "whole number"),
        (("card", "", "5", "hybrid", "library", 3, ""), "whole number"),
        (("card", "", 5, "hybrid", "library", 10**9, ""), "from 1 to 50"),
        (("card", "", 5, "hybrid", "elsewhere", 3, ""), "No collection named"),
        (("card", "", 5, "hybrid", None, 3, ""), "Choose a collection"),
        (("card", "", 5, "hybrid", ["library"], 3, ""), "Choose a collection"),
        (("card", "", 5, "psychic", "library", 3, ""), "dense, sparse, hybrid"),
        (("card", "", 5, "hybrid", "library", 3, "{"), "filters in this address are invalid"),
        (("card", "", 5, "hybrid", "library", 3, '{"bias": {"a": 11}}'), "between -10 and 10"),
    ],
)
def test_bad_input_is_refused_before_any_search(
    handlers: SearchHandlers, search: NoHits, values: tuple[object, ...], message: str
) -> None:
    (answer,) = as_stream_handler(handlers.search, outputs=3)(fields(*values))
    assert 'role="alert"' in answer[0]
    assert message in answer[0]
    assert answer[1:] == ("", "")
    assert search.requests == []


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.binary())


@settings(deadline=None)
@given(st.tuples(JUNK, JUNK, JUNK, JUNK, JUNK, JUNK, JUNK))
def test_no_junk_reaches_the_unforeseen(values: tuple[object, ...]) -> None:
    junked = handlers_over(NoHits())
    assert all("incident" not in view[0] for view in as_stream_handler(junked.search, outputs=3)(fields(*values)))


@settings(deadline=None)
@given(JUNK)
def test_readers_give_what_they_promise_or_refuse(value: object) -> None:
    readers: list[tuple[Callable[[], object], type]] = [
        (lambda: read_text(value, name="text", max_chars=10), str),
        (lambda: read_whole_number(value, name="number", minimum=1, maximum=5), int),
        (lambda: read_choice(value, name="choice"), str),
    ]
    for read, kind in readers:
        try:
            result = read()
        except InputError:
            continue
        assert type(result) is kind


def test_changing_a_setting_before_any_query_is_no_error(handlers: SearchHandlers, search: NoHits) -> None:
    ((welcome, *others),) = handlers.search_again(fields("  ", "", 4, "hybrid", "library", 3, ""))
    assert ("you say what" in str(welcome), others) == (True, ["", ""])
    (first, last) = handlers.search_again(fields("card", "", 4, "hybrid", "library", 3, ""))
    assert first[2] is None  # counting comes last
    assert "Narrow down" in str(last[2])
    assert len(search.requests) == 1


def test_many_steps_begin_with_a_first_look_and_words_alone_need_none(handlers: SearchHandlers, search: NoHits) -> None:
    assert len(list(handlers.search(fields("card", "", 20, "hybrid", "library", 3, "")))) == 3
    assert [request.steps for request in search.requests] == [FIRST_STEPS, 20]
    assert len(list(handlers.search(fields("card", "", 20, "sparse", "library", 3, "")))) == 2


def test_clicked_choices_are_part_of_the_search(handlers: SearchHandlers, search: NoHits) -> None:
    chosen = Choices()
    for click in (
        {"action": "boost", "subject": "Fish"},
        {"action": "suppress", "subject": "cattle"},
        {"action": "filter", "subject": "topic", "value": "economy"},
        {"action": "like", "subject": "c1", "value": "A title"},
        {"action": "unlike", "subject": "c2", "value": "Another"},
        {"action": "exclude", "subject": "New York"},
    ):
        chosen = read_choices(handlers.choose(chosen.to_text(), click))
    list(handlers.search(fields("card", "", 4, "hybrid", "library", 3, chosen.to_text())))
    assert search.requests == [
        SearchRequest(
            "card",
            "library",
            "",
            4,
            3,
            filters={"topic": "economy"},
            token_bias={"fish": 5.0, "cattle": -10.0},
            like=("c1",),
            unlike=("c2",),
            exclude=("New York",),
            rerank=0,
            per_document=3,
        )
    ]


def test_settings_of_the_hits_are_part_of_the_search(handlers: SearchHandlers, search: NoHits) -> None:
    asked = ("card", "", 4, "hybrid", "library", 3)
    list(handlers.search(fields(*asked, "", "", ["tables"], 0.3)))
    list(handlers.search(fields(*asked, Choices(filters={"document_id": "d1"}).to_text(), "", [], 0)))
    first, within = search.requests
    assert (first.prefer_prose, first.fold_duplicates, first.diversity, first.per_document) == (True, False, 0.3, 3)
    assert (within.prefer_prose, within.fold_duplicates, within.per_document) == (False, False, None)


def test_the_second_look_is_off_by_a_click(handlers: SearchHandlers) -> None:
    asked = ("card", "Its mood.", 4, "hybrid", "library", 3, "", "", [], 0)
    assert [handlers.request(fields(*asked, each)).rerank for each in (True, False)] == [None, 0]
    with pytest.raises(InputError, match="Invalid value"):
        handlers.request(fields(*asked, "yes"))


@pytest.mark.parametrize(
    ("less", "diversity"),
    [(["all"], 0), ("tables", 0), (None, 0), ([["tables"]], 0), ([], -0.1), ([], 1.1), ([], float("nan")), ([], True)],
)
def test_settings_that_no_field_has_are_refused(handlers: SearchHandlers, less: object, diversity: object) -> None:
    with pytest.raises(InputError, match=r"Unknown option|variety"):
        list(handlers.search(fields("card", "", 4, "hybrid", "library", 3, "", "", less, diversity)))


def test_a_choice_can_be_taken_back_one_by_one_or_all_together() -> None:
    chosen = Choices().after("boost", "fish").after("like", "c1", "T").after("unlike", "c1", "T")
    assert chosen == Choices(bias={"fish": 5.0}, unlike={"c1": "T"})
    assert chosen.after("drop-unlike", "c1").after("drop-bias", "fish").to_text() == ""
    assert chosen.after("drop-all", "").is_empty


def test_words_that_a_query_negates_are_searched_for_again_after_a_click(
    handlers: SearchHandlers, search: NoHits
) -> None:
    kept = handlers.choose("", {"action": "kept", "subject": "New York"})
    for query, is_detecting in (("jazz, not about New York", False), ("jazz, not about Paris", True)):
        list(handlers.search(fields(query, "", 4, "hybrid", "library", 3, kept)))
        assert search.requests[-1].detect_negation is is_detecting
    assert read_choices(kept).after("drop-kept", "New York").is_empty
    assert Choices().after("exclude", "a").after("exclude", "b").after("drop-exclude", "a").exclude == ("b",)
    for unreadable in (
        '{"exclude": "a"}',
        '{"kept": [""]}',
        '{"exclude": [1]}',
        json.dumps({"kept": ["x"] * 2 + ["y" * 201]}),
    ):
        with pytest.raises(InputError):
            read_choices(unreadable)


@settings(deadline=None)
@given(JUNK, st.dictionaries(st.sampled_from(["action", "subject", "value"]), JUNK))
def test_junk_clicks_and_addresses_are_refused_in_words(text: object, data: dict[str, object]) -> None:
    junked = handlers_over(NoHits())
    try:
        said = junked.choose(text, data)
    except InputError:
        return
    assert read_choices(said).to_text() == said


def test_too_many_choices_are_refused() -> None:
    chosen = read_choices(json.dumps({"bias": {f"word{number}": 5 for number in range(64)}}))
    with pytest.raises(InputError, match="at most 64 words"):
        chosen.after("boost", "one more")


def test_lenses_fill_the_instruction_and_own_words_keep_it(handlers: SearchHandlers) -> None:
    assert "paragraph" not in handlers.lens_names()
    assert handlers.instruction_of("Same feeling") == "Represent the emotion of this text."
    assert handlers.instruction_of(NO_LENS) == ""
    assert handlers.instruction_of(OWN_WORDS) is None
    with pytest.raises(UnknownLensError):
        handlers.instruction_of("Elsewhere")


def test_an_instruction_is_kept_under_a_name(handlers: SearchHandlers) -> None:
    assert handlers.save_lens(" My lens ", " Find the same colour. ") == "My lens"
    assert handlers.instruction_of("My lens") == "Find the same colour."
    assert handlers.lens_of("Find the same colour.") == "My lens"
    assert handlers.lens_of("Something else.") == OWN_WORDS
    for name, words in (("", "x"), ("a\nb", "x"), ("Own words", "x"), ("ok", "")):
        with pytest.raises(InputError):
            handlers.save_lens(name, words)


def test_a_thumb_is_kept_for_a_document_of_this_collection_alone(handlers: SearchHandlers) -> None:
    said = handlers.judge("card", "", "library", {"document": "d1", "grade": 3})
    assert "answers this query" in said
    (kept,) = handlers.catalog.judged  # type: ignore[attr-defined]
    assert (kept.document_id, kept.query, kept.instruction, kept.grade) == ("d1", "card", "", 3)
    assert "was removed" in handlers.judge("card", "", "library", {"document": "d1", "grade": None})
    assert handlers.catalog.judged == []  # type: ignore[attr-defined]
    for collection, data in (
        ("other", {"document": "d1", "grade": 3}),
        ("library", {"document": "d1", "grade": 9}),
        ("library", {"document": ["d1"], "grade": 3}),
        ("library", {}),
    ):
        with pytest.raises((InputError, UnknownDocumentError)):
            handlers.judge("card", "", collection, data)


def test_an_unforeseen_error_shows_an_id_and_hides_its_text(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> tuple[Any, ...]:
        raise RuntimeError("password=hunter2")

    with caplog.at_level(logging.ERROR):
        message, other = as_handler(failing, outputs=2)()
    incident = caplog.records[0].args[0]  # type: ignore[index]
    assert str(incident) in message
    assert "hunter2" not in message
    assert other == ""
    assert "hunter2" in caplog.text


@pytest.fixture(scope="module")
def client(lasting_services: Any) -> Iterator[TestClient]:
    with open_web(lasting_services.services) as web, TestClient(web, base_url="http://127.0.0.1") as client:
        yield client


def test_the_page_stands_beside_the_api(client: TestClient) -> None:
    assert client.get("/healthz").json()["status"] == "ok"
    assert "gircse-search" in client.get("/").text


def test_the_page_is_private_and_says_no_more_than_it_must(client: TestClient) -> None:
    config = client.get("/config").json()
    assert config["analytics_enabled"] is False
    assert config["show_error"] is False
    assert config["footer_links"] == []
    assert config["stylesheets"] == []
    assert {each["api_visibility"] for each in config["dependencies"]} == {"private"}


def test_requests_are_not_counted_up(client: TestClient) -> None:
    """Gradio would keep thousands of them, and sum all of them up again after each."""
    (pages,) = (route.app for route in client.app.routes if isinstance(getattr(route, "app", None), GradioApp))
    handlers = client.get("/config").json()["dependencies"]
    handler = next(each for each in handlers if each["backend_fn"] and not each["inputs"])
    for _ in range(3):
        body = {"data": [], "fn_index": handler["id"], "session_hash": uuid.uuid4().hex}
        client.post("/gradio_api/queue/join", json=body).raise_for_status()
        session = {"session_hash": body["session_hash"]}
        assert '"success":true' in client.get("/gradio_api/queue/data", params=session).text
    queue = pages.get_blocks()._queue
    assert queue.events_recorded == 3
    assert len(queue.event_analytics) == 1
    assert queue.cached_event_analytics_summary == {"functions": {}}


def test_the_theme_loads_no_font_from_anywhere(client: TestClient) -> None:
    theme = client.get("/theme.css").text
    assert "--accent" in theme
    assert "@font-face" not in theme
    assert set(re.findall(r"url\([\"']?(\w*:?)", theme)) <= {"data:"}


def test_examples_belong_to_the_collection_that_they_were_written_for(search: NoHits) -> None:
    given = replace(handlers_over(search), examples=[Example("A question?", "", "library")])
    ((shown, *_),) = given.search_again(fields("", "", 4, "hybrid", "library", 3, ""))
    ((elsewhere, *_),) = given.search_again(fields("", "", 4, "hybrid", "other", 3, ""))
    assert ("A question?" in str(shown), "A question?" in str(elsewhere)) == (True, False)
    assert given.example({"query": "A question?", "instruction": ""}) == ("A question?", "", "No lens", "")
    with pytest.raises(InputError, match="the limit is"):
        given.example({"query": "x" * 10_001})


def test_without_a_collection_the_first_sight_says_what_to_do_and_shows_an_example(search: NoHits) -> None:
    views = [
        ShownExample("One <query>?", lens, [ExampleHit(title, "Oceania") for title in titles])
        for lens, titles in (("Same place", ("Tonga", "Fiji")), ("Same topic", ("Navies", "Tonga")))
    ]
    given = replace(handlers_over(search), first_example=views)
    (shown,) = given.welcome(None)
    for part in (
        'href="/documents"',
        "Add your files",
        "One &lt;query&gt;?",
        "Same place",
        "was 1",
        "not found before",
    ):
        assert part in shown, part
    assert "data-event" not in shown  # there is nothing to search yet
    (bare,) = handlers_over(search).welcome("")
    assert "Add your files" in bare


def test_a_language_that_the_model_does_not_read_is_told_in_that_of_the_page() -> None:
    unread = UnreadLanguage("German", "English", UnreadRanking.WORDS)
    result = SearchResult("Warum?", "", 1, "library", (), (), {}, unread=unread)
    shown = render_results(result, Choices())
    assert "<summary>This model supports English, not German.</summary>" in shown  # in one line; the advice unfolds
    assert "looks like German. A search by meaning and words relies on the words. Ask in English" in shown
    assert "looks like" not in render_results(replace(result, unread=None), Choices())
    with speaking("de"):
        assert "versteht Englisch, nicht Deutsch." in render_results(result, Choices())
    by_meaning = replace(unread, ranking=UnreadRanking.MEANING)
    shown = render_results(replace(result, unread=by_meaning), Choices())
    assert "looks like German. The hits are ranked by meaning alone" in shown
    assert "Ask in English for better hits." in shown
    assert "by meaning, too" not in shown


def test_what_to_try_where_nothing_fits(search: NoHits) -> None:
    chosen = Choices(filters={"kind": "note"}).to_text()
    ((shown, *_), _) = handlers_over(search).search(fields("card", "Find the same.", 4, "sparse", "library", 3, chosen))
    for tried in ("fewer filters", "Use words that the document", "No lens", "Choose another collection"):
        assert tried in str(shown)
    ((plain, *_), _) = handlers_over(search).search(fields("card", "", 4, "hybrid", "library", 3, ""))
    assert "fewer filters" not in str(plain)
