"""Backs up a whole installation to one file while it runs, and restores it: catalog, stored files, optionally indexes.

The catalog is a snapshot of one moment. Files are kept from before that moment on, so that none that the snapshot names
can be deleted during the backup.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from app.errors import ArchiveError, DamagedFileError, NotFoundError, full_disk_translated
from app.maintenance.archive import ArchiveFormat, ArchiveWriter, Member, read_members, verify
from app.maintenance.archived_vectors import steps_of, stored_array
from app.maintenance.held_files import HeldFiles, holding_files
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import Collection, Point
from app.types.lens_indexes import LABEL_PREFIX

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import CatalogSnapshot, SqlCatalog

Row = dict[str, object]
ProgressCallback = Callable[[int], None]

ABOUT_MEMBER = "backup.json"
_INDEX = r"[a-z0-9][a-z0-9_-]*--[0-9]+"
BACKUP = ArchiveFormat(
    "gircse backup",
    1,
    re.compile(
        rf"backup\.json|manifest\.json|catalog/[a-z_]+/\d{{6,9}}\.jsonl|files/[0-9a-f]{{64}}|(texts|layouts)/[0-9a-f]{{64}}"
        rf"|points/{_INDEX}/\d{{6,9}}\.jsonl|vectors/{_INDEX}/\d{{6,9}}\.npy"
    ),
    "gircse backup",
)


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """The description inside a backup. `lost`: URIs of documents whose file was already missing or altered."""

    revision: str
    made_at: str
    release: str
    settings: Mapping[str, object] = field(default_factory=dict)
    indexes: Mapping[str, int] = field(default_factory=dict)  # index → dimension
    vectors_per_point: Mapping[str, int] = field(default_factory=dict)  # index → count, only for multivectors
    documents: int = 0
    lost: tuple[str, ...] = ()


class BackupWriter:
    def __init__(
        self,
        *,
        catalog: SqlCatalog,
        open_snapshot: Callable[[], AbstractContextManager[CatalogSnapshot]],
        index: VectorIndex | None,
        files: Path,
    ) -> None:
        """With `index`, the backup includes its points."""
        self._catalog = catalog
        self._open_snapshot = open_snapshot
        self._index = index
        self._files = files

    def write(
        self,
        path: Path,
        *,
        made_at: str,
        release: str,
        settings: Mapping[str, object],
        on_progress: ProgressCallback = lambda documents: None,
    ) -> BackupFacts:
        """Write the backup. `on_progress` receives the number of documents whose files are written."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            full_disk_translated(path.parent),
            ArchiveWriter(path, BACKUP) as archive,
            holding_files(self._files) as held,
        ):
            with self._open_snapshot() as snapshot:
                documents = _add_catalog(archive, snapshot)
                revision = snapshot.revision
            held.take()
            lost = _add_files(archive, documents, held, on_progress)
            packed = list(self._add_indexes(archive)) if self._index is not None else []
            facts = BackupFacts(
                revision,
                made_at,
                release,
                settings,
                {each.active_index: each.dimension for each in packed},
                {each.active_index: each.vectors_per_chunk for each in packed if each.vectors_per_chunk > 1},
                len(documents),
                tuple(lost),
            )
            values = {name: getattr(facts, name) for name in BackupFacts.__slots__}
            if not facts.vectors_per_point:  # earlier releases do not know this field
                del values["vectors_per_point"]
            archive.add(ABOUT_MEMBER, json.dumps(values, indent=1).encode())
        return facts

    def _add_indexes(self, archive: ArchiveWriter) -> Iterator[Collection]:
        """Add the points as they are now. A restore compares them with the catalog to find later changes."""
        assert self._index is not None
        for collection in self._catalog.collections():
            name = collection.active_index
            for number, chunks in enumerate(self._catalog.consistency.chunk_pages(name), start=1):
                points = self._index.retrieve(name, [chunk.id for chunk in chunks])
                lines = (json.dumps([point.id, _without_labels(point.payload)]) for point in points)
                vectors = io.BytesIO()
                np.save(vectors, stored_array(points))
                archive.add(f"points/{name}/{number:06}.jsonl", "\n".join(lines).encode("utf-8", "surrogatepass"))
                archive.add(f"vectors/{name}/{number:06}.npy", vectors.getvalue())
            yield collection


class BackupReader:
    """Reads a backup. The constructor verifies the whole file; it raises ArchiveError."""

    def __init__(self, path: Path, *, on_progress: ProgressCallback = lambda position: None) -> None:
        self._path = path
        self._on_progress = on_progress
        members = verify(path, BACKUP, on_progress=on_progress)
        if ABOUT_MEMBER not in members:
            raise ArchiveError(f"{path} has no {ABOUT_MEMBER}: it is not a backup.")
        self.facts = self._read_facts()

    def catalog_pages(self) -> Iterator[tuple[str, list[Row]]]:
        for member in self._members("catalog"):
            yield member.name.split("/")[1], [json.loads(line) for line in member.read().splitlines()]

    def put_files(self, blobs: BlobStore) -> int:
        """Restore stored files, texts and layouts that are missing or altered. Returns the number of files."""
        count, new_texts = 0, set[str]()
        for member in self._members("files", "texts", "layouts"):
            content_hash = member.name[-64:]
            if member.kind == "files" and not blobs.is_sound(content_hash):
                try:
                    blobs.put_parts(content_hash, member.parts)
                except DamagedFileError as error:
                    raise ArchiveError(f"{member.name} in the backup is no copy of a document: {error}") from error
                count += 1
            elif member.kind == "texts" and not blobs.is_text_sound(content_hash):
                blobs.put_text(content_hash, [b"".join(member.parts).decode("utf-8", "surrogatepass")])
                new_texts.add(content_hash)
            elif member.kind == "layouts" and (content_hash in new_texts or _lacks_layout(blobs, content_hash)):
                blobs.put_layout_bytes(content_hash, member.parts)
        return count

    def put_points(self, index: VectorIndex) -> int:
        """Create missing indexes and write their points; existing indexes stay. Returns the number of points."""
        missing = {name: dimension for name, dimension in self.facts.indexes.items() if not index.exists(name)}
        for name, dimension in missing.items():
            index.create(name, dimension=dimension, vectors_per_point=self.facts.vectors_per_point.get(name, 1))
        count = 0
        lines: list[tuple[str, dict[str, object]]] = []
        for member in self._members("points", "vectors"):
            name = member.name.split("/")[1]
            if name not in missing:
                continue
            if member.kind == "points":
                lines = [json.loads(line) for line in member.read().splitlines()]
                continue
            vectors = np.load(io.BytesIO(member.read()), allow_pickle=False)
            steps = steps_of(vectors)
            index.upsert(
                name, [Point.of_steps(each, own, held) for (each, held), own in zip(lines, steps, strict=True)]
            )
            count += len(lines)
        return count

    def _read_facts(self) -> BackupFacts:
        for member in self._members("backup.json"):
            try:
                values = json.loads(member.read())
                return BackupFacts(**{**values, "lost": tuple(values["lost"])})
            except (ValueError, TypeError, KeyError) as error:
                raise ArchiveError(f"{ABOUT_MEMBER} of {self._path} cannot be read: {error}.") from error
        raise NotFoundError(ABOUT_MEMBER)

    def _members(self, *kinds: str) -> Iterator[Member]:
        with closing(read_members(self._path, BACKUP, on_progress=self._on_progress)) as members:
            yield from (member for member in members if member.kind in kinds)


def _lacks_layout(blobs: BlobStore, content_hash: str) -> bool:
    try:
        blobs.get_layout(content_hash)
    except NotFoundError:  # missing or damaged
        return True
    return False


def _add_catalog(archive: ArchiveWriter, snapshot: CatalogSnapshot) -> dict[str, tuple[str, bool]]:
    """Add the snapshot's rows. Returns content hash → (URI of a document with it, whether it is ingested)."""
    documents: dict[str, tuple[str, bool]] = {}
    for number, (table, rows) in enumerate(snapshot.pages(), start=1):
        if table == "document":
            documents.update((str(row["content_hash"]), (str(row["uri"]), row["state"] == "ready")) for row in rows)
        lines = (json.dumps(row, ensure_ascii=True) for row in rows)
        archive.add(f"catalog/{table}/{number:06}.jsonl", "\n".join(lines).encode())
    return documents


def _add_files(
    archive: ArchiveWriter, documents: Mapping[str, tuple[str, bool]], held: HeldFiles, on_progress: ProgressCallback
) -> Iterable[str]:
    """Add files, texts and layouts. Returns the URIs of documents whose file is missing or altered.

    Damaged texts and layouts are left out: after a restore their documents are ingested again.
    """
    lost, kept = [], held.blobs
    for number, (content_hash, (uri, is_read)) in enumerate(documents.items(), start=1):
        file = held.file(content_hash)
        if not file.exists() or not archive.add_file(f"files/{content_hash}", file, content_hash=content_hash):
            lost.append(uri)
        if is_read and kept.is_text_sound(content_hash):
            archive.add_parts(f"texts/{content_hash}", kept.text_bytes(content_hash))
            if (layout := held.layout(content_hash)).exists():
                archive.add_file(f"layouts/{content_hash}", layout)
        on_progress(number)
    return lost


def _without_labels(payload: Mapping[str, object]) -> dict[str, object]:
    """The payload without labels of lens indexes, which can be computed again."""
    return {key: value for key, value in payload.items() if not key.startswith(LABEL_PREFIX)}
