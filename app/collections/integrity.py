"""Watches over indexes and stored files in a serving process: what is damaged, and whether a search may be answered.

Each look is bounded: a sample of each index, sizes of files, and of new files their hash, at a fifth of a core.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from app.collections.index_probe import IndexDamage, probe_index
from app.errors import (
    DamagedCatalogError,
    DamagedIndexError,
    EngineFaultError,
    NotFoundError,
    UnavailableError,
    VectorIndexUnavailableError,
)
from app.ports.ledger import Ledger
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import Collection, DocumentState, StoredFile

log = logging.getLogger(__name__)

EVERY_S = 60.0
CATALOG = "the catalog"  # among damaged collections, none of which can have a space in its name
_CATALOG_EVERY_S = 3600.0
_AGAIN_S = 5.0  # so long a look is good enough for the next search
_FILES = "stored files"
_REST = 4  # times as long as it took to hash a file


@dataclass(frozen=True, slots=True)
class _Look:
    collection: str
    at: float
    damage: IndexDamage | None

    @property
    def reason(self) -> str | None:
        return self.damage.reason if self.damage else None

    @property
    def refusal(self) -> str | None:
        """Why searches are refused. None with only a few damaged points: hits on these are marked instead."""
        return None if self.damage is None or self.damage.is_of_points else self.damage.reason

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self.at > _AGAIN_S


class Integrity:
    """Implements the port `Soundness`. Safe to use from several threads."""

    def __init__(
        self,
        catalog: Ledger,
        index: VectorIndex,
        blobs: BlobStore,
        *,
        check_catalog: Callable[[], None] = lambda: None,
        every_s: float = EVERY_S,
    ) -> None:
        """`check_catalog` looks through the whole database, and raises DamagedCatalogError."""
        self._check_catalog = check_catalog
        self._catalog_due = 0.0
        self._catalog_fault = False  # found by looking through it
        self._refused: set[str] = set()  # looks that ended because the catalog cannot be read
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._every_s = every_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._looked: dict[str, _Look] = {}  # by physical index
        self._files: dict[str, list[StoredFile]] = {}  # by collection, those that are damaged
        self._texts: dict[str, list[StoredFile]] = {}  # the same of texts that were read of them
        self._has_looked = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks at everything, now and then again, in a thread of its own."""
        thread = threading.Thread(target=self._watch, name="integrity", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(timeout=1)

    def is_sound(self) -> bool:
        """Whether every index was looked at, and nothing is damaged. What was is looked at again."""
        with self._looking_at(CATALOG):
            self._catalog.collections()
        with self._lock:
            before = time.monotonic() - _AGAIN_S
            names = {each.collection for each in self._looked.values() if each.reason and each.at < before}
            files = [file for damaged in self._files.values() for file in damaged]
            texts = [file for damaged in self._texts.values() for file in damaged]
        for name in names:
            with self._looking_at(_index_of(name)):
                self._look_at(self._catalog.collection(name))
        self._keep_damaged(self._files, files, self._blobs.is_sound)
        self._keep_damaged(self._texts, texts, self._blobs.is_text_sound)
        return self._has_looked and not self.damage()

    def damage(self) -> Mapping[str, str]:
        """Collection, or `CATALOG` → what is wrong with it, as of the last look."""
        with self._lock:
            told = {each.collection: [f"its index: {each.reason}"] for each in self._looked.values() if each.reason}
            files = [(name, len(damaged), "stored files") for name, damaged in self._files.items() if damaged]
            texts = [(name, len(damaged), "texts of files") for name, damaged in self._texts.items() if damaged]
        for name, count, what in files + texts:
            told.setdefault(name, []).append(f"{count} {what} are missing or altered")
        if self._catalog_fault or self._refused:
            told[CATALOG] = ["damaged; `gircse doctor` says how to restore it"]
        return {name: "; ".join(each) for name, each in sorted(told.items())}

    def require_sound(self, collection: Collection) -> None:
        look = self._looked.get(collection.active_index)
        reason = look.refusal if look else None
        if look is None or (reason is not None and look.is_old):
            try:
                reason = self._look_at(collection).refusal
            except (UnavailableError, NotFoundError):
                return  # the search itself finds out
        if reason is not None:
            raise DamagedIndexError(collection.name, reason)

    def explain(self, collection: Collection, fault: EngineFaultError) -> VectorIndexUnavailableError:
        try:
            reason = self._look_at(collection).refusal
        except (UnavailableError, NotFoundError):
            return fault
        return fault if reason is None else DamagedIndexError(collection.name, reason)

    def look(self) -> None:
        """At all indexes. What is away is looked at the next time."""
        collections: Sequence[Collection] | None = None
        with self._looking_at(CATALOG):
            collections = self._catalog.collections()
        if collections is None:
            return
        self._refused &= {CATALOG, _FILES, *(_index_of(each.name) for each in collections)}
        with self._lock:
            names = {each.name for each in collections}
            self._looked = {index: each for index, each in self._looked.items() if each.collection in names}
            self._files = {name: damaged for name, damaged in self._files.items() if name in names}
            self._texts = {name: damaged for name, damaged in self._texts.items() if name in names}
        for collection in collections:
            if self._stop.is_set():
                return
            with self._looking_at(_index_of(collection.name)):
                self._look_at(collection)
        self._has_looked = True

    def look_at_catalog(self) -> None:
        """Every hour, since all of it is read."""
        if time.monotonic() < self._catalog_due:
            return
        self._catalog_due = time.monotonic() + _CATALOG_EVERY_S
        try:
            self._check_catalog()
        except DamagedCatalogError as error:
            self._catalog_fault = True
            log.error("%s", error)
        else:
            self._catalog_fault = False

    def look_at_files(self) -> None:
        """Of each collection; files that were not read since they changed are read."""
        with self._looking_at(_FILES):
            for collection in self._catalog.collections():
                self._look_at_files_of(collection.name)

    def _look_at_files_of(self, name: str) -> None:
        files: list[StoredFile] = []
        texts: list[StoredFile] = []
        for page in self._catalog.stored_files(name):
            for file in page:
                if self._stop.is_set():
                    return
                if self._is_damaged(file):
                    files.append(file)
                elif self._has_damaged_text(file):
                    texts.append(file)
        for kept, damaged, what in ((self._files, files, "stored files"), (self._texts, texts, "texts of files")):
            with self._lock:
                former, kept[name] = kept.get(name, []), damaged
            if len(damaged) > len(former):
                log.error(
                    "%d %s of %r are missing or altered, as that of %r; see `gircse doctor --files`",
                    len(damaged),
                    what,
                    name,
                    damaged[0].uri,
                )

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.look()
            self.look_at_catalog()
            self.look_at_files()
            self._stop.wait(self._every_s)

    @contextmanager
    def _looking_at(self, what: str) -> Iterator[None]:
        """What is away, or gone, by now is looked at the next time."""
        try:
            yield
        except DamagedCatalogError as error:
            if what not in self._refused:
                log.error("%s", error)
            self._refused.add(what)
        except (UnavailableError, NotFoundError, OSError) as error:
            log.info("No look at %s: %s", what, error)
        else:
            self._refused.discard(what)

    def _look_at(self, collection: Collection) -> _Look:
        with self._lock:
            last = self._looked.get(collection.active_index)
        damage = probe_index(self._catalog, self._index, collection, former=last.damage if last else None)
        with self._lock:
            of_it = {index: each for index, each in self._looked.items() if each.collection == collection.name}
            was_damaged = any(each.damage for each in of_it.values())
            for index in of_it:
                del self._looked[index]
            look = self._looked[collection.active_index] = _Look(collection.name, time.monotonic(), damage)
        if look.refusal is not None and not was_damaged:
            log.error("%s", DamagedIndexError(collection.name, look.refusal))
        elif damage is not None and not was_damaged:
            log.error(
                "%d points of the index of %r are damaged: %s. `gircse doctor --rebuild` makes them anew",
                len(damage.ids),
                collection.name,
                damage.reason,
            )
        elif damage is None and was_damaged:
            log.warning("The index of %r is whole again", collection.name)
        return look

    def _keep_damaged(
        self, kept: dict[str, list[StoredFile]], files: Sequence[StoredFile], is_sound: Callable[[str], bool]
    ) -> None:
        sound = {file.content_hash for file in files if is_sound(file.content_hash)}
        with self._lock:
            for name, damaged in kept.items():
                kept[name] = [file for file in damaged if file.content_hash not in sound]

    def _has_damaged_text(self, file: StoredFile) -> bool:
        """Of a file that is whole. Texts are read once and after every change, as files are."""
        if not file.is_read:
            return False
        started = time.monotonic()
        is_sound = self._blobs.is_text_sound(file.content_hash)
        self._stop.wait(_REST * (time.monotonic() - started))
        return not is_sound and self._is_still_read(file) and not self._blobs.is_text_sound(file.content_hash)

    def _is_still_read(self, file: StoredFile) -> bool:
        """It may have been deleted, replaced or queued to be read again since it was listed."""
        try:
            document = self._catalog.document(file.document_id)
        except NotFoundError:
            return False
        return document.content_hash == file.content_hash and document.state is DocumentState.READY

    def _is_damaged(self, file: StoredFile) -> bool:
        if not self._blobs.is_changed(file.content_hash, file.byte_count):
            return False
        started = time.monotonic()
        is_sound = self._blobs.is_sound(file.content_hash)
        self._stop.wait(_REST * (time.monotonic() - started))
        return not is_sound and self._is_needed(file)

    def _is_needed(self, file: StoredFile) -> bool:
        """A document may have been deleted or replaced since it was listed."""
        return self._catalog.needs_file(file.content_hash) and not self._blobs.is_sound(file.content_hash)


def _index_of(collection: str) -> str:
    return f"the index of {collection!r}"
