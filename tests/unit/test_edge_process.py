"""The life of the Edge server's process: crashes, sharing, stopping, and owners that end in any way."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from filelock import FileLock, Timeout
from patience import wait_until

from app.edge import EdgeConnection, EdgeProcess, process, transport
from app.edge.connection import is_answering, read_connection, write_connection
from app.errors import VectorIndexUnavailableError
from app.types.documents import Point
from app.vectors import QdrantVectorIndex

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


@pytest.fixture
def open_edge(tmp_path: Path) -> Iterator[Callable[..., EdgeProcess]]:
    opened: list[EdgeProcess] = []

    def open_(data_dir: Path = tmp_path / "edge", *, patience_s: float = 60) -> EdgeProcess:
        """With patience as for a start, so that a slow machine restarts the engine within it."""
        opened.append(EdgeProcess(data_dir, patience_s=patience_s))
        return opened[-1]

    yield open_
    for edge in opened:
        edge.stop()


def filled_index(edge: EdgeProcess, *, points: int = 20) -> QdrantVectorIndex:
    index = QdrantVectorIndex.over_edge(edge)
    index.create("docs", dimension=2)
    ids = (str(uuid.UUID(int=number)) for number in range(points))
    index.upsert("docs", [Point(id=point_id, vector=[1.0, 0.0], payload={}) for point_id in ids])
    return index


def is_running(data_dir: Path) -> bool:
    """Told by the lock, which the kernel takes back from whatever ends; a process id may live on as a zombie."""
    try:
        with FileLock(data_dir / "edge.lock", timeout=0):
            return False
    except Timeout:
        return True


def test_what_was_begun_is_waited_for_and_not_started_twice(
    open_edge: Callable[..., EdgeProcess], tmp_path: Path
) -> None:
    edge, other = open_edge(), open_edge()
    edge.begin()
    edge.begin()
    assert read_connection(tmp_path / "edge") is None  # nobody has waited
    connection = edge.start()
    assert other.start() == connection
    other.begin()
    edge.stop()
    assert not is_running(tmp_path / "edge")


def test_data_survive_a_kill_between_two_calls(open_edge: Callable[..., EdgeProcess]) -> None:
    edge = open_edge()
    index = filled_index(edge, points=20)
    os.kill(edge.start().pid, signal.SIGKILL)
    assert index.count("docs") == 20
    os.kill(edge.start().pid, signal.SIGKILL)
    assert len(index.search("docs", [1.0, 0.0], limit=50)) == 20
    assert index.is_alive()
    index.close()


def test_one_that_was_killed_is_back_before_anybody_asks(open_edge: Callable[..., EdgeProcess], tmp_path: Path) -> None:
    edge = open_edge()
    filled_index(edge)
    killed = edge.start()
    os.kill(killed.pid, signal.SIGKILL)

    def is_another_one_there() -> bool:
        found = read_connection(tmp_path / "edge")
        return found is not None and found.pid != killed.pid and is_answering(found)

    wait_until(is_another_one_there)
    edge.stop()
    wait_until(lambda: not is_running(tmp_path / "edge"))


def test_a_copy_of_a_running_folder_has_an_engine_of_its_own(
    open_edge: Callable[..., EdgeProcess], tmp_path: Path
) -> None:
    """Else what is deleted in the copy is deleted in the original, too."""
    index = filled_index(open_edge(), points=20)
    shutil.copytree(tmp_path / "edge", tmp_path / "copy")
    edge = open_edge(tmp_path / "copy")
    copy = QdrantVectorIndex.over_edge(edge)
    assert copy.count("docs") == 20
    copy.drop("docs")
    assert index.count("docs") == 20
    edge.stop()
    assert index.count("docs") == 20
    index.close()
    copy.close()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.timeout(50)  # a request may take a minute
def test_one_that_hangs_is_told_and_answers_when_it_goes_on(open_edge: Callable[..., EdgeProcess]) -> None:
    edge = open_edge()
    index = filled_index(edge, points=5)
    pid = edge.start().pid
    with stopped(pid):
        with pytest.raises(VectorIndexUnavailableError, match=f"process {pid}.*does not respond"):
            index.count("docs")
        with pytest.raises(VectorIndexUnavailableError, match="a moment ago"):
            index.count("docs")
        with pytest.raises(VectorIndexUnavailableError, match=f"process {pid}.*does not respond"):
            edge.start()
    wait_until(lambda: is_counted(index))
    assert edge.start().pid == pid
    index.close()


@pytest.mark.timeout(50)  # a start may take a minute
def test_one_that_hangs_before_its_first_answer_holds_no_request(
    open_edge: Callable[..., EdgeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed, and stopped as soon as it is started again: requests that come meanwhile, and the ones after them."""
    edge = open_edge(patience_s=3.5)
    index = filled_index(edge, points=5)
    spawn, hanging = EdgeProcess._spawn, []

    def spawn_stopped(this: EdgeProcess) -> None:
        spawn(this)
        assert this._child is not None
        hanging.append(this._child.pid)
        os.kill(this._child.pid, signal.SIGSTOP)

    monkeypatch.setattr(EdgeProcess, "_spawn", spawn_stopped)
    os.kill(edge.start().pid, signal.SIGKILL)
    wait_until(lambda: len(hanging) == 1)
    monkeypatch.setattr(EdgeProcess, "_spawn", spawn)
    with ThreadPoolExecutor(6) as threads:
        waits = list(threads.map(lambda _: seconds_until_refused(lambda: index.count("docs")), range(6)))
    os.kill(hanging[0], signal.SIGCONT)
    assert max(waits) < 15  # one after another they took 21
    wait_until(lambda: is_counted(index))
    index.close()


def test_one_of_another_process_that_hangs_holds_no_request(open_edge: Callable[..., EdgeProcess]) -> None:
    owner, guest = open_edge(), open_edge(patience_s=3.5)
    with stopped(owner.start().pid):
        assert seconds_until_refused(guest.reach) < 15
    wait_until(lambda: is_answering(owner.start()))


def seconds_until_refused(call: Callable[[], object]) -> float:
    begun = time.monotonic()
    with pytest.raises(VectorIndexUnavailableError, match=r"has not responded for 3\.5 s"):
        call()
    return time.monotonic() - begun


def is_counted(index: QdrantVectorIndex) -> bool:
    with suppress(VectorIndexUnavailableError):
        return index.count("docs") == 5
    return False


def test_a_request_that_takes_long_is_waited_for(
    open_edge: Callable[..., EdgeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the engine answers others: a thousandth of a second is never enough, and is asked for again and again."""
    monkeypatch.setattr(transport, "QUIET_S", 0.001)
    index = filled_index(open_edge(), points=50)
    assert len(index.search("docs", [1.0, 0.0], limit=50)) == 50
    index.close()


def test_many_threads_outlive_a_kill(open_edge: Callable[..., EdgeProcess]) -> None:
    edge = open_edge()
    index = filled_index(edge, points=5)
    os.kill(edge.start().pid, signal.SIGKILL)
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(lambda _: index.count("docs"), range(12))) == [5] * 12
    index.close()


def test_a_second_opener_shares_the_running_server(open_edge: Callable[..., EdgeProcess]) -> None:
    first, second = open_edge(), open_edge()
    connection = first.start()
    assert second.start() == connection
    second.stop()  # it does not own the server, so the server stays
    assert is_answering(connection)


def test_openers_at_the_same_time_agree_on_one_server(open_edge: Callable[..., EdgeProcess]) -> None:
    edges = [open_edge() for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        connections = list(threads.map(lambda edge: edge.start(), edges))
    assert len(set(connections)) == 1


def test_a_client_goes_on_when_the_owner_of_the_server_stops(open_edge: Callable[..., EdgeProcess]) -> None:
    owner, guest = open_edge(), open_edge()
    owner_index = filled_index(owner, points=3)
    index = QdrantVectorIndex.over_edge(guest)
    owner_index.close()
    owner.stop()
    assert index.count("docs") == 3
    index.close()


def test_stop_leaves_no_process_and_no_token(open_edge: Callable[..., EdgeProcess], tmp_path: Path) -> None:
    edge = open_edge()
    pid = edge.start().pid
    edge.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert read_connection(tmp_path / "edge") is None
    edge.stop()  # a second time is no error


def test_sigterm_ends_the_server_in_good_order(open_edge: Callable[..., EdgeProcess], tmp_path: Path) -> None:
    connection = open_edge().start()
    os.kill(connection.pid, signal.SIGTERM)
    wait_until(lambda: not is_running(tmp_path / "edge"))
    assert read_connection(tmp_path / "edge") is None


def test_the_server_ends_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    script = """
        import sys, time
        from pathlib import Path
        from app.edge import EdgeProcess
        edge = EdgeProcess(Path(sys.argv[1]))
        edge.start()
        print("started", flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "edge")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "started\n"
        assert is_running(tmp_path / "edge")
        owner.kill()
    wait_until(lambda: not is_running(tmp_path / "edge"))


def test_a_stale_address_is_not_trusted(open_edge: Callable[..., EdgeProcess], tmp_path: Path) -> None:
    data_dir = tmp_path / "edge"
    data_dir.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        stale = EdgeConnection(port=closed_soon.getsockname()[1], token="old", pid=1)
    write_connection(data_dir, stale)
    connection = open_edge(data_dir).start()
    assert connection != stale
    assert read_connection(data_dir) == connection


def test_a_folder_named_app_where_the_user_stands_is_not_taken_for_ours(
    open_edge: Callable[..., EdgeProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('the wrong app')")
    monkeypatch.chdir(tmp_path)
    assert is_answering(open_edge(Path("edge")).start())


@pytest.mark.parametrize("damage", ["cut", "removed"])
def test_shards_whose_table_is_lost_are_put_aside(
    open_edge: Callable[..., EdgeProcess], tmp_path: Path, damage: str
) -> None:
    edge = open_edge()
    filled_index(edge).close()
    edge.stop()
    table = tmp_path / "edge/collections.json"
    shards = sorted(each.name for each in (tmp_path / "edge/shards").iterdir())
    os.truncate(table, 20) if damage == "cut" else table.unlink()
    index = QdrantVectorIndex.over_edge(open_edge())
    assert index.indexes() == []
    [aside] = (tmp_path / "edge").glob("damaged-*")
    assert sorted(each.name for each in (aside / "shards").iterdir()) == shards
    assert filled_index(open_edge()).count("docs") == 20
    index.close()


def test_a_server_whose_folder_is_removed_ends_and_another_begins_there(
    open_edge: Callable[..., EdgeProcess], tmp_path: Path
) -> None:
    edge = open_edge()
    index = filled_index(edge)
    former = read_connection(tmp_path / "edge")
    assert former is not None
    shutil.rmtree(tmp_path / "edge")
    wait_until(lambda: not is_answering(former))
    assert index.indexes() == []  # of a server that is started by this call
    assert read_connection(tmp_path / "edge") not in (None, former)
    index.close()


def test_a_server_that_cannot_start_says_why(open_edge: Callable[..., EdgeProcess], tmp_path: Path) -> None:
    data_dir = tmp_path / "edge"
    data_dir.mkdir()
    (data_dir / "shards").write_text("no folder")
    with pytest.raises(VectorIndexUnavailableError, match=r"does not start.*FileExists.*edge\.log"):
        open_edge(data_dir).start()


def test_one_that_cannot_start_is_not_started_again_by_every_request(
    open_edge: Callable[..., EdgeProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    spawn = EdgeProcess._spawn

    def counted(edge: EdgeProcess) -> None:
        started.append(edge)
        spawn(edge)

    monkeypatch.setattr(EdgeProcess, "_spawn", counted)
    monkeypatch.setattr(process, "_AWAY_S", 600.0)
    (tmp_path / "edge").mkdir()
    (tmp_path / "edge" / "shards").write_text("no folder")
    edge = open_edge()
    with pytest.raises(VectorIndexUnavailableError):
        edge.start()
    tries = len(started)
    with pytest.raises(VectorIndexUnavailableError, match="does not start"):
        edge.start()
    assert len(started) == tries


def test_on_a_full_disk_the_reason_is_told_at_once(
    open_edge: Callable[..., EdgeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: whole._replace(free=0))
    with pytest.raises(VectorIndexUnavailableError, match="is full"):
        open_edge().start()


def test_a_token_is_not_shown(open_edge: Callable[..., EdgeProcess]) -> None:
    connection = open_edge().start()
    assert connection.token not in repr(connection)
    assert connection.url == f"http://127.0.0.1:{connection.port}"
