"""The one check that keeps vectors of different models apart; every read and write of a collection makes it."""

from __future__ import annotations

from app.errors import FingerprintMismatchError
from app.ports.parts import Embedder
from app.types.documents import Collection
from embedder.model_info import SHIPPED_MODELS


def require_same_model(collection: Collection, embedder: Embedder) -> None:
    """Raises FingerprintMismatchError unless `collection` was written by the model of `embedder`."""
    in_use = embedder.info
    if collection.fingerprint != in_use.fingerprint:
        name = SHIPPED_MODELS.get(collection.fingerprint)
        fingerprint = collection.fingerprint if name is None else f"{collection.fingerprint}, {name}"
        raise FingerprintMismatchError(
            f"The collection {collection.name!r} was written by another model ({fingerprint}) "
            f"than the one in use, {in_use.name} ({in_use.fingerprint}); their vectors cannot be compared. "
            "If it was reindexed with another model, restart the server and the workers with that model (`gircse up "
            f"--model …`, or GIRCSE_MODEL); or embed the collection with this one: `gircse reindex {collection.name}`."
        )
