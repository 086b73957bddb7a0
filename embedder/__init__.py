"""GIRCSE embeddings: text and instruction in, vectors and refinement tokens out. Works without the rest of
gircse-search.

Names are imported lazily, because torch and transformers take seconds to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from embedder.errors import ContractError, DeviceError, EmbedderError, ModelNotFoundError, ServerError, TextError

if TYPE_CHECKING:
    from embedder.checkpoint import DEFAULT_MODEL, load_encoder, load_model_tokenizer, read_model_card
    from embedder.encoder import Encoder
    from embedder.engine.engine import Engine
    from embedder.integrations.langchain import GircseEmbeddings
    from embedder.integrations.reranker import GircseReranker
    from embedder.integrations.retriever import GircseRetriever
    from embedder.integrations.vector_store import open_vector_store
    from embedder.model_info import ModelInfo
    from embedder.refinement import Refinement
    from embedder.refinement_steps import RefinementStep, RefinementToken

__all__ = [
    "DEFAULT_MODEL",
    "ContractError",
    "DeviceError",
    "EmbedderError",
    "Encoder",
    "Engine",
    "GircseEmbeddings",
    "GircseReranker",
    "GircseRetriever",
    "ModelInfo",
    "ModelNotFoundError",
    "Refinement",
    "RefinementStep",
    "RefinementToken",
    "ServerError",
    "TextError",
    "load_encoder",
    "load_model_tokenizer",
    "open_vector_store",
    "read_model_card",
]

_HOMES = {
    "DEFAULT_MODEL": "checkpoint",
    "Encoder": "encoder",
    "Engine": "engine.engine",
    "GircseEmbeddings": "integrations.langchain",
    "GircseReranker": "integrations.reranker",
    "GircseRetriever": "integrations.retriever",
    "ModelInfo": "model_info",
    "Refinement": "refinement",
    "RefinementStep": "refinement_steps",
    "RefinementToken": "refinement_steps",
    "load_encoder": "checkpoint",
    "load_model_tokenizer": "checkpoint",
    "open_vector_store": "integrations.vector_store",
    "read_model_card": "checkpoint",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
