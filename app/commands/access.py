"""`gircse users`, `gircse keys` and `gircse audit`: who may do what on a service with access control."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

import typer

from app.access.accounts import ADMIN, Accounts
from app.access.authorized_accounts import AuthorizedAccounts
from app.access.authorizer import Authorizer
from app.access.quotas import UserQuotas
from app.api.account_schemas import KeyAnswer, UserAnswer
from app.commands import console
from app.commands.composition import open_catalog
from app.errors import InputError
from app.settings import load_settings
from app.types.access import OPERATOR, ApiKey, Identity, RoleName, Scope, User, acting_as
from app.types.documents import utc_now
from app.types.quotas import QUOTA_NAMES, UNLIMITED, Quotas

users = typer.Typer(no_args_is_help=True, help="Add, change and remove the people and programs that may come in.")
keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


UserName = Annotated[str, typer.Argument(help="Of the user.")]
Collections = Annotated[
    list[str] | None,
    typer.Option("--collection", "-c", help="A name, or part of one with *, as 'team-*'; may be repeated."),
]
Password = Annotated[bool, typer.Option("--password", help="Ask for a password, to log in on the page with.")]


@contextmanager
def open_accounts() -> Iterator[AuthorizedAccounts]:
    """In the name of the operator."""
    with open_catalog() as catalog, acting_as(OPERATOR):
        accounts = Accounts(catalog)
        accounts.ensure_admin()
        settings = load_settings()
        quotas = UserQuotas(catalog, settings)
        yield AuthorizedAccounts(accounts, catalog, Authorizer(catalog), quotas=quotas, idle=settings.session_idle)


@users.command("list")
def list_users(as_json: console.JsonLines = False) -> None:
    """List users, what each may do, and with which collections."""
    with open_accounts() as accounts:
        found, identities = accounts.users(), accounts.identities()
    if as_json:
        console.print_json_lines(map(UserAnswer.of, found))
        return
    rows = [
        (
            user.name,
            user.role.label,
            ", ".join(user.collections) or "none",
            _comes_in_by(user, is_connected=user.name in identities),
            "disabled" if user.disabled_at else "",
        )
        for user in found
    ]
    console.print_table(("name", "role", "collections", "comes in by", ""), rows)


@users.command("add")
def add_user(
    name: UserName,
    role: Annotated[RoleName, typer.Option(help="A reader searches, an editor writes, an admin sees to users.")],
    collections: Collections = None,
    password: Password = False,
) -> None:
    """Add a user. Without --collection they see all of them; without --password they come in by API keys alone.

    Example: gircse users add anna --role editor -c 'team-*' -c shared --password
    """
    word = _ask_password() if password else None
    with open_accounts() as accounts:
        accounts.add_user(name, role=role.role, collections=collections or ["*"], password=word)
    typer.echo(f"Added {name}. A key for programs: gircse keys add {name}")


@users.command("change")
def change_user(
    name: UserName,
    role: Annotated[RoleName | None, typer.Option(help="From now on, for their keys, too.")] = None,
    collections: Collections = None,
    password: Password = False,
    quota: Annotated[
        list[str] | None,
        typer.Option(help="As bytes=5000000, documents=100, requests=60, or =unlimited, =default; may be repeated."),
    ] = None,
    disable: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Sessions end, and keys are refused, at once.")
    ] = None,
) -> None:
    """Change a user. What is left out stays; --collection replaces all that were given before."""
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
def show_usage(name: UserName, as_json: console.JsonLines = False) -> None:
    """Show how much a user stores and has asked in this minute, and how much they may."""
    with open_accounts() as accounts:
        found = accounts.quota_use(name)
    if as_json:
        console.print_json_lines(found)
        return
    rows = [(each.quota, f"{each.used:,}", "no limit" if each.limit is None else f"{each.limit:,}") for each in found]
    console.print_table(("quota", "used", "limit"), rows)


@users.command("connect")
def connect_user(
    name: UserName,
    subject: Annotated[str, typer.Argument(help="What the OpenID provider calls the person: `sub`.")],
    issuer: Annotated[str | None, typer.Option(help="Instead of GIRCSE_OIDC_ISSUER.")] = None,
) -> None:
    """Let somebody whom an OpenID provider knows sign in as this user. The page that refused them told the subject.

    Example: gircse users connect anna 248289761001
    """
    issuer = issuer or load_settings().oidc_issuer
    if issuer is None:
        raise InputError("Which provider? Set GIRCSE_OIDC_ISSUER, or name it: --issuer https://login.example.org")
    with open_accounts() as accounts:
        accounts.connect_user(name, Identity(issuer, subject))
    typer.echo(f"{name} signs in as {subject} of {issuer} from now on.")


@users.command("disconnect")
def disconnect_user(name: UserName) -> None:
    """End what `users connect` or a first sign-in began; the user's sessions end, too."""
    with open_accounts() as accounts:
        count = accounts.disconnect_user(name)
    typer.echo(f"{name} was connected with {count} identities, and is with none now.")


@users.command("remove")
def remove_user(name: UserName) -> None:
    """Remove a user with all keys and sessions. Documents stay."""
    with open_accounts() as accounts:
        accounts.remove_user(name)
    typer.echo(f"Removed {name}.")


def _comes_in_by(user: User, *, is_connected: bool) -> str:
    if user.name == ADMIN:
        return "secret"
    ways = [*(["password"] if user.password_hash else []), *(["provider"] if is_connected else [])]
    return ", ".join(ways) or "keys only"


@keys.command("list")
def list_keys(as_json: console.JsonLines = False) -> None:
    """List API keys, the newest first. Their secrets are kept nowhere."""
    with open_accounts() as accounts:
        found = accounts.api_keys()
    if as_json:
        console.print_json_lines(map(KeyAnswer.of, found))
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
    console.print_table(("id", "user", "label", "role", "collections", "scopes", "made", "state"), rows)


@keys.command("add")
def add_key(
    user: Annotated[str, typer.Argument(help="Whose key it is; it never does more than they may.")],
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    role: Annotated[RoleName | None, typer.Option(help="Left out: that of its user.")] = None,
    collections: Collections = None,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="`access`: let it see to users and keys, as far as its user may.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Until it expires. Left out: never.")] = None,
) -> None:
    """Make an API key and print it, once. Programs show it as `Authorization: Bearer KEY`.

    Example: gircse keys add anna --label export --role reader -c reports --days 90
    """
    expires_at = None if days is None else utc_now() + timedelta(days=days)
    with open_accounts() as accounts:
        _, secret = accounts.add_key(
            user,
            label=label,
            role=role.role if role else None,
            collections=collections or ["*"],
            expires_at=expires_at,
            scopes=scope or (),
        )
    typer.echo(secret)
    typer.echo("Keep it: it is told only now.", err=True)


@keys.command("revoke")
def revoke_key(key_id: Annotated[str, typer.Argument(help="The id that `gircse keys list` shows.")]) -> None:
    """Revoke a key, at once and for ever."""
    with open_accounts() as accounts:
        accounts.revoke_key(key_id)
    typer.echo(f"The key {key_id} is revoked.")


def audit(
    action: Annotated[list[str] | None, typer.Option(help="Only these, as login.failed; may be repeated.")] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this user did.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 50,
    as_json: console.JsonLines = False,
) -> None:
    """Show who did what: logins, keys, users, and what was deleted."""
    with open_accounts() as accounts:
        entries = accounts.audit_entries(actions=action or (), actor=actor, limit=limit)
    if as_json:
        console.print_json_lines(entries)
        return
    rows: Sequence[Sequence[str]] = [
        (
            f"{each.at:%Y-%m-%d %H:%M:%S}",
            each.actor,
            each.action,
            each.subject,
            ", ".join(f"{name}={value}" for name, value in each.detail.items()),
        )
        for each in entries
    ]
    console.print_table(("at (UTC)", "who", "action", "what", "more"), rows)


def _state_of(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "valid"
    return f"until {key.expires_at:%Y-%m-%d}" if key.is_valid(utc_now()) else "expired"


def with_quotas(quotas: Quotas, given: Sequence[str]) -> Quotas:
    """`given` as the command line has them. Raises InputError."""
    words = {"unlimited": UNLIMITED, "default": None}
    for each in given:
        name, _, value = each.partition("=")
        if name not in QUOTA_NAMES or not (value in words or (value.isascii() and value.isdecimal())):
            raise InputError(
                f"{each!r} is no quota: write bytes=, documents= or requests= and a number, as bytes=5000."
            )
        quotas = replace(quotas, **{name: words[value] if value in words else int(value)})
    return quotas


def _ask_password() -> str:
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
