"""Which changes below a folder are heard, and when they count as quiet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import wait_until

from ingest.watch import FolderWatch, Quiet

A, B = Path("/a"), Path("/b")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_path_that_keeps_changing_waits_and_others_do_not_wait_for_it() -> None:
    clock = Clock()
    quiet = Quiet(1.0, clock=clock)
    quiet.add({A, B})
    for _ in range(5):
        clock.now += 0.5
        quiet.add({A})
    assert quiet.take() == {B}
    clock.now += 1.0
    assert quiet.take() == {A}
    assert quiet.take() == set()


@given(st.lists(st.tuples(st.floats(0, 3), st.sets(st.sampled_from([A, B]))), max_size=30))
def test_every_path_is_given_once_after_its_last_change(changes: list[tuple[float, set[Path]]]) -> None:
    clock = Clock()
    quiet, last, given_at = Quiet(1.0, clock=clock), {}, {}
    for pause, paths in [*changes, (1.0, set())]:
        clock.now += pause
        given_at |= dict.fromkeys(quiet.take(), clock.now)
        quiet.add(paths)
        last |= dict.fromkeys(paths, clock.now)
    clock.now += 1.0
    given_at |= dict.fromkeys(quiet.take(), clock.now)
    assert given_at.keys() == last.keys()
    assert all(given_at[path] >= last[path] + 1.0 for path in last)
    assert quiet.take() == set()


@pytest.fixture
def heard(tmp_path: Path) -> Callable[[FolderWatch, set[Path]], set[Path]]:
    """What a watch gives until it has given all that is expected."""

    def listen(watch: FolderWatch, expected: set[Path]) -> set[Path]:
        found = set[Path]()
        wait_until(lambda: found.update(watch.quiet_paths(wait_s=0.1)) or found >= expected, told=lambda: found)
        return found

    return listen


@pytest.mark.parametrize("is_polling", [False, True])
def test_real_changes_are_heard(is_polling: bool, tmp_path: Path, heard: Callable[..., set[Path]]) -> None:
    old, edited, gone = tmp_path / "old.txt", tmp_path / "edited.txt", tmp_path / "gone.txt"
    for file in (old, edited, gone):
        file.write_text("before")
        os.utime(file, (0, 0))  # polling compares whole seconds
    with FolderWatch([tmp_path], quiet_s=0.1, is_polling=is_polling) as watch:
        (tmp_path / ".hidden").mkdir()
        edited.write_text("after")
        gone.unlink()
        old.rename(tmp_path / "new.txt")
        expected = {edited, gone, old, tmp_path / "new.txt"}
        assert heard(watch, expected) >= expected
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "a.txt").write_text("later")
        assert any(path.is_relative_to(tmp_path / "later") for path in heard(watch, {tmp_path / "later"}))


def test_file_is_given_once_it_is_whole(tmp_path: Path, heard: Callable[..., set[Path]]) -> None:
    file = tmp_path / "slow.txt"
    with FolderWatch([tmp_path], quiet_s=1.0) as watch, file.open("w") as writing:
        for _ in range(8):
            writing.write("a line\n")
            writing.flush()
            assert file not in watch.quiet_paths(wait_s=0.2)
        assert file in heard(watch, {file})


def test_changes_of_the_folder_that_is_left_out_are_not_heard(tmp_path: Path, heard: Callable[..., set[Path]]) -> None:
    (tmp_path / "home").mkdir()
    with FolderWatch([tmp_path], without=tmp_path / "home", quiet_s=0.1) as watch:
        (tmp_path / "home" / "catalog.db").touch()
        (tmp_path / "a.txt").touch()
        assert not any(path.is_relative_to(tmp_path / "home") for path in heard(watch, {tmp_path / "a.txt"}))


def test_paths_that_were_given_back_come_again(tmp_path: Path, heard: Callable[..., set[Path]]) -> None:
    with FolderWatch([tmp_path], quiet_s=0.0) as watch:
        watch.put_back({A})
        assert heard(watch, {A}) == {A}


def test_flood_of_changes_makes_everything_be_looked_at(tmp_path: Path, heard: Callable[..., set[Path]]) -> None:
    with FolderWatch([tmp_path], quiet_s=0.1) as watch:
        for number in range(3000):
            (tmp_path / f"{number}.txt").touch()
        assert tmp_path in heard(watch, {tmp_path})
