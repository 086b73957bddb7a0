"""`gircse doctor`: checks every component of this installation and prints a remedy for each fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from app.commands import consistency, terminal
from app.commands.checks import CHECKS
from app.commands.findings import Check, Finding, ask
from app.commands.integrity_checks import VECTORS, check_hashes, check_vectors
from app.commands.repair import rebuild_damaged
from app.commands.wiring import open_services
from app.settings import load_settings
from app.types.printable import printable


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="Also compare the hashes of all stored files. With --rebuild: also ingest documents again whose text "
            "has no hash (from earlier releases).",
        ),
    ] = False,
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="N|all",
            help="Embed N passages of each collection again and compare the vectors. With --rebuild: also replace "
            f"vectors that differ. Default: {VECTORS}.",
        ),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild damaged or missing indexes from the stored documents.")
    ] = False,
    # Former names of `gircse check` and its options.
    orphans: Annotated[bool, typer.Option("--orphans", hidden=True)] = False,
    fix: Annotated[bool, typer.Option("--fix", hidden=True)] = False,
    foreign: Annotated[bool, typer.Option("--foreign", hidden=True)] = False,
) -> None:
    """Check that every component works and stored data is undamaged: versions, device, disk, permissions, catalog,
    clock, jobs, index, files, sign-in, embedding server, model and its golden vectors, fingerprints of collections.

    Exit code 1 if something is wrong; each line has the remedy. `gircse check` compares the catalog with all vectors.

    Example: gircse doctor --json
    """
    is_odd = (fix and not orphans) or (foreign and not fix) or ((rebuild or vectors) and orphans)
    if is_odd or (as_json and (orphans or rebuild)) or (files and orphans):
        raise typer.BadParameter("use --json and --files, or --rebuild, or `gircse check` with its options")
    if orphans:
        consistency.check(fix=fix, unmanaged=foreign, rebuild=False)
    elif rebuild:
        with open_services() as services:
            rebuild_damaged(
                services, compares_vectors=_sample_size(vectors) if vectors else 0, reparses_without_digest=files
            )
    else:
        deeper: dict[str, Check] = {"files": check_hashes} if files else {}
        if vectors:
            deeper["vectors"] = partial(check_vectors, sample=_sample_size(vectors))
        _check_parts({**CHECKS, **deeper}, as_json=as_json)


def _sample_size(vectors: str) -> int | None:
    """The sample size given to --vectors; None means all. Raises BadParameter."""
    if vectors == "all":
        return None
    if not vectors.isdecimal() or int(vectors) == 0:
        raise typer.BadParameter(f"--vectors takes a number from 1 on, or `all`, not {vectors!r}")
    return int(vectors)


def _check_parts(checks: Mapping[str, Check], *, as_json: bool) -> None:
    settings = load_settings()
    findings: dict[str, Finding] = {}
    for part, check in checks.items():
        findings[part] = ask(check, settings)
        if not as_json:
            _report(part, findings[part])
    is_well = all(finding.is_well for finding in findings.values())
    if as_json:
        parts = {part: asdict(finding) for part, finding in findings.items()}
        typer.echo(json.dumps({"is_well": is_well, "parts": parts}, indent=2))
    if not is_well:
        raise typer.Exit(1)


def _report(part: str, finding: Finding) -> None:
    mark = Text("ok   ", "green") if finding.is_well else Text("FAIL ", "bold red")
    line = " ".join(filter(None, [finding.detail, finding.advice and f"- {finding.advice}"]))
    terminal.stdout.print(Text.assemble(mark, (f"{part:<12}", "bold"), printable(line)))
