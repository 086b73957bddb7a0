"""What an installation writes is its user's alone, whatever the umask says."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.access.secret_file import load_admin_secret
from app.catalog import connect, upgrade
from app.commands import checks
from app.documents.blobs import FolderBlobStore
from app.edge import EdgeProcess
from app.errors import InputError
from app.runtime.private_files import prepare_home, private_files
from app.runtime.worker_lock import WorkerLock
from app.settings import Settings
from app.wiring.catalog import open_catalog

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems have no such modes")


@pytest.fixture(params=[0o000, 0o022, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    assert os.umask(before) == request.param  # what was opened and closed leaves it as it was


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Others get as far as this one; pytest's own folders let nobody in."""
    folder = Path("/tmp") / f"gircse-private-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def open_to_others(home: Path) -> dict[str, str]:
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (home, *home.rglob("*"))}
    return {str(path.relative_to(home)): oct(mode) for path, mode in modes.items() if mode & 0o077}


def write_everything(home: Path) -> None:
    settings = Settings(home=home, access_control=True)
    with open_catalog(settings), EdgeProcess(home / "edge"):
        load_admin_secret(settings)
        with FolderBlobStore(home / "files").batch() as batch:
            batch.put_file(Path(__file__).open("rb"))  # noqa: SIM115
        WorkerLock(home).try_take()
        assert (home / "catalog.db-wal").exists()
        assert open_to_others(home) == {}


def test_a_new_home_is_its_users_alone(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "above" / "home"
    write_everything(home)
    assert open_to_others(home) == {}
    assert {path.name for path in home.iterdir()} >= {"admin-secret", "catalog.db", "edge", "files", "worker.lock"}


def test_a_home_that_others_could_read_is_closed(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir()
    home.chmod(0o755)
    engine = connect(f"sqlite:///{home / 'catalog.db'}")
    upgrade(engine)
    engine.dispose()
    (home / "files").mkdir()
    for path in home.iterdir():
        path.chmod(0o755)
    with open_catalog(Settings(home=home)):
        assert open_to_others(home) == {}
    assert checks.check_permissions(Settings(home=home)).is_well


def test_a_folder_with_other_things_in_it_stays_as_it_is_and_is_named(open_folder: Path) -> None:
    other, link = open_folder / "theirs", open_folder / "files"
    other.mkdir(mode=0o755)
    link.symlink_to(other)
    (open_folder / "catalog.db").touch()
    (open_folder / "catalog.db").chmod(0o644)
    prepare_home(open_folder)
    assert open_to_others(open_folder) == {".": "0o755", "theirs": "0o755", "files": "0o777"}
    finding = checks.check_permissions(Settings(home=open_folder))
    assert not finding.is_well
    assert finding.detail == f"other users can read {open_folder}"
    assert finding.advice == f"Run: chmod go= {open_folder}"
    other.rmdir()
    link.unlink()
    open_folder.chmod(0o1777)  # as /tmp
    prepare_home(open_folder)
    assert stat.S_IMODE(open_folder.stat().st_mode) == 0o1777


def test_blocks_within_blocks_leave_the_umask_as_it_was(umask: int, tmp_path: Path) -> None:
    outer, inner = private_files(), private_files()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    (tmp_path / "inside").touch()
    inner.__exit__(None, None, None)
    (tmp_path / "outside").touch()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("inside", "outside")]
    assert modes == [0o600, 0o666 & ~umask]


def test_a_home_of_another_user_is_told_and_what_to_do(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (open_folder / "files").mkdir(exist_ok=True)
    can = os.access
    for closed in (open_folder, open_folder / "files"):  # for root nothing is closed, so it is only said here
        monkeypatch.setattr(os, "access", lambda path, mode, closed=closed: path != closed and can(path, mode))
        with pytest.raises(InputError, match=re.escape(f"{closed} cannot be read and written") + ".*GIRCSE_HOME"):
            prepare_home(open_folder)


def test_a_copy_beside_the_catalog_that_is_read_only_closes_no_home(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = open_folder / "catalog.db.backup-2026"
    copy.write_text("")
    can = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != copy and can(path, mode))
    prepare_home(open_folder)


def test_a_home_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="broken link"):
        prepare_home(tmp_path / "link")
    with pytest.raises(InputError, match=r"cannot be created.*GIRCSE_HOME"):
        prepare_home(tmp_path / "file" / "home")
