"""Monitors indexes and stored files in a serving process, reports damage and blocks searches in damaged indexes.

Each check is bounded: a sample of each index, sizes of files, and hashes of new files at a fifth of a core.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import (
    DamagedCatalogError,
    DamagedIndexError,
    EngineFaultError,
    NotFoundError,
    UnavailableError,
    VectorIndexUnavailableError,
)
from app.maintenance.index_probe import IndexDamage, probe_index
from app.maintenance.vector_check import computes_others
from app.ports.parts import BlobStore, Embedder, VectorIndex
from app.types.documents import Collection, DocumentState, StoredFile

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

log = logging.getLogger(__name__)

EVERY_S = 60.0
CATALOG = "the catalog"  # a key among collection names, which cannot contain a space
_CATALOG_EVERY_S = 3600.0
_MODEL_EVERY_S = 3600.0
_OTHER_VECTORS = (
    "the model computes other vectors than are stored, as if its files had changed (restore them and restart the "
    "service, or embed all again by `gircse reindex NAME --restart`)"
)
_AGAIN_S = 5.0  # how long the last check of a damaged index is reused by searches
_FILES = "stored files"
_REST = 4  # pause after the check of an index or a file, as a multiple of the time it took


@dataclass(frozen=True, slots=True)
class _IndexCheck:
    collection: str
    at: float
    damage: IndexDamage | None

    @property
    def reason(self) -> str | None:
        return self.damage.reason if self.damage else None

    @property
    def refusal(self) -> str | None:
        """Why searches are refused, or None. With only a few damaged points searches work and mark hits on these."""
        return None if self.damage is None or self.damage.is_of_points else self.damage.reason

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self.at > _AGAIN_S


class Integrity:
    """Checks indexes, stored files and the catalog, and remembers the damage. Implements the port `Soundness`.
    Thread-safe."""

    def __init__(
        self,
        catalog: SqlCatalog,
        index: VectorIndex,
        blobs: BlobStore,
        *,
        embedder: Embedder | None = None,
        check_catalog: Callable[[], None] = lambda: None,
        every_s: float = EVERY_S,
    ) -> None:
        """`check_catalog` checks the whole database and raises DamagedCatalogError. Without `embedder`, stored vectors
        are not compared with those of the model.
        """
        self._embedder = embedder
        self._models: dict[str, tuple[float, bool]] = {}  # by index: next check, and whether the model makes others
        self._check_database = check_catalog
        self._catalog_due = 0.0
        self._catalog_fault = False  # result of the last `check_catalog`
        self._refused: set[str] = set()  # subjects whose check failed because the catalog is unreadable
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._every_s = every_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._checked: dict[str, _IndexCheck] = {}  # by physical index
        self._files: dict[str, list[StoredFile]] = {}  # damaged files by collection
        self._texts: dict[str, list[StoredFile]] = {}  # files whose extracted text is damaged, by collection
        self._has_checked = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Check everything periodically in a background thread during the block."""
        thread = threading.Thread(target=self._watch, name="integrity", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(timeout=1)

    def is_sound(self) -> bool:
        """Whether every index was checked and nothing is damaged. Checks damaged indexes and files again."""
        with self._errors_logged(CATALOG):
            self._catalog.collections()
        with self._lock:
            before = time.monotonic() - _AGAIN_S
            names = {each.collection for each in self._checked.values() if each.reason and each.at < before}
            files = [file for damaged in self._files.values() for file in damaged]
            texts = [file for damaged in self._texts.values() for file in damaged]
        for name in names:
            with self._errors_logged(_index_of(name)):
                self._check_index(self._catalog.collection(name))
        self._keep_damaged(self._files, files, self._blobs.is_sound)
        self._keep_damaged(self._texts, texts, self._blobs.is_text_sound)
        return self._has_checked and not self.damage()

    def damage(self) -> Mapping[str, str]:
        """Damage found by the last check, by collection name or `CATALOG`."""
        with self._lock:
            reasons = {each.collection: [f"its index: {each.reason}"] for each in self._checked.values() if each.reason}
            files = [(name, len(damaged), "stored files") for name, damaged in self._files.items() if damaged]
            texts = [(name, len(damaged), "texts of files") for name, damaged in self._texts.items() if damaged]
            strange = [each.collection for index, each in self._checked.items() if self._has_other_vectors(index)]
        for name in strange:
            reasons.setdefault(name, []).append(_OTHER_VECTORS)
        for name, count, what in files + texts:
            reasons.setdefault(name, []).append(f"{what} missing or altered: {count}")
        if self._catalog_fault or self._refused:
            reasons[CATALOG] = ["damaged; `gircse doctor` says how to restore it"]
        return {name: "; ".join(each) for name, each in sorted(reasons.items())}

    def require_sound(self, collection: Collection) -> None:
        if self._has_other_vectors(collection.active_index):
            raise DamagedIndexError(collection.name, _OTHER_VECTORS)
        check = self._checked.get(collection.active_index)
        reason = check.refusal if check else None
        if check is None or (reason is not None and check.is_old):
            try:
                reason = self._check_index(collection).refusal
            except (UnavailableError, NotFoundError):
                return  # the search itself will raise the error
        if reason is not None:
            raise DamagedIndexError(collection.name, reason)

    def map_fault(self, collection: Collection, fault: EngineFaultError) -> VectorIndexUnavailableError:
        try:
            reason = self._check_index(collection).refusal
        except (UnavailableError, NotFoundError):
            return fault
        return fault if reason is None else DamagedIndexError(collection.name, reason)

    def check_indexes(self) -> None:
        """Check all indexes. Unavailable components are checked the next time."""
        collections: Sequence[Collection] | None = None
        with self._errors_logged(CATALOG):
            collections = self._catalog.collections()
        if collections is None:
            return
        self._refused &= {CATALOG, _FILES, *(_index_of(each.name) for each in collections)}
        with self._lock:
            names = {each.name for each in collections}
            self._checked = {index: each for index, each in self._checked.items() if each.collection in names}
            self._files = {name: damaged for name, damaged in self._files.items() if name in names}
            self._texts = {name: damaged for name, damaged in self._texts.items() if name in names}
        for collection in collections:
            if self._stop.is_set():
                return
            started = time.monotonic()
            with self._errors_logged(_index_of(collection.name)):
                self._check_index(collection)
            if self._has_checked:  # of very many collections, the engine has to open some again
                self._stop.wait(_REST * (time.monotonic() - started))
        self._has_checked = True

    def check_model(self) -> None:
        """Compares a few stored vectors of each collection of this model with newly computed ones: at the start, then
        at most once an hour, and at every check while they differ."""
        if self._embedder is None:
            return
        with self._errors_logged("vectors"):
            collections = self._catalog.uncounted_collections()
            known = {each.active_index for each in collections}
            self._models = {index: found for index, found in self._models.items() if index in known}
            for collection in collections:
                if self._stop.is_set():
                    return
                try:
                    self._check_model_of(collection, self._embedder)
                except UnavailableError:
                    raise
                except Exception:  # a fault of the model must not end the other checks
                    log.exception("Could not compare vectors of %r with those of the model", collection.name)

    def _check_model_of(self, collection: Collection, embedder: Embedder) -> None:
        due, was_other = self._models.get(collection.active_index, (0.0, False))
        is_due = was_other or time.monotonic() >= due
        check = self._checked.get(collection.active_index)
        is_damaged = check is not None and check.damage is not None  # then vectors may differ for another reason
        if not is_due or is_damaged or collection.fingerprint != embedder.info.fingerprint:
            return
        is_other = computes_others(self._catalog, self._index, embedder, collection)
        self._models[collection.active_index] = time.monotonic() + _MODEL_EVERY_S, is_other
        if is_other and not was_other:
            log.error("%s", DamagedIndexError(collection.name, _OTHER_VECTORS))

    def _has_other_vectors(self, index: str) -> bool:
        return self._models.get(index, (0.0, False))[1]

    def check_catalog(self) -> None:
        """Check the whole catalog, at most once an hour, since it reads all of it."""
        if time.monotonic() < self._catalog_due:
            return
        self._catalog_due = time.monotonic() + _CATALOG_EVERY_S
        try:
            self._check_database()
        except DamagedCatalogError as error:
            self._catalog_fault = True
            log.error("%s", error)
        else:
            self._catalog_fault = False

    def check_files(self) -> None:
        """Check the size of every stored file, and hash every file that changed since its last hash."""
        with self._errors_logged(_FILES):
            for collection in self._catalog.collections():
                self._check_files_of(collection.name)

    def _check_files_of(self, name: str) -> None:
        files: list[StoredFile] = []
        texts: list[StoredFile] = []
        for page in self._catalog.consistency.stored_files(name):
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
                    "%s of %r missing or altered: %d, such as that of %r; see `gircse doctor --files`",
                    what,
                    name,
                    len(damaged),
                    damaged[0].uri,
                )

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.check_indexes()
            self.check_model()
            self.check_catalog()
            self.check_files()
            self._stop.wait(self._every_s)

    @contextmanager
    def _errors_logged(self, what: str) -> Iterator[None]:
        """Log errors of one check instead of raising. `what` names its subject; it is checked again the next time."""
        try:
            yield
        except DamagedCatalogError as error:
            if what not in self._refused:
                log.error("%s", error)
            self._refused.add(what)
        except (UnavailableError, NotFoundError, OSError) as error:
            log.info("Could not check %s: %s", what, error)
        else:
            self._refused.discard(what)

    def _check_index(self, collection: Collection) -> _IndexCheck:
        with self._lock:
            last = self._checked.get(collection.active_index)
        damage = probe_index(self._catalog, self._index, collection, former=last.damage if last else None)
        with self._lock:
            earlier = {index: each for index, each in self._checked.items() if each.collection == collection.name}
            was_damaged = any(each.damage for each in earlier.values())
            for index in earlier:
                del self._checked[index]
            check = self._checked[collection.active_index] = _IndexCheck(collection.name, time.monotonic(), damage)
        if check.refusal is not None and not was_damaged:
            log.error("%s", DamagedIndexError(collection.name, check.refusal))
        elif damage is not None and not was_damaged:
            log.error(
                "%d points of the index of %r are damaged: %s. `gircse doctor --rebuild` replaces them",
                len(damage.ids),
                collection.name,
                damage.reason,
            )
        elif damage is None and was_damaged:
            log.warning("The index of %r is no longer damaged", collection.name)
        return check

    def _keep_damaged(
        self, kept: dict[str, list[StoredFile]], files: Sequence[StoredFile], is_sound: Callable[[str], bool]
    ) -> None:
        sound = {file.content_hash for file in files if is_sound(file.content_hash)}
        with self._lock:
            for name, damaged in kept.items():
                kept[name] = [file for file in damaged if file.content_hash not in sound]

    def _has_damaged_text(self, file: StoredFile) -> bool:
        """Whether the extracted text of an undamaged file is damaged. Hashes a text once and after every change."""
        if not file.is_read:
            return False
        started = time.monotonic()
        is_sound = self._blobs.is_text_sound(file.content_hash)
        self._stop.wait(_REST * (time.monotonic() - started))
        return not is_sound and self._is_still_read(file) and not self._blobs.is_text_sound(file.content_hash)

    def _is_still_read(self, file: StoredFile) -> bool:
        """Whether the document still has this file and is ingested: it may have changed since it was listed."""
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
        """Whether a document still has the file, and it is still damaged: it may have been replaced since then."""
        return self._catalog.garbage.needs_file(file.content_hash) and not self._blobs.is_sound(file.content_hash)


def _index_of(collection: str) -> str:
    return f"the index of {collection!r}"
