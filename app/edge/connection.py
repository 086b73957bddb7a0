"""Where a running Edge server is and how to be let in: the file `edge.json` in its data folder.

Shared by the process that starts the server, the server itself, and every other process of the same user.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
API_VERSION = "1.20.0"  # the Qdrant release whose JSON shapes the server follows; official clients compare it
TITLE = "gircse - Qdrant Edge behind a subset of Qdrant's REST API"
AUTH_HEADER = "api-key"
BUSY_EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h, which Windows lacks in `os`
_PROBE_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class EdgeConnection:
    port: int
    token: str = field(repr=False)
    pid: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


def read_connection(data_dir: Path) -> EdgeConnection | None:
    try:
        return EdgeConnection(**json.loads(_file(data_dir).read_text("utf-8")))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def write_connection(data_dir: Path, connection: EdgeConnection) -> None:
    """Readable by the owner alone, since it holds the token; replaced in one step."""
    replace_file(_file(data_dir), json.dumps(asdict(connection)))


def forget_connection(data_dir: Path, connection: EdgeConnection) -> None:
    if read_connection(data_dir) == connection:
        _file(data_dir).unlink(missing_ok=True)


def is_answering(connection: EdgeConnection, *, timeout_s: float = _PROBE_TIMEOUT_S) -> bool:
    """Whether our server, and not a later owner of the same port, answers. `http.client` heeds no proxy settings."""
    http_connection = http.client.HTTPConnection(HOST, connection.port, timeout=timeout_s)
    try:
        http_connection.request("GET", "/", headers={AUTH_HEADER: connection.token})
        response = http_connection.getresponse()
        return response.status == 200 and json.loads(response.read())["title"] == TITLE
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        http_connection.close()


def replace_file(path: Path, text: str) -> None:
    """Writes `text` to `path` so that a reader, or a crash at any instant, finds the old text or the new one."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _file(data_dir: Path) -> Path:
    return data_dir / "edge.json"
