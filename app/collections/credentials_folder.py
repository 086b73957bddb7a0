"""Credentials for sources: one file each in the operator's folder, read at every use."""

from __future__ import annotations

from pathlib import Path

from app.errors import InputError
from app.types.credentials import Credentials, read_credentials

_MAX_BYTES = 64_000
_HIDDEN = "."


class CredentialsFolder:
    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def names_for(self, user: str) -> list[str]:
        return [name for name in self._names() if self._is_for(name, user)]

    def find(self, name: str, *, user: str, address: str) -> Credentials:
        found = self._read(name) if name in self._names() else None
        if found is None or not found.is_for(user):  # do not reveal credentials of other users
            raise InputError(
                f"There are no credentials {name[:80]!r} for {user}. The operator can add them as a file in "
                "GIRCSE_CREDENTIALS_FOLDER."
            )
        if not found.covers(address):
            raise InputError(
                f"The credentials {name!r} may not be sent to this address, only to the one in their file."
            )
        return found

    def _names(self) -> list[str]:
        """File names in the folder. Requested names are only compared with these, never joined to a path."""
        if self._folder is None:
            return []
        try:
            return sorted(each.name for each in self._folder.iterdir() if each.is_file() and each.name[0] != _HIDDEN)
        except OSError as error:
            raise InputError(
                f"GIRCSE_CREDENTIALS_FOLDER cannot be read ({type(error).__name__}): {self._folder}"
            ) from None

    def _is_for(self, name: str, user: str) -> bool:
        try:
            return self._read(name).is_for(user)
        except InputError:  # do not list an invalid file; `find` reports its error
            return False

    def _read(self, name: str) -> Credentials:
        assert self._folder is not None
        try:
            with (self._folder / name).open("rb") as file:
                text = file.read(_MAX_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The credentials {name!r} cannot be read ({type(error).__name__}).") from None
        return read_credentials(text, name=name)
