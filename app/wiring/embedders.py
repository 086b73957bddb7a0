"""Chooses the embedder by the settings: the model in this process, or an embedding server."""

from __future__ import annotations

from app.ports.parts import Embedder
from app.settings import Settings
from app.wiring.embedding import LocalEmbedder, tokenizer_json
from app.wiring.remote import RemoteEmbedder


def embedder_for(settings: Settings, *, device: str | None = None) -> LocalEmbedder | RemoteEmbedder:
    """The embedder. Does not load the model or send requests yet. `device` overrides the settings."""
    if settings.embedder_url is not None:
        return RemoteEmbedder.of(settings)
    return LocalEmbedder.of(settings, device=device)


def begin_loading(embedder: Embedder) -> None:
    """Start loading a local model in the background. No effect for an embedding server."""
    if isinstance(embedder, LocalEmbedder):
        embedder.begin()


def tokenizer_for(settings: Settings) -> str:
    """The model's tokenizer as JSON, for processes that count tokens without the model."""
    if settings.embedder_url is not None:
        return RemoteEmbedder.of(settings).tokenizer_json()
    return tokenizer_json(settings.model)
