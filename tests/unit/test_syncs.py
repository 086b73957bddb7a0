"""Sources are synced in child processes: what a hostile server sends, and how slowly, ends its own sync alone."""

from __future__ import annotations

import gzip
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import source_origins
import trustme
from patience import PATIENCE_S, wait_until
from source_origins import NAME, Origin, git_origin, mail_origin, s3_origin, web_origin, write_credentials

from app.collections.credentials_folder import CredentialsFolder
from app.collections.recurring_sources import PLACES, SourceSchedule
from app.errors import DocumentError, InputError, SyncEndedError
from app.types.access import OPERATOR
from app.types.documents import utc_now
from app.types.sources import ItemMark, Listing, RecurringSource, SourceKind, SourceOptions
from app.wiring.recurring import syncing_sources
from ingest.recurring import syncs
from ingest.recurring.sync_messages import ItemHead
from ingest.recurring.syncs import SyncingReader, SyncLimits

pytestmark = pytest.mark.xdist_group("source_readers")  # the servers are shared

HOUR = timedelta(hours=1)
SHORT = SyncLimits(page_s=1, list_s=1, item_s=1, repository_s=1)
FOREVER = 10**9

Answer = Callable[[socket.socket, threading.Event], None]  # of one connection; it ends when the event is set


@dataclass
class Server:
    port: int
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def source(self, kind: SourceKind, *, owner: str = OPERATOR.name, path: str = "/papers/y") -> RecurringSource:
        scheme = "imaps" if kind is SourceKind.IMAP else "http"
        options = SourceOptions(credentials=NAME) if kind is SourceKind.IMAP else SourceOptions()
        address = f"{scheme}://localhost:{self.port}" + ("" if kind is SourceKind.IMAP else path)
        return RecurringSource("id", "library", kind, address, HOUR, True, owner, utc_now(), options)


@contextmanager
def answering(answer: Answer, *, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server of bytes; `answer` has each connection in a thread."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Server(listening.getsockname()[1])

        def talk(plain: socket.socket) -> None:
            server.asked.release()
            try:
                with plain if tls is None else tls.wrap_socket(plain, server_side=True) as connection:
                    answer(connection, ended)
            except OSError:
                pass  # the other side has left, as it should

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)


def silent(connection: socket.socket, ended: threading.Event) -> None:
    ended.wait()


def trickling(begin: bytes, connection: socket.socket, ended: threading.Event) -> None:
    connection.sendall(begin)
    while not ended.wait(0.05):
        connection.sendall(b"x" * 100)  # so many that git does not leave by itself


def http(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Content-Type: application/xml", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def once(data: bytes, connection: socket.socket, ended: threading.Event) -> None:
    connection.recv(1 << 16)
    connection.sendall(data)


TRICKLED_HEADERS = partial(trickling, b"HTTP/1.1 200 OK\r\nX-A: ")
TRICKLED_BODY = partial(trickling, f"HTTP/1.1 200 OK\r\nContent-Length: {FOREVER}\r\n\r\n".encode())


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Of a server that sources trust."""
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return context


@pytest.fixture
def reader(tmp_path: Path) -> Callable[..., SyncingReader]:
    def made(limits: SyncLimits | None = None) -> SyncingReader:
        return SyncingReader(
            credentials=CredentialsFolder(tmp_path), may_be_private=True, folder=tmp_path, limits=limits
        )

    return made


def list_items(reader: SyncingReader, source: RecurringSource) -> list[str]:
    with reader.open(source, {}, beat=lambda: None) as opened:
        found = list(opened.items().items)
        for address in found:
            opened.fetch(address, ItemMark())
        return found


def children() -> list[psutil.Process]:
    """Of syncs, with the programs that they have started."""
    found = psutil.Process().children(recursive=True)
    return [each for each in found if each.is_running() and _is_of_sync(each)]


def goes_on(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_of_sync(process: psutil.Process) -> bool:
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return "sync_child" in line or "git" in line.partition(" ")[0]


@pytest.mark.parametrize(
    ("kind", "answer", "has_tls"),
    [
        pytest.param(SourceKind.S3, silent, False, id="s3: no answer"),
        pytest.param(SourceKind.S3, TRICKLED_HEADERS, False, id="s3: headers"),
        pytest.param(SourceKind.S3, TRICKLED_BODY, False, id="s3: body"),
        pytest.param(SourceKind.PAGE, TRICKLED_BODY, False, id="page: body"),
        pytest.param(SourceKind.FEED, TRICKLED_HEADERS, False, id="feed: headers"),
        pytest.param(SourceKind.SITEMAP, silent, False, id="sitemap: no answer"),
        pytest.param(SourceKind.GIT, TRICKLED_BODY, False, id="git: body"),
        pytest.param(SourceKind.IMAP, silent, False, id="imap: handshake"),
        pytest.param(SourceKind.IMAP, partial(trickling, b"* OK "), True, id="imap: greeting"),
    ],
)
def test_a_server_that_trickles_is_left(
    reader: Callable[..., SyncingReader],
    tls: ssl.SSLContext,
    tmp_path: Path,
    kind: SourceKind,
    answer: Answer,
    *,
    has_tls: bool,
) -> None:
    with answering(answer, tls=tls if has_tls else None) as server:
        source = server.source(kind)
        write_credentials(tmp_path, source.address)
        with pytest.raises(DocumentError, match=r"within 1 s, so it was given up.*next sync"):
            list_items(reader(SHORT), source)
    wait_until(lambda: not children())
    assert not list(tmp_path.glob("sync-*"))


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_a_list_that_unpacks_to_much_is_refused(reader: Callable[..., SyncingReader], encoding: str) -> None:
    packed = gzip.compress(b" " * 100_000_000) if encoding == "gzip" else b"any"
    with (
        answering(partial(once, http(packed, f"Content-Encoding: {encoding}"))) as server,
        pytest.raises(DocumentError, match="larger than 16 MB" if encoding == "gzip" else "encoding 'br'"),
    ):
        list_items(reader(), server.source(SourceKind.S3))


def test_a_list_without_end_is_left(reader: Callable[..., SyncingReader]) -> None:
    begin, changed = b"<ListBucketResult><Name>papers</Name>", b"<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    one = b"<Contents><Key>a/b</Key>" + changed + b"<Size>1</Size></Contents>"
    end = b"<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>"
    page = http(begin + one * 1_000 + end)
    with answering(partial(once, page)) as server, pytest.raises(DocumentError, match=r"not complete.*prefix"):
        list_items(reader(SyncLimits(list_s=0)), server.source(SourceKind.S3))


def test_what_takes_much_memory_to_parse_costs_the_child_alone(reader: Callable[..., SyncingReader]) -> None:
    """15 MB of XML, which becomes a tree of a gigabyte."""
    body = b"<ListBucketResult>" + b"<a/>" * 3_700_000 + b"</ListBucketResult>"
    limits = SyncLimits(memory_bytes=150_000_000)
    with (
        answering(partial(once, http(body))) as server,
        pytest.raises(DocumentError, match=r"more than 150 MB of memory.*address"),
    ):
        list_items(reader(limits), server.source(SourceKind.S3))


def test_a_mail_server_that_floods_costs_the_child_alone(
    reader: Callable[..., SyncingReader], tls: ssl.SSLContext, tmp_path: Path
) -> None:
    def flood(connection: socket.socket, ended: threading.Event) -> None:
        connection.sendall(b"* OK there\r\n")
        while command := connection.recv(1 << 16).split():
            if b"CAPABILITY" in command[1]:
                connection.sendall(b"* CAPABILITY IMAP4rev1\r\n")
            while b"LIST" in command[1] and not ended.is_set():
                connection.sendall(b'* LIST () "/" box\r\n' * 10_000)
            connection.sendall(command[0] + b" OK done\r\n")

    with answering(flood, tls=tls) as server:
        source = server.source(SourceKind.IMAP)
        write_credentials(tmp_path, source.address)
        with pytest.raises(DocumentError, match="more than 100 MB of memory"):
            list_items(reader(SyncLimits(memory_bytes=100_000_000)), source)


MAILBOX = {
    b"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\n",
    b"LIST": b'* LIST () "/" INBOX\r\n',
    b"EXAMINE": b"* 2 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n",
    b"UID": b"* 1 FETCH (UID 1)\r\n* 2 FETCH (UID 2)\r\n",
}


def mailbox(
    answers: dict[bytes, bytes], refused: bytes | None, connection: socket.socket, ended: threading.Event
) -> None:
    """Two messages, except for what `answers` changes. The `refused` command gets NO."""
    connection.sendall(b"* OK there\r\n")
    while command := connection.recv(1 << 16).split():
        done = b" NO [UNAVAILABLE] later\r\n" if command[1] == refused else b" OK done\r\n"
        connection.sendall((MAILBOX | answers).get(command[1], b"") + command[0] + done)


@pytest.fixture
def listed(
    reader: Callable[..., SyncingReader], tls: ssl.SSLContext, tmp_path: Path
) -> Callable[[dict[bytes, bytes], bytes | None], Listing]:
    def of(answers: dict[bytes, bytes], refused: bytes | None) -> Listing:
        with answering(partial(mailbox, answers, refused), tls=tls) as server:
            source = server.source(SourceKind.IMAP)
            write_credentials(tmp_path, source.address)
            with reader().open(source, {}, beat=lambda: None) as opened:
                return opened.items()

    return of


@pytest.mark.parametrize(
    ("answers", "refused", "reason"),
    [
        pytest.param({b"LIST": b""}, b"LIST", "did not list its folders", id="folders: NO"),
        pytest.param({b"LIST": b""}, None, "did not list its folders", id="folders: none"),
        pytest.param({b"EXAMINE": b"* OK [UIDVALIDITY 7] valid\r\n"}, None, "did not count", id="no count"),
        pytest.param({b"UID": b""}, b"UID", "did not list the messages", id="messages: NO"),
    ],
)
def test_a_mailbox_that_is_not_listed_is_not_empty(
    listed: Callable[..., Listing], answers: dict[bytes, bytes], refused: bytes | None, reason: str
) -> None:
    """An empty list would remove the documents of all messages."""
    with pytest.raises(DocumentError, match=reason):
        listed(answers, refused)


def test_a_mailbox_that_is_listed_in_part_loses_nothing(listed: Callable[..., Listing]) -> None:
    whole = listed({}, None)
    assert (len(whole.items), whole.is_whole, whole.note) == (2, True, None)
    part = listed({b"UID": b"* 1 FETCH (UID 1)\r\n"}, None)
    assert (len(part.items), part.is_whole) == (1, False)
    assert "left 1 messages out" in str(part.note)
    unread = listed({b"LIST": b'* LIST () "/" INBOX\r\n* LIST "/" odd\r\n'}, None)
    assert (len(unread.items), unread.is_whole) == (2, False)
    assert "names of 1 folders" in str(unread.note)
    literal = listed({b"LIST": b'* LIST () "/" {5}\r\nINBOX\r\n'}, None)
    assert (len(literal.items), literal.is_whole) == (2, True)
    empty = listed({b"EXAMINE": b"* 0 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n"}, None)
    assert (len(empty.items), empty.is_whole) == (0, True)


@pytest.fixture(params=["sitemap", "git", "imap", "s3"])
def origin(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    monkeypatch.setattr(source_origins, "HOST", "127.0.0.1")  # the child asks the resolver of the machine
    folder = tmp_path / "origin"
    folder.mkdir()
    with ExitStack() as opened:
        if request.param == "s3":
            moto_server = pytest.importorskip("moto.server")
            server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
            server.start()
            opened.callback(server.stop)
            yield opened.enter_context(s3_origin(folder, server.get_host_and_port()))
            return
        made = {"sitemap": web_origin, "git": git_origin, "imap": mail_origin}[request.param]
        found = opened.enter_context(made(folder))
        if request.param == "imap":
            monkeypatch.setenv("SSL_CERT_FILE", str(found.authority))
        yield found


def test_every_kind_is_synced_in_a_child(origin: Origin, toy_services: Any) -> None:
    services = toy_services.services
    services.library.ensure_collection("library")
    added = services.catalog.sources.add(
        "library", origin.kind, origin.address, every=HOUR, removes=True, owner=OPERATOR.name, options=origin.options
    )
    syncing = SyncingReader(credentials=CredentialsFolder(origin.folder), may_be_private=True)
    schedule = schedule_over(toy_services, syncing)

    def again() -> RecurringSource:
        services.catalog.sources.hurry(added.id)
        assert schedule.run_once()
        toy_services.work_off()
        return services.catalog.sources.get(added.id)  # type: ignore[no-any-return]

    origin.put("tide", "The tide comes.")
    origin.put("oven", "The oven is hot.")
    found = again()
    assert (found.changed, found.items, found.failed, found.error) == (2, 2, 0, None)
    origin.put("tide", "The tide has gone out.")
    origin.delete("oven")
    found = again()
    assert (found.changed, found.items, found.failed, found.error) == (1, 1, 0, None)
    index = services.catalog.collection("library").active_index
    [point] = services.index.retrieve(index, list(services.index.point_ids(index)))
    assert "gone out" in point.payload["page_content"]
    if origin.asks_for_password:
        write_credentials(origin.folder, origin.address, password="wrong")
        assert "credentials" in str(again().error)
    private = SyncingReader(credentials=CredentialsFolder(origin.folder), may_be_private=False)
    with pytest.raises(DocumentError, match="not on the public internet"):
        list_items(private, added)


def schedule_over(toy_services: Any, reader: SyncingReader, **options: Any) -> SourceSchedule:
    services = toy_services.services
    return SourceSchedule(
        catalog=services.catalog,
        library=services.library,
        readers=dict.fromkeys(SourceKind, reader),
        allowance_of=lambda _: None,
        poll_s=0.05,
        **options,
    )


@pytest.fixture
def add(toy_services: Any) -> Callable[..., RecurringSource]:
    def added(source: RecurringSource, **changes: Any) -> RecurringSource:
        toy_services.services.library.ensure_collection("library")
        values = {"every": HOUR, "removes": True, "owner": source.owner, "options": source.options} | changes
        return toy_services.services.catalog.sources.add(  # type: ignore[no-any-return]
            "library", source.kind, source.address, **values
        )

    return added


@pytest.mark.parametrize("why", ["deleted", "changed", "stopped"])
@pytest.mark.parametrize("kind", [SourceKind.S3, SourceKind.IMAP, SourceKind.GIT, SourceKind.PAGE])
def test_a_sync_under_way_is_left(
    toy_services: Any,
    reader: Callable[..., SyncingReader],
    add: Callable[..., RecurringSource],
    tmp_path: Path,
    kind: SourceKind,
    why: str,
) -> None:
    """Its own deadlines are beyond the patience of tests."""
    catalog, stop = toy_services.services.catalog, threading.Event()
    with answering(TRICKLED_BODY) as server:
        source = add(server.source(kind))
        write_credentials(tmp_path, source.address)
        schedule = schedule_over(toy_services, reader(SyncLimits(FOREVER, FOREVER, FOREVER, FOREVER)))
        sync = threading.Thread(target=schedule.run_once, args=(stop,), daemon=True)
        sync.start()
        assert server.asked.acquire(timeout=PATIENCE_S)
        begun = children()
        assert any("git" in each.name() for each in begun) == (kind is SourceKind.GIT)
        if why == "deleted":
            catalog.sources.delete(source.id)
        elif why == "changed":
            add(source, removes=False)
        else:
            stop.set()
        sync.join(PATIENCE_S)
        assert not sync.is_alive()
        wait_until(lambda: not any(map(goes_on, begun)))
    if why == "changed":  # it is due as it is now
        claimed = catalog.sources.claim(lease=HOUR)
        assert (claimed.id, claimed.removes) == (source.id, False)


def test_no_owner_and_no_server_holds_up_the_others(
    toy_services: Any, reader: Callable[..., SyncingReader], add: Callable[..., RecurringSource]
) -> None:
    catalog, stop = toy_services.services.catalog, threading.Event()
    schedule = schedule_over(toy_services, reader())
    page = http(b"<p>The tide comes.</p>")
    with answering(TRICKLED_BODY) as slow, answering(partial(once, page)) as good, ExitStack() as ended:
        for number in range(PLACES + 1):
            add(slow.source(SourceKind.S3, owner="mallory", path=f"/papers/{number}"))
        threads = [threading.Thread(target=schedule.run, args=(stop,), daemon=True) for _ in range(PLACES)]
        ended.callback(lambda: [each.join(PATIENCE_S) for each in threads])
        ended.callback(stop.set)
        for each in threads:
            each.start()
        assert slow.asked.acquire(timeout=PATIENCE_S)
        anna = add(good.source(SourceKind.PAGE, owner="anna", path="/tide"))
        found = wait_until(lambda: (now := catalog.sources.get(anna.id)).last_at and now)
        assert (found.changed, found.error) == (1, None)
        assert sum(each.is_running for each in catalog.sources.of_collection("library")) == PLACES // 2
    assert not any(each.is_alive() for each in threads)


def paths_site(pages: dict[str, bytes], connection: socket.socket, ended: threading.Event) -> None:
    """Paths without a page trickle."""
    path = connection.recv(1 << 16).split()[1].decode()
    if path in pages:
        connection.sendall(pages[path])
    else:
        TRICKLED_BODY(connection, ended)


def sitemap_of(port: int, *paths: str) -> bytes:
    locations = "".join(f"<url><loc>http://localhost:{port}{path}</loc></url>" for path in paths)
    return http(f"<urlset>{locations}</urlset>".encode())


def test_an_item_that_trickles_is_left_and_the_others_come(
    toy_services: Any, reader: Callable[..., SyncingReader], add: Callable[..., RecurringSource]
) -> None:
    pages = {"/good": http(b"<p>The tide comes.</p>")}
    with answering(partial(paths_site, pages)) as server:
        pages["/map.xml"] = sitemap_of(server.port, "/slow", "/good")
        source = add(server.source(SourceKind.SITEMAP, path="/map.xml"))
        limits = SyncLimits(item_s=2)
        assert schedule_over(toy_services, reader(limits)).run_once()
    found = toy_services.services.catalog.sources.get(source.id)
    assert (found.changed, found.failed) == (1, 1)
    assert "/slow: The server did not finish its response within 2 s" in str(found.error)


def test_a_sync_ends_after_several_items_that_trickle(
    reader: Callable[..., SyncingReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.recurring.syncs._MAX_CHILDREN", 1)
    pages: dict[str, bytes] = {}
    with answering(partial(paths_site, pages)) as server:
        pages["/map.xml"] = sitemap_of(server.port, "/slow", "/good")
        source = server.source(SourceKind.SITEMAP, path="/map.xml")
        with reader(SyncLimits(item_s=1)).open(source, {}, beat=lambda: None) as opened:
            first, second = opened.items().items
            with pytest.raises(DocumentError, match="within 1 s"):
                opened.fetch(first, ItemMark())
            with pytest.raises(SyncEndedError, match="wait for the next sync"):
                opened.fetch(second, ItemMark())


def test_a_child_answers_for_the_item_that_was_asked_for(
    reader: Callable[..., SyncingReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server sends may take the child over: it brings no document in another one's place."""
    read = syncs.read_answer

    def misled(answers: Any) -> Any:
        found = read(answers)
        return replace(found, uri="file:///of/another") if isinstance(found, ItemHead) else found

    with answering(partial(once, http(b"<p>Page.</p>"))) as server:
        source = server.source(SourceKind.PAGE, path="/page")
        assert list_items(reader(), source) == [source.address]
        monkeypatch.setattr(syncs, "read_answer", misled)
        with pytest.raises(DocumentError, match="sent unreadable data"):
            list_items(reader(), source)


def test_a_long_round_goes_on_with_the_next_one(
    toy_services: Any, reader: Callable[..., SyncingReader], add: Callable[..., RecurringSource]
) -> None:
    pages = {f"/{name}": http(f"<p>Page {name}.</p>".encode(), f'ETag: "{name}"') for name in "abc"}
    with answering(partial(paths_site, pages)) as server:
        pages["/map.xml"] = sitemap_of(server.port, "/a", "/b", "/c")
        source = add(server.source(SourceKind.SITEMAP, path="/map.xml"))
        schedule = schedule_over(toy_services, reader(), longest=timedelta(0))
        catalog = toy_services.services.catalog
        for count in (1, 2, 3):
            catalog.sources.hurry(source.id)
            assert schedule.run_once()
            found = catalog.sources.get(source.id)
            assert (found.items, found.changed, "wait for the next scheduled sync" in str(found.error)) == (
                count,
                1,
                True,
            )


def test_credentials_that_are_not_there_start_no_child(reader: Callable[..., SyncingReader]) -> None:
    source = Server(1).source(SourceKind.IMAP)
    with (
        pytest.raises(InputError, match="GIRCSE_CREDENTIALS_FOLDER"),
        reader().open(source, {}, beat=lambda: None),
    ):
        pass


def failing(call: Callable[[], object]) -> None:
    with pytest.raises(DocumentError):
        call()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="Windows has no groups of processes")
def test_a_child_ends_with_its_worker_and_takes_git_along(
    reader: Callable[..., SyncingReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(TRICKLED_BODY) as server:
        source = server.source(SourceKind.GIT)
        with reader().open(source, {}, beat=lambda: None) as opened:
            sync = threading.Thread(target=failing, args=(opened.items,), daemon=True)
            sync.start()
            assert server.asked.acquire(timeout=PATIENCE_S)
            found = wait_until(children)
            assert any("git" in each.name() for each in found)
            # Its end of the pipe is closed, as it is when a worker is killed.
            pipe = opened._child.requests  # type: ignore[attr-defined]
            os.close(os.dup(pipe.fileno()))
            pipe.close()
            wait_until(lambda: not any(map(goes_on, found)))
            sync.join(PATIENCE_S)
            assert not sync.is_alive()


def test_a_worker_that_stops_leaves_no_sync_behind(
    toy_services: Any,
    reader: Callable[..., SyncingReader],
    add: Callable[..., RecurringSource],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers = dict.fromkeys(SourceKind, reader(SyncLimits(FOREVER, FOREVER, FOREVER, FOREVER)))
    monkeypatch.setattr("app.wiring.recurring.source_readers", lambda services: readers)
    monkeypatch.setattr("app.wiring.recurring._LEAVING_S", PATIENCE_S)
    stop = threading.Event()
    with answering(TRICKLED_BODY) as server:
        add(server.source(SourceKind.FEED))
        with syncing_sources(toy_services.services, stop):
            assert server.asked.acquire(timeout=PATIENCE_S)
            stop.set()
        assert not [each for each in threading.enumerate() if each.name.startswith("sources-")]
        assert not children()
