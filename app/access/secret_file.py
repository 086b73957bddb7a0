"""The admin secret: set by the operator, or generated at the first start and kept in a file that only its owner can
read.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import ConflictError
from app.settings import Settings

FILE_NAME = "admin-secret"
PREFIX = "gs_"
MIN_CHARACTERS = 32  # for a chosen secret; generated ones are longer


@dataclass(frozen=True, slots=True)
class AdminSecret:
    """The admin secret and its origin. `place` says where to find the secret, never its value."""

    secret: str = field(repr=False)
    place: str


def load_admin_secret(settings: Settings) -> AdminSecret:
    """The secret from the settings, else from its file, which is created if missing. Raises ConflictError."""
    if settings.admin_secret is not None:
        return AdminSecret(check_secret(settings.admin_secret.get_secret_value()), "GIRCSE_ADMIN_SECRET")
    path = settings.home / FILE_NAME
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return AdminSecret(_read(path), str(path))
    secret = PREFIX + secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret + "\n")
    return AdminSecret(secret, str(path))


def check_secret(secret: str) -> str:
    """Returns `secret`. Raises ConflictError if it is short enough to guess."""
    if len(secret) < MIN_CHARACTERS:
        raise ConflictError(f"The admin secret has {len(secret)} characters; it needs {MIN_CHARACTERS} or more.")
    return secret


def _read(path: Path) -> str:
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ConflictError(f"Other users of this machine can read {path}; run: chmod 600 {path}")
    return check_secret(path.read_text(encoding="utf-8").strip())
