"""Out of one application and into another: the same documents, ids and scores; nothing of a broken archive gets in."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from qdrant_servers import Address, QdrantServer, engine_address, new_index, open_index

from app.catalog import SqlCatalog, connect
from app.documents.garbage import remove_unneeded
from app.edge import EdgeProcess
from app.errors import ArchiveError, ConflictError, FingerprintMismatchError, GircseError, InputError
from app.maintenance.archive import ArchiveWriter, read_members, verify
from app.maintenance.archive_records import LensLine
from app.maintenance.consistency import ConsistencyCheck
from app.maintenance.transfer import Transfer, Transferred
from app.search.judgements import new_judgement, new_lens
from app.testing import ToyEmbedder, text_source
from app.types.documents import DocumentState, GarbageKind, Lens, utc_now
from app.types.texts import TextLayout
from app.vectors import QdrantVectorIndex

__all__ = ["engine_address", "new_index"]  # fixtures: the tests run against a server, too

HOUR = timedelta(hours=1)
TEXTS = ("The cat sleeps.\n\nThe dog barks.", "Ships sail far.", "Rain falls on ships.")


@pytest.fixture(scope="module")
def edge_index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantVectorIndex]:
    with EdgeProcess(tmp_path_factory.mktemp("edge")) as edge:
        index = QdrantVectorIndex.over_edge(edge)
        yield index
        index.close()


@pytest.fixture
def embedded(edge_index: QdrantVectorIndex) -> Iterator[QdrantVectorIndex]:
    yield edge_index
    drop_all(edge_index)


@pytest.fixture
def server(qdrant_server: QdrantServer) -> Iterator[QdrantVectorIndex]:
    with qdrant_server.with_own_names() as url:
        index = open_index(url, qdrant_server.api_key)
        yield index
        index.close()


def drop_all(index: QdrantVectorIndex) -> None:
    for name in index.indexes():
        index.drop(name)


def transfer_of(application: Any) -> Transfer:
    services = application.services
    return Transfer(catalog=services.catalog, index=services.index, blobs=services.blobs, embedder=services.embedder)


def filled(application: Any) -> Any:
    for number, text in enumerate(TEXTS):
        application.add(text, metadata={"year": 1990 + number, "share": 0.1})
    return application


@pytest.fixture
def archive(toy_services: Any, tmp_path: Path) -> Path:
    """Of three documents with a chunk each, on the index in memory."""
    path = tmp_path / "library.tar.zst"
    assert transfer_of(filled(toy_services)).export_collection("library", path) == Transferred("library", 3, 3)
    return path


@pytest.fixture(scope="module")
def packed(toy_services_class: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, made once, for tests that only read it."""
    home = tmp_path_factory.mktemp("packed")
    with ExitStack() as opened:
        application = filled(toy_services_class(home, opened, embedder=ToyEmbedder()))
        transfer_of(application).export_collection("library", home / "library.tar.zst")
    return home / "library.tar.zst"


@pytest.fixture
def elsewhere(toy_services_factory: Callable[..., Any]) -> Any:
    return toy_services_factory("elsewhere")


def hits(application: Any, collection: str = "library") -> list[tuple[str, float, object]]:
    query = application.embedder.embed_query("cat dog ships rain far").vector
    return [(hit.id, hit.score, hit.payload) for hit in application.index.search(collection, query, limit=10)]


def differences(application: Any) -> list[object]:
    services = application.services
    return list(ConsistencyCheck(catalog=services.catalog, index=services.index, blobs=services.blobs).differences())


def is_untouched(application: Any) -> bool:
    services = application.services
    noted = services.catalog.garbage.names(GarbageKind.INDEX)
    return (services.catalog.collections(), application.index.indexes(), list(services.blobs.hashes()), noted) == (
        [],
    ) * 4


@pytest.mark.server(is_quick=True)
@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
def test_another_home_and_another_store_give_the_very_same_answers(
    toy_services_factory: Callable[..., Any],
    embedded: QdrantVectorIndex,
    server: QdrantVectorIndex,
    tmp_path: Path,
    suffix: str,
) -> None:
    source, target = filled(toy_services_factory("a", index=embedded)), toy_services_factory("b", index=server)
    # Vectors as a model gives them: every bit of the float32 is in use.
    shuffled = random.Random(7)
    for point in embedded.retrieve("library--1", list(embedded.point_ids("library--1"))):
        vector = [value + shuffled.gauss(0, 0.05) for value in point.vector]
        embedded.upsert("library--1", [type(point)(point.id, vector, point.payload)])
    path = tmp_path / f"library{suffix}"
    transfer_of(source).export_collection("library", path)
    assert transfer_of(target).import_collection(path) == Transferred("library", 3, 3)
    assert hits(target) == hits(source)
    ids = list(embedded.point_ids("library--1"))
    stored = [
        {point.id: tuple(point.vector) for point in index.retrieve("library", ids)} for index in (embedded, server)
    ]
    assert stored[0] == stored[1]
    assert target.services.catalog.documents() == source.services.catalog.documents()
    for document in source.services.catalog.documents():
        assert target.services.catalog.chunks(document.id) == source.services.catalog.chunks(document.id)
        assert target.services.blobs.get(document.content_hash) == source.services.blobs.get(document.content_hash)
        assert target.services.blobs.get_text(document.content_hash) == source.services.blobs.get_text(
            document.content_hash
        )
    assert differences(target) == []


def test_what_was_brought_in_is_not_embedded_again(packed: Path, elsewhere: Any) -> None:
    transfer_of(elsewhere).import_collection(packed)
    document = elsewhere.services.catalog.documents()[0]
    _, job = elsewhere.services.library.add_document(
        "library", text_source(document.uri, TEXTS[0], metadata={"year": 1990, "share": 0.1})
    )
    assert job is None
    elsewhere.services.catalog.consistency.queue_again(document.id)
    elsewhere.work_off()
    assert elsewhere.embedder.embedded_texts == []


def test_a_copy_lives_beside_its_original(archive: Path, toy_services: Any) -> None:
    transfer_of(toy_services).import_collection(archive, name="copy")
    catalog = toy_services.services.catalog
    for (_, score, payload), (_, copied_score, copied) in zip(
        hits(toy_services), hits(toy_services, "copy"), strict=True
    ):
        # The double keeps 64 bits of a number, of which an archive takes 32.
        assert (copied["page_content"], copied_score) == (payload["page_content"], pytest.approx(score))
    assert not {each.id for each in catalog.documents("copy")} & {each.id for each in catalog.documents("library")}
    # Its ids are those that ingestion would give: nothing is embedded again.
    toy_services.embedder.embedded_texts.clear()
    for document in catalog.documents("copy"):
        assert catalog.consistency.queue_again(document.id)
    toy_services.work_off()
    assert toy_services.embedder.embedded_texts == []
    assert differences(toy_services) == []
    toy_services.services.library.delete_collection("library")  # the copy keeps its files
    assert all(toy_services.services.blobs.get(each.content_hash) for each in catalog.documents("copy"))


def test_a_name_that_is_taken_is_refused(archive: Path, toy_services: Any) -> None:
    with pytest.raises(ConflictError, match="--as NAME"):
        transfer_of(toy_services).import_collection(archive)


def test_lenses_and_judgements_come_along(toy_services: Any, elsewhere: Any, tmp_path: Path) -> None:
    application, path = filled(toy_services), tmp_path / "library.tar.zst"
    documents = application.services.catalog.documents()
    for lens in (new_lens("feeling", "Identify the feeling"), new_lens("topic", "Identify the topic", note="ours")):
        application.services.catalog.save_lens(lens)
    for number, document in enumerate(documents):
        application.services.catalog.save_judgement(
            new_judgement(document.id, query="cat", instruction="", grade=number)
        )
    transfer_of(application).export_collection("library", path)
    elsewhere.services.catalog.save_lens(new_lens("topic", "Identify the subject"))
    made = transfer_of(elsewhere).import_collection(path)
    assert made == Transferred("library", 3, 3, lenses_kept=("topic",))
    assert [lens.query_instruction for lens in elsewhere.services.catalog.lenses()] == [
        "Identify the feeling",
        "Identify the subject",
    ]
    said, original = (list(each.services.catalog.judgement_pages("library")) for each in (elsewhere, application))
    assert said == original
    assert len(said[0]) == 3
    # Under another name the documents have other ids, and each judgement is still of its document.
    transfer_of(elsewhere).import_collection(path, name="copy")
    catalog = elsewhere.services.catalog
    copied = {(catalog.document(each.document_id).uri, each.grade) for each in next(catalog.judgement_pages("copy"))}
    assert copied == {(document.uri, number) for number, document in enumerate(documents)}


def test_a_lens_of_an_earlier_release_may_have_a_longer_instruction() -> None:
    lens = Lens("x", "Represent the feeling. " * 1_000, "Represent this. " * 2_000)
    assert LensLine.of(lens).lens() == replace(lens, query_instruction=lens.query_instruction.strip())


def test_waiting_and_failed_documents_come_along_as_such(toy_services: Any, elsewhere: Any, tmp_path: Path) -> None:
    filled(toy_services)
    library = toy_services.services.library
    library.add_document("library", text_source("empty", b" "))
    toy_services.work_off()
    library.add_document("library", text_source("waiting", b"Still waiting."))
    transfer_of(toy_services).export_collection("library", tmp_path / "x.tar.gz")
    transfer_of(elsewhere).import_collection(tmp_path / "x.tar.gz")
    catalog = elsewhere.services.catalog
    states = {each.uri: each.state for each in catalog.documents()}
    assert (states["empty"], states["waiting"]) == (DocumentState.FAILED, DocumentState.QUEUED)
    elsewhere.work_off()
    assert elsewhere.embedder.embedded_texts == ["Still waiting."]
    assert differences(elsewhere) == []


def test_another_model_is_refused_before_anything_is_touched(
    packed: Path, toy_services_factory: Callable[..., Any]
) -> None:
    application = toy_services_factory("other", embedder=ToyEmbedder(fingerprint="toy-2"))
    with pytest.raises(FingerprintMismatchError, match=r"toy-1.*toy-2.*GIRCSE_MODEL.*reindex"):
        transfer_of(application).import_collection(packed)
    assert is_untouched(application)


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
def test_no_flipped_bit_and_no_cut_gets_in(toy_services: Any, elsewhere: Any, tmp_path: Path, suffix: str) -> None:
    path, broken = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    transfer_of(filled(toy_services)).export_collection("library", path)
    whole, chance = path.read_bytes(), random.Random(3)
    for _ in range(40):
        data = bytearray(whole)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        else:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        broken.write_bytes(data)
        try:
            members = verify(broken)
        except ArchiveError:
            with pytest.raises(GircseError):
                transfer_of(elsewhere).import_collection(broken)
            assert is_untouched(elsewhere)
        else:
            assert members == verify(path)  # the bit was in a header that holds nothing of ours


def pack(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """An archive of any members, with a right manifest at its end."""
    sums = {}
    with zstandard.open(path, "wb") as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            sums[info.name] = [hashlib.sha256(data).hexdigest(), len(data)]
        manifest = json.dumps({"format": "gircse collection", "version": 1, "members": sums}).encode()
        last = tarfile.TarInfo("manifest.json")
        last.size = len(manifest)
        tar.addfile(last, io.BytesIO(manifest))
    return path


def unpacked(path: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(tarfile.TarInfo(each.name), each.read()) for each in read_members(path) if each.name != "manifest.json"]


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "files/../../evil", "files/" + "A" * 64, "extra.txt"])
def test_a_member_with_a_name_of_its_own_is_refused(packed: Path, elsewhere: Any, tmp_path: Path, name: str) -> None:
    path = pack(tmp_path / "bad.tar.zst", [*unpacked(packed), (tarfile.TarInfo(name), b"x")])
    with pytest.raises(ArchiveError, match="does not write"):
        transfer_of(elsewhere).import_collection(path)
    assert is_untouched(elsewhere)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE])
def test_a_member_that_is_no_plain_file_is_refused(packed: Path, elsewhere: Any, tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo("files/" + "a" * 64)
    link.type, link.linkname = kind, "/etc/passwd"
    path = pack(tmp_path / "bad.tar.zst", [*unpacked(packed), (link, b"")])
    with pytest.raises(ArchiveError):
        transfer_of(elsewhere).import_collection(path)
    assert is_untouched(elsewhere)


@pytest.mark.parametrize("opened", [gzip.open, zstandard.open])
def test_a_zip_bomb_is_refused_before_it_is_unpacked(
    elsewhere: Any, packed: Path, tmp_path: Path, opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.maintenance.archive._FREE_EXPANSION_BYTES", 1_000_000)
    path, size = tmp_path / "bomb", 60_000_000
    contract = unpacked(packed)[0]
    with opened(path, "wb") as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
        contract[0].size = len(contract[1])
        tar.addfile(contract[0], io.BytesIO(contract[1]))
        zeros = tarfile.TarInfo("files/" + "0" * 64)
        zeros.size = size
        tar.addfile(zeros, io.BytesIO(bytes(size)))
    with pytest.raises(ArchiveError, match="may be a zip bomb"):
        transfer_of(elsewhere).import_collection(path)
    assert is_untouched(elsewhere)


@pytest.mark.parametrize(
    ("member", "old", "new"),
    [
        ("chunks/000001.jsonl", b'"start":', b'"begin":'),
        ("chunks/000001.jsonl", b'"document_id":"', b'"document_id":"x'),
        ("documents/000001.jsonl", b'"byte_count":', b'"byte_count":-'),
        ("documents/000001.jsonl", b'"content_hash":"', b'"content_hash":"../'),
        ("documents/000001.jsonl", b'"byte_count":', b'"byte_count":99999999999999999999'),
        ("chunks/000001.jsonl", b'"page":null', b'"page":99999999999999999999'),
        ("chunks/000001.jsonl", b'"ordinal":', b'"ordinal":3000000000'),
        ("vectors/000001.npy", b"<f4", b"<i4"),
        ("vectors/000001.npy", b"<f4", b"|O4"),
        ("vectors/000001.npy", b"(3, 256)", b"(6, 128)"),
        ("collection.json", b'"dimension":', b'"vectors_per_chunk": 2,\n "dimension":'),
    ],
)
def test_rows_that_no_export_writes_leave_nothing_behind(
    packed: Path, elsewhere: Any, tmp_path: Path, member: str, old: bytes, new: bytes
) -> None:
    changed = [(info, data.replace(old, new) if info.name == member else data) for info, data in unpacked(packed)]
    path = pack(tmp_path / "bad.tar.zst", changed)
    with pytest.raises(ArchiveError):
        transfer_of(elsewhere).import_collection(path)
    assert elsewhere.services.catalog.collections() == []
    assert elsewhere.index.indexes() == []


def changed(archive: Path, path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """A copy of the archive with other members, and a manifest that agrees with them."""
    return pack(path, [(info, change(info.name, data)) for info, data in unpacked(archive)])


def test_an_archive_changes_no_text_that_is_there(toy_services: Any, archive: Path, tmp_path: Path) -> None:
    """Texts are kept by the hash of their file, and other collections show them."""
    services = toy_services.services
    document = services.catalog.documents("library")[0]
    before = services.library.text_window(document, 0, 10).text
    services.blobs.put_layout(document.content_hash, TextLayout(page_starts=(0, 5)))
    with_layout = tmp_path / "layout.tar.zst"
    transfer_of(toy_services).export_collection("library", with_layout)

    def forged(name: str, data: bytes) -> bytes:
        if name.startswith("texts/"):
            return b"x" * len(data)
        return data.replace(b"5", b"6") if name.startswith("layouts/") else data

    transfer_of(toy_services).import_collection(changed(with_layout, tmp_path / "b.tar.zst", forged), name="copy")
    assert services.library.text_window(document, 0, 10).text == before
    assert tuple(services.library.layout(document, 0, 10).page_starts) == (0, 5)


def test_a_file_that_is_not_what_its_name_says_is_refused(packed: Path, elsewhere: Any, tmp_path: Path) -> None:
    def forged(name: str, data: bytes) -> bytes:
        return b"another file" if name.startswith("files/") else data

    with pytest.raises(ArchiveError, match="another content"):
        transfer_of(elsewhere).import_collection(changed(packed, tmp_path / "bad.tar.zst", forged))
    assert is_untouched(elsewhere)


def test_an_archive_gives_no_access_to_a_file_that_is_there(toy_services: Any, archive: Path, tmp_path: Path) -> None:
    """Its hash alone is not enough: the archive must contain the file."""

    def forged(name: str, data: bytes) -> bytes:
        return b"" if name.startswith("files/") else data

    with pytest.raises(ArchiveError, match="another content"):
        transfer_of(toy_services).import_collection(changed(archive, tmp_path / "bad.tar.zst", forged), name="copy")
    assert [each.name for each in toy_services.services.catalog.collections()] == ["library"]


@pytest.mark.parametrize("kind", ["chunks", "judgements"])
def test_rows_of_documents_of_another_collection_are_refused(toy_services: Any, tmp_path: Path, kind: str) -> None:
    """Search results name the document of a chunk, whichever collection it is in."""
    application, path = filled(toy_services), tmp_path / "library.tar.zst"
    catalog = application.services.catalog
    document = catalog.documents("library")[0]
    catalog.save_judgement(new_judgement(document.id, query="cat", instruction="", grade=1))
    transfer_of(application).export_collection("library", path)
    hidden = application.add("A secret.", collection="hidden")

    def forged(name: str, data: bytes) -> bytes:
        return data.replace(document.id.encode(), hidden.id.encode()) if name.startswith(kind) else data

    application.services.library.delete_collection("library")
    with pytest.raises(ArchiveError, match="of another collection"):
        transfer_of(application).import_collection(changed(path, tmp_path / "bad.tar.zst", forged))
    assert [each.name for each in catalog.collections()] == ["hidden"]


def test_a_member_of_very_many_rows_is_refused(
    packed: Path, elsewhere: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.maintenance.archive_records.MAX_LINES", 2)
    with pytest.raises(ArchiveError, match="rows"):
        transfer_of(elsewhere).import_collection(packed)
    assert elsewhere.services.catalog.collections() == []


KILLED = """
import os, sys
from pathlib import Path
from app.documents.blobs import FolderBlobStore
from app.catalog import SqlCatalog, connect, upgrade
from app.catalog.transfer import SqlTransfer
from app.testing import ToyEmbedder
from app.maintenance.transfer import Transfer
from app.vectors import QdrantVectorIndex

class KillingTransfer(SqlTransfer):
    def restore_collection(self, *arguments):
        os.kill(os.getpid(), 9)  # all points are written, and no row

home, url, token, archive = sys.argv[1:]
engine = connect(f"sqlite:///{home}/catalog_test.db")
upgrade(engine)
catalog = SqlCatalog(engine)
catalog.transfer = KillingTransfer(catalog.database)
index = QdrantVectorIndex.at(url, api_key=token or None)
Transfer(
    catalog=catalog, index=index, blobs=FolderBlobStore(Path(home) / "files"), embedder=ToyEmbedder()
).import_collection(Path(archive))
"""


def test_an_import_that_is_killed_leaves_no_half_collection(
    packed: Path, toy_services_factory: Callable[..., Any], engine_address: Address, tmp_path: Path
) -> None:
    home = tmp_path / "killed"
    home.mkdir()
    command = [sys.executable, "-c", KILLED, str(home), engine_address.url, engine_address.api_key, str(packed)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    index = engine_address.open_index()
    application = toy_services_factory("killed", index=index)
    catalog = application.services.catalog
    assert (catalog.collections(), index.indexes(), len(list(application.services.blobs.hashes()))) == (
        [],
        ["library--1"],
        3,
    )
    in_two_hours = SqlCatalog(connect(f"sqlite:///{home / 'catalog_test.db'}"), clock=lambda: utc_now() + 2 * HOUR)
    remove_unneeded(garbage=in_two_hours.garbage, index=index, blobs=application.services.blobs)
    assert (index.indexes(), list(application.services.blobs.hashes())) == ([], [])
    transfer_of(application).import_collection(packed)
    assert index.count("library") == 3
    index.close()


def test_a_broken_export_leaves_no_archive(toy_services: Any, tmp_path: Path) -> None:
    filled(toy_services)
    toy_services.index.delete_points("library--1", list(toy_services.index.point_ids("library--1"))[:1])
    with pytest.raises(ConflictError, match="check --fix"):
        transfer_of(toy_services).export_collection("library", tmp_path / "a.tar.zst")
    assert not list(tmp_path.glob("*a.tar*"))


def test_an_archive_says_how_it_is_packed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tar\.zst"):
        ArchiveWriter(tmp_path / "a.zip")
    assert list(tmp_path.iterdir()) == []
