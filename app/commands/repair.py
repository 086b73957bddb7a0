"""Repairs for `gircse doctor --rebuild`, `check` and `restore`: rebuilds damaged indexes, removes inconsistencies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands import terminal
from app.commands.wiring import wiring
from app.commands.worker import worker_if_needed
from app.edge import PUT_ASIDE, edge_folder
from app.errors import FingerprintMismatchError
from app.maintenance.backup_schedule import last_backup
from app.maintenance.consistency import OF_DAMAGED_ROWS, UNMANAGED, ConsistencyCheck, Discrepancy, Inconsistency
from app.maintenance.index_probe import MOST_IN_PLACE, IndexDamage, probe_index
from app.maintenance.reindex import Reindexer
from app.maintenance.vector_check import compare_vectors
from app.services import Services
from app.types.documents import Collection, IndexRole, JobState, StoredFile
from app.types.printable import printable

POLL_S = 0.2
_MAX_LISTED = 50
_OF_FILES = frozenset({Inconsistency.UNNEEDED_FILES, Inconsistency.UNNAMED_FILES})
_OF_REBUILDS = frozenset(
    {
        Inconsistency.MISSING_INDEX,
        Inconsistency.MISSING_POINTS,
        Inconsistency.WRONG_POINTS,
        Inconsistency.WRONG_CHUNKS,
        Inconsistency.WRONG_COUNTS,
        Inconsistency.WRONG_ALIAS,
    }
)


def rebuild_damaged(
    services: Services,
    *,
    repairs_everything: bool = False,
    compares_vectors: int | None = 0,
    reparses_without_digest: bool = False,
) -> None:
    """Repair all collections: rebuild damaged indexes one after the other, and repair smaller damage in place.

    A new index is built beside the damaged one, which is removed afterwards. `repairs_everything` also removes points
    and indexes that the catalog does not know, as after restoring the catalog from a backup. `compares_vectors` is the
    number of passages per collection to embed again and compare (None: all, 0: none). `reparses_without_digest` also
    ingests documents again whose stored text has no digest, as texts of earlier releases.
    """
    with wiring("ingestion").open_reindexer(services) as reindexer:
        for collection in services.catalog.collections():
            damage = probe_index(services.catalog, services.index, collection, sample=None)
            if damage is not None and damage.is_of_points:
                delete_damaged_points(services, collection, damage.ids)
            elif damage is not None and not _is_repaired_in_place(services, collection, damage):
                if damage.is_missing:
                    typer.echo(f"The index of {collection.name!r} is missing. A new one is built.")
                else:
                    typer.echo(
                        f"The index of {collection.name!r} is damaged: {damage.reason}. A new one is built beside it; "
                        "the damaged one is removed when the new one is complete. Until then both need disk space."
                    )
                _rebuild(reindexer, collection)
            _drop_damaged_standby(services, collection.name)
    if compares_vectors != 0:
        _delete_altered_vectors(services, compares_vectors)
    _reparse_damaged_texts(services, services.blobs.has_text_digest if reparses_without_digest else lambda _: True)
    kinds = frozenset(Inconsistency) - _OF_FILES if repairs_everything else _OF_REBUILDS
    left = repair_differences(services, lambda difference: difference.kind in kinds, removes_proven=repairs_everything)
    if left:
        typer.echo(
            "`gircse check --fix` repairs the rest, except passages whose original file is lost: for these, restore "
            "the file or a backup.",
            err=True,
        )
    for aside in sorted(edge_folder(services.settings.home).glob(PUT_ASIDE.format("*"))):
        typer.echo(f"The engine moved damaged data to {aside}; you can delete it.")


def delete_damaged_points(services: Services, collection: Collection, ids: Sequence[str]) -> None:
    """Delete damaged points, so that the repair of missing points creates them again.

    Points of documents whose original file is lost or damaged are kept, since they cannot be created again.
    """
    index = collection.active_index
    owners = services.catalog.consistency.chunk_owners(index, ids)
    documents = {each: services.catalog.document(each) for each in set(owners.values())}
    sound = {key for key, document in documents.items() if services.blobs.is_sound(document.content_hash)}
    services.index.delete_points(index, [point_id for point_id in ids if owners.get(point_id) in sound])
    typer.echo(
        f"{len(ids)} points of {collection.name!r} are damaged; creating them again from {len(sound)} documents."
    )
    for document_id in documents.keys() - sound:
        uri = terminal.address(documents[document_id].uri)
        typer.echo(f"  not repaired, because its file is damaged, too: {uri}", err=True)


def _delete_altered_vectors(services: Services, sample: int | None) -> None:
    for collection in services.catalog.collections():
        if collection.fingerprint != services.embedder.info.fingerprint:
            continue
        found = compare_vectors(services.catalog, services.index, services.embedder, collection, sample=sample)
        if found.ids and found.is_of_points:
            delete_damaged_points(services, collection, found.ids)


def _is_repaired_in_place(services: Services, collection: Collection, damage: IndexDamage) -> bool:
    """Whether to repair the index in place, because few points are missing or some original file is lost: a new index
    would lack the passages of that file, which this one still has."""
    if damage.lacking is None:
        return False
    is_small = damage.lacking <= MOST_IN_PLACE * services.catalog.indexes.chunk_count(collection.active_index)
    return is_small or any(True for _ in _without_original(services, collection))


def _without_original(services: Services, collection: Collection) -> Iterator[StoredFile]:
    for page in services.catalog.consistency.stored_files(collection.name):
        yield from (each for each in page if each.is_read and not services.blobs.is_sound(each.content_hash))


def _rebuild(reindexer: Reindexer, collection: Collection) -> None:
    try:
        target = reindexer.begin_rebuild(collection.name)
    except FingerprintMismatchError as error:  # other collections can still be rebuilt
        typer.echo(f"  not rebuilt: {error}", err=True)
        return
    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal.stderr) as progress:
        bar = progress.add_task("indexing", total=None)
        report = reindexer.build(
            target, on_progress=lambda done, total: progress.update(bar, completed=done, total=total)
        )
    reindexer.end_rebuild(collection.name)
    typer.echo(f"Rebuilt {collection.name!r}: {report.documents} documents with {report.chunks} chunks.")
    for uri, reason in list(report.unreadable.items())[:_MAX_LISTED]:
        typer.echo(f"  not searchable: {terminal.address(uri)}: {printable(reason)}", err=True)


def _drop_damaged_standby(services: Services, name: str) -> None:
    """Drop the index kept for a roll-back and an unfinished index, if they are damaged."""
    for role in (IndexRole.PREVIOUS, IndexRole.BUILDING):
        standby = services.catalog.indexes.standby(name, role)
        if standby is None or not services.index.exists(standby.active_index):
            continue
        damage = probe_index(services.catalog, services.index, standby)
        if damage is not None and damage.lacking is None:
            services.catalog.indexes.discard(name, role)
            typer.echo(f"Dropped {standby.active_index}, which was damaged, too.")
    services.library.remove_unneeded()


def _reparse_damaged_texts(services: Services, is_trusted: Callable[[str], bool]) -> None:
    """Ingest documents again if their stored text is lost or damaged, or `is_trusted` is False for their content hash.
    Existing vectors are kept."""
    for collection in services.catalog.collections():
        for page in services.catalog.consistency.stored_files(collection.name):
            for file in page:
                if not file.is_read:
                    continue
                if services.blobs.is_text_sound(file.content_hash) and is_trusted(file.content_hash):
                    continue
                if services.blobs.is_sound(file.content_hash):
                    services.catalog.consistency.queue_again(file.document_id)
                else:
                    uri = terminal.address(file.uri)
                    typer.echo(f"  not repaired, because its file is lost or damaged, too: {uri}", err=True)
    run_queued_jobs(services)


def repair_differences(
    services: Services,
    is_to_repair: Callable[[Discrepancy], bool],
    *,
    removes_unmanaged: bool = False,
    removes_proven: bool = False,
    as_json: bool = False,
) -> int:
    """Print all differences, repair those of `is_to_repair`, and return the number that remain.

    Points and indexes that gircse did not write are not counted. Differences caused by damaged catalog rows are listed
    one by one, at most `_MAX_LISTED`.
    """
    damaged_rows: list[Discrepancy] = []
    found: Counter[tuple[Inconsistency, str, str]] = Counter()
    consistency = ConsistencyCheck(catalog=services.catalog, index=services.index, blobs=services.blobs)
    for difference in consistency.differences():
        is_repaired = is_to_repair(difference) and consistency.repair(
            difference, removes_unmanaged=removes_unmanaged, removes_proven=removes_proven
        )
        if difference.kind in OF_DAMAGED_ROWS and not is_repaired and len(damaged_rows) < _MAX_LISTED:
            damaged_rows.append(difference)
        verdict = "repaired" if is_repaired else "left" if difference.kind in UNMANAGED else "found"
        found[difference.kind, difference.index, verdict] += difference.count
    rows = [(count, kind, where, verdict) for (kind, where, verdict), count in sorted(found.items())]
    if as_json:
        terminal.print_json_lines(dict(zip(("count", "what", "index", "verdict"), row, strict=True)) for row in rows)
    elif rows:
        terminal.print_table(("count", "what", "index", ""), rows)
    else:
        typer.echo("Catalog and vectors agree.")
    if damaged_rows:
        _print_damaged_rows(services, damaged_rows)
    if any(verdict == "repaired" for _, _, verdict in found):
        run_queued_jobs(services)
    return sum(
        count for (kind, _, verdict), count in found.items() if verdict == "found" and kind not in OF_DAMAGED_ROWS
    ) + len(damaged_rows)


def _print_damaged_rows(services: Services, damaged: Sequence[Discrepancy]) -> None:
    backup = last_backup(services.settings.backup_directory) or "FILE"
    typer.echo(
        "Rows of the catalog or the points that contradict them are damaged or lost. Nothing was deleted. Stop all "
        f"processes, then restore the last backup with `gircse restore {backup} --force`; or add the documents below "
        "again and delete the ones that took their place.",
        err=True,
    )
    for difference in damaged:
        where = difference.document_id or difference.collection or difference.index or ", ".join(difference.ids)
        typer.echo(f"  {difference.kind}: {where}{_uri_of(services, difference)}", err=True)


def _uri_of(services: Services, difference: Discrepancy) -> str:
    """`, URI` of the document, from the payload of the first point; empty if the point has none."""
    if not difference.index or not difference.ids:
        return ""
    payloads = services.index.payloads(difference.index, difference.ids[:1])
    metadata = next((each.get("metadata") for each in payloads.values()), None)
    return f", {terminal.address(str(metadata['uri']))}" if isinstance(metadata, Mapping) and "uri" in metadata else ""


def run_queued_jobs(services: Services) -> None:
    """Wait until all queued jobs have ended. Starts a worker if no process runs one. Ignores paused collections."""
    total = _count_waiting(services)
    if not total:
        return
    columns = (TextColumn("ingesting again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with worker_if_needed(services) as ensure_working, Progress(*columns, console=terminal.stderr) as progress:
        bar = progress.add_task("ingesting again", total=total)
        while waiting := _count_waiting(services):
            ensure_working()
            progress.update(bar, completed=max(0, total - waiting))
            time.sleep(POLL_S)


def _count_waiting(services: Services) -> int:
    running = [each.name for each in services.catalog.collections() if not each.is_paused]
    counts = map(services.catalog.job_counts, running)
    return sum(count[JobState.QUEUED] + count[JobState.RUNNING] for count in counts)
