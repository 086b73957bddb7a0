"""Removes outside of the catalog what it needs no more: physical indexes, stored files and texts.

The catalog notes them in the transaction that made them unneeded, so a crash at any instant only delays this.
"""

from __future__ import annotations

from functools import partial

from app.errors import IncompleteDeletionError
from app.ports.ledger import IndexLedger
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import GarbageKind


def remove_unneeded(*, catalog: IndexLedger, index: VectorIndex, blobs: BlobStore) -> None:
    while due := catalog.garbage():
        for garbage_item in due:
            if garbage_item.kind is GarbageKind.INDEX:
                drop_index(index, garbage_item.name)
            elif garbage_item.kind is GarbageKind.LABELS:
                drop_labels(index, garbage_item.name)
            else:
                discard_file(blobs, garbage_item.name, catalog=catalog)
            catalog.forget_garbage(garbage_item)


def discard_file(blobs: BlobStore, content_hash: str, *, catalog: IndexLedger) -> None:
    """With its text, unless a document has it."""
    blobs.discard(content_hash, is_needed=partial(catalog.needs_file, content_hash))


def drop_index(index: VectorIndex, name: str) -> None:
    """Raises IncompleteDeletionError unless the engine says afterwards that it is gone."""
    index.drop(name)
    if index.exists(name):
        raise IncompleteDeletionError(f"The vector index still has the collection {name!r} after it was dropped.")


def drop_labels(index: VectorIndex, place: str) -> None:
    """`place` is `index/field`; no field is ever taken again."""
    name, _, field = place.rpartition("/")
    if index.exists(name):
        index.drop_labels(name, field)


def delete_points_of(index: VectorIndex, name: str, document_id: str) -> int:
    """How many there were. Raises IncompleteDeletionError unless the engine counts none afterwards."""
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
