"""Patterns in the syntax of .gitignore, matched in time that grows with the length of a path.

They may come with an untrusted folder. The expressions that pathspec makes of `*a*a*a*a*b` or `a/**/b/**/c` try every
way to divide a path among the wildcards, which takes minutes for a name of 240 characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, AnyStr

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

# What pathspec makes of a `*`, and of a `**` between two folders.
_STAR, _FOLDERS = "[^/]*", "(?:/.+)?"


def path_patterns(lines: Iterable[str]) -> GitIgnoreSpec:
    """The compiled lines. Raises ValueError for an invalid one."""
    return GitIgnoreSpec.from_lines(lines, _Pattern, backend="simple")


class _Pattern(GitIgnoreSpecPattern):
    @classmethod
    def pattern_to_regex(cls, pattern: AnyStr) -> tuple[AnyStr | None, bool | None]:
        regex, include = super().pattern_to_regex(pattern)
        bounded: Any = without_retries(regex) if isinstance(regex, str) else regex
        return bounded, include


def without_retries(regex: str) -> str:
    """An equivalent of an expression of pathspec. The text after a wildcard is taken at its first place (`(?>`): the
    rest of the pattern can match there if it can match at a later one. Only the last wildcard may try all places."""
    begin, *others = map(_within_folder, regex.split(_FOLDERS))
    if not others:
        return begin
    return begin + "".join(f"(?>(?:/.+?)??{other}(?=/))" for other in others[:-1]) + _FOLDERS + others[-1]


def _within_folder(regex: str) -> str:
    begin, *others = regex.split(_STAR)
    if not others:
        return begin
    return begin + "".join(f"(?>{_STAR}?{other})" for other in others[:-1]) + _STAR + others[-1]
