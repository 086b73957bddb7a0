"""Settings of synced sources and of alerts."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings


class SourceSettings(BaseSettings):
    """A part of `Settings`."""

    alerts_file: Path | None = Field(
        default=None,
        description="File with the mail and chat targets of standing searches: lines `NAME = URL`, or `NAME for USER, "
        "USER = URL`, with URLs of apprise; needs the extra [alerts].",
    )
    credentials_folder: Path | None = Field(
        default=None,
        description="Folder with credentials for synced sources, which refer to them by file name: one file each, with "
        "lines `KEY = VALUE` for `address`, `users`, `user`, `password`, `region`, `key_file` and `known_hosts`.",
    )
