"""Selects files below a folder: not hidden, not excluded, not ignored by .gitignore or .gircseignore."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

from app.errors import InputError
from ingest.path_patterns import path_patterns

log = logging.getLogger(__name__)

IGNORE_FILES = (".gitignore", ".gircseignore")  # if both match a path, the later one wins
_HIDDEN = (".", "~$")  # ~$ marks the lock files of Word and Excel
_MAX_IGNORE_BYTES = 1_000_000


class Selection:
    """All patterns have the syntax of .gitignore. Ignore files are read once: make a new Selection to see changes.

    The folder `without` is skipped wherever it is: the home of the application, which holds the ingested files.
    """

    def __init__(
        self,
        root: Path,
        *,
        globs: Sequence[str] | None = None,
        excludes: Sequence[str] | None = None,
        without: Path | None = None,
    ) -> None:
        self.root = root
        self._without = without.resolve() if without is not None else None
        self._globs = _compile_option(globs, "--glob") if globs else None
        self._excludes = _compile_option(excludes or (), "--exclude")
        self._ignored: dict[Path, list[GitIgnoreSpec]] = {}

    def takes_folder(self, folder: Path) -> bool:
        return not self._leaves_out(folder, is_folder=True)

    def takes_file(self, file: Path) -> bool:
        if self._leaves_out(file, is_folder=False):
            return False
        return self._globs is None or self._globs.match_file(file.relative_to(self.root).as_posix())

    def reaches(self, path: Path) -> bool:
        """Whether a walk from the root reaches the folder of `path`: no folder in between is left out or a symbolic
        link."""
        folders = [parent for parent in path.parents if parent.is_relative_to(self.root) and parent != self.root]
        return all(self.takes_folder(folder) and not folder.is_symlink() for folder in folders)

    def _leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        if path.name.startswith(_HIDDEN) or path == self._without:
            return True
        slash = "/" if is_folder else ""
        if self._excludes.match_file(path.relative_to(self.root).as_posix() + slash):
            return True
        # As in git, the deepest ignore file that matches a path decides.
        for folder in path.parents:
            for spec in reversed(self._specs_of(folder)):
                is_ignored = spec.check_file(path.relative_to(folder).as_posix() + slash).include
                if is_ignored is not None:
                    return is_ignored
            if folder == self.root:
                break
        return False

    def _specs_of(self, folder: Path) -> list[GitIgnoreSpec]:
        if folder not in self._ignored:
            files = (folder / name for name in IGNORE_FILES)
            self._ignored[folder] = [_read_spec(file) for file in files if file.is_file() and not file.is_symlink()]
        return self._ignored[folder]


def _compile_option(patterns: Sequence[str], option: str) -> GitIgnoreSpec:
    try:
        return path_patterns(patterns)
    except ValueError as error:
        raise InputError(f"{option} cannot be used: {error}. Write it as a line of .gitignore, as in '*.md'.") from None


def _read_spec(file: Path) -> GitIgnoreSpec:
    try:
        with file.open(encoding="utf-8-sig", errors="replace") as opened:
            lines = opened.read(_MAX_IGNORE_BYTES).splitlines()
    except OSError as error:
        log.warning("%s cannot be read, so it ignores nothing: %s", file, error)
        lines = []
    return path_patterns(_usable(lines, file))


def _usable(lines: Iterable[str], file: Path) -> Iterator[str]:
    """Skips invalid lines, so that one bad line does not disable the others."""
    for number, line in enumerate(lines, start=1):
        try:
            path_patterns([line])
        except ValueError as error:
            log.warning("Line %d of %s is skipped: %s", number, file, error)
        else:
            yield line
