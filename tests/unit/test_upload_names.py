"""Files of every suffix under hostile names, handed in by every route: each is read, and its name can be had back."""

from __future__ import annotations

import json
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from api_application import api_of
from damaged_stores import Installation
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from sample_files import samples

import app.wiring.services
from app.commands.wiring import open_services
from app.testing import ToyEmbedder
from app.types.documents import Document, DocumentState, Source
from app.types.uris import canonical_uri, name_in, upload_uri
from ingest.readers import SUFFIXES, type_of_suffix
from ingest.readers.content_types import detect
from ingest.readers.media_types import path_of
from ingest.sources import find_files

# Before the suffix.
HOSTILE = {
    "brackets": "report[1]",
    "a network": "[::ffff:127.0.0.1]",
    "spaces": " two  words ",
    "fragment": "C# notes #2",
    "query": "what?a=b&c",
    "percent": "50%25 of 100%",
    "right to left": "\u202etxt.exe\u05d0\u05d1",
    "long": "x" * 200,
    "longer": "ü" * 200,
    "newline": "two\nlines\r\n",
    "address": "https:example.org;x@y",
    "a type": "data:text;html,x",
    "quotes": "\"a' <b>&amp;",
    "dots": "..",
    "colon": "C:",
    "combined": unicodedata.normalize("NFD", "é") + "🜁",
}
EACH_NAME = [pytest.param(name, id=what) for what, name in HOSTILE.items()]
# Every suffix under one name, every name with some suffixes; `--long` takes all with all.
SOME = [
    pytest.param([name + each for each in list(SUFFIXES)[number :: len(HOSTILE)]], id=what)
    for number, (what, name) in enumerate(HOSTILE.items())
]
ALL = [
    pytest.param([name + each for each in SUFFIXES], id=f"{what} with all", marks=pytest.mark.long)
    for what, name in HOSTILE.items()
]
EVERY = [name for names in ALL for name in names.values[0]]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[Any]:
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("names"), opened, embedder=ToyEmbedder())
        toy.add("A ferry.")
        yield toy


@pytest.fixture(scope="module")
def client(services: Any) -> Iterator[TestClient]:
    with TestClient(api_of(services.services)) as client:
        yield client


def composed(name: str) -> str:
    """As systems other than macOS spell it."""
    return unicodedata.normalize("NFC", name)


def content_of(suffix: str) -> bytes:
    """Other suffixes stand for text of one kind or another."""
    by_type = {SUFFIXES[suffix_of(name)]: data for name, data in samples().items() if name.startswith("a.")}
    own = samples().get(f"a{suffix}") or samples().get(f"a.tar{suffix.replace('.tgz', '.gz')}")
    return own or by_type.get(SUFFIXES[suffix], b"The ferry was late again.\n")


def suffix_of(name: str) -> str:
    return max((each for each in SUFFIXES if name.endswith(each)), key=len)


def type_under(plain_name: str) -> str:
    """Of the same content under a name without surprises; tests of formats say which that is."""
    return detect(BytesIO(content_of(suffix_of(plain_name))), uri=plain_name)


@pytest.mark.parametrize("name", EACH_NAME)
def test_a_name_can_be_had_back_from_a_uri_that_others_can_take_apart(name: str) -> None:
    for suffix, media_type in SUFFIXES.items():
        uri = upload_uri(name + suffix)
        assert uri.isprintable()
        assert urlsplit(uri).scheme == "upload"
        assert (urlsplit(uri).query, urlsplit(uri).fragment) == ("", "")
        assert name_in(uri) == composed(name + suffix)
        assert type_of_suffix(uri) == media_type
        assert path_of(uri).name == composed(name + suffix)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_one_upload_has_one_uri_however_it_was_encoded(path: str) -> None:
    uri = upload_uri(path)
    assert canonical_uri(uri) == uri
    assert canonical_uri(f"upload://{quote(path)}") == uri
    assert canonical_uri(f"upload://{quote(path, safe='')}") == upload_uri(path)
    assert name_in(uri) == (composed(path).rstrip("/").rpartition("/")[2] or uri.rstrip("/").rpartition("/")[2])


@pytest.mark.parametrize("uri", ["upload://%FF.txt", "upload://[", "http://[", "://", "x://", "upload://", "%", ""])
def test_what_is_no_uri_is_taken_all_the_same(uri: str) -> None:
    assert isinstance(name_in(canonical_uri(uri)), str)


def read_all(services: Any, ids: list[str]) -> list[Document]:
    services.work_off()
    documents = [services.services.catalog.document(each) for each in ids]
    assert [each.error for each in documents] == [None] * len(ids)
    assert all(each.state is DocumentState.READY for each in documents)
    return documents


@pytest.mark.parametrize("names", SOME + ALL)
def test_an_uploaded_file_is_read_under_its_own_name(services: Any, client: TestClient, names: list[str]) -> None:
    def post(name: str) -> dict[str, Any]:
        files = {"file": (name, content_of(suffix_of(name)), "application/octet-stream")}
        posted = client.post("/api/v1/documents", files=files)
        assert posted.status_code == 202, posted.text
        body: dict[str, Any] = posted.json()
        return body

    ids = [post(name)["document"]["id"] for name in names]
    read_all(services, ids)
    for document_id, name in zip(ids, names, strict=True):
        shown = client.get(f"/api/v1/documents/{document_id}").json()
        assert (shown["name"], shown["uri"]) == (composed(name), upload_uri(name))
        again = post(name)
        assert (again["document"]["id"], again["job"]) == (document_id, None)


@pytest.mark.parametrize("names", SOME + ALL)
def test_the_page_gives_the_same_uri(
    services: Any, client: TestClient, names: list[str], encoded_by_page: dict[str, str]
) -> None:
    ids = []
    for name in names:
        form = {"collection": "library", "uri": encoded_by_page[name]}
        files = {"file": ("blob", content_of(suffix_of(name)), "application/octet-stream")}
        document = client.post("/api/v1/documents", files=files, data=form).json()["document"]
        assert (document["uri"], document["name"]) == (upload_uri(f"folder [1]/{name}"), composed(name))
        ids.append(document["id"])
    read_all(services, ids)


@pytest.fixture(scope="module")
def encoded_by_page() -> dict[str, str]:
    """What the page's own script makes of each name, below a folder."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = (Path(__file__).parents[2] / "ui" / "assets" / "upload.js").read_text("utf-8")
    (line,) = [each for each in script.splitlines() if "form.append('uri'" in each]
    program = f"""
        const form = {{ append(_, uri) {{ this.uri = uri; }} }};
        const uris = {json.dumps(EVERY)}.map((name) => {{ const item = {{ path: `folder [1]/${{name}}` }}; {line}
            return form.uri; }});
        console.log(JSON.stringify(uris));"""
    run = subprocess.run([node, "-"], input=program, capture_output=True, check=True, text=True, encoding="utf-8")
    return dict(zip(EVERY, json.loads(run.stdout), strict=True))


@pytest.mark.parametrize("names", SOME + ALL)
def test_a_file_of_a_folder_is_read_under_its_own_name(services: Any, tmp_path: Path, names: list[str]) -> None:
    """As `gircse ingest FOLDER` takes it, but for what no file system holds, and what is hidden."""
    held = [name for name in names if len(name.encode()) <= 255 and not name.startswith(".")]
    for name in held:
        (tmp_path / name).write_bytes(content_of(suffix_of(name)))
    sources = list(find_files([tmp_path]))
    assert all(isinstance(each, Source) for each in sources)
    ids = [services.services.library.add_document("library", each)[0].id for each in sources]
    documents = read_all(services, ids)
    assert {each.name: each.media_type for each in documents} == {
        name: type_under("a" + suffix_of(name)) for name in held
    }


@pytest.mark.long
def test_the_command_reads_every_suffix_under_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gircse ingest FOLDER` from its arguments to its last line."""
    monkeypatch.setattr(app.wiring.services, "embedder_for", lambda settings, **_: ToyEmbedder())
    folder, installation = tmp_path / "folder", Installation(tmp_path / "home")
    folder.mkdir()
    held = [name for name in EVERY if len(name.encode()) <= 255 and not name.startswith(".")]
    for name in held:
        (folder / name).write_bytes(content_of(suffix_of(name)))
    told = installation.call("ingest", str(folder), "-c", "library").output
    assert f"{len(held)} added or updated" in told
    with open_services(installation.load_settings()) as services:
        documents = list(services.catalog.documents("library", limit=10_000))
    assert {each.name: each.error for each in documents} == dict.fromkeys(held)
    assert {each.state for each in documents} == {DocumentState.READY}
    assert not any(each in told for each in ("\x1b[31m", "\u202e"))


@pytest.mark.parametrize("control", ["\x1b[31m", "\x07", "\n", "\x7f", "\x9b2J", "\u202e", "\u2028"])
def test_no_uri_tells_a_terminal_what_to_do(services: Any, client: TestClient, control: str) -> None:
    for uri in (f"upload://a{control}.txt", f"https://example.org/a{control}", f"a{control}b", f"text://{control}"):
        posted = client.post("/api/v1/documents", json={"text": "A ferry.", "uri": uri}).json()
        assert posted["document"]["uri"].isprintable()
        assert posted["document"]["uri"] != uri
        again = client.post("/api/v1/documents", json={"text": "Another.", "uri": uri}).json()
        assert again["document"]["id"] == posted["document"]["id"]
