"""Finds the files to ingest under the paths that a person names, and says which were left out and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from app.errors import DocumentError
from ingest.readers import media_type_of

_HIDDEN = (".", "~$")  # ~$ marks the lock files of Word and Excel


@dataclass(frozen=True, slots=True)
class SourceFile:
    path: Path
    uri: str  # file:// and the absolute path: the document's identity in its collection
    media_type: str


@dataclass(frozen=True, slots=True)
class FoundFiles:
    files: list[SourceFile] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def find_files(paths: Sequence[Path | str], *, globs: Sequence[str] | None = None) -> FoundFiles:
    """Walks files and folders, each file once, in a fixed order.

    Inside folders: hidden files and, with `globs` (such as `*.md` or `notes/*.txt`), files that match none are left
    out silently; links that lead out of the folder and linked folders are never followed. A file named itself is
    always taken.
    """
    found = FoundFiles()
    seen: set[Path] = set()
    for path in map(Path, paths):
        try:
            # The folders above may be links (as /tmp on macOS); a link that is named itself is meant.
            root = path.resolve(strict=True)
        except (OSError, RuntimeError):
            found.skipped.append((path, "there is no such file or folder"))
            continue
        candidates = _walk(root, globs, found.skipped) if root.is_dir() else iter([root])
        for file in candidates:
            _add(file, found, seen)
    return found


def _walk(root: Path, globs: Sequence[str] | None, skipped: list[tuple[Path, str]]) -> Iterator[Path]:
    def report(error: OSError) -> None:
        skipped.append((Path(error.filename), f"the folder cannot be opened ({error.strerror})"))

    links: list[Path] = []
    for folder, folder_names, file_names in os.walk(root, onerror=report):
        folder_names[:] = sorted(name for name in folder_names if not name.startswith(_HIDDEN))
        links.extend(Path(folder, name) for name in folder_names if Path(folder, name).is_symlink())
        for name in sorted(file_names):
            file = Path(folder, name)
            if name.startswith(_HIDDEN) or (globs and not _matches(file.relative_to(root), globs)):
                continue
            if file.is_symlink():
                links.append(file)
            else:
                yield file
    # Last, so that a file found both ways goes by its own name.
    for link in links:
        if reason := _why_not_followed(link, root):
            skipped.append((link, reason))
        else:
            yield link


def _why_not_followed(link: Path, root: Path) -> str | None:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return "the link leads nowhere"
    if not target.is_relative_to(root):
        return f"the link leads out of {root}; name its target to add it"
    return "links to folders are not followed" if target.is_dir() else None


def _add(file: Path, found: FoundFiles, seen: set[Path]) -> None:
    target = file.resolve()
    if target in seen:
        return
    seen.add(target)
    try:
        media_type = media_type_of(file.name)
    except DocumentError as error:
        found.skipped.append((file, str(error)))
        return
    if not target.is_file():
        found.skipped.append((file, "not a regular file"))
        return
    found.files.append(SourceFile(path=file, uri=file.as_uri(), media_type=media_type))


def _matches(path: PurePath, globs: Sequence[str]) -> bool:
    return any(path.match(pattern) for pattern in globs)
