"""Port, token and process id of a running Edge server, in the file `edge.json` in its data folder.

The server writes it; the process that started it and all other processes of the same user read it.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
API_VERSION = "1.20.0"  # the Qdrant release whose JSON format the server follows; official clients check it
TITLE = "gircse - Qdrant Edge behind a subset of Qdrant's REST API"
AUTH_HEADER = "api-key"
BUSY_EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h, which Windows lacks in `os`
_PROBE_TIMEOUT_S = 5
_FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class EdgeConnection:
    port: int
    token: str = field(repr=False)
    pid: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


def read_connection(data_dir: Path) -> EdgeConnection | None:
    """None also for the file of another folder, of which this one is a copy: its server has other data."""
    try:
        values = dict(json.loads(_file(data_dir).read_text("utf-8")))
        return EdgeConnection(**values) if is_of_folder(values, data_dir) else None
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_connection(data_dir: Path, connection: EdgeConnection) -> None:
    """Write `edge.json` atomically, readable only by the owner, since it contains the token."""
    write_in_folder(_file(data_dir), asdict(connection))


def forget_connection(data_dir: Path, connection: EdgeConnection) -> None:
    if read_connection(data_dir) == connection:
        _file(data_dir).unlink(missing_ok=True)


def is_answering(connection: EdgeConnection, *, timeout_s: float = _PROBE_TIMEOUT_S) -> bool:
    """Whether the Edge server responds, and not another program on the same port.

    Uses `http.client`, which ignores proxy settings.
    """
    http_connection = http.client.HTTPConnection(HOST, connection.port, timeout=timeout_s)
    try:
        http_connection.request("GET", "/", headers={AUTH_HEADER: connection.token})
        response = http_connection.getresponse()
        return response.status == 200 and json.loads(response.read())["title"] == TITLE
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        http_connection.close()


def write_in_folder(path: Path, values: Mapping[str, object]) -> None:
    """Write the values as JSON, with the identity of their folder, which a copy of the folder does not have."""
    replace_file(path, json.dumps({**values, _FOLDER: _identity(path.parent)}))


def is_of_folder(values: dict[str, object], folder: Path) -> bool:
    """Whether these values of `write_in_folder` were written in this folder. Removes the identity from them."""
    return values.pop(_FOLDER, None) in (None, _identity(folder))  # None: by an earlier release


def _identity(folder: Path) -> str:
    status = folder.stat()
    return f"{status.st_dev}:{status.st_ino}"


def replace_file(path: Path, text: str) -> None:
    """Replace the file atomically: readers, also after a crash, find the old text or the new one."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _file(data_dir: Path) -> Path:
    return data_dir / "edge.json"
