"""Settings from environment variables GIRCSE_* and gircse.toml, read once at the start.

Invalid ones are reported all at once, unknown ones with the nearest name.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, get_args
from urllib.parse import quote, urlsplit

from platformdirs import user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from app.answer_settings import AnswerSettings, answer_errors
from app.errors import InputError, nearest_name
from app.oidc_settings import OidcSettings, oidc_errors
from app.qdrant_settings import QdrantSettings, require_http
from app.source_settings import SourceSettings
from app.types.web_addresses import is_loopback_address
from embedder.model_info import DEFAULT_MODEL

log = logging.getLogger(__name__)

# Read only in the home folder: with a file in the working directory, another person could redirect texts to a server.
CONFIG_FILE = "gircse.toml"
_HOME = "home"  # locates that file, so the file cannot set it
# Variables of the compose file, of the tests and of two-stage generation, without the prefix.
_OF_OTHER_TOOLS = re.compile(r"(GPU_)?IMAGE|IMAGE_BEFORE|PUBLISH|SECRETS|TEST_.*|TWO_STAGE_API_KEY|.*_(CPUS|MEMORY)")
# Former settings, which an environment may still contain. They have no effect and cause a warning.
REMOVED = ("EMBEDDER_BATCH_S", "EMBEDDER_DOCUMENT_WAIT_S", "EMBEDDER_DOCUMENT_TOKENS", "WORKER_LANES")


class SecretFiles(PydanticBaseSettingsSource):
    """Reads a secret from the file at GIRCSE_<NAME>_FILE, as containers provide secrets."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"GIRCSE_{field_name.upper()}_FILE") if _is_secret(field) else None
        return (_read_secret(field_name, Path(path)) if path else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in found.items() if value is not None}


def _default_home() -> Path:
    return user_data_path("gircse")


class LogSettings(BaseSettings):
    """The settings that the command line needs before any command. The command itself reports errors of the others."""

    model_config = SettingsConfigDict(env_prefix="GIRCSE_", env_ignore_empty=True, frozen=True, extra="ignore")

    log_format: Literal["text", "json"] = Field(
        default="text", description="Format of the log on stderr: text lines, or JSON."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="WARNING", description="Least level of logged messages. Requests have level INFO. `--debug` sets DEBUG."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        home = init_settings().get("home") or os.environ.get("GIRCSE_HOME") or _default_home()
        written = _read_config(settings_cls, Path(str(home)).expanduser() / CONFIG_FILE)
        return init_settings, env_settings, SecretFiles(settings_cls), InitSettingsSource(settings_cls, written)

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_any_case(cls, level: object) -> object:
        return level.upper() if isinstance(level, str) else level


class Settings(LogSettings, QdrantSettings, OidcSettings, AnswerSettings, SourceSettings):
    """Each field is the environment variable GIRCSE_<NAME> or a key of gircse.toml; a secret may also be in the file at
    GIRCSE_<NAME>_FILE. Created by `load_settings`."""

    model_config = SettingsConfigDict(env_prefix="GIRCSE_", env_ignore_empty=True, frozen=True, extra="forbid")

    home: Path = Field(default_factory=_default_home, description="Folder of the catalog, the files and the index.")
    database_url: str | None = Field(default=None, description="SQLAlchemy URL. Default: SQLite in GIRCSE_HOME.")
    database_password: SecretStr | None = Field(
        default=None, description="Password of that database, to keep it out of the URL."
    )
    quantization: Literal["none", "int8", "binary"] = Field(
        default="none",
        description="Keeps smaller vectors of large collections in memory and the originals on disk. Run "
        "`gircse optimize` to apply a change to existing collections.",
    )
    model: str = Field(default=DEFAULT_MODEL, description="Name of a built-in model, a folder, or a hub id.")
    device: str | None = Field(
        default=None, description="Torch device, such as cpu or cuda:0. Default: the fastest available."
    )
    dtype: Literal["auto", "float32", "bfloat16", "int8"] = Field(
        default="auto",
        description="Number format of the model. auto: bfloat16 if the device can multiply it; int8: for weights only.",
    )
    query_tolerance: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="Stops refining a query once a step changes its vector by no more than this (1 - cosine).",
    )
    vector_cache_mb: float = Field(default=32, ge=0, description="Memory for cached vectors of texts, in MB.")
    cuda_graphs: bool = Field(
        default=False, description="On CUDA, runs the steps of small batches as CUDA graphs: faster queries."
    )
    embedder_url: str | None = Field(
        default=None, description="Embedding server (`gircse embedder`) to use instead of a model in this process."
    )
    embedder_api_key: SecretStr | None = Field(
        default=None, description="API key of the embedding server; set the same for the server and its clients."
    )
    embedder_timeout_s: float = Field(
        default=30, gt=0, description="Seconds that a query waits for that server; documents wait ten times as long."
    )
    embedder_input_type: Literal["query", "document"] = Field(
        default="document", description="Kind of the texts at /v1/embeddings if a request does not set `input_type`."
    )
    embedder_batch_tokens: int = Field(
        default=8_192, ge=64, description="`gircse embedder`: most tokens of a batch; more suit a GPU."
    )
    embedder_query_wait_s: float = Field(
        default=0.05,
        gt=0,
        description="`gircse embedder`: refuses a query with 429 if its expected time is longer than this, and longer "
        "than 1.8 times that of a query alone.",
    )
    embedder_max_inputs: int = Field(default=2_048, ge=1, description="Most texts per request for embeddings.")
    embedder_max_tokens: int = Field(default=300_000, ge=1, description="Most tokens per request for embeddings.")
    embedder_max_body_mb: float = Field(default=16, gt=0, description="`gircse embedder`: largest request body, in MB.")
    rerank_by: Literal["gircse", "cross-encoder", "server"] = Field(
        default="gircse",
        description="Re-ranker of searches with `rerank`: the embedding model itself, a cross-encoder in this process "
        "(needs the extra [rerank]), or a server.",
    )
    rerank_candidates: int = Field(
        default=20,
        ge=0,
        le=200,
        description="Number of candidates that a hybrid search with an instruction re-ranks, unless the request sets "
        "`rerank`. 0: none.",
    )
    rerank_steps: int = Field(
        default=1, ge=1, le=64, description="gircse: refinement steps of passages and query in re-ranking."
    )
    rerank_kept_vectors: int = Field(
        default=20_000, ge=0, description="gircse: vectors cached in memory, 2 kB each at 384 dimensions."
    )
    rerank_model: str | None = Field(
        default=None, description="cross-encoder: folder or hub id of its model. server: model name in its requests."
    )
    rerank_url: str | None = Field(
        default=None,
        description="server: address of its rerank route, such as http://host:8080/rerank or "
        "https://api.jina.ai/v1/rerank.",
    )
    rerank_api: Literal["cohere", "tei"] = Field(
        default="cohere",
        description="server: cohere for Cohere, Jina, vLLM and gircse-search; tei for text-embeddings-inference.",
    )
    rerank_api_key: SecretStr | None = Field(default=None, description="server: its API key.")
    rerank_timeout_s: float = Field(
        default=5, gt=0, le=120, description="server: seconds after which a search keeps its first ranking."
    )
    rerank_query: str = Field(
        default="{instruction} {query}",
        description="cross-encoder, server: template of the query; without an instruction, the query alone is sent.",
    )
    allow_private_urls: bool = Field(
        default=False, description="Allows fetching URLs of this machine and of private networks."
    )
    lease_s: float = Field(
        default=60, ge=1, description="Seconds until another worker takes over the job of a lost worker."
    )
    max_document_mb: float = Field(default=100, gt=0, description="Largest document, in MB; larger ones are refused.")
    max_unpacked_mb: float = Field(
        default=200, gt=0, description="Largest unpacked size of an archive or Office file, in MB."
    )
    max_document_characters: int = Field(default=20_000_000, ge=1, description="Most characters of a document's text.")
    max_document_pages: int = Field(default=5_000, ge=1, description="Most pages or slides of a document.")
    read_timeout_s: float = Field(
        default=300, gt=0, description="Most seconds for reading a document; two thirds of it as CPU time."
    )
    read_memory_mb: float = Field(default=1_000, ge=50, description="Most memory for reading a document, in MB.")
    max_recognized_pages: int = Field(
        default=1_000,
        ge=0,
        description="Most pages per document for text recognition (needs the extra [ocr]); 0: none.",
    )
    page_cache_mb: float = Field(default=64, ge=0, description="Memory for cached page images, in MB.")
    ray_address: str | None = Field(
        default=None,
        description="Ray cluster for `ingest --engine ray`; auto finds a running one. Default: a local one is started.",
    )
    shard_documents: int = Field(
        default=10_000, ge=1, le=100_000, description="Documents that `ingest --engine ray` processes at a time."
    )
    access_control: bool = Field(
        default=False,
        description="Users must log in and programs need keys. Required to listen beyond this machine.",
    )
    admin_secret: SecretStr | None = Field(
        default=None,
        description="Password and key of the user admin. Default: GIRCSE_HOME/admin-secret, created at the first "
        "start.",
    )
    session_hours: float = Field(
        default=12, gt=0, le=24 * 365, description="Hours after which people must log in again."
    )
    session_idle_minutes: float = Field(
        default=120,
        ge=0,
        le=60 * 24 * 365,
        description="Minutes without use after which a session ends; 0: no such limit.",
    )
    quota_mb: float | None = Field(
        default=None, ge=0, description="Storage per user, in MB; admins can set another limit for single users."
    )
    quota_documents: int | None = Field(default=None, ge=0, description="Documents per user.")
    quota_requests: int | None = Field(default=None, ge=1, description="Requests per minute and user.")
    quota_contact: str = Field(
        default="an admin of this server", description="Whom to ask for more; shown when a quota is reached."
    )
    ask_service: bool = Field(
        default=True,
        description="Commands use a running service of the same home instead of loading the model; off: like "
        "`--local`.",
    )
    mcp: bool = Field(default=False, description="Lets agents search and read at /mcp (MCP); needs the extra [mcp].")
    language: str = Field(
        default="auto",
        pattern="^[a-z]{2,3}(-[A-Z]{2})?$|^auto$",
        description="Language of the pages: `en`, `de`, or `auto` for the browser's. Each person can choose another.",
    )
    search_history: int = Field(
        default=200, ge=0, le=10_000, description="Length of each person's search history on the pages; 0: no history."
    )
    searches_at_once: int | None = Field(
        default=None,
        ge=1,
        le=1_024,
        description="Concurrent searches, and besides as many requests of each client for embeddings or reranking, in "
        "all one more. Up to three times "
        "as many wait, or half as many once many were refused; the rest get status 429. Default: 1; with an embedding "
        "server one per two cores, or about 16 if that server has a GPU.",
    )
    search_wait_s: float = Field(
        default=1, gt=0, le=60, description="Seconds after which a waiting search gets status 429."
    )
    requests_at_once: int | None = Field(
        default=None,
        ge=1,
        le=1_024,
        description="Other concurrent requests to the API, three quarters of them of one client. Default: 16 or more.",
    )
    worker_metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port at which `gircse worker` serves /metrics and /healthz, on loopback only.",
    )
    allowed_hosts: str = Field(
        default="",
        description="Further host names of the server, separated by commas: a server without access control accepts "
        "them, and feeds name them.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1",
        description="Proxies, as addresses or networks separated by commas, whose headers on the client's address and "
        "on https are trusted.",
    )
    backup_directory: Path | None = Field(
        default=None,
        description="Folder for the worker's full backups, preferably on another disk. Default: no backups.",
    )
    backup_every_hours: float = Field(default=24, ge=0.01, le=8_760, description="Hours between two such backups.")
    backup_keep: int = Field(default=7, ge=1, le=10_000, description="Number of backups to keep, the newest ones.")
    backup_indexes: bool = Field(
        default=False,
        description="Also backs up vectors: files are larger, but a restore need not embed anything again.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on. The default is this machine only.")
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
            raise ValueError(f"give the name of a model, such as {DEFAULT_MODEL}")
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
                "GIRCSE_DATABASE_PASSWORD needs a GIRCSE_DATABASE_URL with a user and without a password, such as "
                "postgresql+psycopg://gircse@db/gircse"
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

    @property
    def session_idle(self) -> timedelta | None:
        return timedelta(minutes=self.session_idle_minutes) if self.session_idle_minutes else None

    @property
    def catalog_url(self) -> str:
        """URL of the catalog, including the separately given password."""
        url = self.database_url or f"sqlite:///{(self.home / 'catalog.db').as_posix()}"
        if self.database_password is None:
            return url
        password = quote(self.database_password.get_secret_value(), safe="")
        user, _, host = urlsplit(url).netloc.rpartition("@")
        return urlsplit(url)._replace(netloc=f"{user}:{password}@{host}").geturl()

    @property
    def allowed_host_names(self) -> list[str]:
        return [name.strip() for name in self.allowed_hosts.split(",") if name.strip()]

    @property
    def is_open_to_network(self) -> bool:
        """Whether other machines can reach a server that listens on `host`."""
        return self.host != "localhost" and not is_loopback_address(self.host)


def load_settings(**overrides: object) -> Settings:
    """Reads the settings from the environment and gircse.toml; `overrides` that are not None take precedence.

    Raises InputError, which lists all errors.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    for name in REMOVED:
        if os.environ.get(f"GIRCSE_{name}"):
            log.warning("GIRCSE_%s was removed and has no effect; take it out of the environment.", name)
    with _errors_translated():
        settings = Settings(**given)  # type: ignore[arg-type]
    if unknown := [*_unknown_variables(), *_unknown_keys(settings.home)]:
        _warn_once("Unknown settings have no effect: %s.", "; ".join(unknown))
    return settings


def load_log_settings() -> LogSettings:
    """Reads the settings of the log only. Raises InputError."""
    with _errors_translated():
        return LogSettings()


def _unknown_variables() -> Iterator[str]:
    """Names of variables GIRCSE_* that are no setting, each with the nearest setting; never their values."""
    fields = Settings.model_fields
    known = {f"GIRCSE_{name.upper()}" for name in fields}
    known |= {f"GIRCSE_{name.upper()}_FILE" for name, field in fields.items() if _is_secret(field)}
    for name in sorted(os.environ):
        short = name.removeprefix("GIRCSE_")
        is_known = name in known or short in REMOVED or _OF_OTHER_TOOLS.fullmatch(short)
        if short != name and not is_known:
            yield _with_nearest(name, known)


def _unknown_keys(home: Path) -> Iterator[str]:
    path = home / CONFIG_FILE
    known = Settings.model_fields.keys() - {_HOME}
    for key in _read_toml(path):
        if key == _HOME:
            yield f"{key} in {path}, which GIRCSE_HOME sets"
        elif key not in known:
            yield f"{_with_nearest(key, known)} in {path}"


def _with_nearest(name: str, known: Collection[str]) -> str:
    shortened = {each.upper().removeprefix("GIRCSE_"): each for each in known}
    near = nearest_name(name.upper().removeprefix("GIRCSE_"), shortened, cutoff=0.7)
    return f"{name} (did you mean {shortened[near]}?)" if near else name


@cache
def _warn_once(message: str, names: str) -> None:
    log.warning(message, names)


def _read_config(settings_cls: type[BaseSettings], path: Path) -> dict[str, Any]:
    """The settings of this class in the file; empty if there is no file."""
    known = settings_cls.model_fields.keys() - {_HOME}
    return {name: value for name, value in _read_toml(path).items() if name in known and value != ""}


def _read_toml(path: Path) -> Mapping[str, Any]:
    """Reads the file once, and again only after a change."""
    try:
        state = path.stat()
        return _parse_toml(path, state.st_mtime_ns, state.st_size)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"The settings in {path} cannot be read ({error}). Correct or remove the file.") from None


@lru_cache(maxsize=1)
def _parse_toml(path: Path, _modified_ns: int, _size: int) -> Mapping[str, Any]:
    return MappingProxyType(tomllib.loads(path.read_text(encoding="utf-8")))


def is_tracing_wanted() -> bool:
    """Whether OpenTelemetry's standard variable names an endpoint. Its SDK reads the other variables itself."""
    return bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))


@contextmanager
def _errors_translated() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise InputError("These settings are invalid:\n" + "\n".join(_error_lines(error))) from None


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
    for fault in error.errors(include_url=False, include_input=False):
        name = f"GIRCSE_{str(fault['loc'][0]).upper()}: " if fault["loc"] else ""
        lines.append(f"  {name}{fault['msg'].removeprefix('Value error, ')}")
    return lines
