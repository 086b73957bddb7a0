"""Keeps what an installation writes from other users of the machine: folders 0700, files 0600, whatever the umask."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import InputError

PRIVATE_UMASK = 0o077
# What gircse writes into its home, whose owner may keep other things there, too. Not the admin secret: where others
# could read that, it is refused, since they may have.
_OWN = ("catalog.db*", "edge", "files", "gradio", "services", "worker.lock")

_OTHER_HOME = "Or set GIRCSE_HOME to a folder of your own."
_lock = threading.Lock()
_open_blocks = 0
_umask_before = 0


@contextmanager
def private_files() -> Iterator[None]:
    """What this process and its children make within the block is theirs alone. The umask is that of all threads."""
    global _open_blocks, _umask_before
    with _lock:
        if _open_blocks == 0:
            _umask_before = os.umask(PRIVATE_UMASK)
        _open_blocks += 1
    try:
        yield
    finally:
        with _lock:
            _open_blocks -= 1
            if _open_blocks == 0:
                os.umask(_umask_before)


def prepare_home(home: Path) -> None:
    """Makes the home. What a former release let others read is closed, the folder too where nothing else is in it.

    Raises InputError for a home that this user cannot write.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InputError(f"{home} is no folder, or a link that leads nowhere. {_OTHER_HOME}") from error
    except OSError as error:
        raise InputError(f"{home} cannot be made ({error.strerror}). {_OTHER_HOME}") from error
    own = {path for pattern in _OWN for path in home.glob(pattern)}
    for path in (home, *filter(Path.is_dir, own)):  # a catalog that is read-only is waited for
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):  # on a disk that is read-only, too
            raise InputError(f"{path} cannot be read and written by this user. Run gircse as its owner. {_OTHER_HOME}")
    if os.name != "posix":
        return
    for path in own:
        _close(path)
    if own | {home / "admin-secret"} >= set(home.iterdir()):
        _close(home)


def is_closed(path: Path) -> bool:
    return not path.stat().st_mode & PRIVATE_UMASK


def _close(path: Path) -> None:
    """Nothing happens to what is another user's, is shared on purpose (sticky), or is gone by now."""
    try:
        found = path.lstat()
        is_ours = found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode)
        if is_ours and found.st_mode & PRIVATE_UMASK:
            path.chmod(stat.S_IMODE(found.st_mode) & ~PRIVATE_UMASK)
    except FileNotFoundError:
        pass
