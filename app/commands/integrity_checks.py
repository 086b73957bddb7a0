"""The checks of `gircse doctor` for stored data: indexes, vectors, catalog rows, files of documents and backups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from app.commands.findings import Finding
from app.commands.wiring import embedder_of, open_catalog, wiring
from app.documents.blobs import FolderBlobStore
from app.maintenance.backup_schedule import last_backup, scheduled_backups
from app.maintenance.consistency import ConsistencyCheck, Inconsistency
from app.maintenance.index_probe import probe_index, sample_of
from app.maintenance.vector_check import compare_vectors
from app.ports.parts import VectorIndex
from app.settings import Settings
from app.types.documents import Collection, StoredFile, utc_now
from app.types.uris import shown_address

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

VECTORS = 16  # chunks per index that are embedded again
SAMPLE = 2_000  # chunks per index that are checked, which takes about a second
LATE, GRACE = 1.5, timedelta(hours=1)  # a backup is late after 1.5 intervals plus the time to write it
_MAX_LISTED = 5
_UNNAMED = "indexes that no collection names"
REBUILD = "Run: gircse doctor --rebuild"
REBUILD_VECTORS = f"{REBUILD} --vectors all"


def check_damage(settings: Settings) -> Finding:
    """Check a sample of every index, or all of a small one: points exist, are unaltered and can be found."""
    with open_catalog(settings) as catalog, wiring("index").open_index(settings) as index:
        collections = catalog.collections()
        found = {each.name: probe_index(catalog, index, each, sample=SAMPLE) for each in collections}
    damaged = [f"{name}: {damage.reason}" for name, damage in found.items() if damage is not None]
    if damaged:
        return Finding(False, "; ".join(damaged), REBUILD)
    return Finding(True, f"{len(found)} indexes agree with the catalog and are searchable")


def check_vectors(settings: Settings, *, sample: int | None = VECTORS) -> Finding:
    """Embed `sample` chunks of every index again (None: all) and compare the vectors with the stored ones.

    Skips collections of another model.
    """
    embedder = embedder_of(settings)
    with open_catalog(settings) as catalog, wiring("index").open_index(settings) as index:
        own = [each for each in catalog.collections() if each.fingerprint == embedder.info.fingerprint]
        there = [each for each in own if index.exists(each.active_index)]
        found = {each.name: compare_vectors(catalog, index, embedder, each, sample=sample) for each in there}
    wrong = [f"{name}: {len(each.ids)} of {each.compared}" for name, each in found.items() if each.ids]
    if not wrong:
        return Finding(True, f"{sum(each.compared for each in found.values())} embedded again, all equal")
    if all(each.is_of_points for each in found.values()):
        return Finding(False, f"vectors that do not fit their texts: {', '.join(wrong)}", REBUILD_VECTORS)
    advice = "Most differ, so another model probably made them. `gircse reindex NAME --restart` embeds all again."
    return Finding(False, f"vectors that do not fit their texts: {', '.join(wrong)}", advice)


def check_rows(settings: Settings) -> Finding:
    """Compare a sample of every index, or all of a small one, with the chunks' rows in the catalog, and their numbers.

    A catalog that was replaced by an older copy of itself lacks rows of points, and whole collections.
    """
    blobs = FolderBlobStore(settings.home / "files")
    found: Counter[str] = Counter()
    with open_catalog(settings) as catalog, wiring("index").open_index(settings) as index:
        consistency = ConsistencyCheck(catalog=catalog, index=index, blobs=blobs)
        collections = [each for each in catalog.collections() if index.exists(each.active_index)]
        for collection in collections:
            found.update(
                each.kind for each in consistency.of_chunks(collection, sample_of(catalog, collection, SAMPLE))
            )
            found.update(each.kind for each in consistency.of_counts(collection))
            found[Inconsistency.STALE_POINTS] += _surplus(catalog, index, collection)
        if settings.qdrant_url is None:  # a server may hold indexes of others
            found[_UNNAMED] = len(list(consistency.unnamed_indexes()))
    found = +found
    if not found:
        return Finding(True, f"chunk rows of {len(collections)} indexes agree with their points")
    counts = ", ".join(f"{count} {kind}" for kind, count in found.items())
    return Finding(False, counts, "`gircse check` compares everything and names the repair.")


def _surplus(catalog: SqlCatalog, index: VectorIndex, collection: Collection) -> int:
    """The number of points above that of the chunks; 0 while documents are ingested."""
    for _ in range(2):  # a job may have ended between the two counts
        there, known = index.count(collection.active_index), catalog.indexes.chunk_count(collection.active_index)
        if there <= known or not catalog.consistency.is_at_rest(collection.name):
            return 0
    return there - known


def check_sizes(settings: Settings) -> Finding:
    return _check_files(settings, reads=False)


def check_hashes(settings: Settings) -> Finding:
    return _check_files(settings, reads=True)


def _check_files(settings: Settings, *, reads: bool) -> Finding:
    blobs = FolderBlobStore(settings.home / "files")
    with open_catalog(settings) as catalog:
        files = list(_files(catalog))
    damaged = [file for file in files if not _is_whole(blobs, file, reads=reads)]
    textless = [file for file in files if file.is_read and not _has_text(blobs, file, reads=reads)]
    errors, advice = [], []
    if damaged:
        uris = ", ".join(shown_address(file.uri) for file in islice(damaged, _MAX_LISTED))
        errors.append(f"stored files missing or altered: {len(damaged)}, such as {uris}")
        backup = last_backup(settings.backup_directory) or "FILE"
        advice.append(f"Run: gircse restore {backup} --files. Or add them again, as by gircse ingest.")
    if lost := [file for file in textless if file not in damaged]:
        uris = ", ".join(shown_address(file.uri) for file in islice(lost, _MAX_LISTED))
        errors.append(f"extracted texts missing or altered: {len(lost)}, such as {uris}")
        advice.append(f"{REBUILD}.")
    if errors:
        return Finding(False, "; ".join(errors), " ".join(advice))
    result = (
        "and their extracted texts have the right hashes"
        if reads
        else "exist with the right sizes; --files also compares hashes"
    )
    return Finding(True, f"{len(files)} stored files {result}")


def check_backups(settings: Settings) -> Finding:
    """Check that the latest scheduled backup is as recent as the settings require."""
    if settings.backup_directory is None:
        return Finding(True, "none scheduled (GIRCSE_BACKUP_DIRECTORY is not set)")
    backups = scheduled_backups(settings.backup_directory)
    if backups:
        made_at, path = backups[-1]
        age = utc_now() - made_at
        detail = f"{len(backups)}, the latest of {made_at:%Y-%m-%d %H:%M} UTC: {path}"
        if age <= LATE * timedelta(hours=settings.backup_every_hours) + GRACE:
            return Finding(True, detail)
    else:
        detail = f"none in {settings.backup_directory} yet"
    return Finding(False, detail, "A running worker makes them (gircse up, gircse worker). See its log for errors.")


def _files(catalog: SqlCatalog) -> Iterator[StoredFile]:
    for collection in catalog.collections():
        for page in catalog.consistency.stored_files(collection.name):
            yield from page


def _has_text(blobs: FolderBlobStore, file: StoredFile, *, reads: bool) -> bool:
    return blobs.is_text_sound(file.content_hash) if reads else blobs.has_text(file.content_hash)


def _is_whole(blobs: FolderBlobStore, file: StoredFile, *, reads: bool) -> bool:
    has_size = blobs.byte_count(file.content_hash) == file.byte_count
    return has_size and (not reads or blobs.is_sound(file.content_hash))
