"""Web pages on their way into a collection, in threads of the serving process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from patience import PATIENCE_S, wait_until

from app.access.accounts import Accounts
from app.access.quotas import UserQuotas
from app.access.source_service import present_allowance
from app.documents.fetching import BackgroundFetching
from app.errors import DocumentError, InputError, NotFoundError, UnknownCollectionError
from app.types.access import Role
from app.types.documents import Source
from app.types.quotas import Allowance
from app.types.upkeep import MAX_URLS, Fetch, FetchState

PAGE, ABSENT, CRASH = "https://example.org/page", "https://example.org/absent", "https://example.org/crash"


class Web:
    """Pages by address; the answers wait until `unblocked` is set."""

    def __init__(self) -> None:
        self.unblocked = threading.Event()
        self.unblocked.set()
        self.asked: list[str] = []
        self.is_mended = False

    def read(self, url: str) -> Source:
        self.asked.append(url)
        assert self.unblocked.wait(timeout=PATIENCE_S)
        if url == CRASH:
            raise RuntimeError("secret=hunter2")
        if url == ABSENT and not self.is_mended:
            raise DocumentError("The server answers 404 Not Found.")
        return Source(name=url, uri=url, media_type="text/plain", data=b"A page of the web.")


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def fetching(toy_services: Any, web: Web) -> Iterator[BackgroundFetching]:
    toy_services.services.library.ensure_collection("library")
    fetching = BackgroundFetching(toy_services.services.catalog, toy_services.services.library, read_url=web.read)
    yield fetching
    web.unblocked.set()
    fetching.close()


def finished(fetching: BackgroundFetching) -> list[Fetch]:
    wait_until(lambda: all(each.state is FetchState.FAILED for each in fetching.fetches("library")))
    return fetching.fetches("library")


def test_what_is_fetched_becomes_a_document_and_is_forgotten(toy_services: Any, fetching: BackgroundFetching) -> None:
    fetching.add("library", [PAGE, f" {PAGE} "])
    assert finished(fetching) == []
    (document,) = toy_services.services.catalog.documents("library")
    assert document.uri == PAGE
    toy_services.work_off()
    assert toy_services.services.catalog.document(document.id).chunk_count == 1


def test_what_failed_stays_with_its_reason_until_it_is_tried_again(
    toy_services: Any, fetching: BackgroundFetching, web: Web
) -> None:
    fetching.add("library", [ABSENT])
    assert finished(fetching) == [Fetch(ABSENT, FetchState.FAILED, "The server answers 404 Not Found.")]
    web.is_mended = True
    fetching.retry("library", ABSENT)
    assert finished(fetching) == []
    assert [each.uri for each in toy_services.services.catalog.documents("library")] == [ABSENT]


def test_what_failed_can_be_taken_away(fetching: BackgroundFetching) -> None:
    fetching.add("library", [ABSENT])
    finished(fetching)
    fetching.forget("library", ABSENT)
    assert fetching.fetches("library") == []
    for use in (fetching.forget, fetching.retry):
        with pytest.raises(NotFoundError, match="has not failed"):
            use("library", ABSENT)


def test_the_unforeseen_is_logged_and_not_shown(fetching: BackgroundFetching, caplog: pytest.LogCaptureFixture) -> None:
    fetching.add("library", [CRASH])
    (failed,) = finished(fetching)
    assert "hunter2" not in (failed.error or "")
    assert "hunter2" in caplog.text


def test_what_waits_is_seen_and_cannot_be_taken_away(fetching: BackgroundFetching, web: Web) -> None:
    web.unblocked.clear()
    urls = [f"https://example.org/{number}" for number in range(8)]
    fetching.add("library", urls)
    wait_until(lambda: len(web.asked) == 4)
    states = [each.state for each in fetching.fetches("library")]
    assert states == [FetchState.FETCHING] * 4 + [FetchState.WAITING] * 4
    fetching.add("library", urls)  # asking again changes nothing
    with pytest.raises(NotFoundError):
        fetching.forget("library", urls[0])
    web.unblocked.set()
    assert finished(fetching) == []
    assert sorted(web.asked) == urls


def test_pages_of_a_deleted_collection_are_forgotten(toy_services: Any, fetching: BackgroundFetching, web: Web) -> None:
    """Else one of the same name would get them, and show a reason that names hidden collections."""
    library = toy_services.services.library
    web.unblocked.clear()
    urls = [f"https://example.org/{number}" for number in range(8)]
    fetching.add("library", urls)
    wait_until(lambda: len(web.asked) == 4)
    library.delete_collection("library")
    web.unblocked.set()
    wait_until(lambda: not fetching.fetches("library"))
    assert len(web.asked) == 4
    library.ensure_collection("library")
    assert toy_services.services.catalog.documents("library") == []


def test_pages_of_a_deleted_collection_do_not_reach_a_later_one_of_its_name(
    toy_services: Any, fetching: BackgroundFetching, web: Web
) -> None:
    library = toy_services.services.library
    fetching.add("library", [ABSENT])
    finished(fetching)
    web.unblocked.clear()
    fetching.add("library", [f"https://example.org/{number}" for number in range(8)])
    wait_until(lambda: len(web.asked) == 5)
    library.delete_collection("library")
    library.ensure_collection("library")
    assert fetching.fetches("library") == []
    web.unblocked.set()
    fetching.add("library", [PAGE])
    assert finished(fetching) == []
    wait_until(lambda: PAGE in web.asked)
    wait_until(lambda: len(toy_services.services.catalog.documents("library")) == 1)
    assert [each.uri for each in toy_services.services.catalog.documents("library")] == [PAGE]
    assert len(web.asked) == 6


def test_failed_pages_of_deleted_collections_are_not_kept(toy_services: Any, fetching: BackgroundFetching) -> None:
    library = toy_services.services.library
    for number in range(3):
        library.ensure_collection(f"made-{number}")
        fetching.add(f"made-{number}", [ABSENT])
        wait_until(lambda name=f"made-{number}": fetching.fetches(name)[0].state is FetchState.FAILED)
        library.delete_collection(f"made-{number}")
    fetching.add("library", [ABSENT])
    assert [each.collection for each in fetching._fetches] == ["library"]


def test_pages_of_a_user_whose_rights_have_ended_are_not_added(toy_services: Any, web: Web) -> None:
    services = toy_services.services
    services.library.ensure_collection("library")
    accounts = Accounts(services.catalog.access)
    accounts.add_user("mallory", role=Role.EDITOR)
    allowance_of = present_allowance(services.catalog, UserQuotas(services.catalog.access, services.settings))
    web.unblocked.clear()
    urls = [f"https://example.org/{number}" for number in range(8)]
    with closing(
        BackgroundFetching(services.catalog, services.library, read_url=web.read, allowance_of=allowance_of)
    ) as fetching:
        fetching.add("library", urls, allowance=Allowance("mallory"))
        wait_until(lambda: len(web.asked) == 4)
        accounts.change_user("mallory", is_disabled=True)
        web.unblocked.set()
        told = {each.error for each in finished(fetching)}
    assert told == {"mallory, who added this source, may no longer add documents here."}
    assert len(web.asked) == 4  # those that waited are not fetched, either
    assert services.catalog.documents("library") == []


def test_who_asks_for_one_page_does_not_wait_for_all_pages_of_another(fetching: BackgroundFetching, web: Web) -> None:
    web.unblocked.clear()
    urls = [f"https://example.org/{number}" for number in range(20)]
    fetching.add("library", urls, allowance=Allowance("mallory"))
    wait_until(lambda: len(web.asked) == 4)
    fetching.add("library", [PAGE], allowance=Allowance("anna"))
    web.unblocked.set()
    assert finished(fetching) == []
    assert PAGE in web.asked[:8]  # after the four that were being fetched


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "ftp://a/b",
        "example.org",
        "javascript:alert(1)",
        "https://",
        "http:///etc/passwd",
        "http://a:0/",
        "http://a\0",
        "http://a\ud800",
        "https://a/" + "x" * 2000,
    ],
)
def test_what_is_no_address_is_refused_with_all_the_others(fetching: BackgroundFetching, web: Web, url: str) -> None:
    with pytest.raises(InputError):
        fetching.add("library", [PAGE, url])
    assert (fetching.fetches("library"), web.asked) == ([], [])


def test_too_many_are_refused(fetching: BackgroundFetching, web: Web) -> None:
    web.unblocked.clear()
    fetching.add("library", [f"https://example.org/{number}" for number in range(MAX_URLS)])
    with pytest.raises(InputError, match="At most 200 URLs"):
        fetching.add("library", [PAGE])
    assert len(fetching.fetches("library")) == MAX_URLS


def test_pages_of_one_user_leave_room_for_others(fetching: BackgroundFetching, web: Web) -> None:
    web.unblocked.clear()
    urls = [f"https://example.org/{number}" for number in range(MAX_URLS)]
    fetching.add("library", urls, allowance=Allowance("mallory"))
    with pytest.raises(InputError, match="At most 200 URLs"):
        fetching.add("library", [PAGE], allowance=Allowance("mallory"))
    fetching.add("library", [PAGE], allowance=Allowance("anna"))
    assert PAGE in [each.url for each in fetching.fetches("library")]


def test_an_unknown_collection_is_refused(fetching: BackgroundFetching) -> None:
    with pytest.raises(UnknownCollectionError):
        fetching.add("other", [PAGE])
