"""Takes sources into a collection: what is new is added, what only moved keeps its points, what is gone is found out.

Any number of them in bounded memory: they are kept and submitted in batches. A document is gone when its file is:
never because a pattern or an ignore file leaves it out by now.
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
from urllib.parse import urlsplit
from urllib.request import url2pathname

from app.collections.library import Library
from app.errors import ConflictError
from app.ports.ledger import Ledger
from app.types.documents import DocumentKey, Job, JobPriority, Source, SourceFailure

Find = Callable[[Path, Iterable[Path]], Iterator[Source | SourceFailure]]  # a folder, and where in it to look

FIRST_SOURCES = 128  # in the first batch, so that a worker begins while others are taken in
BATCH_SOURCES = 500
BATCH_BYTES = 64_000_000
BATCH_S = 1.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a source; the job is None when nothing is to be done."""

    uri: str
    job: Job | None
    has_moved: bool


class Intake:
    """`gone` are documents without their file; one whose content comes back under another name has moved there."""

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
        """Those that did not move."""
        return [key for keys in self._gone.values() for key in keys]

    def add_all(self, sources: Iterable[Source | SourceFailure]) -> Iterator[Taken | SourceFailure]:
        """What became of each, the errors among them passed on, in about their order.

        Raises UnavailableError alone: an error of one source is in what became of it.
        """
        for batch in _batches(sources):
            yield from [each for each in batch if isinstance(each, SourceFailure)]
            yield from self._add([each for each in batch if isinstance(each, Source)])

    def _add(self, batch: list[Source]) -> Iterator[Taken | SourceFailure]:
        moving: dict[str, DocumentKey] = {}  # by the id of the document

        def moved_from(content_hash: str) -> str | None:
            alike = self._gone.get(content_hash)
            if not alike:
                return None
            key = alike.pop(0)
            moving[key.id] = key
            return key.id

        outcomes = self._library.add_documents(self._collection, batch, moved_from=moved_from, priority=self._priority)
        for source, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Exception):
                yield SourceFailure(source.name, str(outcome))
            else:
                document, job = outcome
                yield Taken(document.uri, job, moving.pop(document.id, None) is not None)
        for key in moving.values():  # their new place was taken
            self._gone[key.content_hash].append(key)


def _batches(sources: Iterable[Source | SourceFailure]) -> Iterator[list[Source | SourceFailure]]:
    """Bounded in number, bytes and time: what comes slowly, as pages of the web do, need not wait for more."""
    batch: list[Source | SourceFailure] = []
    byte_count, until, most = 0, 0.0, FIRST_SOURCES
    for source in sources:
        if not batch:
            byte_count, until = 0, time.monotonic() + BATCH_S
        batch.append(source)
        if isinstance(source, Source):
            with suppress(OSError):  # told when it is opened
                byte_count += source.byte_count()
        if len(batch) == most or byte_count >= BATCH_BYTES or time.monotonic() > until:
            yield batch
            batch, most = [], BATCH_SOURCES
    if batch:
        yield batch


def documents_below(catalog: Ledger, collection: str, paths: Iterable[Path]) -> list[DocumentKey]:
    """The documents of these files and of all files below these folders, rows of a file among them."""
    wanted = set(paths)
    if not wanted:
        return []
    prefix = Path(os.path.commonpath(wanted)).as_uri()
    keys = catalog.document_keys(collection, uri_prefix=prefix)
    return [key for key in keys if not wanted.isdisjoint(_with_parents(file_of(key)))]


def file_of(key: DocumentKey) -> Path:
    """The file of a file:// URI; what stands after # is a row in it."""
    return Path(url2pathname(urlsplit(key.uri).path))


def is_gone(key: DocumentKey) -> bool:
    """A file that cannot be looked at, as on a disk that does not answer, is not gone."""
    try:
        return not stat.S_ISREG(os.stat(file_of(key)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def require_filled(root: Path, known: int) -> None:
    """Raises ConflictError for an empty folder of which documents are known: a disk that is not mounted looks so."""
    if known and not any(root.iterdir()):
        raise ConflictError(
            f"{root} is empty, though the collection has {known} documents from it. Is its disk mounted? Nothing was "
            "deleted. If they are to go, name the folder above it."
        )


def _with_parents(path: Path) -> set[Path]:
    return {path, *path.parents}


@dataclass(slots=True)
class Followed:
    """What a look at a folder led to."""

    job_ids: list[str] = field(default_factory=list)
    errors: list[SourceFailure] = field(default_factory=list)
    moved: int = 0
    deleted: int = 0


class FolderMirror:
    """Makes a collection follow a folder: whatever changed in it is looked at again, and that is all the state.

    Raises ConflictError, and deletes nothing, when the folder is not the one any more that it was at the beginning.
    """

    def __init__(self, library: Library, catalog: Ledger, collection: str, root: Path, find: Find) -> None:
        self._library = library
        self._catalog = catalog
        self._collection = collection
        self.root = root
        self._find = find
        self._identity = self._identify()

    def follow_all(self) -> Followed:
        """What changed since whenever; refuses an empty folder."""
        require_filled(self.root, len(documents_below(self._catalog, self._collection, [self.root])))
        return self.follow([self.root], priority=JobPriority.BULK)

    def follow(self, changed: Iterable[Path], *, priority: JobPriority = JobPriority.INTERACTIVE) -> Followed:
        """What changed at and below these paths."""
        paths, followed = list(changed), Followed()
        known = documents_below(self._catalog, self._collection, paths)
        intake = Intake(self._library, self._collection, gone=filter(is_gone, known), priority=priority)
        for taken in intake.add_all(self._find(self.root, paths)):
            if isinstance(taken, SourceFailure):
                followed.errors.append(taken)
            elif taken.job is not None:
                followed.job_ids.append(taken.job.id)
                followed.moved += taken.has_moved
        self.require_same_root()  # after what is gone was told: on a disk that is away everything is
        for key in intake.gone:
            followed.job_ids.append(self._library.delete_document(key.id).id)
            followed.deleted += 1
        return followed

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
