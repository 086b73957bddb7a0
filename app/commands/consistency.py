"""`gircse check`: prints and repairs differences between the catalog, the vectors and the stored files."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import terminal
from app.commands.repair import rebuild_damaged, repair_differences
from app.commands.wiring import open_services


def check(
    fix: Annotated[bool, typer.Option("--fix", help="Repair the differences.")] = False,
    unmanaged: Annotated[
        bool,
        typer.Option("--unmanaged", help="With --fix: also delete points and indexes that gircse did not write."),
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", hidden=True)] = False,  # moved to `gircse doctor`
    as_json: terminal.JsonLines = False,
) -> None:
    """Compare the catalog with the vectors and the stored files, in both directions.

    Exit code 1 if differences remain, not counting points and indexes that gircse did not write.

    Example: gircse check --fix
    """
    if (unmanaged and not fix) or (rebuild and fix):
        raise typer.BadParameter("use --fix, --fix --unmanaged, or --rebuild")
    with open_services() as services:
        if rebuild:
            rebuild_damaged(services)
        elif repair_differences(services, lambda difference: fix, removes_unmanaged=unmanaged, as_json=as_json):
            typer.echo("`gircse check --fix` repairs this.", err=True)
            raise typer.Exit(1)
