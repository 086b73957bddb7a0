"""`gircse check`: prints where catalog and vectors differ, and mends it."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.composition import open_services
from app.commands.mending import mend_differences, rebuild_damaged


def check(
    fix: Annotated[bool, typer.Option("--fix", help="Mend what differs.")] = False,
    unmanaged: Annotated[
        bool, typer.Option("--unmanaged", help="With --fix: also delete points and collections that are not ours.")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", hidden=True)] = False,  # now of `gircse doctor`
) -> None:
    """Compare the catalog with the vectors and the stored files, in both directions.

    Exit code 1 when something of ours differs and was not mended.

    Example: gircse check --fix
    """
    if (unmanaged and not fix) or (rebuild and fix):
        raise typer.BadParameter("use --fix, --fix --unmanaged, or --rebuild")
    with open_services() as services:
        if rebuild:
            rebuild_damaged(services)
        elif mend_differences(services, lambda difference: fix, removes_unmanaged=unmanaged):
            typer.echo("`gircse check --fix` mends this.", err=True)
            raise typer.Exit(1)
