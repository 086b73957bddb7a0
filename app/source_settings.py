"""What is set from outside for sources that come again, and for searches that keep watch over what they bring."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings


class SourceSettings(BaseSettings):
    """A part of `Settings`."""

    alerts_file: Path | None = Field(
        default=None,
        description="Where standing searches may tell by mail or chat: lines `NAME = URL`, or `NAME for USER, USER = "
        "URL`, with URLs of apprise; extra [alerts].",
    )
    credentials_folder: Path | None = Field(
        default=None,
        description="Where credentials for sources that come again lie: a file for each, lines `address`, `users`, "
        "`user`, `password`, `region`, `key_file` and `known_hosts` `= VALUE`; sources name them.",
    )
