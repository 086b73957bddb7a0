"""Creates physical collections: dense vectors (cosine), sparse vectors (BM25), and a payload index of document ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from app.errors import ConflictError
from app.vectors import tuning
from app.vectors.cluster import read_past_hung_nodes, sharding_for
from app.vectors.filters import DOCUMENT_ID_FIELD
from app.vectors.points import WORDS


def create_collection(
    client: QdrantClient,
    *,
    index: str,
    dimension: int,
    is_multivector: bool,
    quantization: tuning.Quantization,
    sharding: tuning.Sharding | None,
) -> None:
    """Creates the index unless it exists. Raises ConflictError if it exists with other vectors.

    sharding: None for an engine without clusters.
    """
    if not client.collection_exists(index):
        chosen = tuning.AS_THE_CLUSTER_IS if sharding is None else sharding_for(client, sharding)
        with _existing_accepted():
            client.create_collection(
                index,
                vectors_config=tuning.vector_params(dimension, quantization, is_multivector=is_multivector),
                sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                quantization_config=tuning.quantization_config(quantization),
                optimizers_config=tuning.optimizers_config(),
                shard_number=chosen.shards,
                replication_factor=chosen.replicas,
            )
    _check_same_vectors(client, index, dimension, is_multivector=is_multivector)
    read_past_hung_nodes(client, index)
    client.create_payload_index(index, DOCUMENT_ID_FIELD, models.PayloadSchemaType.KEYWORD)


@contextmanager
def _existing_accepted() -> Iterator[None]:
    """Ignores 409: another process created the same index, or this request was repeated after a lost response."""
    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code != 409:
            raise


def _check_same_vectors(client: QdrantClient, index: str, dimension: int, *, is_multivector: bool) -> None:
    info = client.get_collection(index)
    existing = info.config.params.vectors
    is_same = isinstance(existing, models.VectorParams) and existing.size == dimension
    if not is_same or tuning.holds_multivectors(info) is not is_multivector:
        kind = "multivectors" if is_multivector else "vectors"
        raise ConflictError(
            f"The vector index already has a collection {index!r} with other vectors ({existing}), "
            f"not one of {kind} of dimension {dimension}. Use another name, or delete it first."
        )
