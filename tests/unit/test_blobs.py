from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.blobs import FolderBlobStore
from app.errors import FilesUnavailableError, NotFoundError


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobStore:
    return FolderBlobStore(tmp_path / "files")


def test_bytes_are_kept_under_their_sha256(blobs: FolderBlobStore, tmp_path: Path) -> None:
    content_hash = blobs.put(b"some bytes")
    assert content_hash == hashlib.sha256(b"some bytes").hexdigest()
    assert blobs.path(content_hash) == tmp_path / "files" / content_hash
    assert blobs.path(content_hash).read_bytes() == blobs.get(content_hash) == b"some bytes"


@given(data=st.binary(), text=st.text(st.characters(codec=None)))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_and_any_text_come_back(blobs: FolderBlobStore, data: bytes, text: str) -> None:
    content_hash = blobs.put(data)
    blobs.put_text(content_hash, text)
    assert (blobs.get(content_hash), blobs.get_text(content_hash)) == (data, text)


def test_the_newest_extraction_counts(blobs: FolderBlobStore) -> None:
    content_hash = blobs.put(b"%PDF")
    blobs.put_text(content_hash, "first\r\n")
    blobs.put_text(content_hash, "second\r\n")
    assert blobs.get_text(content_hash) == "second\r\n"


def test_what_was_never_stored_is_reported(blobs: FolderBlobStore) -> None:
    content_hash = blobs.put(b"bytes without text")
    with pytest.raises(NotFoundError, match=content_hash):
        blobs.get_text(content_hash)
    with pytest.raises(NotFoundError, match="add the document again"):
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
    with pytest.raises(FilesUnavailableError, match=r"No space left.*not full"):
        blobs.put(b"some bytes")
    assert list((tmp_path / "files").iterdir()) == []
