"""Configuration, read once at the edge: environment variables GIRCSE_*, refused with all errors at once."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self, get_args
from urllib.parse import quote, urlsplit

from platformdirs import user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.answer_settings import AnswerSettings, answer_errors
from app.errors import InputError
from app.oidc_settings import OidcSettings, oidc_errors
from app.qdrant_settings import QdrantSettings, require_http
from app.source_settings import SourceSettings
from app.types.web_addresses import is_loopback_address
from embedder.model_info import DEFAULT_MODEL

log = logging.getLogger(__name__)

# What somebody's environment may still name; it decides nothing any more.
REMOVED = ("EMBEDDER_BATCH_S", "EMBEDDER_DOCUMENT_WAIT_S", "EMBEDDER_DOCUMENT_TOKENS", "WORKER_LANES")


class SecretFiles(PydanticBaseSettingsSource):
    """Reads a secret from the file that GIRCSE_<NAME>_FILE names, the way containers get secrets."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"GIRCSE_{field_name.upper()}_FILE") if _is_secret(field) else None
        return (_read_secret(field_name, Path(path)) if path else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in found.items() if value is not None}


class LogSettings(BaseSettings):
    """What the command line needs before any command; errors of other settings are left to that command."""

    model_config = SettingsConfigDict(env_prefix="GIRCSE_", env_ignore_empty=True, frozen=True, extra="ignore")

    log_format: Literal["text", "json"] = Field(default="text", description="Of the log on stderr: lines, or JSON.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="WARNING", description="What is logged; requests are from INFO on. `--debug` is DEBUG."
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_any_case(cls, level: object) -> object:
        return level.upper() if isinstance(level, str) else level


class Settings(LogSettings, QdrantSettings, OidcSettings, AnswerSettings, SourceSettings):
    """Every field is the environment variable GIRCSE_<NAME>, and a secret GIRCSE_<NAME>_FILE, the path of a file that
    holds it. Make one with `load_settings`."""

    model_config = SettingsConfigDict(env_prefix="GIRCSE_", env_ignore_empty=True, frozen=True, extra="forbid")

    home: Path = Field(default_factory=lambda: user_data_path("gircse"), description="Folder of catalog, files, index.")
    database_url: str | None = Field(default=None, description="SQLAlchemy URL. Default: SQLite in GIRCSE_HOME.")
    database_password: SecretStr | None = Field(default=None, description="Of that database; keeps it out of the URL.")
    quantization: Literal["none", "int8", "binary"] = Field(
        default="none",
        description="Smaller vectors of large collections in memory, whole ones on disk; `gircse optimize` does it.",
    )
    model: str = Field(default=DEFAULT_MODEL, description="Name of a built-in model, a folder, or a hub id.")
    device: str | None = Field(default=None, description="Torch device, as cpu or cuda:0. Default: the best there is.")
    dtype: Literal["auto", "float32", "bfloat16", "int8"] = Field(
        default="auto",
        description="Numbers the model computes with. auto: bfloat16 where the device multiplies it; int8: of weights.",
    )
    query_tolerance: float | None = Field(
        default=None, ge=0, le=2, description="No more steps for a query once one moves it so little (1 - cosine)."
    )
    vector_cache_mb: float = Field(
        default=32, ge=0, description="Memory for vectors of texts that may come again, in MB."
    )
    cuda_graphs: bool = Field(
        default=False, description="On CUDA, take the steps of small batches as CUDA graphs: faster queries."
    )
    embedder_url: str | None = Field(
        default=None, description="An embedding server (`gircse embedder`) that computes instead of this process."
    )
    embedder_api_key: SecretStr | None = Field(
        default=None, description="What the embedding server wants to be shown; the same for it and its clients."
    )
    embedder_timeout_s: float = Field(
        default=30, gt=0, description="How long a query waits for that server; documents wait ten times as long."
    )
    embedder_input_type: Literal["query", "document"] = Field(
        default="document", description="What texts at /v1/embeddings are whose sender does not say it (`input_type`)."
    )
    embedder_batch_tokens: int = Field(
        default=8_192, ge=64, description="`gircse embedder`: most tokens of a batch; a GPU takes more."
    )
    embedder_query_wait_s: float = Field(
        default=0.05,
        gt=0,
        description="`gircse embedder`: a query is answered 429 that would take longer, and 1.8 times a lone one.",
    )
    embedder_max_inputs: int = Field(default=2_048, ge=1, description="Most texts of one request for embeddings.")
    embedder_max_tokens: int = Field(default=300_000, ge=1, description="Most tokens of one request for embeddings.")
    embedder_max_body_mb: float = Field(default=16, gt=0, description="`gircse embedder`: largest body, in MB.")
    rerank_by: Literal["gircse", "cross-encoder", "server"] = Field(
        default="gircse",
        description="Who re-ranks the candidates of a search that asks for it (`rerank`): the model that embeds, a "
        "cross-encoder in this process (extra [rerank]), or a server.",
    )
    rerank_candidates: int = Field(
        default=20,
        ge=0,
        le=200,
        description="So many of the first candidates of a hybrid search with an instruction are looked at again, where "
        "it does not say how many. 0: none.",
    )
    rerank_steps: int = Field(default=1, ge=1, le=64, description="gircse: refinement steps of a passage and a query.")
    rerank_kept_vectors: int = Field(
        default=20_000, ge=0, description="gircse: vectors kept in memory, 2 kB each where they have 384 numbers."
    )
    rerank_model: str | None = Field(
        default=None, description="cross-encoder: folder or hub id of its model. server: the name that it is told."
    )
    rerank_url: str | None = Field(
        default=None,
        description="server: where it re-ranks, as http://host:8080/rerank or https://api.jina.ai/v1/rerank.",
    )
    rerank_api: Literal["cohere", "tei"] = Field(
        default="cohere",
        description="server: cohere for Cohere, Jina, vLLM and gircse-search; tei for text-embeddings-inference.",
    )
    rerank_api_key: SecretStr | None = Field(default=None, description="server: its key.")
    rerank_timeout_s: float = Field(
        default=5, gt=0, le=120, description="server: after so long a search keeps its first ranking."
    )
    rerank_query: str = Field(
        default="{instruction} {query}",
        description="cross-encoder, server: what is compared with passages; without an instruction, the query alone.",
    )
    allow_private_urls: bool = Field(
        default=False, description="Also fetch URLs of this machine and its private networks."
    )
    lease_s: float = Field(default=60, ge=1, description="Seconds until the job of a lost worker goes to another one.")
    max_document_mb: float = Field(default=100, gt=0, description="Largest document, in MB; bytes beyond are refused.")
    max_unpacked_mb: float = Field(default=200, gt=0, description="What an archive or Office file may hold, unpacked.")
    max_document_characters: int = Field(default=20_000_000, ge=1, description="Longest text of a document.")
    max_document_pages: int = Field(default=5_000, ge=1, description="Most pages, or slides, of a document.")
    read_timeout_s: float = Field(default=300, gt=0, description="Seconds to read a document in; two thirds of CPU.")
    read_memory_mb: float = Field(default=1_000, ge=50, description="Memory that reading one document may take, in MB.")
    max_recognized_pages: int = Field(
        default=1_000,
        ge=0,
        description="Most pages of a document whose text is recognised from their picture (extra [ocr]); 0: none.",
    )
    page_cache_mb: float = Field(
        default=64, ge=0, description="Memory for pictures of pages that were looked at, in MB."
    )
    ray_address: str | None = Field(
        default=None, description="A Ray cluster for `ingest --engine ray`, as auto. Default: one on this machine."
    )
    shard_documents: int = Field(
        default=10_000, ge=1, le=100_000, description="Documents that `ingest --engine ray` holds at a time."
    )
    access_control: bool = Field(
        default=False, description="Users log in and programs show keys. Needed to listen on more than this machine."
    )
    admin_secret: SecretStr | None = Field(
        default=None, description="Of the user admin. Default: GIRCSE_HOME/admin-secret, made at the first start."
    )
    session_hours: float = Field(default=12, gt=0, le=24 * 365, description="After so long people log in again.")
    session_idle_minutes: float = Field(
        default=120,
        ge=0,
        le=60 * 24 * 365,
        description="A session that was not used for so long ends before its time; 0: none does.",
    )
    quota_mb: float | None = Field(
        default=None, ge=0, description="What a user may store, in MB; admins give single users more or less."
    )
    quota_documents: int | None = Field(default=None, ge=0, description="How many documents a user may store.")
    quota_requests: int | None = Field(default=None, ge=1, description="How many requests a minute a user may send.")
    quota_contact: str = Field(
        default="an admin of this server", description="Whom people ask for more, as told where a quota is reached."
    )
    ask_service: bool = Field(
        default=True,
        description="Commands ask the service that runs on the same home, rather than load the model; off: `--local`.",
    )
    mcp: bool = Field(default=False, description="Let agents search and read at /mcp (MCP); needs the extra [mcp].")
    language: str = Field(
        default="auto",
        pattern="^[a-z]{2,3}(-[A-Z]{2})?$|^auto$",
        description="Of the pages: `en`, `de`, or `auto`, which is what the browser asks for. A person's own choice "
        "goes before it.",
    )
    search_history: int = Field(
        default=200, ge=0, le=10_000, description="Searches on the pages that each person finds again; 0 keeps none."
    )
    searches_at_once: int | None = Field(
        default=None,
        ge=1,
        le=1_024,
        description="Searches in flight at a time. Up to three times as many wait, half as many once many are refused; "
        "the rest are answered 429. Default: 1, or one for every two cores with an embedding server; 16 or so when "
        "that has a GPU.",
    )
    search_wait_s: float = Field(
        default=1, gt=0, le=60, description="A search that has waited so long is answered 429."
    )
    requests_at_once: int | None = Field(
        default=None, ge=1, le=1_024, description="Other requests to the API in flight at a time. Default: 16 or more."
    )
    worker_metrics_port: int | None = Field(
        default=None, ge=0, le=65535, description="`gircse worker` shows /metrics and /healthz there, on loopback."
    )
    allowed_hosts: str = Field(
        default="", description="Names, with commas, by which a server without access control may be asked as well."
    )
    trusted_proxies: str = Field(
        default="127.0.0.1",
        description="Addresses or networks, with commas, whose word on a client's address and on https is taken.",
    )
    backup_directory: Path | None = Field(
        default=None, description="Where the worker keeps backups of everything, best on another disk. Default: none."
    )
    backup_every_hours: float = Field(default=24, ge=0.01, le=8_760, description="Hours between two such backups.")
    backup_keep: int = Field(default=7, ge=1, le=10_000, description="So many of them are kept, the newest.")
    backup_indexes: bool = Field(
        default=False, description="Also back up vectors: larger files, and nothing is embedded again after a restore."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on: this machine only.")
    port: int = Field(default=7860, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")

    @field_validator("home")
    @classmethod
    def _absolute_home(cls, home: Path) -> Path:
        home = home.expanduser().absolute()
        if home.exists() and not home.is_dir():
            raise ValueError(f"{home} is a file; name a folder")
        return home

    @field_validator("backup_directory")
    @classmethod
    def _absolute_directory(cls, directory: Path | None) -> Path | None:
        return None if directory is None else directory.expanduser().absolute()

    @field_validator("database_url")
    @classmethod
    def _has_dialect(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("sqlite://", "sqlite+", "postgresql://", "postgresql+")):
            raise ValueError("give a URL that starts with sqlite:/// or postgresql+psycopg://")
        return url

    @field_validator("embedder_url", "rerank_url", "answer_url")
    @classmethod
    def _is_http(cls, url: str | None) -> str | None:
        return None if url is None else require_http(url)

    @field_validator("model")
    @classmethod
    def _is_named(cls, model: str) -> str:
        if not model.strip():
            raise ValueError(f"give the name of a model, as {DEFAULT_MODEL}")
        return model

    @model_validator(mode="after")
    def _reranker_is_named(self) -> Self:
        if self.rerank_by == "cross-encoder" and not self.rerank_model:
            raise ValueError("GIRCSE_RERANK_BY=cross-encoder needs GIRCSE_RERANK_MODEL, a folder or a hub id")
        if (self.rerank_by == "server") != (self.rerank_url is not None):
            raise ValueError("GIRCSE_RERANK_URL and GIRCSE_RERANK_BY=server go together; set both or neither")
        if "{query}" not in self.rerank_query:
            raise ValueError("GIRCSE_RERANK_QUERY has no {query}; write it as '{instruction} {query}'")
        return self

    @model_validator(mode="after")
    def _password_belongs_to_user(self) -> Self:
        if self.database_password is None:
            return self
        parts = urlsplit(self.database_url or "")
        if not parts.username or parts.password is not None:
            raise ValueError(
                "GIRCSE_DATABASE_PASSWORD goes with a GIRCSE_DATABASE_URL that names a user and no password, "
                "as postgresql+psycopg://gircse@db/gircse"
            )
        return self

    @model_validator(mode="after")
    def _answers_are_complete(self) -> Self:
        if errors := answer_errors(self):
            raise ValueError("; ".join(errors))
        return self

    @model_validator(mode="after")
    def _sign_in_is_complete(self) -> Self:
        if errors := oidc_errors(self, has_access_control=self.access_control):
            raise ValueError("; ".join(errors))
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, SecretFiles(settings_cls)

    @property
    def session_idle(self) -> timedelta | None:
        return timedelta(minutes=self.session_idle_minutes) if self.session_idle_minutes else None

    @property
    def catalog_url(self) -> str:
        """With the password, where one is given apart from it."""
        url = self.database_url or f"sqlite:///{(self.home / 'catalog.db').as_posix()}"
        if self.database_password is None:
            return url
        password = quote(self.database_password.get_secret_value(), safe="")
        user, _, place = urlsplit(url).netloc.rpartition("@")
        return urlsplit(url)._replace(netloc=f"{user}:{password}@{place}").geturl()

    @property
    def is_open_to_network(self) -> bool:
        """Whether more than this machine can reach what listens on `host`."""
        return self.host != "localhost" and not is_loopback_address(self.host)


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment; `overrides` that are not None come first. Raises InputError naming every error."""
    given = {name: value for name, value in overrides.items() if value is not None}
    for name in REMOVED:
        if os.environ.get(f"GIRCSE_{name}"):
            log.warning("GIRCSE_%s is no setting any more and changes nothing; take it out of the environment.", name)
    with _errors_told():
        return Settings(**given)  # type: ignore[arg-type]


def load_log_settings() -> LogSettings:
    """The same for the log alone."""
    with _errors_told():
        return LogSettings()


def is_tracing_wanted() -> bool:
    """By the variable that every program with OpenTelemetry knows; its SDK reads the others of its kind itself."""
    return bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise InputError("These settings cannot be used:\n" + "\n".join(_error_lines(error))) from None


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in get_args(field.annotation)


def _read_secret(name: str, path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"GIRCSE_{name.upper()}_FILE: {path} cannot be read ({error}).") from None
    if not secret:
        raise InputError(f"GIRCSE_{name.upper()}_FILE: {path} is empty; write the secret into it.")
    return secret


def _error_lines(error: ValidationError) -> list[str]:
    lines = []
    for each in error.errors(include_url=False, include_input=False):
        name = f"GIRCSE_{str(each['loc'][0]).upper()}: " if each["loc"] else ""
        lines.append(f"  {name}{each['msg'].removeprefix('Value error, ')}")
    return lines
