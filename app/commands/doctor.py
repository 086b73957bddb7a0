"""`gircse doctor`: asks every part of this installation whether it works, and says what to do where it does not."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Annotated

import typer
from rich.text import Text

from app.commands import audit, console
from app.commands.house import embedder_of, open_catalog, wiring
from app.errors import GircseError
from app.ports import Embedder
from app.settings import Settings, load_settings
from app.types import JobState

PACKAGES = ("gircse-search", "torch", "transformers", "qdrant-client", "qdrant-edge-py", "gradio")
MIN_FREE_GB = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    is_well: bool
    detail: str


def doctor(
    orphans: Annotated[bool, typer.Option("--orphans", help="Compare the catalog with the vectors instead.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="With --orphans: mend what differs.")] = False,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="With --fix: also delete points and collections that are not ours.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make missing indexes and points again from the stored documents.")
    ] = False,
) -> None:
    """Ask every part whether it works: versions, disk, catalog, index, model and its golden vectors.

    Exit code 1 when one does not. With --orphans: exit code 1 when catalog and vectors differ.

    Example: gircse doctor --orphans --fix
    """
    if (fix and not orphans) or (foreign and not fix) or (rebuild and orphans):
        raise typer.BadParameter("use --orphans, --orphans --fix, --orphans --fix --foreign, or --rebuild")
    if rebuild:
        audit.rebuild()
    elif orphans:
        audit.find_orphans(fix=fix, foreign=foreign)
    else:
        _check_parts(load_settings())


def _check_parts(settings: Settings) -> None:
    checks: dict[str, Callable[[Settings], Finding]] = {
        "versions": _versions,
        "disk": _disk,
        "catalog": _catalog,
        "jobs": _jobs,
        "index": _index,
        "model": _model,
        "collections": _collections,
    }
    are_well = [_report(part, _ask(check, settings)) for part, check in checks.items()]
    if not all(are_well):
        raise typer.Exit(1)


def _ask(check: Callable[[Settings], Finding], settings: Settings) -> Finding:
    try:
        return check(settings)
    except (GircseError, OSError) as error:
        return Finding(is_well=False, detail=str(error))


def _report(part: str, finding: Finding) -> bool:
    mark = Text("ok   ", "green") if finding.is_well else Text("FAIL ", "bold red")
    console.stdout.print(Text.assemble(mark, (f"{part:<12}", "bold"), console.printable(finding.detail)))
    return finding.is_well


def _versions(settings: Settings) -> Finding:
    found = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return Finding(is_well=True, detail=f"Python {platform.python_version()}, {found}")


def _disk(settings: Settings) -> Finding:
    settings.home.mkdir(parents=True, exist_ok=True)
    free_gb = shutil.disk_usage(settings.home).free / 1e9
    advice = "" if free_gb >= MIN_FREE_GB else "; make room, or set GIRCSE_HOME to a folder on a larger disk"
    return Finding(free_gb >= MIN_FREE_GB, f"{settings.home}, {free_gb:.1f} GB free{advice}")


def _catalog(settings: Settings) -> Finding:
    with open_catalog(settings) as catalog:
        return Finding(catalog.is_alive(), f"schema up to date, {len(catalog.collections())} collections")


def _jobs(settings: Settings) -> Finding:
    with open_catalog(settings) as catalog:
        counts = catalog.job_counts()
    dead = counts.get(JobState.DEAD, 0)
    advice = "; see `gircse jobs list --state dead`, then `gircse jobs retry ID`" if dead else ""
    listed = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"
    return Finding(not dead, listed + advice)


def _index(settings: Settings) -> Finding:
    with wiring("index").open_index(settings) as index:
        where = settings.qdrant_url or f"embedded engine in {settings.home / 'edge'}"
        return Finding(index.is_alive(), where)


@cache
def _embedder(settings: Settings) -> Embedder:
    return embedder_of(settings)


def _model(settings: Settings) -> Finding:
    model = _embedder(settings)
    facts = (
        f"fingerprint {model.fingerprint[:12]}, {model.dimension} dimensions, {model.default_query_steps} query steps"
    )
    return Finding(True, f"{model.model_name}, {facts}; weights and golden vectors verified")


def _collections(settings: Settings) -> Finding:
    fingerprint = _embedder(settings).fingerprint
    with open_catalog(settings) as catalog:
        collections = catalog.collections()
    foreign = [each.name for each in collections if each.fingerprint != fingerprint]
    if foreign:
        names = ", ".join(foreign)
        return Finding(False, f"written by another model: {names}. Set GIRCSE_MODEL to it, or delete and ingest again.")
    return Finding(True, ", ".join(each.name for each in collections) or "none yet; try `gircse up --sample`")
