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
