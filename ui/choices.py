"""Search options that a person sets by clicking: boosted words, filters, passages to resemble, a lens value, phrases
to exclude.

The page sends them as JSON in a hidden field and in its address; they are untrusted input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from app.errors import InputError
from app.types.search import BOOST, MAX_EXCLUSION_CHARACTERS, MAX_EXCLUSIONS, MAX_FEEDBACK, MAX_FILTERS, SUPPRESS
from embedder.refinement_steps import MAX_BIAS, MAX_BIASED_WORDS
from ui.language import _

NO_INSTRUCTION = "-"  # in an address, which omits empty values
MAX_TEXT_CHARS = 20_000
MAX_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class Choices:
    """The options that a user set by clicks. `like` and `unlike` map passage ids to displayed titles. `kept` are
    phrases that look negated in the query, but that the person wants to search for literally."""

    bias: Mapping[str, float] = field(default_factory=dict)
    filters: Mapping[str, str] = field(default_factory=dict)
    like: Mapping[str, str] = field(default_factory=dict)
    unlike: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    exclude: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.bias or self.filters or self.like or self.unlike or self.value or self.exclude or self.kept)

    def is_as_written(self, query: str) -> bool:
        """Whether the search uses all words of the query, without detected exclusions."""
        return any(phrase in query for phrase in self.kept)

    def to_text(self) -> str:
        """JSON; empty if nothing is chosen, so that an address omits it."""
        chosen: dict[str, object] = {
            name: dict(getattr(self, name)) for name in ("bias", "filters", "like", "unlike") if getattr(self, name)
        }
        if self.value:
            chosen["value"] = self.value
        chosen |= {name: list(getattr(self, name)) for name in ("exclude", "kept") if getattr(self, name)}
        return json.dumps(chosen, ensure_ascii=False, separators=(",", ":")) if chosen else ""

    def after(self, action: object, subject: object, value: object = None) -> Choices:
        """A copy after one click, with one choice added or removed. Raises InputError."""
        key = _text(subject, "choice", 1000)
        if action == "boost":
            return replace(self, bias={**self.bias, key.lower(): BOOST})._checked()
        if action == "suppress":
            return replace(self, bias={**self.bias, key.lower(): SUPPRESS})._checked()
        if action == "filter":
            return replace(self, filters={**self.filters, key: _text(value, "filter", 1000)})._checked()
        if action in ("value", "drop-value"):
            return replace(self, value=key if action == "value" else "")
        if action in ("exclude", "kept"):
            phrases = (*(each for each in getattr(self, action) if each != key), _phrase(key))
            more: dict[str, Any] = {str(action): phrases}
            return replace(self, **more)._checked()
        if action in ("drop-exclude", "drop-kept"):
            name = str(action).removeprefix("drop-")
            fewer: dict[str, Any] = {name: tuple(each for each in getattr(self, name) if each != key)}
            return replace(self, **fewer)
        if action in ("like", "unlike"):
            title = _text("" if value is None else value, "title", 10_000)[:MAX_TITLE_CHARS]
            like, unlike = _without(self.like, key), _without(self.unlike, key)
            if action == "like":
                return replace(self, like={**like, key: title}, unlike=unlike)._checked()
            return replace(self, like=like, unlike={**unlike, key: title})._checked()
        if action in ("drop-bias", "drop-filters", "drop-like", "drop-unlike"):
            name = str(action).removeprefix("drop-")
            less: dict[str, Any] = {name: _without(getattr(self, name), key)}
            return replace(self, **less)
        if action == "drop-all":
            return Choices()
        raise InputError(_("Unknown option. Reload the page."))

    def _checked(self) -> Choices:
        for name, chosen, most in (
            ("words", self.bias, MAX_BIASED_WORDS),
            ("filters", self.filters, MAX_FILTERS),
            ("passages to resemble", self.like, MAX_FEEDBACK),
            ("passages to avoid", self.unlike, MAX_FEEDBACK),
            ("phrases to exclude", self.exclude, MAX_EXCLUSIONS),
            ("phrases as they are written", self.kept, MAX_EXCLUSIONS),
        ):
            if len(chosen) > most:
                raise InputError(
                    _("You can choose at most {most} {name}. Remove one first.").format(most=most, name=_(name))
                )
        return self


def read_choices(text: object) -> Choices:
    """Raises InputError."""
    if text is None or text == "":
        return Choices()
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:
        raise InputError(_("The filters in this address are invalid. Start with an empty search."))
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or not given.keys() <= {each.name for each in fields(Choices)}:
        raise InputError(_("The filters in this address are invalid. Start with an empty search."))
    return Choices(
        bias={_text(word, "word", 1000): _number(bias) for word, bias in _items(given, "bias")},
        filters={_text(key, "filter", 1000): _text(value, "filter", 1000) for key, value in _items(given, "filters")},
        like={_text(key, "passage", 100): _text(title, "title", 1000) for key, title in _items(given, "like")},
        unlike={_text(key, "passage", 100): _text(title, "title", 1000) for key, title in _items(given, "unlike")},
        value=_text(given.get("value", ""), "value", 1000),
        exclude=_phrases(given, "exclude"),
        kept=_phrases(given, "kept"),
    )._checked()


def _items(given: dict[str, Any], name: str) -> list[tuple[object, object]]:
    chosen = given.get(name, {})
    if not isinstance(chosen, dict):
        raise InputError(_("The filters in this address are invalid. Start with an empty search."))
    return list(chosen.items())


def _phrases(given: dict[str, Any], name: str) -> tuple[str, ...]:
    chosen = given.get(name, [])
    if not isinstance(chosen, list):
        raise InputError(_("The filters in this address are invalid. Start with an empty search."))
    return tuple(dict.fromkeys(_phrase(each) for each in chosen))


def _phrase(value: object) -> str:
    phrase = _text(value, "phrase", MAX_EXCLUSION_CHARACTERS).strip()
    if not phrase:
        raise InputError(_("The phrase is empty. Reload the page."))
    return phrase


def _text(value: object, name: str, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise InputError(_("Invalid {name}. Reload the page.").format(name=_(name)))
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -MAX_BIAS <= value <= MAX_BIAS:
        raise InputError(
            _("The weight of a word must be between {value:g} and {max_bias:g}.").format(
                value=-MAX_BIAS, max_bias=MAX_BIAS
            )
        )
    return float(value)


def _without(chosen: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {each: value for each, value in chosen.items() if each != key}
