"""The vector index on Qdrant: the only importer of qdrant_client."""

from app.vectors.index import QdrantVectorIndex

__all__ = ["QdrantVectorIndex"]
