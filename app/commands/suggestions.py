"""Suggestions for misspelt commands and options. They name only what the help shows."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class SuggestingGroup(TyperGroup):
    """A group that may have hidden commands. Typer suggests any key of `commands`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        every = self.commands
        self.commands = {name: command for name, command in every.items() if not command.hidden}
        try:
            return super().resolve_command(ctx, args)
        finally:
            self.commands = every


def drop_hidden_options(error: Exception) -> None:
    """From the suggestions of an error about an unknown option, whose class differs between versions of typer."""
    possible, ctx = getattr(error, "possibilities", None), getattr(error, "ctx", None)
    if not possible or ctx is None:
        return
    shown = {
        name
        for each in ctx.command.get_params(ctx)  # with --help
        if not getattr(each, "hidden", False)
        for name in (*each.opts, *each.secondary_opts)
    }
    error.possibilities = [name for name in possible if name in shown]  # type: ignore[attr-defined]
