"""The vector index on Qdrant: the only importer of qdrant_client."""

from app.vectors.index import QdrantVectorIndex
from app.vectors.tuning import Sharding

__all__ = ["QdrantVectorIndex", "Sharding"]
