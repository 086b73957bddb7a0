"""Where commands find the service of their home, and what they must not take for one."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runtime.service_socket import FOLDER, connect, find_services, has_local_sockets, open_service_socket

pytestmark = pytest.mark.skipif(not has_local_sockets(), reason="this system has no sockets in folders")


def test_a_service_is_found_once_it_is_announced_and_not_after_it_has_ended(tmp_path: Path) -> None:
    with open_service_socket(tmp_path, version="1", settings={"model": "a"}) as opened:
        assert opened is not None
        assert find_services(tmp_path) == []
        opened.announce()
        [record] = find_services(tmp_path)
        assert (record.pid, record.version, record.settings) == (os.getpid(), "1", {"model": "a"})
        connection = connect(record)
        assert connection is not None
        connection.close()
    assert find_services(tmp_path) == []
    assert connect(record) is None
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_only_the_owner_can_enter_and_connect(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o777)
    with open_service_socket(tmp_path, version="1", settings={}) as opened:
        assert opened is not None
        opened.announce()
        assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
        modes = {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / FOLDER).iterdir()}
        assert modes == {0o600}


@pytest.fixture
def short_path() -> Iterator[Path]:
    """The path of a socket has at most a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="g") as folder:
        yield Path(folder)


def test_what_others_could_have_put_there_is_not_asked(short_path: Path) -> None:
    with open_service_socket(short_path, version="1", settings={}) as opened:
        assert opened is not None
        opened.announce()
        [record] = find_services(short_path)
        (short_path / FOLDER).chmod(0o770)
        assert find_services(short_path) == []
        assert connect(record) is None
        (short_path / FOLDER).chmod(0o700)
        (short_path / "elsewhere").mkdir()
        (short_path / "elsewhere" / FOLDER).symlink_to(short_path / FOLDER)
        assert find_services(short_path / "elsewhere") == []


def test_the_service_of_the_home_that_this_one_was_copied_from_is_not_asked(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    with open_service_socket(home, version="1", settings={}) as opened:
        assert opened is not None
        opened.announce()
        (copy / FOLDER).mkdir(mode=0o700, parents=True)
        shutil.copy2(opened.place, copy / FOLDER)
        assert find_services(copy) == []
        with open_service_socket(copy, version="1", settings={}):
            assert [connection.close() for record in find_services(home) if (connection := connect(record))] == [None]


def test_what_a_killed_service_left_is_recognised_and_removed_by_the_next(short_path: Path) -> None:
    folder = short_path / FOLDER
    folder.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "old.sock"))
    listener.close()
    left = {"socket": str(folder / "old.sock"), "pid": 1, "version": "1", "settings": {}}
    (folder / "old.json").write_text(json.dumps(left), "utf-8")
    (folder / "damaged.json").write_text("{", "utf-8")
    [record] = find_services(short_path)
    assert connect(record) is None
    with open_service_socket(short_path, version="1", settings={}) as opened:
        assert opened is not None
        assert [each.name for each in folder.iterdir()] == [Path(opened.record.socket).name]


def test_the_newest_of_several_comes_first_and_each_takes_only_its_own_away(tmp_path: Path) -> None:
    with open_service_socket(tmp_path, version="1", settings={}) as first:
        assert first is not None
        first.announce()
        os.utime(first.place, (1, 1))
        with open_service_socket(tmp_path, version="2", settings={}) as second:
            assert second is not None
            second.announce()
            assert [each.version for each in find_services(tmp_path)] == ["2", "1"]
        assert [each.version for each in find_services(tmp_path)] == ["1"]


def test_a_home_with_a_path_too_long_for_a_socket_has_one_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 20)
    with open_service_socket(home, version="1", settings={}) as opened:
        assert opened is not None
        opened.announce()
        [record] = find_services(home)
        assert not Path(record.socket).is_relative_to(home)
        connection = connect(record)
        assert connection is not None
        connection.close()
    assert not Path(record.socket).parent.exists()


def test_a_home_without_room_for_a_socket_is_served_all_the_same(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file", "utf-8")
    with open_service_socket(tmp_path, version="1", settings={}) as opened:
        assert opened is None
    assert find_services(tmp_path) == []
