"""Makes an installation's files private: folders 0700, files 0600, whatever the umask."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import InputError

PRIVATE_UMASK = 0o077
# The files that gircse writes into its home; the owner may keep other files there. The admin secret is not among them:
# if other users can read it, it is rejected, since they may know it already.
_OWN = ("catalog.db*", "edge", "files", "gradio", "services", "worker.lock")

_OTHER_HOME = "Or set GIRCSE_HOME to a folder of your own."
_lock = threading.Lock()
_open_blocks = 0
_umask_before = 0


@contextmanager
def private_files() -> Iterator[None]:
    """Creates files of this process and its children as private within the block. The umask applies to all threads."""
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
    """Creates the home, and makes files private that an old release left readable; the home itself only if it has no
    files of others.

    Raises InputError if this user cannot write the home.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InputError(f"{home} is not a folder, or is a broken link. {_OTHER_HOME}") from error
    except OSError as error:
        raise InputError(f"{home} cannot be created ({error.strerror}). {_OTHER_HOME}") from error
    own = {path for pattern in _OWN for path in home.glob(pattern)}
    for path in (home, *filter(Path.is_dir, own)):  # not the catalog: if it is read-only, gircse waits
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):  # False also on a read-only disk
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
    """Makes a path private, unless it belongs to another user, is shared on purpose (sticky), a link, or gone."""
    try:
        found = path.lstat()
        is_ours = found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode)
        if is_ours and found.st_mode & PRIVATE_UMASK:
            path.chmod(stat.S_IMODE(found.st_mode) & ~PRIVATE_UMASK)
    except FileNotFoundError:
        pass
