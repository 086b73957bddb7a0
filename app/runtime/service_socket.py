"""Unix sockets at which the services of a home listen for commands, in a folder that only the owner may enter.

So the kernel authenticates both sides: no other user can connect, or place a socket there.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from app.edge.connection import is_of_folder, write_in_folder

FOLDER = "services"
_MAX_PATH_BYTES = 100  # the limit for a socket's path is 103 on macOS and 107 on Linux
_BACKLOG = 128

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """A service's description of itself in its home. `settings`: digests of its settings, by name."""

    socket: str
    pid: int
    version: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServiceSocket:
    """A listening socket. Commands find it after `announce`. `place`: path of the record."""

    listener: socket.socket
    record: ServiceRecord
    place: Path

    def announce(self) -> None:
        write_in_folder(self.place, asdict(self.record))


@contextmanager
def open_service_socket(home: Path, *, version: str, settings: Mapping[str, str]) -> Iterator[ServiceSocket | None]:
    """Listens within the block. Yields None if the operating system or the file system has no Unix sockets; commands
    then load the model themselves."""
    opened = _open(home, version, settings)
    try:
        yield opened
    finally:
        if opened is not None:
            opened.listener.close()
            opened.place.unlink(missing_ok=True)
            _remove_socket(Path(opened.record.socket), home)


def find_services(home: Path) -> list[ServiceRecord]:
    """The recorded services, newest first. A record may be outdated; `connect` shows whether the service runs."""
    folder = home / FOLDER
    if not is_private(folder):
        return []
    places = sorted(folder.glob("*.json"), key=_modified, reverse=True)
    return [record for place in places if (record := _read(place)) is not None]


def connect(record: ServiceRecord) -> socket.socket | None:
    """Connects to a service; None if it has ended."""
    if not is_private(Path(record.socket).parent):
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(record.socket)
    except OSError:
        connection.close()
        return None
    return connection


def is_private(folder: Path) -> bool:
    """Whether `folder` belongs to the user of this process, and no other user may enter or write it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        has_local_sockets()
        and stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not (status.st_mode & 0o077)
    )


def has_local_sockets() -> bool:
    """Whether the system has Unix sockets: not on Windows."""
    return hasattr(socket, "AF_UNIX") and hasattr(os, "geteuid")


def _open(home: Path, version: str, settings: Mapping[str, str]) -> ServiceSocket | None:
    if not has_local_sockets():
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder = home / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        _remove_ended(home)
        name = secrets.token_hex(4)
        path = folder / f"{name}.sock"
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            path = Path(tempfile.mkdtemp(prefix="gircse-")) / "service.sock"
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        log.warning("Commands cannot use this service and load the model themselves: no socket in %s (%s)", home, error)
        return None
    record = ServiceRecord(str(path), os.getpid(), version, dict(settings))
    return ServiceSocket(listener, record, folder / f"{name}.json")


def _remove_ended(home: Path) -> None:
    """Removes records and sockets of killed services."""
    for place in (home / FOLDER).glob("*.json"):
        record = _read(place)
        connection = None if record is None else connect(record)
        if connection is not None:
            connection.close()
            continue
        place.unlink(missing_ok=True)
        if record is not None:
            _remove_socket(Path(record.socket), home)


def _remove_socket(path: Path, home: Path) -> None:
    if path.parent == home / FOLDER:
        path.unlink(missing_ok=True)
    elif is_private(path.parent) and path.parent.name.startswith("gircse-"):
        shutil.rmtree(path.parent, ignore_errors=True)


def _read(place: Path) -> ServiceRecord | None:
    try:
        values = dict(json.loads(place.read_text("utf-8")))
        return ServiceRecord(**values) if is_of_folder(values, place.parent) else None  # else of a home copied from
    except (OSError, ValueError, TypeError):  # the service has just ended, or is another release
        return None


def _modified(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:
        return 0.0
