"""`gircse users`, `gircse keys` and `gircse audit`: manage users, API keys and the audit log of access control."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

import typer

from app.access.account_service import AccountService
from app.access.accounts import ADMIN, Accounts
from app.access.authorized_services import access_to, account_service
from app.api.account_schemas import KeyAnswer, NewKeyAnswer, UserAnswer
from app.commands import terminal
from app.commands.wiring import open_catalog
from app.errors import InputError
from app.settings import load_settings
from app.types.access import OPERATOR, ApiKey, Identity, RoleName, Scope, User, acting_as
from app.types.documents import utc_now
from app.types.quotas import QUOTA_NAMES, UNLIMITED, Quotas

users = typer.Typer(no_args_is_help=True, help="List, add, change and delete users.")
keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")


UserName = Annotated[str, typer.Argument(help="Name of the user.")]
Collections = Annotated[
    list[str] | None,
    typer.Option("--collection", "-c", help="Collection name; * matches any characters, as in 'team-*'. Repeatable."),
]
Password = Annotated[bool, typer.Option("--password", help="Prompt for a password for logging in on the page.")]


@contextmanager
def open_accounts() -> Iterator[AccountService]:
    """Open the account services as operator, with all rights. Creates the user admin if it is missing."""
    with open_catalog() as catalog, acting_as(OPERATOR):
        accounts = Accounts(catalog.access)
        accounts.ensure_admin()
        settings = load_settings()
        yield account_service(access_to(catalog, settings), settings=settings)


@users.command("list")
def list_users(as_json: terminal.JsonLines = False) -> None:
    """List users with their roles and collections."""
    with open_accounts() as accounts:
        found, identities = accounts.users(), accounts.identities()
    if as_json:
        terminal.print_json_lines(map(UserAnswer.of, found))
        return
    rows = [
        (
            user.name,
            user.role.label,
            ", ".join(user.collections) or "none",
            _login_methods(user, is_connected=user.name in identities),
            "disabled" if user.disabled_at else "",
        )
        for user in found
    ]
    terminal.print_table(("name", "role", "collections", "login", ""), rows)


@users.command("add")
def add_user(
    name: UserName,
    role: Annotated[
        RoleName, typer.Option(help="A reader searches, an editor also writes, an admin also manages users.")
    ],
    collections: Collections = None,
    password: Password = False,
) -> None:
    """Add a user. Without --collection the user sees all collections; without --password, only API keys work.

    Example: gircse users add anna --role editor -c 'team-*' -c shared --password
    """
    word = _ask_password() if password else None
    with open_accounts() as accounts:
        accounts.add_user(name, role=role.role, collections=collections or ["*"], password=word)
    typer.echo(f"Added {name}. To create an API key: gircse keys add {name}")


@users.command("change")
def change_user(
    name: UserName,
    role: Annotated[RoleName | None, typer.Option(help="New role. It also limits existing keys.")] = None,
    collections: Collections = None,
    password: Password = False,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            help="bytes=N, documents=N or requests=N (per minute); N may be unlimited or default. Repeatable."
        ),
    ] = None,
    disable: Annotated[
        bool | None,
        typer.Option("--disable/--enable", help="--disable ends all sessions and rejects all keys at once."),
    ] = None,
) -> None:
    """Change a user. Omitted options keep their values; --collection replaces all previous collections."""
    word = _ask_password() if password else None
    with open_accounts() as accounts:
        quotas = with_quotas(accounts.user(name).quotas, quota) if quota else None
        accounts.change_user(
            name,
            role=role.role if role else None,
            collections=collections,
            is_disabled=disable,
            password=word,
            quotas=quotas,
        )
    typer.echo(f"Changed {name}.")


@users.command("usage")
def show_usage(name: UserName, as_json: terminal.JsonLines = False) -> None:
    """Show a user's quotas: bytes and documents stored, requests in this minute, and the limits."""
    with open_accounts() as accounts:
        found = accounts.quota_use(name)
    if as_json:
        terminal.print_json_lines(found)
        return
    rows = [(each.quota, f"{each.used:,}", "no limit" if each.limit is None else f"{each.limit:,}") for each in found]
    terminal.print_table(("quota", "used", "limit"), rows)


@users.command("connect")
def connect_user(
    name: UserName,
    subject: Annotated[str, typer.Argument(help="The OpenID provider's id of the person: the claim `sub`.")],
    issuer: Annotated[str | None, typer.Option(help="Overrides GIRCSE_OIDC_ISSUER.")] = None,
) -> None:
    """Let a person with an OpenID identity sign in as this user. The login page that rejected them shows the subject.

    Example: gircse users connect anna 248289761001
    """
    issuer = issuer or load_settings().oidc_issuer
    if issuer is None:
        raise InputError("No OpenID provider. Set GIRCSE_OIDC_ISSUER, or add --issuer https://login.example.org")
    with open_accounts() as accounts:
        accounts.connect_user(name, Identity(issuer, subject))
    typer.echo(f"{subject} of {issuer} can now sign in as {name}.")


@users.command("disconnect")
def disconnect_user(name: UserName) -> None:
    """Remove all OpenID identities of a user (from `users connect` or a first sign-in) and end the user's sessions."""
    with open_accounts() as accounts:
        count = accounts.disconnect_user(name)
    typer.echo(f"Removed {count} identities of {name}.")


@users.command("remove", hidden=True)  # its former name
@users.command("delete")
def delete_user(name: UserName) -> None:
    """Delete a user with all keys and sessions. Documents are kept."""
    with open_accounts() as accounts:
        accounts.remove_user(name)
    typer.echo(f"Deleted {name}.")


def _login_methods(user: User, *, is_connected: bool) -> str:
    if user.name == ADMIN:
        return "secret"
    methods = [*(["password"] if user.password_hash else []), *(["provider"] if is_connected else [])]
    return ", ".join(methods) or "keys only"


@keys.command("list")
def list_keys(as_json: terminal.JsonLines = False) -> None:
    """List API keys, newest first. Secrets are not stored and cannot be shown."""
    with open_accounts() as accounts:
        found = accounts.api_keys()
    if as_json:
        terminal.print_json_lines(map(KeyAnswer.of, found))
        return
    rows = [
        (
            each.id,
            each.user,
            each.label,
            each.role.label,
            ", ".join(each.collections),
            ", ".join(each.scopes),
            f"{each.created_at:%Y-%m-%d}",
            _state_of(each),
        )
        for each in found
    ]
    terminal.print_table(("id", "user", "label", "role", "collections", "scopes", "created", "state"), rows)


@keys.command("add")
def add_key(
    user: Annotated[str, typer.Argument(help="Owner of the key. The key never has more rights than its user.")],
    label: Annotated[str, typer.Option(help="Purpose of the key.")] = "",
    role: Annotated[RoleName | None, typer.Option(help="Default: the role of its user.")] = None,
    collections: Collections = None,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="`access`: the key may manage users and keys, within its user's rights.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it expires. Default: never.")] = None,
    as_json: terminal.JsonLines = False,
) -> None:
    """Create an API key and print it once. Programs send it as `Authorization: Bearer KEY`.

    Example: gircse keys add anna --label export --role reader -c reports --days 90
    """
    expires_at = None if days is None else utc_now() + timedelta(days=days)
    with open_accounts() as accounts:
        key, secret = accounts.add_key(
            user,
            label=label,
            role=role.role if role else None,
            collections=collections or ["*"],
            expires_at=expires_at,
            scopes=scope or (),
        )
    if as_json:
        terminal.print_json_lines([NewKeyAnswer.of(key, secret=secret)])
    else:
        typer.echo(secret)
    typer.echo("Save it now: it is not shown again.", err=True)


@keys.command("revoke")
def revoke_key(key_id: Annotated[str, typer.Argument(help="Id from `gircse keys list`.")]) -> None:
    """Revoke a key at once and for good."""
    with open_accounts() as accounts:
        accounts.revoke_key(key_id)
    typer.echo(f"The key {key_id} is revoked.")


def audit(
    action: Annotated[
        list[str] | None, typer.Option(help="Only this action, such as login.failed. Repeatable.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Only actions of this user.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of entries, newest first.")] = 50,
    as_json: terminal.JsonLines = False,
) -> None:
    """Show the audit log: logins, changes to keys and users, deletions."""
    with open_accounts() as accounts:
        entries = accounts.audit_entries(actions=action or (), actor=actor, limit=limit + 1)
    if as_json:
        terminal.print_json_lines(entries[:limit])
        terminal.note_more(entries, limit)
        return
    rows: Sequence[Sequence[str]] = [
        (
            f"{each.at:%Y-%m-%d %H:%M:%S}",
            each.actor,
            each.action,
            each.subject,
            ", ".join(f"{name}={value}" for name, value in each.detail.items()),
        )
        for each in entries[:limit]
    ]
    terminal.print_table(("at (UTC)", "user", "action", "subject", "details"), rows)
    terminal.note_more(entries, limit)


def _state_of(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "valid"
    return f"until {key.expires_at:%Y-%m-%d}" if key.is_valid(utc_now()) else "expired"


def with_quotas(quotas: Quotas, given: Sequence[str]) -> Quotas:
    """`quotas` changed by texts such as `bytes=5000`, `documents=unlimited`, `requests=default`. Raises InputError."""
    words = {"unlimited": UNLIMITED, "default": None}
    for text in given:
        name, _, value = text.partition("=")
        if name not in QUOTA_NAMES or not (value in words or (value.isascii() and value.isdecimal())):
            raise InputError(
                f"{text!r} is not a quota. Use bytes=, documents= or requests= with a number, such as bytes=5000."
            )
        quotas = replace(quotas, **{name: words[value] if value in words else int(value)})
    return quotas


def _ask_password() -> str:
    """Asks twice. Raises InputError if nobody answers, as in a script."""
    try:
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    except typer.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        raise InputError(
            "No password was given, and nothing was changed. Type it at the terminal, or pipe it in two equal lines."
        ) from None
