from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import SEEK_END, BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.documents import kept_texts
from app.documents.blobs import FolderBlobStore
from app.errors import DamagedFileError, FilesUnavailableError, LeaseLostError, NotFoundError


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobStore:
    return FolderBlobStore(tmp_path / "files")


def test_bytes_are_kept_under_their_sha256(blobs: FolderBlobStore, tmp_path: Path) -> None:
    content_hash = blobs.put(b"some bytes")
    assert content_hash == hashlib.sha256(b"some bytes").hexdigest()
    assert blobs.path(content_hash) == tmp_path / "files" / content_hash
    assert blobs.path(content_hash).read_bytes() == blobs.get(content_hash) == b"some bytes"


@given(data=st.binary(), text=st.text(st.characters(codec=None)))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_and_any_text_come_back(blobs: FolderBlobStore, data: bytes, text: str) -> None:
    content_hash = blobs.put(data)
    blobs.put_text(content_hash, text)
    assert (blobs.get(content_hash), blobs.get_text(content_hash)) == (data, text)


@given(text=st.text(st.characters(codec=None), max_size=40), start=st.integers(0, 50), length=st.integers(0, 50))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_window_of_a_text_is_cut_by_characters(
    blobs: FolderBlobStore, monkeypatch: pytest.MonkeyPatch, text: str, start: int, length: int
) -> None:
    monkeypatch.setattr("app.documents.kept_texts._PIECE_BYTES", 5)  # characters lie across pieces
    content_hash = blobs.put(b"bytes")
    blobs.put_text(content_hash, text)
    window = blobs.text_window(content_hash, start, start + length)
    assert (window.text, window.total) == (text[start : start + length], len(text))
    assert (window.start, window.end) == (min(start, len(text)), min(start, len(text)) + len(window.text))


def test_a_window_of_no_text_is_reported(blobs: FolderBlobStore) -> None:
    with pytest.raises(NotFoundError, match="Add the document again"):
        blobs.text_window(blobs.put(b"bytes"), 0, 10)


def test_a_window_of_a_long_text_does_not_hold_it(blobs: FolderBlobStore) -> None:
    content_hash = blobs.put(b"bytes")
    blobs.put_text(content_hash, ("ü" * 1_000_000 for _ in range(16)))
    tracemalloc.start()
    try:
        window = blobs.text_window(content_hash, 15_999_990, 16_000_100)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    assert (window.text, window.start, window.total) == ("ü" * 10, 15_999_990, 16_000_000)


def test_the_newest_extraction_counts(blobs: FolderBlobStore) -> None:
    content_hash = blobs.put(b"%PDF")
    blobs.put_text(content_hash, "first\r\n")
    blobs.put_text(content_hash, "second\r\n")
    assert blobs.get_text(content_hash) == "second\r\n"


def test_what_was_never_stored_is_reported(blobs: FolderBlobStore) -> None:
    content_hash = blobs.put(b"bytes without text")
    with pytest.raises(NotFoundError, match=content_hash):
        blobs.get_text(content_hash)
    with pytest.raises(NotFoundError, match="Add the document again"):
        blobs.get("0" * 64)


@pytest.mark.parametrize("name", ["../secret", "", "A" * 64, "0" * 63, "0" * 64 + "\n", "/etc/passwd"])
def test_only_a_sha256_names_a_file(blobs: FolderBlobStore, name: str) -> None:
    for use in (blobs.path, blobs.get, blobs.get_text, lambda name: blobs.put_text(name, "text")):
        with pytest.raises(ValueError, match="SHA-256"):
            use(name)


def test_the_same_bytes_stored_by_many_at_once_are_one_file(blobs: FolderBlobStore, tmp_path: Path) -> None:
    data = bytes(1_000_000)
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(blobs.put, [data] * 16))
    assert [path.name for path in (tmp_path / "files").iterdir()] == list(names)


def test_an_interrupted_write_leaves_nothing(
    blobs: FolderBlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(FilesUnavailableError, match=r"The disk of .*files is full\. Free some space"):
        blobs.put(b"some bytes")
    assert list((tmp_path / "files").iterdir()) == []


class GrowingFile(BytesIO):
    """A file that somebody appends to after each reading of it."""

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        if not piece:
            at = self.tell()
            self.seek(0, SEEK_END)
            self.write(b" and more")
            self.seek(at + len(b" and more"))
        return piece


def test_the_hash_of_a_file_that_changes_is_that_of_what_is_kept(blobs: FolderBlobStore, tmp_path: Path) -> None:
    stored = blobs.put_file(GrowingFile(b"so far"))
    kept = blobs.get(stored.content_hash)
    assert hashlib.sha256(kept).hexdigest() == stored.content_hash
    assert len(kept) == stored.byte_count
    assert kept == b"so far and more"  # as the second reading found it, not the first
    assert [path.name for path in (tmp_path / "files").iterdir()] == [stored.content_hash]


def test_a_large_file_is_kept_in_little_memory(blobs: FolderBlobStore, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as opened:
        opened.truncate(60_000_000)
    tracemalloc.start()
    with file.open("rb") as opened:
        stored = blobs.put_file(opened)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
    assert blobs.path(stored.content_hash).stat().st_size == stored.byte_count == 60_000_000


def test_a_batch_is_synced_before_any_of_it_is_there(
    blobs: FolderBlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr("app.documents.blob_batch._sync_files", lambda folder, files: seen.append(names(folder, files)))

    def names(folder: Path, files: object) -> list[str]:
        assert len(list(files)) == 40  # type: ignore[call-overload]
        return [path.name for path in folder.iterdir() if not path.name.startswith(".")]

    with blobs.batch() as batch:
        hashes = {batch.put_file(BytesIO(b"%d" % (number % 40))).content_hash for number in range(80)}
        assert not any(map(blobs.has, hashes))
    assert seen == [[]]
    assert {path.name for path in (tmp_path / "files").iterdir()} == hashes


def test_texts_of_a_batch_are_there_once_they_are_kept(blobs: FolderBlobStore, tmp_path: Path) -> None:
    hashes = ["a" * 64, "b" * 64, "c" * 64]
    with blobs.batch() as batch:
        for content_hash in hashes[:2]:
            batch.put_text(content_hash, ["A first ", "text."])
        batch.put_text(hashes[0], ["The newer \udc80 one."])
        assert not any(map(blobs.has_text, hashes))
        batch.keep()
        assert [blobs.has_text(each) for each in hashes] == [True, True, False]
        batch.put_text(hashes[2], ["Another."])
    assert [blobs.get_text(each) for each in hashes] == ["The newer \udc80 one.", "A first text.", "Another."]
    assert {path.name for path in (tmp_path / "files").iterdir()} == {f"{each}.txt" for each in hashes}


def test_a_text_that_breaks_off_is_not_kept_and_its_batch_goes_on(blobs: FolderBlobStore, tmp_path: Path) -> None:
    def broken_off() -> Iterator[str]:
        yield "Half of"
        raise LeaseLostError("it was cancelled")

    with blobs.batch() as batch:
        with pytest.raises(LeaseLostError):
            batch.put_text("a" * 64, broken_off())
        batch.put_text("b" * 64, ["Whole."])
    assert [path.name for path in (tmp_path / "files").iterdir()] == [f"{'b' * 64}.txt"]


def test_of_a_batch_that_is_broken_off_nothing_is_kept(blobs: FolderBlobStore, tmp_path: Path) -> None:
    def broken_off() -> None:
        with blobs.batch() as batch:
            batch.put_file(BytesIO(b"a"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert list((tmp_path / "files").iterdir()) == []


@pytest.mark.parametrize("damage", [b"other bytes", b"some", b""])
def test_a_damaged_file_is_never_given_and_is_mended_by_its_bytes(blobs: FolderBlobStore, damage: bytes) -> None:
    content_hash = blobs.put(b"some bytes!")
    assert blobs.verified(content_hash).read_bytes() == b"some bytes!"
    assert not blobs.is_changed(content_hash, 11)
    blobs.path(content_hash).write_bytes(damage)
    assert blobs.is_changed(content_hash, 11)
    assert not blobs.is_sound(content_hash)
    for look in (blobs.verified, blobs.get):
        with pytest.raises(DamagedFileError, match="gircse restore"):
            look(content_hash)
    assert blobs.put(b"some bytes!") == content_hash
    assert blobs.verified(content_hash).read_bytes() == b"some bytes!"
    blobs.path(content_hash).unlink()
    assert not blobs.is_sound(content_hash)
    with pytest.raises(NotFoundError, match="gircse restore"):
        blobs.verified(content_hash)


def test_a_file_is_read_once_until_it_changes(blobs: FolderBlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    content_hash = blobs.put(b"bytes")
    read: list[object] = []
    digest = hashlib.file_digest
    monkeypatch.setattr("hashlib.file_digest", lambda file, name: (read.append(file), digest(file, name))[1])
    for _ in range(3):
        blobs.verified(content_hash)
    assert len(read) == 1
    blobs.path(content_hash).write_bytes(b"bytes")
    blobs.verified(content_hash)
    assert len(read) == 2


@given(text=st.text(min_size=1), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_kept_text_is_noticed_when_it_is_read(text: str, place: int, bit: int) -> None:
    with TemporaryDirectory() as folder:
        blobs = FolderBlobStore(Path(folder))
        content_hash = "a" * 64
        blobs.put_text(content_hash, [text])
        path = Path(folder) / f"{content_hash}.txt"
        data = bytearray(path.read_bytes())
        data[place % len(data)] ^= 1 << bit
        path.write_bytes(bytes(data))
        assert not blobs.is_text_sound(content_hash)
        for read in (
            lambda: blobs.get_text(content_hash),
            lambda: blobs.text_window(content_hash, 0, 1),
            lambda: b"".join(blobs.text_bytes(content_hash)),
        ):
            with pytest.raises(DamagedFileError, match=rf"{path}.*`gircse doctor --rebuild`"):
                read()


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: bytes(len(data)), lambda data: data[:-1]])
def test_a_kept_text_that_is_emptied_zeroed_or_cut_is_noticed(
    blobs: FolderBlobStore, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    content_hash = blobs.put(b"bytes")
    blobs.put_text(content_hash, ["A text of some length."])
    [path] = tmp_path.rglob("*.txt")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedFileError):
        blobs.get_text(content_hash)


def test_texts_of_earlier_releases_have_no_head_and_are_read(blobs: FolderBlobStore, tmp_path: Path) -> None:
    content_hash = blobs.put(b"bytes")
    blobs.put_text(content_hash, [""])
    [path] = tmp_path.rglob("*.txt")
    path.write_text("An old ünd short text.", "utf-8")
    assert blobs.get_text(content_hash) == "An old ünd short text."
    assert blobs.text_window(content_hash, 3, 6).text == "old"
    assert blobs.is_text_sound(content_hash)
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\xc3\x20"))
    with pytest.raises(DamagedFileError):
        blobs.text_window(content_hash, 3, 6)


@pytest.mark.parametrize(
    "text", ["`gircse-search` is a search application. " * 5, "[gircse-mini](x)" * 9, "\0gircse-text-2 is a mark. " * 5]
)
def test_a_text_of_an_earlier_release_that_begins_like_the_mark_is_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text(text, "utf-8")
    with path.open("rb") as file:
        assert kept_texts.read_text(file) == text
    with path.open("rb") as file:
        assert not kept_texts.has_digest(file)
