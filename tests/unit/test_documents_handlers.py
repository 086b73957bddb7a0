"""The documents page's handlers over an application of real parts, called with untrusted values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import ConflictError, GircseError, InputError, NotFoundError, UnknownCollectionError
from app.testing import text_source
from app.types.documents import Collection, DocumentState
from app.types.upkeep import ContractChange, Fetch, FetchState, ReindexState, ReindexStatus
from ui.collection_handlers import CollectionHandlers
from ui.documents_handlers import (
    BUSY_POLL_S,
    IDLE_POLL_S,
    MAX_URLS_AT_ONCE,
    PAGE_SIZE,
    DocumentHandlers,
    read_offset,
    read_state,
)

JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.binary())
URL = "https://example.org/page"


class Noted:
    """Fetches and re-indexes nothing, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.fetching: list[Fetch] = []
        self.reindexed = ReindexStatus("library", ReindexState.NONE)

    def add(self, collection: str, urls: Sequence[str]) -> None:
        self.asked.append(("add", collection, list(urls)))

    def fetches(self, collection: str) -> list[Fetch]:
        return self.fetching

    def retry(self, collection: str, url: str) -> None:
        self.asked.append(("retry", collection, url))

    def forget(self, collection: str, url: str) -> None:
        self.asked.append(("forget", collection, url))

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus:
        self.asked.append(("start", name, change, restart))
        return self.reindexed

    def status(self, name: str) -> ReindexStatus:
        return self.reindexed

    def roll_back(self, name: str) -> Collection:
        raise ConflictError("There is no previous index.")


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def application(toy_services: Any) -> Any:
    toy_services.add("The ferry was late.")
    toy_services.add("The kettle is broken.", collection="other")
    return toy_services


@pytest.fixture
def handlers(application: Any, noted: Noted) -> DocumentHandlers:
    services = application.services
    return DocumentHandlers(catalog=services.catalog, documents=services.library, fetching=noted, reindexing=noted)


@pytest.fixture
def keeping(application: Any, noted: Noted) -> CollectionHandlers:
    services = application.services
    return CollectionHandlers(
        catalog=services.catalog, collections=services.library, reindexing=noted, min_steps=1, max_steps=20
    )


@pytest.fixture
def submitted(application: Any) -> Callable[[bytes, str], str]:
    def submit(content: bytes, uri: str) -> str:
        document, _ = application.services.library.add_document("library", text_source(uri, content))
        return str(document.id)

    return submit


def first_id(application: Any, collection: str = "library") -> str:
    return str(application.services.catalog.documents(collection)[0].id)


def test_what_goes_on_is_looked_at_more_often(
    application: Any, handlers: DocumentHandlers, noted: Noted, submitted: Callable[[bytes, str], str]
) -> None:
    assert handlers.show("library").poll_s == IDLE_POLL_S
    submitted(b"Later.", "later.txt")
    assert handlers.show("library").poll_s == BUSY_POLL_S
    application.work_off()
    assert handlers.show("library").poll_s == IDLE_POLL_S
    noted.fetching = [Fetch(URL, FetchState.FAILED, "404")]
    assert handlers.show("library").poll_s == IDLE_POLL_S
    noted.fetching = [Fetch(URL, FetchState.FETCHING)]
    assert handlers.show("library").poll_s == BUSY_POLL_S
    noted.fetching, noted.reindexed = [], ReindexStatus("library", ReindexState.RUNNING, 1, 2)
    assert handlers.show("library").poll_s == BUSY_POLL_S


def test_without_a_collection_the_page_says_how_to_begin(application: Any, handlers: DocumentHandlers) -> None:
    for name in [each.name for each in application.services.catalog.collections()]:
        application.services.library.delete_collection(name)
    for nothing in (None, "", []):
        assert "Nothing here yet" in handlers.show(nothing).listing


def test_before_one_of_several_collections_is_chosen_the_page_does_not_say_that_there_is_none(
    application: Any, handlers: DocumentHandlers
) -> None:
    application.services.library.ensure_collection("library")
    assert "Nothing here yet" not in handlers.show(None).listing


def test_the_list_is_filtered_and_has_pages(
    application: Any, handlers: DocumentHandlers, submitted: Callable[[bytes, str], str]
) -> None:
    for number in range(PAGE_SIZE + 5):
        submitted(b"", f"empty-{number}.txt")
    application.work_off()
    listing = handlers.show("library").listing
    assert listing.count("<tr>") == PAGE_SIZE + 1
    assert f"1–{PAGE_SIZE} of {PAGE_SIZE + 6}" in listing
    assert f"{PAGE_SIZE + 1}–{PAGE_SIZE + 6} of" in handlers.show("library", "", "", str(PAGE_SIZE)).listing
    assert f"{PAGE_SIZE + 1}–{PAGE_SIZE + 6} of" in handlers.show("library", "", "", "99999").listing
    assert handlers.show("library", "", "ready").listing.count("<tr>") == 2
    assert handlers.show("library", "EMPTY-1.", "failed").listing.count("<tr>") == 2
    assert "matches" in handlers.show("library", "empty-1.", "ready").listing


def test_a_document_is_deleted_cancelled_and_tried_again(
    application: Any, handlers: DocumentHandlers, submitted: Callable[[bytes, str], str]
) -> None:
    catalog, document_id = application.services.catalog, submitted(b"Later.", "later.txt")
    assert "cancelled" in handlers.act("library", {"action": "cancel", "document": document_id})
    assert catalog.document(document_id).state is DocumentState.FAILED
    assert "“later” is being reindexed" in handlers.act("library", {"action": "retry", "document": document_id})
    application.work_off()
    assert catalog.document(document_id).state is DocumentState.READY
    with pytest.raises(ConflictError, match="is done"):
        handlers.act("library", {"action": "cancel", "document": document_id})
    assert "“later” was deleted" in handlers.act("library", {"action": "delete", "documents": document_id})
    with pytest.raises(NotFoundError):
        handlers.act("library", {"action": "delete", "documents": document_id})


def undo_of(html: str) -> dict[str, str]:
    """What the button in a message sends."""
    return {name: unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', html) if name != "event"}


def test_several_documents_are_deleted_and_it_is_undone(application: Any, handlers: DocumentHandlers) -> None:
    catalog = application.services.catalog
    application.add("The kettle is new.")
    ids = " ".join(each.id for each in catalog.documents("library"))
    said = handlers.act("library", {"action": "delete", "documents": ids})
    assert "2 documents were deleted" in said
    application.work_off()  # which waits for a minute
    assert catalog.count_documents("library")[DocumentState.DELETING] == 2
    listing = handlers.show("library").listing
    assert listing.count('data-action="restore"') == 2
    assert listing.count('type="checkbox"') == 1  # what is deleted cannot be selected
    assert undo_of(said) == {"action": "restore", "documents": ids, "collection": "library", "to": ""}
    assert "2 documents were restored" in handlers.act("other", undo_of(said))
    application.work_off()
    assert catalog.count_documents("library")[DocumentState.READY] == 2


def test_several_documents_are_moved_and_it_is_undone(
    application: Any, handlers: DocumentHandlers, submitted: Callable[[bytes, str], str]
) -> None:
    catalog = application.services.catalog
    waiting = submitted(b"Later.", "later.txt")
    ids = f"{first_id(application)} {waiting}"
    said = handlers.act("library", {"action": "move", "documents": ids, "to": "other"})
    assert "2 documents were moved to collection “other”" in said
    application.work_off()
    assert [each.state for each in catalog.documents("other")] == [DocumentState.READY] * 3
    assert catalog.documents("library") == []
    handlers.act("library", undo_of(said))
    application.work_off()
    assert {each.uri for each in catalog.documents("library")} == {"text://0", "later.txt"}
    assert len(catalog.documents("other")) == 1
    for to in ("", None, "nowhere"):
        with pytest.raises(GircseError):
            handlers.act("library", {"action": "move", "documents": first_id(application), "to": to})


@pytest.mark.parametrize("value", [None, "", " ", ["a"], 5, " ".join(map(str, range(1001)))])
def test_lists_of_documents_that_cannot_be_are_refused(handlers: DocumentHandlers, value: object) -> None:
    for action in ("delete", "restore", "move"):
        with pytest.raises(InputError):
            handlers.act("library", {"action": action, "documents": value, "to": "other"})


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("papers-2024", "papers-2024"),
        ("My Papers", "my-papers"),
        (" Über & unter ", "uber-unter"),
        ("--a--b--", "a-b"),
        ("x" * 99, "x" * 63),
        ("论文", ""),
        ("!!", ""),
    ],
)
def test_a_name_that_is_new_is_offered_as_one_that_can_be(
    handlers: DocumentHandlers, keeping: CollectionHandlers, typed: str, name: str
) -> None:
    view = handlers.show(typed)
    if not name:
        assert "is not a valid collection name" in view.offer
        assert "data-collection" not in view.listing
        return
    assert f"Create collection {name}</button>" in view.offer
    assert f'data-collection="{name}" data-is-new' in view.listing
    assert keeping.create(undo_of(view.offer)["name"], "", "", "", "")[1] == name
    assert handlers.show(name).offer == ""


def test_all_that_failed_in_this_collection_are_tried_again(
    application: Any, handlers: DocumentHandlers, submitted: Callable[[bytes, str], str]
) -> None:
    submitted(b"", "a.txt")
    submitted(b"", "b.txt")
    application.work_off()
    assert "2 documents are being reindexed" in handlers.act("library", {"action": "retry-all"})
    assert application.services.catalog.count_documents("library")[DocumentState.QUEUED] == 2
    assert "0 documents" in handlers.act("other", {"action": "retry-all"})


def asked(action: str, document: object) -> dict[str, object]:
    return {"action": action, "document": document, "documents": document, "to": "library"}


@pytest.mark.parametrize("action", ["delete", "restore", "move", "retry", "cancel"])
def test_nobody_touches_the_documents_of_another_collection(
    application: Any, handlers: DocumentHandlers, action: str
) -> None:
    for document in (first_id(application, "other"), "no-such-id"):
        with pytest.raises(NotFoundError):
            handlers.act("library", asked(action, document))
    for document in (None, ["x"], {"id": 1}, "", 5):
        with pytest.raises(InputError):
            handlers.act("library", asked(action, document))
    with pytest.raises(UnknownCollectionError):
        handlers.act("third", asked(action, first_id(application)))
    assert [each.state for each in application.services.catalog.documents()] == [DocumentState.READY] * 2


def test_addresses_are_handed_over_line_by_line(handlers: DocumentHandlers, noted: Noted) -> None:
    said = handlers.add_urls("library", f"\n {URL} \r\n\nhttps://example.org/b\n")
    assert "2 pages are being fetched" in said
    assert noted.asked == [("add", "library", [URL, "https://example.org/b"])]
    for action in ("retry", "forget"):
        handlers.act("library", {"action": f"{action}-url", "url": URL})
        assert noted.asked[-1] == (action, "library", URL)


@pytest.mark.parametrize(
    "text", ["", " \n ", None, ["a"], 5, "\n".join(["https://a"] * (MAX_URLS_AT_ONCE + 1)), "x" * 10**6]
)
def test_lists_of_addresses_that_cannot_be_are_refused(handlers: DocumentHandlers, noted: Noted, text: object) -> None:
    with pytest.raises(InputError):
        handlers.add_urls("library", text)
    assert noted.asked == []


def test_a_collection_is_made_shown_and_deleted_by_its_name(application: Any, keeping: CollectionHandlers) -> None:
    said, name = keeping.create(" letters ", "Find the feeling.", "3", "64", "8")
    assert ("letters" in said, name) == (True, "letters")
    assert keeping.settings_of("letters") == ("Find the feeling.", "3", "64", "8")
    assert keeping.create("plain", "", "", "", "")[1] == "plain"
    assert keeping.settings_of("plain") == ("", "1", "200", "30")
    assert keeping.settings_of(None) == ("", "", "", "")
    for typed in ("", "library", "Letters", None, ["letters"]):
        with pytest.raises(InputError):
            keeping.delete("letters", typed)
    keeping.delete("letters", " letters ")
    assert "letters" not in [each.name for each in application.services.catalog.collections()]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (("", "", "", "", ""), "Enter a name"),
        (("No!", "", "", "", ""), "cannot name"),
        (("a", "", "21", "", ""), "from 1 to 20"),
        (("a", "", "x", "", ""), "whole number"),
        (("a", "", "٣", "", ""), "whole number"),
        (("a", "", "", "8", ""), "from 16 to 8192"),
        (("a", "", "", "100", "90"), "half of chunk_tokens"),
        (("a", "x" * 2001, "", "", ""), "2,001 characters"),
        (("a", "", 5, "", ""), "must be text"),
        (("a", ""), "incomplete"),
        (("a" * 64, "", "", "", ""), "64 characters"),
    ],
)
def test_settings_that_cannot_be_are_refused(keeping: CollectionHandlers, values: tuple[Any, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        keeping.create(*values)


def test_only_what_differs_is_changed_by_indexing_anew(keeping: CollectionHandlers, noted: Noted) -> None:
    keeping.reindex("library", "", "1", "100", "30")
    assert noted.asked == [("start", "library", ContractChange(chunk_tokens=100), False)]


def test_what_is_half_built_goes_on_or_starts_over_as_it_was_begun(keeping: CollectionHandlers, noted: Noted) -> None:
    contract = {"fingerprint": "f", "dimension": 4, "document_steps": 2, "chunk_tokens": 50, "chunk_overlap": 5}
    noted.reindexed = ReindexStatus("library", ReindexState.HALF_BUILT, 1, 2, contract=contract)
    keeping.manage("library", {"action": "go-on"})
    keeping.manage("library", {"action": "start-over"})
    begun = ContractChange(document_steps=2, chunk_tokens=50, chunk_overlap=5)
    assert noted.asked == [("start", "library", ContractChange(), False), ("start", "library", begun, True)]


def test_reading_is_paused_and_goes_on(
    application: Any, keeping: CollectionHandlers, handlers: DocumentHandlers
) -> None:
    keeping.manage("library", {"action": "pause"})
    assert application.services.catalog.collection("library").is_paused
    assert "Resume indexing" in handlers.show("library").settings
    keeping.manage("library", {"action": "resume"})
    assert "Pause indexing" in handlers.show("library").settings


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.tuples(JUNK, JUNK, JUNK, JUNK, JUNK),
    st.dictionaries(st.sampled_from(["action", "document", "documents", "collection", "to", "url"]), JUNK),
)
def test_junk_gets_an_answer_or_a_reason(
    application: Any, handlers: DocumentHandlers, keeping: CollectionHandlers, values: Any, data: dict[str, object]
) -> None:
    for collection in (values[0], "library"):
        for use in (
            lambda name: handlers.show(name, *values[1:4]),
            lambda name: handlers.act(name, data),
            lambda name: handlers.add_urls(name, values[1]),
            lambda name: keeping.settings_of(name),
            lambda name: keeping.reindex(name, *values[1:]),
            lambda name: keeping.manage(name, data),
            lambda name: keeping.delete(name, values[1]),
        ):
            try:
                use(collection)
            except GircseError:
                continue


@given(JUNK)
def test_states_and_offsets_are_what_they_promise(value: object) -> None:
    for read, kinds in ((read_state, (DocumentState, type(None))), (read_offset, (int,))):
        try:
            assert isinstance(read(value), kinds)
        except InputError:
            continue
