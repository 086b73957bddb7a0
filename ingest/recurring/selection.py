"""Selects files of a repository and objects of a bucket by their path alone."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import InputError
from ingest.path_patterns import path_patterns
from ingest.readers.media_types import may_be_read

_HIDDEN = "."


class PathSelection:
    """Patterns have the syntax of .gitignore. Without patterns, hidden files and files in hidden folders are left
    out."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Raises InputError for an invalid pattern."""
        try:
            self._patterns = path_patterns(patterns) if patterns else None
        except ValueError as error:
            raise InputError(f"A pattern cannot be used: {error}. Write it as a line of .gitignore: *.md") from None

    def takes(self, path: str) -> bool:
        """Whether to fetch this path: it is selected, and a reader may know its format."""
        if self._patterns is None:
            is_wanted = not any(part.startswith(_HIDDEN) for part in path.split("/"))
        else:
            is_wanted = self._patterns.match_file(path)
        return is_wanted and may_be_read(path)
