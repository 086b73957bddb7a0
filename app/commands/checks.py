"""The checks of `gircse doctor`. Each returns a `Finding`: whether a component works, details, and the remedy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import httpx
from packaging.requirements import Requirement

from app.commands.findings import Check, Finding
from app.commands.integrity_checks import check_backups, check_damage, check_rows, check_sizes, check_vectors
from app.commands.wiring import embedder_of, open_catalog, wiring
from app.errors import ProviderUnavailableError
from app.ports.parts import Embedder
from app.runtime.memory import allowed_bytes
from app.runtime.private_files import is_closed, prepare_home
from app.settings import Settings
from app.types.documents import Collection, JobState, utc_now
from embedder.model_info import ModelInfo

PRODUCT, EMBEDDER = "gircse-search", "gircse-embedder"  # distributions, of which the first needs the second
SHOWN = ("torch", "transformers", "qdrant-client", "qdrant-edge-py", "gradio")
EXTRAS = ("", "app")  # the extras that every command needs
MIN_MEMORY_GB = (
    1.5  # measured: 1.0 while documents are embedded by the default model, the engine, a small file's reader
)
MIN_FREE_GB = 1.0
MOST_SKEW = timedelta(seconds=5)  # leases of jobs are compared across machines
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)
CONTAINER_SECRETS = Path("/run/secrets")  # mounted into this container only
_ASK_TIMEOUT_S = 10


def check_versions(settings: Settings) -> Finding:
    wrong, missing = [], []
    for text in _requirements():
        wanted = Requirement(text)
        if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": extra}) for extra in EXTRAS):
            continue
        try:
            installed = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(wanted.name)
            continue
        if not wanted.specifier.contains(installed, prereleases=True):
            wrong.append(f"{wanted.name} {installed} (needed: {wanted.specifier})")
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in (PRODUCT, *SHOWN) if name not in missing
    )
    detail = f"Python {platform.python_version()}, {versions}"
    if not (wrong or missing):
        return Finding(True, detail)
    errors = [*wrong, *(f"{name} is not installed" for name in missing)]
    return Finding(False, f"{detail}; {'; '.join(errors)}", f"Run: pip install '{PRODUCT}[app]'")


def _requirements() -> list[str]:
    """The requirements of gircse-search and of gircse-embedder, if the latter is installed."""
    own = importlib.metadata.requires(PRODUCT) or []
    try:
        return [*own, *(importlib.metadata.requires(EMBEDDER) or ())]
    except importlib.metadata.PackageNotFoundError:
        return own


def check_device(settings: Settings) -> Finding:
    if settings.embedder_url is not None:
        return Finding(True, "not used: the embedding server runs the model")
    is_well, detail, advice = wiring("devices").describe_device(settings.device)
    return Finding(is_well, detail, advice)


def check_disk(settings: Settings) -> Finding:
    prepare_home(settings.home)
    free_gb = shutil.disk_usage(settings.home).free / 1e9
    advice = "" if free_gb >= MIN_FREE_GB else "Free some space, or set GIRCSE_HOME to a folder on a larger disk."
    return Finding(free_gb >= MIN_FREE_GB, f"{settings.home}, {free_gb:.1f} GB free", advice)


def check_memory(settings: Settings) -> Finding:
    """Check that this process may use enough memory.

    The system kills a process that exceeds its limit. Restarted, it would take the same work and be killed again.
    """
    has_gb = allowed_bytes() / 1e9
    needs_gb = MIN_MEMORY_GB if settings.embedder_url is None else MIN_MEMORY_GB / 2
    advice = (
        f"Provide at least {needs_gb:g} GB, twice that for large files. The system kills processes above their limit."
    )
    return Finding(has_gb >= needs_gb, f"{has_gb:.1f} GB for this process", "" if has_gb >= needs_gb else advice)


def check_permissions(settings: Settings) -> Finding:
    """Check that no other user can write to or read the home folder, or read a file with a secret."""
    home, errors = settings.home, []
    prepare_home(home)
    if stat.S_IMODE(home.stat().st_mode) & 0o022:
        errors.append((f"other users can write to {home}", f"Run: chmod go= {home}"))
    elif not is_closed(home) and not _is_out_of_reach(home):
        errors.append((f"other users can read {home}", f"Run: chmod go= {home}"))
    own = [home / "admin-secret", *home.glob("edge/edge.json")]
    for path in [*own, *_secret_files()]:
        if path.exists() and path.stat().st_mode & 0o077 and not _is_out_of_reach(path):
            errors.append((f"other users can read the secret {path}", f"Run: chmod go= {path}"))
    if errors:
        return Finding(False, "; ".join(error for error, _ in errors), " ".join(advice for _, advice in errors))
    return Finding(True, f"only this user can access {home} and the secrets")


def _secret_files() -> list[Path]:
    paths = (value for name, value in os.environ.items() if name.startswith("GIRCSE_") and name.endswith("_FILE"))
    return [Path(path) for path in paths if path]


def _is_out_of_reach(path: Path) -> bool:
    """Whether other users cannot reach the path: a parent folder is closed to them, or it is a container's secret."""
    if path.is_relative_to(CONTAINER_SECRETS):
        return True
    return any(not parent.stat().st_mode & 0o011 for parent in path.absolute().parents)


def check_catalog(settings: Settings) -> Finding:
    wiring("catalog").check_catalog(settings, is_thorough=True)
    with open_catalog(settings) as catalog:
        count = len(catalog.collections())
    wiring("catalog").check_values(settings)
    about = wiring("catalog").describe_catalog(settings)
    return Finding(True, f"{about.place}, schema {about.revision}, up to date, {count} collections")


def check_clock(settings: Settings) -> Finding:
    now = utc_now()
    if now < EARLIEST:
        return Finding(False, f"this machine's clock says {now:%Y-%m-%d %H:%M} UTC", "Set the clock, e.g. by NTP.")
    database_time = wiring("catalog").describe_catalog(settings).moment
    if database_time is None:
        return Finding(True, f"{now:%Y-%m-%d %H:%M} UTC")
    skew = abs(database_time - utc_now())
    detail = f"{now:%Y-%m-%d %H:%M} UTC, {skew.total_seconds():.1f} s from the database's clock"
    advice = "" if skew <= MOST_SKEW else "Set the clocks of both machines, e.g. by NTP: job leases depend on them."
    return Finding(skew <= MOST_SKEW, detail, advice)


def check_jobs(settings: Settings) -> Finding:
    with open_catalog(settings) as catalog:
        counts, ahead = catalog.job_counts(), catalog.jobs_ahead()
        dead = catalog.jobs(state=JobState.DEAD, limit=counts.get(JobState.DEAD, 0))
    refused = sum(not job.can_succeed_again for job in dead)
    advice = ""
    if len(dead) > refused:
        advice = "List them with `gircse jobs list --state dead`, then run `gircse jobs retry ID`."
    listed = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"
    if refused:
        listed += f" ({refused} for unreadable documents: `gircse documents list --state failed`)"
    if ahead:
        listed += f"; {ahead} leased or scheduled more than an hour ahead, probably after a clock jump"
        advice = f"A worker repairs them when it is idle: `gircse worker`. {advice}".strip()
    return Finding(not advice, listed, advice)


def check_index(settings: Settings) -> Finding:
    """Check that the index responds and, if it is a cluster, that every index survives the loss of one node."""
    with wiring("index").open_index(settings) as index:
        indexes = index.indexes()
        lone = {name for name in indexes if index.lacks_replicas(name)}
    where = settings.qdrant_url or f"embedded engine in {settings.home / 'edge'}"
    detail = f"{where}, {len(indexes)} indexes"
    if not lone:
        return Finding(True, detail)
    with open_catalog(settings) as catalog:
        names = [each.name for each in catalog.collections() if each.active_index in lone]
    if not names:  # only indexes of other programs lack replicas
        return Finding(True, detail)
    advice = "Run `gircse reindex NAME` for each: the new index has two replicas of every shard."
    return Finding(False, f"{detail}; the loss of one node would lose points of {', '.join(names)}", advice)


def check_embedder(settings: Settings) -> Finding:
    """Check that the embedding server is ready and accepts the API key of the settings."""
    url = settings.embedder_url
    if url is None:
        return Finding(True, "none: this process runs the model (GIRCSE_EMBEDDER_URL is not set)")
    key = settings.embedder_api_key
    headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        with httpx.Client(base_url=url, timeout=_ASK_TIMEOUT_S, trust_env=False) as client:
            ready, models = client.get("/readyz"), client.get("/v1/models", headers=headers)
    except httpx.HTTPError as error:
        advice = "Start it with `gircse embedder`, or correct GIRCSE_EMBEDDER_URL."
        return Finding(False, f"{url} does not respond: {error or type(error).__name__}", advice)
    if ready.status_code != httpx.codes.OK:
        advice = "See its log. A model may still be loading."
        return Finding(False, f"{url} is not ready ({ready.status_code})", advice)
    if models.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        advice = "Set GIRCSE_EMBEDDER_API_KEY or GIRCSE_EMBEDDER_API_KEY_FILE to the server's key."
        return Finding(False, f"{url} rejects the API key", advice)
    return Finding(True, f"{url} is ready")


@cache
def _embedder(settings: Settings) -> Embedder:
    return embedder_of(settings)


def check_model(settings: Settings) -> Finding:
    model = _embedder(settings).info
    facts = (
        f"fingerprint {model.fingerprint[:12]}, {model.dimension} dimensions, {model.default_query_steps} query steps"
    )
    return Finding(True, f"{model.name}, {facts}; weights and golden vectors verified")


def check_collections(settings: Settings) -> Finding:
    model = _embedder(settings).info
    fingerprint = model.fingerprint
    with open_catalog(settings) as catalog:
        collections = catalog.collections()
    wrong = [each.name for each in collections if each.fingerprint == fingerprint and not _is_of_model(each, model)]
    if wrong:
        advice = (
            "Their catalog rows are damaged: `gircse restore FILE --force` restores the last backup of the catalog."
        )
        return Finding(False, f"steps or dimensions do not fit the model: {', '.join(wrong)}", advice)
    others = [each.name for each in collections if each.fingerprint != fingerprint]
    if others:
        advice = "Set GIRCSE_MODEL to that model, or run `gircse reindex NAME`."
        return Finding(False, f"embedded by another model: {', '.join(others)}", advice)
    return Finding(True, ", ".join(each.name for each in collections) or "none yet; try `gircse up --sample`")


def _is_of_model(collection: Collection, model: ModelInfo) -> bool:
    """Whether dimension, steps and vectors per chunk in the collection's row are possible for the model."""
    steps = collection.document_steps
    has_steps = model.min_steps <= steps <= model.max_steps
    vectors = model.vectors_per_document(steps) if has_steps else 0
    return (collection.dimension, collection.vectors_per_chunk) == (model.dimension, vectors)


def check_sign_in(settings: Settings) -> Finding:
    """Check that the OpenID provider responds and that its published configuration is usable."""
    if settings.oidc_issuer is None:
        return Finding(True, "only passwords and API keys (GIRCSE_OIDC_ISSUER is not set)")
    with closing(wiring("access").provider_of(settings)) as provider:
        try:
            provider.check()
        except ProviderUnavailableError as error:
            return Finding(False, str(error), "Nobody can sign in through it. Start it, or correct GIRCSE_OIDC_ISSUER.")
    return Finding(True, f"{settings.oidc_issuer} responds; redirect URL {settings.oidc_redirect_url}")


CHECKS: dict[str, Check] = {
    "versions": check_versions,
    "device": check_device,
    "disk": check_disk,
    "memory": check_memory,
    "permissions": check_permissions,
    "catalog": check_catalog,
    "clock": check_clock,
    "jobs": check_jobs,
    "index": check_index,
    "damage": check_damage,
    "vectors": check_vectors,
    "rows": check_rows,
    "files": check_sizes,
    "backups": check_backups,
    "sign-in": check_sign_in,
    "embedder": check_embedder,
    "model": check_model,
    "collections": check_collections,
}
