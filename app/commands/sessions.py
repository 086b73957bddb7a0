"""`gircse sessions`: list and end login sessions."""

from __future__ import annotations

from typing import Annotated

import typer

from app.api.account_schemas import SessionAnswer
from app.commands import terminal
from app.commands.access import open_accounts

sessions = typer.Typer(no_args_is_help=True, help="List and end login sessions of users.")


@sessions.command("list")
def list_sessions(
    user: Annotated[str | None, typer.Option(help="Only sessions of this user.")] = None,
    as_json: terminal.JsonLines = False,
) -> None:
    """List sessions, most recently used first."""
    with open_accounts() as accounts:
        found = accounts.sessions(user)
    if as_json:
        terminal.print_json_lines(SessionAnswer.of(each, current=None) for each in found)
        return
    rows = [
        (
            each.id,
            each.user,
            f"{each.created_at:%Y-%m-%d %H:%M}",
            f"{each.used_at:%Y-%m-%d %H:%M}",
            each.address,
            each.browser,
        )
        for each in found
    ]
    terminal.print_table(("id", "user", "since (UTC)", "last used", "address", "browser"), rows)


@sessions.command("end")
def end_session(session_id: Annotated[str, typer.Argument(help="Id from `gircse sessions list`.")]) -> None:
    """End one session at once."""
    with open_accounts() as accounts:
        accounts.end_session(session_id)
    typer.echo(f"The session {session_id} has ended.")


@sessions.command("end-all")
def end_all_sessions(user: Annotated[str, typer.Argument(help="Name of the user.")]) -> None:
    """End all sessions of a user. API keys stay valid; `gircse users change NAME --disable` blocks those, too."""
    with open_accounts() as accounts:
        ended = accounts.end_other_sessions(user)
    typer.echo(f"{ended} {'session' if ended == 1 else 'sessions'} of {user} ended.")
