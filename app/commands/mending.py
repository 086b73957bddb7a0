"""What `gircse doctor --rebuild`, `check` and `restore` share: mends what differs, and makes damaged indexes anew."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.collections.backup_schedule import last_backup
from app.collections.consistency import OF_DAMAGED_ROWS, UNMANAGED, ConsistencyCheck, Difference, Inconsistency
from app.collections.index_probe import MOST_IN_PLACE, IndexDamage, probe_index
from app.collections.reindex import Reindexer
from app.collections.vector_check import compare_vectors
from app.commands import console
from app.commands.composition import wiring
from app.commands.working import own_worker
from app.edge import PUT_ASIDE, edge_folder
from app.errors import FingerprintMismatchError
from app.services import Services
from app.types.documents import Collection, IndexRole, JobState, StoredFile

POLL_S = 0.2
_MAX_TOLD = 50
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
    services: Services, *, mends_all: bool = False, compares_vectors: int | None = 0, reads_unproven: bool = False
) -> None:
    """Damaged indexes beside what is left of them, one after the other; the rest in place. `mends_all`: also removes
    points and indexes that the catalog does not know, as after it was put back from a backup. `compares_vectors`: of so
    many passages of each (None: of all) the vectors are compared with what the model makes of their texts.
    `reads_unproven`: texts without a digest are read again, too."""
    with wiring("ingestion").open_reindexer(services) as reindexer:
        for collection in services.catalog.collections():
            damage = probe_index(services.catalog, services.index, collection, sample=None)
            if damage is not None and damage.is_of_points:
                take_out(services, collection, damage.ids)
            elif damage is not None and not _is_mended_in_place(services, collection, damage):
                typer.echo(
                    f"The index of {collection.name!r} is damaged: {damage.reason}. It is made anew beside what is "
                    "left of it, which is removed when the new one is whole; until then the disk holds both."
                )
                _rebuild(reindexer, collection)
            _drop_damaged_standby(services, collection.name)
    if compares_vectors != 0:
        _take_out_other_vectors(services, compares_vectors)
    _read_damaged_texts(services, services.blobs.has_text_digest if reads_unproven else lambda _: True)
    kinds = frozenset(Inconsistency) - _OF_FILES if mends_all else _OF_REBUILDS
    left = mend_differences(services, lambda difference: difference.kind in kinds, removes_proven=mends_all)
    if left:
        typer.echo(
            "`gircse check --fix` mends the rest, but no passages whose original file is lost: for these put the file "
            "back, or restore a backup.",
            err=True,
        )
    for aside in sorted(edge_folder(services.settings.home).glob(PUT_ASIDE.format("*"))):
        typer.echo(f"What the engine put aside is in {aside}; nothing needs it any more.")


def take_out(services: Services, collection: Collection, ids: Sequence[str]) -> None:
    """Damaged points, which are then made again as lost ones are: only of documents whose file proves what they say."""
    index = collection.active_index
    owners = services.catalog.chunk_owners(index, ids)
    documents = {each: services.catalog.document(each) for each in set(owners.values())}
    sound = {each for each, document in documents.items() if services.blobs.is_sound(document.content_hash)}
    services.index.delete_points(index, [each for each in ids if owners.get(each) in sound])
    typer.echo(f"{len(ids)} points of {collection.name!r} are damaged, and made again from {len(sound)} documents.")
    for each in documents.keys() - sound:
        uri = console.printable(documents[each].uri)
        typer.echo(f"  left as they are, since its file is damaged, too: {uri}", err=True)


def _take_out_other_vectors(services: Services, sample: int | None) -> None:
    for collection in services.catalog.collections():
        if collection.fingerprint != services.embedder.info.fingerprint:
            continue
        found = compare_vectors(services.catalog, services.index, services.embedder, collection, sample=sample)
        if found.ids and found.is_of_points:
            take_out(services, collection, found.ids)


def _is_mended_in_place(services: Services, collection: Collection, damage: IndexDamage) -> bool:
    """Also where an original is lost: a new index would be without its passages, which are in this one."""
    if damage.lacking is None:
        return False
    is_small = damage.lacking <= MOST_IN_PLACE * services.catalog.chunk_count(collection.active_index)
    return is_small or any(True for _ in _without_original(services, collection))


def _without_original(services: Services, collection: Collection) -> Iterator[StoredFile]:
    for page in services.catalog.stored_files(collection.name):
        yield from (each for each in page if each.is_read and not services.blobs.is_sound(each.content_hash))


def _rebuild(reindexer: Reindexer, collection: Collection) -> None:
    try:
        target = reindexer.begin_rebuild(collection.name)
    except FingerprintMismatchError as error:  # others can be made anew all the same
        typer.echo(f"  not made anew: {error}", err=True)
        return
    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console.stderr) as progress:
        bar = progress.add_task("indexing", total=None)
        report = reindexer.build(target, tell=lambda done, total: progress.update(bar, completed=done, total=total))
    reindexer.end_rebuild(collection.name)
    typer.echo(f"{collection.name!r} is whole again: {report.documents} documents with {report.chunks} chunks.")
    for uri, reason in list(report.unreadable.items())[:_MAX_TOLD]:
        typer.echo(f"  not searchable: {console.printable(uri)}: {console.printable(reason)}", err=True)


def _drop_damaged_standby(services: Services, name: str) -> None:
    """An index to roll back to, or one that was half built."""
    for role in (IndexRole.PREVIOUS, IndexRole.BUILDING):
        standby = services.catalog.standby(name, role)
        if standby is None or not services.index.exists(standby.active_index):
            continue
        damage = probe_index(services.catalog, services.index, standby)
        if damage is not None and damage.lacking is None:
            services.catalog.discard_index(name, role)
            typer.echo(f"{standby.active_index} is damaged, too, and dropped.")
    services.library.remove_unneeded()


def _read_damaged_texts(services: Services, is_proven: Callable[[str], bool]) -> None:
    """Lost ones, too, by their ingestion, which keeps vectors that are there."""
    for collection in services.catalog.collections():
        for page in services.catalog.stored_files(collection.name):
            for file in page:
                if not file.is_read:
                    continue
                if services.blobs.is_text_sound(file.content_hash) and is_proven(file.content_hash):
                    continue
                if services.blobs.is_sound(file.content_hash):
                    services.catalog.queue_again(file.document_id)
                else:
                    uri = console.printable(file.uri)
                    typer.echo(f"  left as it is, since its file is lost or damaged, too: {uri}", err=True)
    work_off(services)


def mend_differences(
    services: Services,
    is_to_mend: Callable[[Difference], bool],
    *,
    removes_unmanaged: bool = False,
    removes_proven: bool = False,
) -> int:
    """How many things of ours differ and were not mended. Those that tell of damaged rows are told by themselves."""
    damaged_rows: list[Difference] = []
    found: Counter[tuple[Inconsistency, str, str]] = Counter()
    consistency = ConsistencyCheck(catalog=services.catalog, index=services.index, blobs=services.blobs)
    for difference in consistency.differences():
        is_mended = is_to_mend(difference) and consistency.mend(
            difference, removes_unmanaged=removes_unmanaged, removes_proven=removes_proven
        )
        if difference.kind in OF_DAMAGED_ROWS and not is_mended and len(damaged_rows) < _MAX_TOLD:
            damaged_rows.append(difference)
        verdict = "mended" if is_mended else "left" if difference.kind in UNMANAGED else "found"
        found[difference.kind, difference.index, verdict] += difference.count
    if not found:
        typer.echo("Catalog and vectors agree.")
        return 0
    rows = [(count, kind, where, verdict) for (kind, where, verdict), count in sorted(found.items())]
    console.print_table(("count", "what", "index", ""), rows)
    if damaged_rows:
        _tell_damaged_rows(services, damaged_rows)
    if any(verdict == "mended" for _, _, verdict in found):
        work_off(services)
    return sum(
        count for (kind, _, verdict), count in found.items() if verdict == "found" and kind not in OF_DAMAGED_ROWS
    ) + len(damaged_rows)


def _tell_damaged_rows(services: Services, damaged: Sequence[Difference]) -> None:
    backup = last_backup(services.settings.backup_directory) or "FILE"
    typer.echo(
        "Rows of the catalog are damaged or lost, or what contradicts them is: nothing of either is deleted. "
        f"Stop all processes, then `gircse restore {backup} --force` puts back the last backup; or hand in again what "
        "is named here, and delete what has its place.",
        err=True,
    )
    for each in damaged:
        where = each.document_id or each.collection or each.index or ", ".join(each.ids)
        typer.echo(f"  {each.kind}: {where}{_uri_of(services, each)}", err=True)


def _uri_of(services: Services, difference: Difference) -> str:
    """As its points say."""
    if not difference.index or not difference.ids:
        return ""
    payloads = services.index.payloads(difference.index, difference.ids[:1])
    metadata = next((each.get("metadata") for each in payloads.values()), None)
    return f", {console.printable(str(metadata['uri']))}" if isinstance(metadata, Mapping) and "uri" in metadata else ""


def work_off(services: Services) -> None:
    """Waits until all queued jobs are done, by a running worker or else by one of its own."""
    total = _count_waiting(services)
    if not total:
        return
    columns = (TextColumn("taking in again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with own_worker(services) as ensure_working, Progress(*columns, console=console.stderr) as progress:
        bar = progress.add_task("taking in again", total=total)
        while waiting := _count_waiting(services):
            ensure_working()
            progress.update(bar, completed=max(0, total - waiting))
            time.sleep(POLL_S)


def _count_waiting(services: Services) -> int:
    running = [each.name for each in services.catalog.collections() if not each.is_paused]
    counts = map(services.catalog.job_counts, running)
    return sum(count[JobState.QUEUED] + count[JobState.RUNNING] for count in counts)
