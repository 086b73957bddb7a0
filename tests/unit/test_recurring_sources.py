"""Pages, feeds and sitemaps of a real server on this machine come again: only what changed, and nothing private."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from served import in_thread

from app.access.quotas import UserQuotas
from app.access.source_service import allowance_by_owner
from app.collections.recurring_sources import SourceSchedule
from app.types.access import OPERATOR, Role, User
from app.types.documents import utc_now
from app.types.quotas import Quotas
from app.types.sources import RecurringSource, SourceKind
from ingest.recurring import web
from ingest.recurring.web import WebSourceReader
from ingest.urls import UrlReader


@dataclass
class Site:
    """Path → body; whose ETag is its length and first characters. `sent` are the paths whose bodies went out."""

    port: int = 0
    pages: dict[str, str] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def feed(self, *paths: str) -> None:
        items = "".join(f"<item><title>{path}</title><link>{self.url(path)}</link></item>" for path in paths)
        self.pages["/feed"] = f'<rss version="2.0"><channel><title>News</title>{items}</channel></rss>'

    def sitemap(self, *paths: str, at: str = "/sitemap.xml") -> None:
        items = "".join(f"<url><loc>{self.url(path)}</loc></url>" for path in paths)
        self.pages[at] = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{items}</urlset>'


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = found.pages.get(self.path)
            if body is None:
                self.send_error(404)
                return
            etag = f'"{len(body)}-{body[:20].encode().hex()}"'
            if self.headers.get("If-None-Match") == etag:
                self.send_response(304)
                self.end_headers()
                return
            found.sent.append(self.path)
            self.send_response(200)
            self.send_header("ETag", etag)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    with in_thread(server):
        yield found


def schedule_over(toy_services: Any, *, is_allowed: Callable[[str], bool] = lambda _: True) -> SourceSchedule:
    services = toy_services.services
    return SourceSchedule(
        catalog=services.catalog,
        library=services.library,
        readers=dict.fromkeys(SourceKind, WebSourceReader(UrlReader(is_allowed=is_allowed))),
        allowance_of=allowance_by_owner(services.catalog, UserQuotas(services.catalog.access, services.settings)),
    )


@pytest.fixture
def source(toy_services: Any) -> Callable[..., RecurringSource]:
    def add(kind: SourceKind, address: str, *, removes: bool = True, owner: str = OPERATOR.name) -> RecurringSource:
        services = toy_services.services
        services.library.ensure_collection("library")
        every = timedelta(hours=1)
        return services.catalog.sources.add(
            "library", kind, address, every=every, removes=removes, owner=owner
        )  # fmt: skip

    return add


def again(toy_services: Any, source: RecurringSource, **guard: Any) -> RecurringSource:
    """A round of it, and its jobs."""
    catalog = toy_services.services.catalog
    catalog.sources.hurry(source.id)
    assert schedule_over(toy_services, **guard).run_once()
    toy_services.work_off()
    return catalog.sources.get(source.id)  # type: ignore[no-any-return]


def uris(toy_services: Any) -> list[str]:
    return sorted(each.uri for each in toy_services.services.catalog.documents("library"))


def test_a_page_is_fetched_again_only_if_it_changed(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource]
) -> None:
    site.pages["/a"] = "<p>The tide comes.</p>"
    page = source(SourceKind.PAGE, site.url("/a"))
    assert (found := again(toy_services, page)).changed == 1, found
    assert again(toy_services, page).changed == 0
    assert site.sent == ["/a"]
    site.pages["/a"] = "<p>And it goes again.</p>"
    assert again(toy_services, page).changed == 1
    [document] = toy_services.services.catalog.documents("library")
    assert document.revision == 2
    del site.pages["/a"]
    assert again(toy_services, page).removed == 1
    assert uris(toy_services) == []


@pytest.mark.parametrize("name", ["path", "address"])
def test_what_a_feed_says_is_never_taken_for_a_path_or_an_address(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource], tmp_path: Path, name: str
) -> None:
    site.feed("/a")
    local = tmp_path / "secret.xml"
    local.write_text(site.pages["/feed"], "utf-8")
    site.pages["/feed"], site.pages["/inner"] = str(local), site.pages["/feed"]
    if name == "address":
        site.pages["/feed"] = site.url("/inner")
    found = again(toy_services, source(SourceKind.FEED, site.url("/feed")))
    assert "not an RSS or Atom feed" in str(found)
    assert uris(toy_services) == []


def test_a_feed_brings_what_is_new_and_keeps_what_it_names_no_more(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource]
) -> None:
    site.pages |= {f"/{name}": f"<p>Story {name}.</p>" for name in "abc"}
    site.feed("/a", "/b")
    feed = source(SourceKind.FEED, site.url("/feed"))
    assert again(toy_services, feed).changed == 2
    site.feed("/b", "/c")
    site.pages["/a"] = "<p>Corrected.</p>"
    assert (found := again(toy_services, feed)).changed == 2, found
    assert uris(toy_services) == [site.url(f"/{name}") for name in "abc"]
    del site.pages["/a"]
    assert again(toy_services, feed).removed == 1
    assert uris(toy_services) == [site.url("/b"), site.url("/c")]


@pytest.mark.parametrize("removes", [True, False])
def test_what_vanishes_from_a_sitemap_is_removed_or_kept(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource], *, removes: bool
) -> None:
    site.pages |= {f"/{name}": f"<p>Page {name}.</p>" for name in "abc"}
    site.sitemap("/a", "/b", at="/one.xml")
    site.sitemap("/c", at="/two.xml")
    locations = "".join(f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in ("/one.xml", "/two.xml"))
    site.pages["/index.xml"] = f"<sitemapindex>{locations}</sitemapindex>"
    sitemap = source(SourceKind.SITEMAP, site.url("/index.xml"), removes=removes)
    assert again(toy_services, sitemap).items == 3
    site.sitemap("/a", at="/one.xml")
    found = again(toy_services, sitemap)
    assert (found.items, found.removed, found.changed) == (2, int(removes), 0)
    assert len(uris(toy_services)) == 3 - removes


def test_a_sitemap_that_removes_decides_on_pages_of_its_own_host_alone(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource]
) -> None:
    site.pages["/a"] = "<p>Page.</p>"
    site.sitemap("/a")
    site.pages["/sitemap.xml"] = site.pages["/sitemap.xml"].replace(
        "</urlset>", "<url><loc>http://elsewhere.invalid/b</loc></url></urlset>"
    )
    sitemap = source(SourceKind.SITEMAP, site.url("/sitemap.xml"), removes=True)
    found = again(toy_services, sitemap)
    assert (found.items, found.changed, found.failed) == (1, 1, 0)
    assert "1 pages on other hosts" in str(found)


def test_a_sitemap_that_is_cut_removes_nothing(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "MAX_ITEMS", 2)
    site.pages |= {f"/{name}": f"<p>Page {name}.</p>" for name in "abc"}
    site.sitemap("/b", "/c")
    sitemap = source(SourceKind.SITEMAP, site.url("/sitemap.xml"), removes=True)
    assert again(toy_services, sitemap).items == 2
    site.sitemap("/a", "/b", "/c")
    found = again(toy_services, sitemap)
    assert (found.changed, found.removed) == (1, 0)
    assert "Only the first 2 pages" in str(found)
    assert len(uris(toy_services)) == 3


def test_an_index_of_sitemaps_within_an_index_removes_nothing(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource]
) -> None:
    site.pages["/a"] = "<p>Page.</p>"
    site.sitemap("/a", at="/one.xml")
    site.pages["/index.xml"] = f"<sitemapindex><sitemap><loc>{site.url('/one.xml')}</loc></sitemap></sitemapindex>"
    sitemap = source(SourceKind.SITEMAP, site.url("/index.xml"), removes=True)
    assert again(toy_services, sitemap).items == 1
    site.pages["/one.xml"] = f"<sitemapindex><sitemap><loc>{site.url('/two.xml')}</loc></sitemap></sitemapindex>"
    found = again(toy_services, sitemap)
    assert (found.removed, len(uris(toy_services))) == (0, 1)
    assert "1 indexes within the index are left out" in str(found)


def test_a_listing_that_fails_removes_nothing(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource]
) -> None:
    site.pages["/a"] = "<p>Page.</p>"
    site.sitemap("/a", "/gone")
    sitemap = source(SourceKind.SITEMAP, site.url("/sitemap.xml"))
    found = again(toy_services, sitemap)
    assert (found.changed, found.failed, "/gone" in str(found.error)) == (1, 1, True)
    for body in ("<html>Sorry</html>", "no xml <", '<!DOCTYPE x [<!ENTITY y "z">]><urlset>&y;</urlset>'):
        site.pages["/sitemap.xml"] = body
        assert again(toy_services, sitemap).error
        assert uris(toy_services) == [site.url("/a")]


@pytest.mark.parametrize("kind", [SourceKind.FEED, SourceKind.SITEMAP])
def test_a_list_that_is_too_large_is_not_parsed(
    toy_services: Any,
    site: Site,
    source: Callable[..., RecurringSource],
    monkeypatch: pytest.MonkeyPatch,
    kind: SourceKind,
) -> None:
    monkeypatch.setattr(f"ingest.recurring.web._MAX_{kind.name}_BYTES", 2_000)
    site.feed("/a")
    site.sitemap("/a", at="/sitemap")
    site.pages["/a"] = "<p>Page.</p>" * 1_000
    added = source(kind, site.url(f"/{kind.value}"))
    assert again(toy_services, added).changed == 1  # what it names has other limits
    site.pages[f"/{kind.value}"] += " " * 2_000
    assert "larger than 0.0 MB" in str(again(toy_services, added).error)


def test_nothing_private_is_fetched(toy_services: Any, site: Site, source: Callable[..., RecurringSource]) -> None:
    site.pages["/a"] = "<p>Secret.</p>"
    page = source(SourceKind.PAGE, site.url("/a"))
    services = toy_services.services
    schedule = SourceSchedule(
        catalog=services.catalog,
        library=services.library,
        readers=dict.fromkeys(SourceKind, WebSourceReader(UrlReader())),
        allowance_of=lambda _: None,
    )
    assert schedule.run_once()
    assert "not on the public internet" in str(services.catalog.sources.get(page.id).error)
    assert site.sent == []


def test_a_round_that_is_killed_is_taken_up(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages |= {f"/{name}": f"<p>Page {name}.</p>" for name in "ab"}
    site.sitemap("/a", "/b")
    sitemap = source(SourceKind.SITEMAP, site.url("/sitemap.xml"))
    catalog, schedule = toy_services.services.catalog, schedule_over(toy_services)

    class KilledError(BaseException):
        pass

    with monkeypatch.context() as patch:
        marked = catalog.sources.mark_item

        def die(found: RecurringSource, address: str, mark: object) -> None:
            if address.endswith("/b"):
                raise KilledError
            marked(found, address, mark)

        patch.setattr(catalog.sources, "mark_item", die)
        with pytest.raises(KilledError):
            schedule.run_once()
    assert not schedule.run_once()  # its lease goes on
    toy_services.work_off()
    later = utc_now() + timedelta(minutes=5)
    monkeypatch.setattr(catalog.database, "clock", lambda: later)
    assert schedule.run_once()
    toy_services.work_off()
    found = catalog.sources.get(sitemap.id)
    assert (found.items, found.failed, found.changed) == (2, 0, 0)
    assert site.sent.count("/a") == 1
    assert len(uris(toy_services)) == 2


def test_who_may_not_add_documents_any_more_brings_nothing(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource]
) -> None:
    site.pages["/a"] = "<p>Page.</p>"
    catalog = toy_services.services.catalog
    catalog.access.add_user(User("anna", Role.READER, utc_now()))
    found = again(toy_services, source(SourceKind.PAGE, site.url("/a"), owner="anna"))
    assert "anna" in str(found.error)
    assert site.sent == []


def test_what_a_source_brings_is_on_the_account_of_its_owner(
    toy_services: Any, site: Site, source: Callable[..., RecurringSource]
) -> None:
    site.pages |= {f"/{name}": f"<p>Page {name}.</p>" for name in "abc"}
    site.sitemap("/a", "/b", "/c")
    catalog = toy_services.services.catalog
    catalog.access.add_user(User("anna", Role.EDITOR, utc_now(), quotas=Quotas(documents=2)))
    sitemap = source(SourceKind.SITEMAP, site.url("/sitemap.xml"), owner="anna")
    found = again(toy_services, sitemap)
    assert (found.changed, found.failed, "anna may store 2 documents" in str(found.error)) == (2, 1, True)
    assert catalog.access.stored_amount("anna").documents == 2
    site.sitemap("/a", "/c")  # room is made in this round, and used in the next one
    again(toy_services, sitemap)
    found = again(toy_services, sitemap)
    assert (found.items, found.failed, found.error) == (2, 0, None)
    assert uris(toy_services) == [site.url("/a"), site.url("/c")]


def test_sources_over_http(toy_services: Any) -> None:
    toy_services.services.library.ensure_collection("library")
    client = TestClient(api_of(toy_services.services), raise_server_exceptions=False)
    path = "/api/v1/collections/library/sources"
    added = client.post(path, json={"kind": "feed", "address": "https://example.org/feed", "every_minutes": 60}).json()
    assert client.get(path).json() == [added]
    assert client.get("/api/v1/source-credentials").json() == []
    chosen = {"patterns": ["docs/"], "branch": "next", "credentials": ""}
    git = client.post(path, json={"kind": "git", "address": "https://example.org/x.git", **chosen}).json()
    assert {name: git[name] for name in chosen} == chosen
    client.delete(f"/api/v1/sources/{git['id']}")
    unknown = client.post(path, json={"kind": "git", "address": "https://example.org/x.git", "credentials": "none"})
    assert (unknown.status_code, "GIRCSE_CREDENTIALS_FOLDER" in unknown.text) == (422, True)
    assert client.post(f"/api/v1/sources/{added['id']}/run").status_code == 202
    assert client.delete(f"/api/v1/sources/{added['id']}").status_code == 204
    assert client.get(path).json() == []
    for wrong in ({"address": "ftp://host"}, {"address": "https://host", "every_minutes": 1}):
        assert client.post(path, json={"kind": "page", **wrong}).status_code == 422
    assert client.delete("/api/v1/sources/none").status_code == 404
