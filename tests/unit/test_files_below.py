"""Files of a folder that another user changes between the look at them and their reading."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from app.types.documents import Source
from app.types.files_below import open_below
from ingest.sources import find_files

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows lets only administrators make links")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "a.txt").write_text("a secret")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "shared" / "deep").mkdir(parents=True)
    (tmp_path / "shared" / "deep" / "a.txt").write_text("a note")
    (found,) = find_files([tmp_path / "shared"])
    assert isinstance(found, Source)
    return found


def read(source: Source) -> bytes:
    with source.opened() as opened:
        return opened.read()


def test_unchanged_files_are_read(source: Source) -> None:
    assert read(source) == b"a note"


def in_the_place_of(path: Path, target: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to(target)


def test_a_link_in_the_place_of_a_file_is_not_followed(source: Source, private: Path) -> None:
    assert source.path is not None
    in_the_place_of(source.path, private / "a.txt")
    with pytest.raises(OSError, match="not below"):
        read(source)


def test_a_link_in_the_place_of_a_folder_is_not_followed(source: Source, private: Path) -> None:
    assert source.path is not None
    in_the_place_of(source.path.parent, private)
    with pytest.raises(OSError, match="not below"):
        read(source)


@pytest.mark.parametrize("is_of_folder", [False, True])
def test_a_link_made_between_looking_and_opening_is_not_followed(
    source: Source, private: Path, monkeypatch: pytest.MonkeyPatch, is_of_folder: bool
) -> None:
    assert source.path is not None
    looked_at = source.path.resolve()
    if is_of_folder:
        in_the_place_of(source.path.parent, private)
    else:
        in_the_place_of(source.path, private / "a.txt")
    monkeypatch.setattr(Path, "resolve", lambda *_, **__: looked_at)
    with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR if is_of_folder else errno.ELOOP)):
        read(source)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs")
def test_a_fifo_in_the_place_of_a_file_does_not_block(source: Source) -> None:
    assert source.path is not None
    source.path.unlink()
    os.mkfifo(source.path)
    with pytest.raises(OSError, match="not a regular file"):
        read(source)


def test_a_path_outside_is_refused(private: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    with pytest.raises(OSError, match="not below"):
        open_below(private / "a.txt", tmp_path / "shared")


def test_links_are_read_as_long_as_they_lead_into_the_folder(tmp_path: Path, private: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / ".kept").write_text("a note")
    (shared / "a.txt").symlink_to(shared / ".kept")
    (found,) = find_files([shared])
    assert isinstance(found, Source)
    assert (found.uri, read(found)) == ((shared / "a.txt").as_uri(), b"a note")
    (shared / "a.txt").unlink()
    (shared / "a.txt").symlink_to(private / "a.txt")
    with pytest.raises(OSError, match="not below"):
        read(found)
