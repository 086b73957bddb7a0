"""Who embeds: the model in this process, or an embedding server. The one place where that is chosen."""

from __future__ import annotations

from app.ports.parts import Embedder
from app.settings import Settings
from app.wiring.embedding import LocalEmbedder, tokenizer_json
from app.wiring.remote import RemoteEmbedder


def embedder_for(settings: Settings, *, device: str | None = None) -> LocalEmbedder | RemoteEmbedder:
    """Loads nothing and sends no request yet. `device` overrides that of the settings."""
    if settings.embedder_url is not None:
        return RemoteEmbedder.of(settings)
    return LocalEmbedder.of(settings, device=device)


def begin_loading(embedder: Embedder) -> None:
    """Of a model in this process, beside what else has to start."""
    if isinstance(embedder, LocalEmbedder):
        embedder.begin()


def tokenizer_for(settings: Settings) -> str:
    """The model's tokenizer as JSON, for processes that count tokens without the model."""
    if settings.embedder_url is not None:
        return RemoteEmbedder.of(settings).tokenizer_json()
    return tokenizer_json(settings.model)
