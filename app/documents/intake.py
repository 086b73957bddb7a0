"""Adds sources to a collection: adds new ones, keeps the points of moved ones, and finds documents without a file.

Works in batches, in bounded memory. A document counts as gone only if its file no longer exists, never because a
pattern or ignore file excludes it now.
"""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import url2pathname

from app.documents.library import Library
from app.errors import ConflictError
from app.types.documents import DocumentKey, Job, JobPriority, Source, SourceFailure

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

Find = Callable[
    [Path, Iterable[Path]], Iterator[Source | SourceFailure]
]  # arguments: a folder, and the paths in it to read

FIRST_SOURCES = 128  # a small first batch lets a worker start early
BATCH_SOURCES = 500
BATCH_BYTES = 64_000_000
BATCH_S = 1.0


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """The result for one source. `job` is None if the document is unchanged."""

    uri: str
    job: Job | None
    has_moved: bool


class Intake:
    """Adds sources. `gone` are documents without a file: a source with the same content is taken as the moved file."""

    def __init__(
        self,
        library: Library,
        collection: str,
        *,
        gone: Iterable[DocumentKey] = (),
        priority: JobPriority = JobPriority.BULK,
    ) -> None:
        self._library = library
        self._collection = collection
        self._priority = priority
        self._gone: defaultdict[str, list[DocumentKey]] = defaultdict(list)
        for key in gone:
            self._gone[key.content_hash].append(key)

    @property
    def gone(self) -> list[DocumentKey]:
        """Documents whose file is gone and did not reappear under another name."""
        return [key for keys in self._gone.values() for key in keys]

    def add_all(self, sources: Iterable[Source | SourceFailure]) -> Iterator[IntakeResult | SourceFailure]:
        """Yield a result per source, roughly in order. Failures among the sources are passed on.

        An error of one source becomes a SourceFailure; only UnavailableError is raised.
        """
        for batch in _batches(sources):
            yield from [each for each in batch if isinstance(each, SourceFailure)]
            readable = [each for each in batch if isinstance(each, Source)]
            if readable:
                yield from self._add(readable)

    def _add(self, batch: list[Source]) -> Iterator[IntakeResult | SourceFailure]:
        moving: dict[str, DocumentKey] = {}  # by the id of the document

        def moved_from(content_hash: str) -> str | None:
            same_content = self._gone.get(content_hash)
            if not same_content:
                return None
            key = same_content.pop(0)
            moving[key.id] = key
            return key.id

        outcomes = self._library.add_documents(self._collection, batch, moved_from=moved_from, priority=self._priority)
        for source, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Exception):
                yield SourceFailure(source.name, str(outcome))
            else:
                document, job = outcome
                yield IntakeResult(document.uri, job, moving.pop(document.id, None) is not None)
        for key in moving.values():  # not moved, because the new URI already had a document
            self._gone[key.content_hash].append(key)


def _batches(sources: Iterable[Source | SourceFailure]) -> Iterator[list[Source | SourceFailure]]:
    """Batches bounded in number, bytes and time. The last bound keeps slow sources, such as web pages, from waiting."""
    batch: list[Source | SourceFailure] = []
    byte_count, until, most = 0, 0.0, FIRST_SOURCES
    for source in sources:
        if not batch:
            byte_count, until = 0, time.monotonic() + BATCH_S
        batch.append(source)
        if isinstance(source, Source):
            with suppress(OSError):  # reported when the file is opened
                byte_count += source.byte_count()
        if len(batch) == most or byte_count >= BATCH_BYTES or time.monotonic() > until:
            yield batch
            batch, most = [], BATCH_SOURCES
    if batch:
        yield batch


def documents_below(catalog: SqlCatalog, collection: str, paths: Iterable[Path]) -> list[DocumentKey]:
    """The documents of these files and of all files below these folders, including documents of single rows."""
    wanted = set(paths)
    if not wanted:
        return []
    prefix = Path(os.path.commonpath(wanted)).as_uri()
    keys = catalog.document_keys(collection, uri_prefix=prefix)
    return [key for key in keys if not wanted.isdisjoint(_with_parents(file_of(key)))]


def file_of(key: DocumentKey) -> Path:
    """The file of a file:// URI. The part after # names a row in the file and is ignored."""
    path = urlsplit(key.uri).path
    # The bytes of the name: they need not be UTF-8.
    return Path(url2pathname(path) if os.name == "nt" else os.fsdecode(unquote_to_bytes(path)))


def is_gone(key: DocumentKey) -> bool:
    """Whether the document's file no longer exists. A file that cannot be checked (I/O error) is not gone."""
    try:
        return not stat.S_ISREG(os.stat(file_of(key)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def require_filled(root: Path, known: int) -> None:
    """Raise ConflictError if the folder is empty but has `known` documents: its disk is probably not mounted."""
    if known and not any(root.iterdir()):
        raise ConflictError(
            f"{root} is empty, although the collection has {known} documents from it. Is its disk mounted? Nothing was "
            "deleted. To delete them, give the parent folder."
        )


def _with_parents(path: Path) -> set[Path]:
    return {path, *path.parents}


@dataclass(slots=True)
class FolderSyncResult:
    """The result of one sync of a folder."""

    job_ids: list[str] = field(default_factory=list)
    errors: list[SourceFailure] = field(default_factory=list)
    moved: int = 0
    deleted: int = 0


class FolderMirror:
    """Keeps a collection in sync with a folder. Its only state is the folder's identity at the start.

    Raises ConflictError, and deletes nothing, if the folder was replaced or unmounted since then.
    """

    def __init__(self, library: Library, catalog: SqlCatalog, collection: str, root: Path, find: Find) -> None:
        self._library = library
        self._catalog = catalog
        self._collection = collection
        self.root = root
        self._find = find
        self._identity = self._identify()

    def sync_all(self) -> FolderSyncResult:
        """Sync the whole folder. Raises ConflictError if it is empty but has documents."""
        require_filled(self.root, len(documents_below(self._catalog, self._collection, [self.root])))
        return self.sync([self.root], priority=JobPriority.BULK)

    def sync(self, changed: Iterable[Path], *, priority: JobPriority = JobPriority.INTERACTIVE) -> FolderSyncResult:
        """Sync the given paths and everything below them."""
        paths, result = list(changed), FolderSyncResult()
        known = documents_below(self._catalog, self._collection, paths)
        intake = Intake(self._library, self._collection, gone=filter(is_gone, known), priority=priority)
        for outcome in intake.add_all(self._find(self.root, paths)):
            if isinstance(outcome, SourceFailure):
                result.errors.append(outcome)
            elif outcome.job is not None:
                result.job_ids.append(outcome.job.id)
                result.moved += outcome.has_moved
        self.require_same_root()  # before deleting: on an unmounted disk every file seems gone
        for key in intake.gone:
            result.job_ids.append(self._library.delete_document(key.id).id)
            result.deleted += 1
        return result

    def require_same_root(self) -> None:
        if self._identify() != self._identity:
            raise ConflictError(
                f"{self.root} was replaced or unmounted. Nothing more was deleted; start again when it is back."
            )

    def _identify(self) -> tuple[int, int]:
        try:
            found = self.root.stat()
        except OSError as error:
            raise ConflictError(
                f"{self.root} cannot be opened ({error.strerror}). Is its disk mounted? Nothing was deleted."
            ) from error
        return found.st_dev, found.st_ino
