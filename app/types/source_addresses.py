"""Validates addresses and options of synced sources. Contacts no server."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import SplitResult, urlsplit

from app.errors import InputError
from app.types.documents import require_short_uri, require_text
from app.types.sources import (
    LONGEST_INTERVAL,
    MAX_PATTERN_CHARACTERS,
    MAX_PATTERNS,
    SHORTEST_INTERVAL,
    SourceKind,
    SourceOptions,
)

LOCAL = "file"
_WEB = ("https", "http")
_SCHEMES = {
    SourceKind.PAGE: _WEB,
    SourceKind.FEED: _WEB,
    SourceKind.SITEMAP: _WEB,
    SourceKind.GIT: ("https", "http", "ssh", LOCAL),
    SourceKind.IMAP: ("imaps",),
    SourceKind.S3: _WEB,
}
_EXAMPLES = {
    SourceKind.GIT: "https://host/team/repository.git, ssh://git@host/team/repository.git or file:///srv/repository.git",
    SourceKind.IMAP: "imaps://host or imaps://user@host",
    SourceKind.S3: "https://host/bucket or https://host/bucket/prefix/",
}
_WITH_USER = ("ssh", "imaps")
_WITH_PATTERNS = (SourceKind.GIT, SourceKind.IMAP, SourceKind.S3)
# Git's rules for names of references, and no leading dash, which git would parse as an option.
_BRANCH = re.compile(r"(?![-./])(?!.*(?:\.\.|//|@\{|\.lock$|[./]$))[^\s~^:?*\[\\+\x00-\x20\x7f]{1,200}")
_CREDENTIALS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_source(kind: SourceKind, address: str, *, every: timedelta, options: SourceOptions) -> str:
    """Returns the stripped address. Raises InputError."""
    address = require_short_uri(require_text(address, name="address").strip())
    _check_parts(kind, address, _split(kind, address))
    if not SHORTEST_INTERVAL <= every <= LONGEST_INTERVAL:
        raise InputError(
            f"The sync interval of a source is {SHORTEST_INTERVAL} to {LONGEST_INTERVAL.days} days, not {every}."
        )
    _check_options(kind, options)
    return address


def is_local(address: str) -> bool:
    """Whether the address is on a disk of this machine."""
    return address.lower().startswith(f"{LOCAL}:")


def _split(kind: SourceKind, address: str) -> SplitResult:
    example = _EXAMPLES.get(kind, "https://host/path")
    try:
        parts = urlsplit(address)
        is_right = parts.scheme in _SCHEMES[kind] and (parts.scheme == LOCAL or bool(parts.hostname))
        is_right = is_right and (parts.port is None or parts.port > 0)
    except ValueError:
        is_right = False
    if not is_right or any(character.isspace() or not character.isprintable() for character in address):
        raise InputError(f"{address[:80]!r} is not an address of the kind {kind.value}; write it as {example}.")
    return parts


def _check_parts(kind: SourceKind, address: str, parts: SplitResult) -> None:
    if parts.password is not None or (parts.username is not None and parts.scheme not in _WITH_USER):
        raise InputError("The address contains a user name or password: remove everything before the @.")
    if kind in _WITH_PATTERNS and (parts.query or parts.fragment):
        raise InputError(f"{address[:80]!r}: nothing may follow the path; remove the ? or # and the rest.")
    if kind is SourceKind.S3 and not parts.path.strip("/"):
        raise InputError(f"{address[:80]!r} names no bucket; write it as {_EXAMPLES[kind]}.")
    if kind is SourceKind.GIT and (not parts.path.strip("/") or (parts.scheme == LOCAL and parts.netloc)):
        raise InputError(f"{address[:80]!r} names no repository; write it as {_EXAMPLES[kind]}.")
    if parts.username is not None and parts.username.startswith("-"):  # ssh would parse it as an option
        raise InputError("The user name of the address must not begin with a -.")


def _check_options(kind: SourceKind, options: SourceOptions) -> None:
    if options.patterns and kind not in _WITH_PATTERNS:
        raise InputError(f"A source of the kind {kind.value} has no patterns: leave them out.")
    if options.branch and kind is not SourceKind.GIT:
        raise InputError("Only a repository has a branch: leave it out.")
    if options.credentials and kind not in _WITH_PATTERNS:
        raise InputError(f"A source of the kind {kind.value} uses no credentials: leave them out.")
    if kind is SourceKind.IMAP and not options.credentials:
        raise InputError("A mailbox needs credentials: name a credentials file of the operator.")
    has_long = any(len(pattern) > MAX_PATTERN_CHARACTERS for pattern in options.patterns)
    if len(options.patterns) > MAX_PATTERNS or has_long:
        raise InputError(f"At most {MAX_PATTERNS} patterns of {MAX_PATTERN_CHARACTERS} characters: leave some out.")
    for pattern in options.patterns:
        require_text(pattern, name="pattern")
    if options.branch and not _BRANCH.fullmatch(options.branch):
        raise InputError(f"{options.branch[:80]!r} cannot be the name of a branch or tag.")
    if options.credentials and not _CREDENTIALS.fullmatch(options.credentials):
        raise InputError(f"{options.credentials[:80]!r} cannot name credentials: use letters, digits, . _ and -.")
