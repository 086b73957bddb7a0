"""GIRCSE embeddings: text and instruction in, vectors and refinement tokens out. Usable on its own."""

from embedder.checkpoint import DEFAULT_MODEL, load_encoder, load_model_tokenizer
from embedder.encoder import Encoder
from embedder.errors import ContractError, EmbedderError, ModelNotFoundError, TextError
from embedder.langchain import GircseEmbeddings
from embedder.tokens import Refinement, RefinementStep, RefinementToken

__all__ = [
    "DEFAULT_MODEL",
    "ContractError",
    "EmbedderError",
    "Encoder",
    "GircseEmbeddings",
    "ModelNotFoundError",
    "Refinement",
    "RefinementStep",
    "RefinementToken",
    "TextError",
    "load_encoder",
    "load_model_tokenizer",
]
