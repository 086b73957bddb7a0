"""Settings of a Qdrant server or cluster."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings


class QdrantSettings(BaseSettings):
    """A part of `Settings`."""

    qdrant_url: str | None = Field(
        default=None,
        description="Address of a Qdrant server, or several nodes of a cluster, separated by commas. Default: the "
        "embedded engine.",
    )
    qdrant_api_key: SecretStr | None = Field(default=None, description="API key of that Qdrant server.")
    qdrant_shards: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Shards of a new index on a Qdrant cluster. Default: one per node.",
    )
    qdrant_replicas: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="Replicas of each shard of a new index on a Qdrant cluster. Default: 2, so that the loss of one "
        "node is harmless.",
    )

    @field_validator("qdrant_url")
    @classmethod
    def _are_http(cls, urls: str | None) -> str | None:
        return None if urls is None else ",".join(require_http(url.strip()) for url in urls.split(","))

    @model_validator(mode="after")
    def _key_belongs_to_server(self) -> Self:
        if self.qdrant_api_key is not None and self.qdrant_url is None:
            raise ValueError("GIRCSE_QDRANT_API_KEY is set without GIRCSE_QDRANT_URL; set both or neither")
        return self


def require_http(url: str) -> str:
    """Raises ValueError unless it is an http or https URL with a host."""
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ValueError("give a URL such as http://host:6333")
    return url
