"""The fields of the search and compare pages in the address: their parameters, and values that are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from app.types.options import Option
from app.types.search import DEFAULT_MODE, SEARCH_OPTIONS
from ui.choices import NO_INSTRUCTION
from ui.contract import SEARCH

MAX_RESULTS = 50
DEFAULT_RESULTS = 10
DUPLICATES, TABLES = "duplicates", "tables"
EVERY_LESS = (DUPLICATES, TABLES)

# Options that have a field of their own on the page. The fields `choices` (set by clicks) and `less` (two switches) set
# several options each.
_OF_FIELDS = (
    *("query", "instruction", "lens", "values", "steps", "mode", "collection", "limit", "diversity", "rerank"),
    *("filters", "token_bias", "like", "unlike", "value", "exclude", "detect_negation"),
    *("prefer_prose", "fold_duplicates", "per_document"),
)
FURTHER_OPTIONS: Mapping[str, Option] = {
    name: option for name, option in SEARCH_OPTIONS.items() if name not in _OF_FIELDS
}
"""Options without a field of their own: each gets a plain field among the settings."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the page's address. The value `usual` is omitted; an empty value is written as `empty`."""

    name: str
    usual: str = ""
    empty: str = ""


def label_of(option: str) -> str:
    """The label of an option that has no control of its own, in English."""
    return option.replace("_", " ").capitalize()


def text_of(value: object) -> str:
    """A field's value as the text of its parameter: lists sorted and joined by spaces, booleans as 1 and 0. `textOf` in
    page.js does the same."""
    if isinstance(value, (list, tuple)):
        return " ".join(sorted(value))
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value)


def _parameter(option: str, usual: object = None, empty: str = "") -> Parameter:
    return Parameter(SEARCH_OPTIONS[option].shown.parameter or option, text_of(usual), empty)


PARAMETERS: Mapping[str, Parameter] = {
    "query": _parameter("query"),
    "instruction": _parameter("instruction"),  # by default there is none
    "values": _parameter("values"),
    "steps": _parameter("steps"),
    "mode": _parameter("mode", DEFAULT_MODE),
    "collection": _parameter("collection"),
    "limit": _parameter("limit", DEFAULT_RESULTS),
    "choices": Parameter("x"),
    "less": Parameter("l", text_of(EVERY_LESS), "-"),
    "diversity": _parameter("diversity", 0),
    "second_look": _parameter("rerank", True),
    **{name: _parameter(name, option.default) for name, option in FURTHER_OPTIONS.items()},
}


SIDES = ("1", "2")
SIDE = ("instruction", "values", "steps", "mode", "collection", "choices")
SIDE_PARAMETERS: Mapping[str, Parameter] = {
    "query": PARAMETERS["query"],
    **{
        name + side: replace(
            PARAMETERS[name],
            name=PARAMETERS[name].name + side,
            empty=NO_INSTRUCTION if name == "instruction" else PARAMETERS[name].empty,  # the usual one is a lens
        )
        for side in SIDES
        for name in SIDE
    },
}
"""The compare page: names end in 1 on the left side, in 2 on the right."""


def address_of(values: Mapping[str, Any]) -> str:
    """The address of the search page with these values; None leaves a field at its default."""
    given = {}
    for name, parameter in PARAMETERS.items():
        value = values.get(name)
        text = "" if value is None else text_of(value) or parameter.empty
        if text and text != parameter.usual:
            given[parameter.name] = text
    return f"{SEARCH.path}?{urlencode(given)}"


def for_script(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    return {name: asdict(parameter) for name, parameter in parameters.items()}
