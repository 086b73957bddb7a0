"""Answers to requests that no route takes: the methods of the path, or the documented paths like it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

Paths = Mapping[str, Mapping[str, Any]]  # `paths` of an OpenAPI description: path template → method → operation

_MOST_NAMED = 5
_LEAST_LIKENESS = 0.6
_LONGEST_SHOWN = 200


def methods_at(path: str, paths: Paths) -> list[str]:
    """The documented methods of the path, in upper case; empty if there is no such path."""
    found: set[str] = set()
    for template, operations in paths.items():
        pattern = re.sub(r"\\\{[^/{}]+\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path):
            found |= _methods(operations)
    return sorted(found)


def wrong_method(method: str, path: str, allowed: list[str]) -> str:
    return f"{method} is not possible at {path[:_LONGEST_SHOWN]}; use {' or '.join(allowed)}. /docs describes it."


def unknown_path(method: str, path: str, paths: Paths) -> str:
    """The message for a path that does not exist. It lists the paths of its folder, or if there are many, the most
    similar ones."""
    shown = path[:_LONGEST_SHOWN]
    folder = f"/{path.split('/')[1]}"
    there = [template for template in paths if template == folder or template.startswith(f"{folder}/")]
    if len(there) > _MOST_NAMED:
        there = get_close_matches(shown, there, n=_MOST_NAMED, cutoff=_LEAST_LIKENESS)
    named = ", ".join(f"{'/'.join(sorted(_methods(paths[each])))} {each}" for each in there)
    like = f" There are: {named}." if named else ""
    return f"This server has no {method} {shown}.{like} /docs lists all paths, /openapi.json describes them."


def _methods(operations: Mapping[str, Any]) -> set[str]:
    return {each.upper() for each in operations}
