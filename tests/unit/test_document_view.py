"""A document opened at a passage: what is shown, what may be asked for, and what text can never do."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.documents.library import MAX_WINDOW_CHARACTERS
from app.errors import GircseError, InputError, NotFoundError, UnknownDocumentError
from app.testing import text_source
from app.types.documents import TextWindow
from ui.document_view import DocumentViewHandlers, read_document
from ui.render.document_view import VIEW_CHARACTERS, PassagePlace, render_document_view, render_view_notice, view_bounds

HOSTILE = "</div></dialog><img src=x onerror=alert(1)><script>alert(1)</script>\x00\u202e\ud800"
SENTENCES = [f"Sentence {number} is about the harbour and its boats. " for number in range(2_000)]


class Marks(HTMLParser):
    """The tags of a piece of HTML, the text inside of #passage, and the attributes of buttons and links."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.passage = ""
        self.buttons: list[dict[str, str | None]] = []
        self.links: list[str | None] = []
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._inside = self._inside or ("id", "passage") in attrs
        if tag == "button":
            self.buttons.append(dict(attrs))
        if tag == "a":
            self.links.append(dict(attrs)["href"])

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "mark"

    def handle_data(self, data: str) -> None:
        self.passage += data if self._inside else ""


@pytest.fixture
def application(toy_services: Any) -> Any:
    return with_texts(toy_services)


@pytest.fixture(scope="module")
def lasting_application(lasting_services: Any) -> Any:
    """For what is refused."""
    return with_texts(lasting_services)


def with_texts(application: Any) -> Any:
    application.add("".join(SENTENCES))
    application.add("A short note.", collection="other")
    return application


@pytest.fixture
def handlers(application: Any) -> DocumentViewHandlers:
    return handlers_of(application)


def handlers_of(application: Any) -> DocumentViewHandlers:
    return DocumentViewHandlers(catalog=application.services.catalog, texts=application.services.library)


def document_of(application: Any, collection: str = "library") -> Any:
    return application.services.catalog.documents(collection)[0]


def test_opens_at_the_chunk_that_was_found(application: Any, handlers: DocumentViewHandlers) -> None:
    document = document_of(application)
    chunk = application.services.catalog.chunks(document.id)[40]
    shown = Marks(handlers.open("library", {"document": document.id, "chunk": chunk.id})[0])
    assert shown.passage == "".join(SENTENCES)[chunk.start : chunk.end]
    assert len(shown.passage) > 20


def test_earlier_and_later_walk_through_the_whole_text(application: Any, handlers: DocumentViewHandlers) -> None:
    document = document_of(application)
    data: dict[str, Any] = {"document": document.id, "start": "50000", "end": "50100"}
    seen = []
    for label, count in (("Show earlier text", 30), ("Show later text", 40)):
        for _ in range(count):
            html = handlers.open("library", data)[0]
            seen.append(re.search(r"From (\d+)% to (\d+)% of the text", html))
            moves = re.findall(
                rf'data-start="(\d+)" data-end="(\d+)" data-page="" data-from="(\d+)" data-sentence="0-0">{label}', html
            )
            if not moves:
                break
            data = {**data, "from": moves[0][2]}
            assert moves[0][:2] == ("50000", "50100")
    places = [(int(each[1]), int(each[2])) for each in seen if each]
    assert len(places) == len(seen)
    assert (min(places)[0], max(last for _, last in places)) == (0, 100)
    assert all(0 < last - first < 100 for first, last in places)


def test_a_chunk_that_is_gone_opens_the_document_at_its_beginning(
    application: Any, handlers: DocumentViewHandlers
) -> None:
    html = handlers.open("library", {"document": document_of(application).id, "chunk": "no-such-chunk"})[0]
    assert "Sentence 0 is about" in html
    assert Marks(html).passage == ""


@pytest.mark.parametrize(
    ("collection", "data", "error"),
    [
        ("other", {}, UnknownDocumentError),
        ("third", {}, NotFoundError),
        (None, {}, InputError),
        (["library"], {}, InputError),
        ("library", {"document": "no-such-id"}, UnknownDocumentError),
        ("library", {"document": None}, InputError),
        ("library", {"document": {"id": 1}}, InputError),
        ("library", {"start": "-1"}, InputError),
        ("library", {"start": 5}, InputError),
        ("library", {"end": "9" * 400}, InputError),
        ("library", {"from": "1e9"}, InputError),
        ("library", {"page": "٣"}, InputError),
        ("library", {"chunk": ["x"]}, InputError),
        ("library", {"sentence": "5"}, InputError),
        ("library", {"sentence": ["5-6"]}, InputError),
        ("library", {"sentence": "-5-6"}, InputError),
    ],
)
def test_what_is_not_of_this_collection_or_no_place_is_refused(
    lasting_application: Any, collection: Any, data: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        handlers_of(lasting_application).open(collection, {"document": document_of(lasting_application).id, **data})


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.binary())


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(collection=JUNK, data=st.dictionaries(st.sampled_from(["chunk", "start", "end", "page", "from"]), JUNK))
def test_junk_gets_an_answer_or_a_reason(
    handlers: DocumentViewHandlers, application: Any, collection: object, data: dict[str, object]
) -> None:
    for name in (collection, "library"):
        try:
            (shown,) = handlers.open(name, {"document": document_of(application).id, **data})
        except GircseError:
            continue
        assert shown.startswith("<dialog")


def test_a_document_that_is_not_read_yet_says_so(application: Any, handlers: DocumentViewHandlers) -> None:
    services = application.services
    waiting, _ = services.library.add_document("library", text_source("later.txt", b"Later."))
    with pytest.raises(NotFoundError, match="has no text yet"):
        handlers.open("library", {"document": waiting.id})
    broken, _ = services.library.add_document(
        "library", text_source("broken.pdf", b"%PDF-", media_type="application/pdf")
    )
    application.work_off()
    with pytest.raises(NotFoundError, match="has no text: "):
        handlers.open("library", {"document": broken.id})


def test_the_best_sentence_is_marked_in_its_passage(application: Any, handlers: DocumentViewHandlers) -> None:
    document, text = document_of(application), "".join(SENTENCES)
    at = text.index("Sentence 700 ")
    place = {"document": document.id, "start": str(at - 200), "end": str(at + 200)}
    html = handlers.open("library", {**place, "sentence": f"{at}-{at + 50}"})[0]
    assert f'<strong id="sentence">{text[at : at + 50]}</strong>' in html
    assert Marks(html).passage == text[at - 200 : at + 200]
    for sentence in ("0-10", f"{at + 900}-{at + 950}", "", f"{at + 50}-{at}"):  # not of this passage
        assert "<strong" not in handlers.open("library", {**place, "sentence": sentence})[0]
    beyond = handlers.open("library", {**place, "sentence": f"{at}-{at + 5000}"})[0]
    assert f'<strong id="sentence">{text[at : at + 200]}</strong></mark>' in beyond


def test_a_deleted_document_says_so_in_plain_words(application: Any, handlers: DocumentViewHandlers) -> None:
    document = document_of(application)
    application.services.library.delete_document(document.id)
    for _ in range(2):  # first it is being deleted, then it is gone
        (html,) = handlers.show("library", {"document": document.id})
        assert "This document was deleted" in html
        assert '<a href="">' in html
        assert document.id not in html
        assert "gircse" not in html
        application.work_off()
    with pytest.raises(UnknownDocumentError, match="was deleted"):
        read_document(application.services.catalog, "library", document.id)


def test_windows_are_bounded(application: Any) -> None:
    library, document = application.services.library, document_of(application)
    assert library.text_window(document, 10, 20).text == "".join(SENTENCES)[10:20]
    for start, end in ((0, MAX_WINDOW_CHARACTERS + 1), (-1, 5), (5, 4)):
        with pytest.raises(InputError, match="50,000 characters"):
            library.text_window(document, start, end)


def test_the_original_opens_at_the_page_of_a_pdf_alone(application: Any) -> None:
    document, window = document_of(application), TextWindow("text", 0, 4)
    pdf = replace(document, media_type="application/pdf", uri="https://example.org/a.pdf")
    assert Marks(render_document_view(pdf, window, PassagePlace(0, 2, 7))).links == [
        "https://example.org/a.pdf",
        f"/api/v1/documents/{document.id}/content#page=7",
    ]
    assert Marks(render_document_view(document, window, PassagePlace(0, 2, 7))).links == [
        f"/api/v1/documents/{document.id}/content"
    ]


@given(text=st.text(st.characters(codec=None)) | st.just(HOSTILE), start=st.integers(0, 50), end=st.integers(0, 50))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_text_stays_text(application: Any, text: str, start: int, end: int) -> None:
    document = replace(document_of(application), title=text, uri=text or "u", media_type=text, id=text)
    html = render_document_view(document, TextWindow(text, 20, 20 + len(text) + 5), PassagePlace(start, end))
    assert Marks(html).tags <= {"dialog", "header", "div", "h2", "p", "span", "a", "button", "mark"}
    html.encode("utf-8")


def test_a_notice_stands_in_a_dialog_that_can_be_closed() -> None:
    shown = Marks(render_view_notice("<p>No.</p>"))
    assert shown.tags == {"dialog", "p", "button"}
    assert "data-close-dialog" in shown.buttons[0]


def test_a_passage_is_shown_whole_with_what_stands_around_it() -> None:
    assert view_bounds(0, 10) == (0, VIEW_CHARACTERS)
    first, last = view_bounds(10_000, 18_000)
    assert first < 10_000
    assert last > 18_000
    assert view_bounds(0, 10**9)[1] < MAX_WINDOW_CHARACTERS
