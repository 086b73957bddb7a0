"""Pages are fetched from real servers on this machine, and never from where the guard says no."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv4Network, IPv6Network

import pytest
import trustme
from denied_network import NetworkDeniedError, asked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import in_thread

from app.errors import DocumentError
from app.types.documents import Source, SourceFailure
from ingest.addresses import SPECIAL_4, SPECIAL_6
from ingest.urls import FetchLimits, UrlReader

PAGE = b"<html><title>Tides</title><p>The tide comes in twice a day.</p></html>"


@dataclass
class Site:
    """A server on 127.0.0.1: path → what it answers; `asked` holds (Host, path) of every request that came."""

    port: int = 0
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    connections: int = 0
    names_in_tls: list[str | None] = field(default_factory=list)

    def answer(
        self, path: str, body: bytes = PAGE, *, status: int = 200, media_type: str = "text/html", **headers: str
    ) -> None:
        def reply(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            if media_type:
                handler.send_header("Content-Type", media_type)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = reply

    def redirect(self, path: str, to: str) -> None:
        self.answer(path, b"", status=302, Location=to)


@pytest.fixture
def site_factory() -> Iterator[Callable[..., Site]]:
    opened = ExitStack()

    def build(tls: ssl.SSLContext | None = None) -> Site:
        site = Site()

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                site.connections += 1
                super().setup()

            def do_GET(self) -> None:
                site.asked.append((self.headers["Host"], self.path))
                site.answers[self.path](self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:  # clients here hang up on purpose
                pass

        server = Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            tls.sni_callback = lambda _, name, __: site.names_in_tls.append(name)
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        site.port = server.server_address[1]
        opened.enter_context(in_thread(server))
        return site

    with opened:
        yield build


@pytest.fixture
def site(site_factory: Callable[..., Site]) -> Site:
    return site_factory()


class Names:
    """A name server of this test's own: each name has its answers, one after the other; the last one stays."""

    def __init__(self, **answers: list[str]) -> None:
        self._answers = {name.replace("_", "."): addresses for name, addresses in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self._answers[host]
        return [answers.pop(0) if len(answers) > 1 else answers[0]]


def is_here(address: str) -> bool:
    """For these tests 127.0.0.1 is the public internet."""
    return address == "127.0.0.1"


def reader(names: Names, **changes: object) -> UrlReader:
    return UrlReader(**{"is_allowed": is_here, "resolve": names, **changes})  # type: ignore[arg-type]


def test_page_is_fetched_from_the_address_that_was_checked(site: Site) -> None:
    site.answer("/tides?x=1")
    names = Names(docs_example=["127.0.0.1", "10.0.0.1"])  # a second question would be answered otherwise
    source = reader(names).read(f"http://docs.example:{site.port}/tides?x=1#part")
    assert source.data == PAGE
    assert source.media_type == "text/html"
    assert source.uri == f"http://docs.example:{site.port}/tides?x=1"
    assert site.asked == [(f"docs.example:{site.port}", "/tides?x=1")]
    assert names.asked == ["docs.example"]


def test_name_in_tls_is_the_one_that_was_asked_for(site_factory: Callable[..., Site]) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("docs.example").configure_cert(context)
    site = site_factory(context)
    site.answer("/")
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    names = Names(docs_example=["127.0.0.1"], other_example=["127.0.0.1"])
    assert reader(names, tls=trusted).read(f"https://docs.example:{site.port}/").data == PAGE
    assert site.names_in_tls == ["docs.example"]
    with pytest.raises(DocumentError, match=r"other\.example"):
        reader(names, tls=trusted).read(f"https://other.example:{site.port}/")
    assert len(site.asked) == 1


@pytest.mark.parametrize("inner", ["10.0.0.1", "127.0.0.2", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_every_redirect_is_checked_again(site: Site, inner: str) -> None:
    site.redirect("/", f"http://inner.example:{site.port}/secret")
    site.answer("/secret", b"secret")
    with pytest.raises(DocumentError, match="not on the public internet"):
        reader(Names(docs_example=["127.0.0.1"], inner_example=[inner])).read(f"http://docs.example:{site.port}/")
    assert [path for _, path in site.asked] == ["/"]


def test_name_that_changes_its_address_before_a_redirect_is_refused(site: Site) -> None:
    site.redirect("/", "/secret")
    site.answer("/secret", b"secret")
    names = Names(docs_example=["127.0.0.1", "192.168.0.1"])
    with pytest.raises(DocumentError, match=r"192\.168\.0\.1"):
        reader(names).read(f"http://docs.example:{site.port}/")
    assert [path for _, path in site.asked] == ["/"]


def test_name_with_one_private_address_among_public_ones_is_refused(site: Site) -> None:
    async def both(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "10.0.0.1"]

    with pytest.raises(DocumentError, match=r"10\.0\.0\.1"):
        UrlReader(is_allowed=is_here, resolve=both).read(f"http://docs.example:{site.port}/")
    assert site.connections == 0


def test_next_address_is_tried_when_one_does_not_answer(site: Site) -> None:
    site.answer("/")

    async def both(host: str, port: int) -> list[str]:
        return ["127.0.0.3", "127.0.0.1"]

    allowed = UrlReader(is_allowed=lambda address: address.startswith("127."), resolve=both)
    assert allowed.read(f"http://docs.example:{site.port}/").data == PAGE


def test_five_redirects_are_followed_and_no_sixth(site: Site) -> None:
    for number in range(6):
        site.redirect(f"/{number}", f"/{number + 1}")
    site.answer("/6")
    names = Names(docs_example=["127.0.0.1"])
    assert reader(names).read(f"http://docs.example:{site.port}/1").uri.endswith("/1")
    with pytest.raises(DocumentError, match="more than 5 times"):
        reader(names).read(f"http://docs.example:{site.port}/0")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("file:///etc/passwd", "Only http"),
        ("ftp://docs.example/", "Only http"),
        ("//me:key@docs.example/", "user name or password"),
    ],
)
def test_redirect_to_what_is_no_plain_web_address_is_refused(site: Site, target: str, reason: str) -> None:
    site.redirect("/", target)
    with pytest.raises(DocumentError, match=reason):
        reader(Names(docs_example=["127.0.0.1"])).read(f"http://docs.example:{site.port}/")
    assert len(site.asked) == 1


def test_body_is_refused_once_it_is_too_large(site: Site) -> None:
    sent = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 10_000)
            sent.append(10_000)

    site.answers["/endless"] = endless
    site.answer("/packed", gzip.compress(b"x" * 5_000_000), Content_Encoding="gzip")
    site.answer("/brotli", b"x", Content_Encoding="br")
    site.answer("/just", b"x" * 200_000)
    limited = reader(Names(docs_example=["127.0.0.1"]), limits=FetchLimits(max_bytes=200_000))
    for path, reason in (
        ("endless", "larger than 0.2 MB"),
        ("packed", "larger than 0.2 MB"),
        ("brotli", "encoding .br."),
    ):
        with pytest.raises(DocumentError, match=reason):
            limited.read(f"http://docs.example:{site.port}/{path}")
    assert sum(sent) < 20_000_000
    assert len(limited.read(f"http://docs.example:{site.port}/just").data) == 200_000


def test_body_of_a_redirect_is_not_read(site: Site) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/page")
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 10_000)

    site.answers["/"] = endless
    site.answer("/page")
    assert reader(Names(docs_example=["127.0.0.1"])).read(f"http://docs.example:{site.port}/").data == PAGE


@pytest.mark.parametrize("slow", ["name", "headers", "body"])
def test_server_that_drips_is_left_in_time(site: Site, slow: str) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        if slow == "body":
            handler.send_response(200)
            handler.end_headers()
        while True:
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.05)

    async def resolve(host: str, port: int) -> list[str]:
        if slow == "name":
            await asyncio.sleep(30)
        return ["127.0.0.1"]

    site.answers["/"] = drip
    with pytest.raises(DocumentError, match=r"within 0\.4 s"):
        UrlReader(is_allowed=is_here, resolve=resolve, limits=FetchLimits(total_s=0.4)).read(
            f"http://docs.example:{site.port}/"
        )


def test_proxies_of_the_environment_are_not_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.answer("/")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert reader(Names(docs_example=["127.0.0.1"])).read(f"http://docs.example:{site.port}/").data == PAGE


@pytest.mark.parametrize(
    ("path", "declared", "known"),
    [
        ("/page", "text/html; charset=ISO-8859-1", "text/html; charset=iso-8859-1"),
        ("/page.pdf", "text/html", "text/html"),
        ("/a.pdf", "application/octet-stream", "text/html"),  # as its content says
        ("/a.tsv", "application/octet-stream", "text/tab-separated-values"),
        ("/README.md", "text/plain", "text/markdown"),
        ("/notes", "text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("/page", "application/xhtml+xml", "text/html"),
        ("/a.csv?format=x", "", "text/csv"),
    ],
)
def test_media_type_is_told_by_the_server_or_the_suffix(site: Site, path: str, declared: str, known: str) -> None:
    site.answer(path, media_type=declared)
    source = reader(Names(docs_example=["127.0.0.1"])).read(f"http://docs.example:{site.port}{path}")
    assert source.media_type == known


def test_what_cannot_be_had_is_told_and_the_rest_is_read(site: Site) -> None:
    site.answer("/page")
    site.answer("/gone", status=404)
    site.answer("/photo", b"GIF89a\x01\x00", media_type="image/gif")
    names = Names(docs_example=["127.0.0.1"])
    base = f"http://docs.example:{site.port}"
    found = list(reader(names).read_all([f"{base}/gone", "http://", f"{base}/photo", f"{base}/page", "http://[x]/"]))
    errors = {each.name: each.reason for each in found if isinstance(each, SourceFailure)}
    assert "404 Not Found" in errors[f"{base}/gone"]
    assert "it is a GIF image" in errors[f"{base}/photo"]
    assert {"http://", "http://[x]/"} < errors.keys()
    assert [each.uri for each in found if isinstance(each, Source)] == [f"{base}/page"]


async def numeric(host: str, port: int) -> list[str]:
    """The system's own understanding of numbers as addresses, without asking any name server."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)]


NUMERIC = UrlReader(resolve=numeric)
NOWHERE = UrlReader(resolve=numeric, is_allowed=lambda _: False)
loopback = st.integers(0x7F000001, 0x7FFFFFFE).map(IPv4Address)
FORMS: list[Callable[[IPv4Address], str]] = [
    str,
    lambda a: str(int(a)),
    lambda a: hex(int(a)),
    lambda a: f"0{int(a):o}",
    lambda a: ".".join(f"0{part:o}" for part in a.packed),
    lambda a: ".".join(hex(part) for part in a.packed),
    lambda a: f"{a.packed[0]}.{int(a) & 0xFFFFFF}",
    lambda a: str(a).replace(".", "\u3002"),
    lambda a: str(a).replace(".", "\uff0e"),
    lambda a: str(a).translate({ord(str(n)): chr(0xFF10 + n) for n in range(10)}),
    lambda a: f"[::ffff:{a}]",
    lambda a: f"[::{a}]",
    lambda a: f"[64:ff9b::{a}]",
    lambda a: f"{a}.",
]
TRICKS = [
    "http://{host}:{port}/",
    "http://docs.example@{host}:{port}/",
    "http://docs.example:80@{host}:{port}/",
    "http://{host}:{port}#@docs.example/",
    "http://{host}:{port}\\@docs.example/",
    "http://docs.example\\@{host}:{port}/",
    "HTTP://{host}:{port}/",
    " http://{host}:{port}/",
    "http:///{host}:{port}/",
    "http:{host}:{port}/",
    "//{host}:{port}/",
    "http://docs.example\t@{host}:{port}/",
    "http://{host}:{port}/%2f@docs.example",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(address=loopback, form=st.sampled_from(FORMS), trick=st.sampled_from(TRICKS))
def test_no_spelling_of_a_url_reaches_this_machine(
    site: Site, address: IPv4Address, form: Callable[[IPv4Address], str], trick: str
) -> None:
    with pytest.raises(DocumentError):
        NUMERIC.read(trick.format(host=form(address), port=site.port))
    assert site.connections == 0


# What people have got past such guards with, and where clouds tell of themselves.
SPECIAL_URLS = [
    *(
        f"http://{host}/"
        for host in ("127.1", "0", "0.0.0.0", "0x7f.1", "0177.1", "2130706433", "127.0.0.1.", "[::1]", "[::]")
    ),
    *(
        f"http://{host}/"
        for host in ("[0:0:0:0:0:ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:a9fe:a9fe]", "[::7f00:1]")
    ),
    *(
        f"http://{host}/"
        for host in ("[64:ff9b::7f00:1]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::]")
    ),
    *(
        f"http://{host}/"
        for host in ("[2001:0:7f00:1::]", "[2001::5601:5601]", "[fe80::1]", "[fe80::1%25lo]", "[fec0::1]")
    ),
    *(f"http://{host}/" for host in ("[fd00:ec2::254]/latest", "[fd20:ce::254]", "[ff02::1]", "[100::1]", "[5f00::1]")),
    *(
        f"http://{host}/"
        for host in ("169.254.169.254/latest/meta-data", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376")
    ),
    *(f"http://{host}/" for host in ("169.254.170.2", "192.0.0.192/opc/v2", "192.0.0.8", "192.0.0.170", "192.0.0.255")),
    *(
        f"http://{host}/"
        for host in ("100.100.100.200/latest", "168.63.129.16", "10.0.0.1", "172.16.0.1", "192.168.1.1")
    ),
    *(
        f"http://{host}/"
        for host in ("198.18.0.1", "192.88.99.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "203.0.113.1")
    ),
    *(
        "http://192.31.196.1/",
        "http://192.52.193.1/",
        "http://192.175.48.1/",
        "http://[2620:4f:8000::1]/",
        "http://[3fff::1]/",
    ),
]


@pytest.mark.parametrize("url", SPECIAL_URLS)
def test_no_special_address_is_asked_for_anything(url: str) -> None:
    with pytest.raises(DocumentError, match=r"not on the public internet|cannot be resolved|not a URL"):
        NUMERIC.read(url)


@pytest.mark.parametrize("network", [*SPECIAL_4, *SPECIAL_6], ids=str)
def test_no_name_leads_to_the_registries(network: IPv4Network | IPv6Network) -> None:
    """Neither directly nor by a redirect; every packet to another machine fails the test, caught or not."""
    for address in (network.network_address, network.broadcast_address):

        async def resolve(host: str, port: int, address: object = address) -> list[str]:
            return [str(address)]

        with pytest.raises(DocumentError, match=r"docs\.example is at .*, which is not on the public internet"):
            UrlReader(resolve=resolve).read("http://docs.example/")


def test_a_packet_off_this_machine_would_fail_a_test() -> None:
    """Else the tests above would prove nothing."""

    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8"]

    with pytest.raises(ExceptionGroup):
        UrlReader(resolve=resolve).read("http://docs.example/")
    with pytest.raises(NetworkDeniedError):
        UrlReader().read("http://docs.example/")
    assert asked == ["socket.connect 8.8.8.8", "resolve docs.example"]
    asked.clear()


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(DocumentError):
        NOWHERE.read(text)
