"""`gircse doctor`: asks every part of this installation whether it works, and says what to do where it does not."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from app.commands import consistency, console
from app.commands.checks import CHECKS, Finding, ask
from app.settings import load_settings


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    # The former names of `gircse check` and its options.
    orphans: Annotated[bool, typer.Option("--orphans", hidden=True)] = False,
    fix: Annotated[bool, typer.Option("--fix", hidden=True)] = False,
    foreign: Annotated[bool, typer.Option("--foreign", hidden=True)] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", hidden=True)] = False,
) -> None:
    """Ask every part whether it works: versions, device, disk, permissions, catalog, clock, jobs, index, embedding
    server, model and its golden vectors, fingerprints of collections.

    Exit code 1 when one does not. `gircse check` compares the catalog with the vectors.

    Example: gircse doctor --json
    """
    if (fix and not orphans) or (foreign and not fix) or (rebuild and orphans) or (as_json and (orphans or rebuild)):
        raise typer.BadParameter("use --json, or `gircse check` with its options")
    if orphans or rebuild:
        consistency.check(fix=fix, unmanaged=foreign, rebuild=rebuild)
    else:
        _check_parts(as_json=as_json)


def _check_parts(*, as_json: bool) -> None:
    settings = load_settings()
    findings: dict[str, Finding] = {}
    for part, check in CHECKS.items():
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
    told = " ".join(filter(None, [finding.detail, finding.advice and f"- {finding.advice}"]))
    console.stdout.print(Text.assemble(mark, (f"{part:<12}", "bold"), console.printable(told)))
