"""`gircse doctor`: asks every part of this installation whether it works, and says what to do where it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from app.commands import consistency, console
from app.commands.checks import CHECKS
from app.commands.composition import open_services
from app.commands.findings import Check, Finding, ask
from app.commands.integrity_checks import VECTORS, check_hashes, check_vectors
from app.commands.mending import rebuild_damaged
from app.settings import load_settings


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="Compare the hashes of all stored files, too. With --rebuild: and read documents again whose texts "
            "have none, as those of earlier releases.",
        ),
    ] = False,
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="N|all",
            help="Embed so many passages of each collection again, and compare. With --rebuild: and make those anew "
            f"that differ. Left out: {VECTORS}.",
        ),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make damaged or missing indexes anew from the stored documents.")
    ] = False,
    # The former names of `gircse check` and its options.
    orphans: Annotated[bool, typer.Option("--orphans", hidden=True)] = False,
    fix: Annotated[bool, typer.Option("--fix", hidden=True)] = False,
    foreign: Annotated[bool, typer.Option("--foreign", hidden=True)] = False,
) -> None:
    """Ask every part whether it works, and what is stored whether it is damaged: versions, device, disk, permissions,
    catalog, clock, jobs, index, files, sign-in, embedding server, model and its golden vectors, fingerprints of
    collections.

    Exit code 1 when something is wrong; each line says what to do. `gircse check` compares the catalog with the vectors
    to the last point.

    Example: gircse doctor --json
    """
    is_odd = (fix and not orphans) or (foreign and not fix) or ((rebuild or vectors) and orphans)
    if is_odd or (as_json and (orphans or rebuild)) or (files and orphans):
        raise typer.BadParameter("use --json and --files, or --rebuild, or `gircse check` with its options")
    if orphans:
        consistency.check(fix=fix, unmanaged=foreign, rebuild=False)
    elif rebuild:
        with open_services() as services:
            rebuild_damaged(services, compares_vectors=_read_sample(vectors) if vectors else 0, reads_unproven=files)
    else:
        deeper: dict[str, Check] = {"files": check_hashes} if files else {}
        if vectors:
            deeper["vectors"] = partial(check_vectors, sample=_read_sample(vectors))
        _check_parts({**CHECKS, **deeper}, as_json=as_json)


def _read_sample(vectors: str) -> int | None:
    """None for all."""
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
    told = " ".join(filter(None, [finding.detail, finding.advice and f"- {finding.advice}"]))
    console.stdout.print(Text.assemble(mark, (f"{part:<12}", "bold"), console.printable(told)))
