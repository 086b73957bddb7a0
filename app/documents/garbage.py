"""Garbage collection: removes physical indexes, labels, stored files and texts that the catalog no longer needs.

The catalog records garbage in the transaction that makes it unneeded, so that a crash only delays the removal.
"""

from __future__ import annotations

from functools import partial

from app.errors import IncompleteDeletionError
from app.ports.ledger import GarbageLedger
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import GarbageKind


def remove_unneeded(*, garbage: GarbageLedger, index: VectorIndex, blobs: BlobStore) -> None:
    while due := garbage.due():
        for garbage_item in due:
            if garbage_item.kind is GarbageKind.INDEX:
                drop_index(index, garbage_item.name)
            elif garbage_item.kind is GarbageKind.LABELS:
                drop_labels(index, garbage_item.name)
            else:
                discard_file(blobs, garbage_item.name, garbage=garbage)
            garbage.forget(garbage_item)


def discard_file(blobs: BlobStore, content_hash: str, *, garbage: GarbageLedger) -> None:
    """Delete a stored file with its text and layout, unless a document needs it."""
    blobs.discard(content_hash, is_needed=partial(garbage.needs_file, content_hash))


def drop_index(index: VectorIndex, name: str) -> None:
    """Drop an index. Raises IncompleteDeletionError if it still exists afterwards."""
    index.drop(name)
    if index.exists(name):
        raise IncompleteDeletionError(f"The vector index still has the collection {name!r} after it was dropped.")


def drop_labels(index: VectorIndex, place: str) -> None:
    """Drop the labels of one lens index. `place` is `index/field`; names of fields are never reused."""
    name, _, field = place.rpartition("/")
    if index.exists(name):
        index.drop_labels(name, field)


def delete_points_of(index: VectorIndex, name: str, document_id: str) -> int:
    """Delete the points of a document and return their number. Raises IncompleteDeletionError if any remain."""
    if not index.exists(name):
        return 0
    count = index.count(name, document_id=document_id)
    index.delete_document(name, document_id)
    remainder = index.count(name, document_id=document_id)
    if remainder:
        raise IncompleteDeletionError(
            f"The vector index {name!r} still has {remainder} points of document {document_id} after their deletion."
        )
    return count
