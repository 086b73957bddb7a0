"""Finds the files to ingest under the given paths, and reports which were left out and why."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from app.errors import DocumentError
from app.types.documents import Source, SourceFailure
from app.types.files_below import open_below
from ingest.readers.content_types import detect
from ingest.rows import ROW_SUFFIXES, RowFields, read_rows
from ingest.selection import IGNORE_FILES, Selection
from ingest.sidecars import described_by, read_sidecar


def find_files(
    paths: Sequence[Path | str],
    *,
    globs: Sequence[str] | None = None,
    excludes: Sequence[str] | None = None,
    without: Path | None = None,
    rows: RowFields | None = None,
) -> Iterator[Source | SourceFailure]:
    """Walks files and folders in a fixed order and yields each file once.

    Inside folders, files that `Selection` leaves out are not reported. Links to folders and links that lead out of the
    folder are never followed, but reported. A file given itself is always taken. The URI is file:// and the absolute
    path. With `rows`, every row of a JSONL or CSV file is a document.
    """
    roots = []
    for path in map(Path, paths):
        try:
            # Parent folders may be links (/tmp on macOS). A link given itself stands for its target.
            roots.append(path.resolve(strict=True))
        except (OSError, RuntimeError):
            yield SourceFailure(str(path), "there is no such file or folder")
    seen: set[str] = set()  # strings: a Path takes four times the memory
    for root in roots:
        selection = Selection(root, globs=globs, excludes=excludes, without=without)
        files = _walk(root, selection) if root.is_dir() else _take(root)
        for file in files:
            if not isinstance(file, Path):
                yield file
            elif (target := str(file.resolve() if file.is_symlink() else file)) not in seen:
                seen.add(target)
                folder = root if root.is_dir() else root.parent
                yield from _open(file, folder, was_named=file in roots, rows=rows)


def find_changed(
    root: Path,
    changed: Iterable[Path],
    *,
    globs: Sequence[str] | None = None,
    excludes: Sequence[str] | None = None,
    without: Path | None = None,
) -> Iterator[Source | SourceFailure]:
    """Yields what `find_files([root])` would find at and below the `changed` paths. `root` is a resolved folder."""
    selection = Selection(root, globs=globs, excludes=excludes, without=without)
    for path in outermost(affected(root, changed)):
        for file in _walk_part(path, selection):
            if isinstance(file, Path):
                yield from _open(file, root, was_named=False, rows=None)
            else:
                yield file


def affected(root: Path, changed: Iterable[Path]) -> Iterator[Path]:
    """The paths whose ingestion may change: `changed`, files described by changed sidecars, folders of ignore files."""
    for path in changed:
        yield path
        if path.name in IGNORE_FILES and path != root:
            yield path.parent
        elif (file := described_by(path)) is not None:
            yield file


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The distinct paths that are not below another one, sorted."""
    kept: list[Path] = []
    for path in sorted(set(paths)):  # a folder sorts right before what is below it
        if not kept or not path.is_relative_to(kept[-1]):
            kept.append(path)
    return kept


def _walk_part(path: Path, selection: Selection) -> Iterator[Path | SourceFailure]:
    if not selection.reaches(path):
        return
    if path.is_dir() and not path.is_symlink():
        if path == selection.root or selection.takes_folder(path):
            yield from _walk(path, selection)
    elif os.path.lexists(path) and selection.takes_file(path):
        yield from _follow_link(path, selection)


def _walk(start: Path, selection: Selection) -> Iterator[Path | SourceFailure]:
    unopened: list[OSError] = []
    for name, folder_names, file_names in os.walk(start, onerror=unopened.append):
        folder = Path(name)
        taken = [folder / child for child in sorted(folder_names) if selection.takes_folder(folder / child)]
        folder_names[:] = [child.name for child in taken]
        for link in taken:
            if link.is_symlink():
                yield SourceFailure(str(link), _why_not_followed(link, selection.root) or "", was_named=False)
        for file_name in sorted(file_names):
            if selection.takes_file(folder / file_name):
                yield from _follow_link(folder / file_name, selection)
    for error in unopened:
        was_named = Path(error.filename) == selection.root
        yield SourceFailure(str(error.filename), f"the folder cannot be opened ({error.strerror})", was_named=was_named)


def _follow_link(file: Path, selection: Selection) -> Iterator[Path | SourceFailure]:
    """Yields a file found inside a folder. Skips a link whose target is found by its own name, too."""
    if file.is_symlink():
        if reason := _why_not_followed(file, selection.root):
            yield SourceFailure(str(file), reason, was_named=False)
            return
        target = file.resolve()
        if selection.reaches(target) and selection.takes_file(target):
            return
    described = described_by(file)
    if described is None:
        yield file
    elif not os.path.lexists(described):
        yield SourceFailure(str(file), f"there is no {described.name} for it to describe", was_named=False)


def _take(file: Path) -> Iterator[Path | SourceFailure]:
    """Yields a file that the user named; a sidecar of an existing file is refused."""
    described = described_by(file)
    if described is not None and os.path.lexists(described):
        yield SourceFailure(str(file), f"this is the sidecar of {described.name}; add that file instead")
    else:
        yield file


def _why_not_followed(link: Path, root: Path) -> str | None:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return "the link is broken"
    if not target.is_relative_to(root):
        return f"the link points outside {root}; add its target instead"
    return "links to folders are not followed" if target.is_dir() else None


def _open(file: Path, root: Path, *, was_named: bool, rows: RowFields | None) -> Iterator[Source | SourceFailure]:
    if not file.is_file():
        yield SourceFailure(str(file), "not a regular file", was_named=was_named)
        return
    try:
        if rows is not None and file.suffix.lower() in ROW_SUFFIXES:
            with open_below(file, root) as opened:
                yield from read_rows(file, opened, rows)
            return
        with open_below(file, root) as opened:
            media_type = detect(opened, uri=file.as_uri())
    except DocumentError as error:
        yield SourceFailure(str(file), str(error), was_named=was_named)
        return
    except OSError as error:
        yield SourceFailure(str(file), f"it cannot be opened ({error.strerror})", was_named=was_named)
        return
    try:
        title, metadata = read_sidecar(file, root)
    except (DocumentError, OSError) as error:
        yield SourceFailure(str(file), str(error))
        return
    yield Source(
        name=str(file),
        uri=file.as_uri(),
        media_type=media_type,
        path=file,
        title=title,
        metadata=metadata,
        root=root,
    )
