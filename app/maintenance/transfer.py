"""Exports a collection to one archive and imports it elsewhere, with the same vectors, ids and scores.

An import becomes visible only in its last step, one transaction. If it fails, everything written before is removed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import numpy as np

from app.documents.garbage import remove_unneeded
from app.documents.library import check_collection_name, create_index
from app.errors import (
    ArchiveError,
    ConflictError,
    DamagedFileError,
    FingerprintMismatchError,
    NotFoundError,
    UnavailableError,
    full_disk_translated,
)
from app.maintenance.archive import CONTRACT_MEMBER, LENSES_MEMBER, ArchiveWriter, Member, read_members, verify
from app.maintenance.archive_records import (
    ChunkLine,
    ContractRecord,
    DocumentLine,
    JudgementLine,
    LensLine,
    read_contract,
    read_lines,
    write_lines,
)
from app.maintenance.archived_vectors import steps_of, stored_array, stored_shape
from app.ports.parts import BlobStore, Embedder, VectorIndex
from app.types.documents import Chunk, Collection, DocumentRecord, DocumentState, GarbageKind, Judgement, Lens, Point
from app.types.point_ids import PointIds

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

ProgressCallback = Callable[[int], None]

_CHUNKS_PER_SHARD = 2000
_LEASE = timedelta(hours=1)  # reservation of imported data; prolonged with every shard
_COPIES = UUID("2f0d6c0e-0a5b-5c8e-8f8e-5b1f8a3c9d42")


@dataclass(frozen=True, slots=True)
class Transferred:
    """Result of an export or import. `lenses_kept`: lenses not imported, because this home has others by that name."""

    collection: str
    documents: int
    chunks: int
    lenses_kept: tuple[str, ...] = ()


class Transfer:
    def __init__(self, *, catalog: SqlCatalog, index: VectorIndex, blobs: BlobStore, embedder: Embedder) -> None:
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._embedder = embedder

    def export_collection(
        self, name: str, path: Path, *, on_progress: ProgressCallback = lambda documents: None
    ) -> Transferred:
        """Write the archive. Raises ConflictError if a document changes meanwhile. `on_progress` receives the number of
        documents."""
        collection = self._catalog.collection(name)
        documents = chunks = 0
        with full_disk_translated(path.parent), ArchiveWriter(path) as archive:
            archive.add(CONTRACT_MEMBER, ContractRecord.of(collection).to_json().encode())
            archive.add(LENSES_MEMBER, write_lines(map(LensLine.of, self._catalog.lenses())))
            shards = _ChunkShards(self._index, collection.active_index, archive)
            packed: set[bytes] = set()
            for number, page in enumerate(self._catalog.transfer.document_records(name), start=1):
                for record in page:
                    self._add_files(archive, record.document.content_hash, packed)
                archive.add(f"documents/{number:06}.jsonl", write_lines(map(DocumentLine.of, page)))
                for record in page:
                    # A document that waits for ingestion has chunks of its old text; they are left out.
                    if record.document.state is DocumentState.READY:
                        shards.add(self._catalog.chunks(record.document.id))
                documents += len(page)
                on_progress(documents)
            shards.flush()
            chunks = shards.count
            for number, said in enumerate(self._catalog.judgement_pages(name), start=1):
                archive.add(f"judgements/{number:06}.jsonl", write_lines(map(JudgementLine.of, said)))
        return Transferred(name, documents, chunks)

    def import_collection(
        self, path: Path, *, name: str | None = None, on_progress: ProgressCallback = lambda position: None
    ) -> Transferred:
        """Import an archive. `on_progress` receives the position in the file in three passes: verify, write, record.

        Raises ArchiveError, ConflictError if the name exists, FingerprintMismatchError for another model.
        """
        contract = self._check_contract(path)
        name = check_collection_name(name or contract.name)
        if any(each.name == name for each in self._catalog.collections()):
            raise ConflictError(f"There is a collection {name!r} already: import under another name (`--as NAME`).")
        members = verify(path, on_progress=on_progress)
        _require_named_by_hash(path, members)
        index = self._catalog.indexes.reserve(name, lease=_LEASE)
        collection = replace(contract.collection(), name=name, active_index=index)
        renaming = _Renaming(name, index) if name != contract.name else None
        try:
            create_index(self._index, collection)
            count = self._write(path, collection, renaming, set(members), on_progress)
            if (there := self._index.count(index)) != count:
                raise ConflictError(f"The vector index holds {there} points after {count} were written: try again.")
            self._catalog.indexes.prolong_reservation(index, lease=_LEASE)
            self._catalog.transfer.restore_collection(collection, _rows(path, name, renaming, on_progress))
        except BaseException:
            # If the process is killed, this happens when the reservation expires.
            with suppress(UnavailableError):
                self._catalog.garbage.note(GarbageKind.INDEX, [index], due_in=timedelta(0))
                remove_unneeded(garbage=self._catalog.garbage, index=self._index, blobs=self._blobs)
            raise
        self._index.point_to(name, index)
        made = self._catalog.counted_collection(name)
        return Transferred(name, made.document_count, made.chunk_count, self._take_lenses(path))

    def _take_lenses(self, path: Path) -> tuple[str, ...]:
        """Save the archive's lenses unless a lens of the same name exists. Returns the names whose lenses differ."""
        own = {lens.name: lens for lens in self._catalog.lenses()}
        kept = []
        for lens in _lenses(path):
            if lens.name not in own:
                self._catalog.save_lens(lens)
            elif lens != own[lens.name]:
                kept.append(lens.name)
        return tuple(kept)

    def _add_files(self, archive: ArchiveWriter, content_hash: str, packed: set[bytes]) -> None:
        if (digest := bytes.fromhex(content_hash)) in packed:
            return
        packed.add(digest)
        archive.add_file(f"files/{content_hash}", self._blobs.path(content_hash))
        with _none_if_missing():  # documents that could not be read have no text
            archive.add_parts(f"texts/{content_hash}", self._blobs.text_bytes(content_hash))
        with _none_if_missing():  # some texts have no layout
            archive.add(f"layouts/{content_hash}", self._blobs.get_layout(content_hash))

    def _check_contract(self, path: Path) -> ContractRecord:
        """Read and check the contract, so that an archive of another model is rejected before the long verification."""
        with closing(read_members(path)) as members:
            first = next(members, None)
            if first is None or first.name != CONTRACT_MEMBER:
                raise ArchiveError(f"{path} does not begin with {CONTRACT_MEMBER}: it is not an exported collection.")
            contract = read_contract(first.read())
        in_use = self._embedder.info
        if (contract.fingerprint, contract.dimension) != (in_use.fingerprint, in_use.dimension):
            raise FingerprintMismatchError(
                f"The archive {path} was written with another model (fingerprint {contract.fingerprint}) than the one "
                f"in use, {in_use.name} ({in_use.fingerprint}): its vectors cannot be searched "
                "with it. Import with GIRCSE_MODEL set to that model, then `gircse reindex` brings it to this one."
            )
        if contract.vectors_per_chunk != (count := in_use.vectors_per_document(contract.document_steps)):
            raise ArchiveError(
                f"The archive {path} has {contract.vectors_per_chunk} vectors of each chunk, but {in_use.name} makes "
                f"{count} in {contract.document_steps} steps: it was altered. Export the collection again."
            )
        return contract

    def _write(
        self,
        path: Path,
        collection: Collection,
        renaming: _Renaming | None,
        names: set[str],
        on_progress: ProgressCallback,
    ) -> int:
        """Write files, texts, layouts and points. Returns the number of points."""
        index, count = collection.active_index, 0
        lines: list[ChunkLine] = []
        new_texts: set[str] = set()
        for member in read_members(path, on_progress=on_progress):
            if member.kind == "files":
                self._put_file(member)
            elif member.kind == "texts":
                # Other collections show the text of the same file: one that is there stays, with its layout.
                if not self._blobs.is_text_sound(content_hash := member.name[-64:]):
                    self._blobs.put_text(content_hash, [b"".join(member.parts).decode("utf-8", "surrogatepass")])
                    new_texts.add(content_hash)
            elif member.kind == "layouts":
                if member.name[-64:] in new_texts:
                    self._blobs.put_layout_bytes(member.name[-64:], member.parts)
            elif member.kind == "documents":
                for line in read_lines(member, DocumentLine):
                    if f"files/{line.content_hash}" not in names:
                        raise ArchiveError(f"The file of {line.uri!r} is not in {path}.")
            elif member.kind == "chunks":
                lines = list(read_lines(member, ChunkLine))
            elif member.name == LENSES_MEMBER:
                list(read_lines(member, LensLine))  # checked before anything is visible
            elif member.kind == "vectors":
                self._index.upsert(index, _points(member, lines, collection, renaming))
                count += len(lines)
                self._catalog.indexes.prolong_reservation(index, lease=_LEASE)
        return count

    def _put_file(self, member: Member) -> None:
        content_hash = member.name[-64:]
        self._catalog.garbage.note(GarbageKind.FILE, [content_hash], due_in=_LEASE)
        if not self._blobs.path(content_hash).exists():
            self._blobs.put_parts(content_hash, member.parts)


def _require_named_by_hash(path: Path, members: Mapping[str, tuple[str, int]]) -> None:
    """Raises ArchiveError for a file whose name is not the hash of its content. With the name of a file of another
    collection, it would give access to that file, which is stored already.
    """
    for name, (digest, _) in members.items():
        if name.startswith("files/") and name != f"files/{digest}":
            raise ArchiveError(f"{name} in {path} has another content than its name says: it was altered.")


@contextmanager
def _none_if_missing() -> Iterator[None]:
    """Ignore missing files. DamagedFileError passes: an archive must not silently lack a damaged file."""
    try:
        yield
    except DamagedFileError:
        raise
    except NotFoundError:
        pass


class _ChunkShards:
    """Writes chunks as pairs of members: JSON lines and an array of vectors, `_CHUNKS_PER_SHARD` per pair."""

    def __init__(self, index: VectorIndex, name: str, archive: ArchiveWriter) -> None:
        self._index = index
        self._name = name
        self._archive = archive
        self._waiting: list[Chunk] = []
        self._shards = 0
        self.count = 0

    def add(self, chunks: Sequence[Chunk]) -> None:
        self._waiting.extend(chunks)
        while len(self._waiting) >= _CHUNKS_PER_SHARD:
            self._write(self._waiting[:_CHUNKS_PER_SHARD])
            del self._waiting[:_CHUNKS_PER_SHARD]

    def flush(self) -> None:
        if self._waiting:
            self._write(self._waiting)
            self._waiting.clear()

    def _write(self, chunks: Sequence[Chunk]) -> None:
        points = {point.id: point for point in self._index.retrieve(self._name, [chunk.id for chunk in chunks])}
        absent = [chunk for chunk in chunks if chunk.id not in points]
        if absent:
            raise ConflictError(
                f"Document {absent[0].document_id} changed during the export, or has lost points. Wait until its jobs "
                "are done. If this happens again, run `gircse check --fix`."
            )
        self._shards += 1
        lines = (ChunkLine.of(chunk, points[chunk.id]) for chunk in chunks)
        self._archive.add(f"chunks/{self._shards:06}.jsonl", write_lines(lines))
        vectors = io.BytesIO()
        np.save(vectors, stored_array([points[chunk.id] for chunk in chunks]))
        self._archive.add(f"vectors/{self._shards:06}.npy", vectors.getvalue())
        self.count += len(chunks)


class _Renaming:
    """Gives documents and chunks new ids for an import under another name, so that both collections fit in one home."""

    def __init__(self, name: str, index: str) -> None:
        self._name = name
        self._index = index
        self._document_id = ""
        self._ids = PointIds("", "")

    def document_id(self, former: str) -> str:
        return str(uuid5(_COPIES, f"{self._index}\n{former}"))

    def chunk(self, line: ChunkLine) -> ChunkLine:
        """The line with its new ids. Call it in archive order: by document, then by chunk."""
        document_id = self.document_id(line.document_id)
        if document_id != self._document_id:
            self._document_id, self._ids = document_id, PointIds(self._name, document_id)
        metadata = {**line.payload.metadata, "document_id": document_id}
        payload = line.payload.model_copy(update={"metadata": metadata})
        point_id = self._ids.next(line.text_hash)
        return line.model_copy(update={"id": point_id, "document_id": document_id, "payload": payload})


def _points(
    member: Member, lines: Sequence[ChunkLine], collection: Collection, renaming: _Renaming | None
) -> list[Point]:
    try:
        vectors = np.load(io.BytesIO(member.read()), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ArchiveError(f"{member.name} holds no array of numbers: {error}.") from error
    shape = stored_shape(len(lines), collection)
    if vectors.dtype != np.float32 or vectors.shape != shape or not np.isfinite(vectors).all():
        size = " by ".join(map(str, shape[1:]))
        raise ArchiveError(f"{member.name} does not contain {shape[0]} finite float32 vectors of {size} numbers.")
    if not vectors.any(axis=-1).all():
        raise ArchiveError(f"{member.name} holds a zero vector, which has no direction to compare.")
    renamed = lines if renaming is None else [renaming.chunk(line) for line in lines]
    return [
        Point.of_steps(line.id, steps, line.payload.model_dump())
        for line, steps in zip(renamed, steps_of(vectors), strict=True)
    ]


def _rows(
    path: Path, name: str, renaming: _Renaming | None, on_progress: ProgressCallback
) -> Iterator[DocumentRecord | Chunk | Judgement]:
    """Rows in archive order: pages of documents, each followed by chunks of documents so far; then judgements.

    Raises ArchiveError for a chunk or judgement of a document that is not in the archive: it may be one of another
    collection, which its readers would see.
    """
    ids: set[bytes] = set()

    def require_own(document_id: str, where: str) -> None:
        if UUID(document_id).bytes not in ids:
            raise ArchiveError(f"{where} in {path} has a row of a document that is missing or of another collection.")

    for member in read_members(path, on_progress=on_progress):
        if member.kind == "documents":
            for document in read_lines(member, DocumentLine):
                record = document.record(name)
                ids.add(UUID(document.id).bytes)
                if renaming is not None:
                    changed = replace(record.document, id=renaming.document_id(record.document.id))
                    record = replace(record, document=changed)
                yield record
        elif member.kind == "chunks":
            for line in read_lines(member, ChunkLine):
                require_own(line.document_id, member.name)
                yield (line if renaming is None else renaming.chunk(line)).chunk()
        elif member.kind == "judgements":
            for said in read_lines(member, JudgementLine):
                judgement = said.judgement()
                require_own(judgement.document_id, member.name)
                if renaming is not None:
                    judgement = replace(judgement, document_id=renaming.document_id(judgement.document_id))
                yield judgement


def _lenses(path: Path) -> list[Lens]:
    """The archive's lenses: its second member, missing in archives of earlier releases."""
    with closing(read_members(path)) as members:
        for member in islice(members, 2):
            if member.name == LENSES_MEMBER:
                return [line.lens() for line in read_lines(member, LensLine)]
    return []
