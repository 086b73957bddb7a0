"""Lenses and clicked choices for all pages that search: untrusted plain values in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.ports.catalog import Catalog
from app.search.lenses import find_lens, lenses_of
from app.search.value_syntax import join_values, parse_values, split_values
from app.types.values import OTHER, LensValue
from ui.choices import Choices, read_choices
from ui.handler_inputs import read_choice, read_text
from ui.language import _
from ui.lens_names import NO_LENS, OWN_WORDS, shown_lens

MAX_VALUES_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LensHandlers:
    catalog: Catalog

    def lens_names(self) -> list[str]:
        return [NO_LENS, *(lens.name for lens in lenses_of(self.catalog)), OWN_WORDS]

    def lens_choices(self) -> list[tuple[str, str]]:
        """Label and sent value of each lens."""
        return [(shown_lens(name), name) for name in self.lens_names()]

    def lens_of(self, instruction: object) -> str:
        """The lens name for an instruction."""
        if not instruction:
            return NO_LENS
        return next((each.name for each in lenses_of(self.catalog) if each.query_instruction == instruction), OWN_WORDS)

    def instruction_of(self, name: object) -> str | None:
        """The lens's instruction; None to keep the typed one."""
        if name == OWN_WORDS:
            return None
        if name == NO_LENS:
            return ""
        return find_lens(self.catalog, read_choice(name, name="lens")).query_instruction

    def note_of(self, name: object) -> str:
        """A one-line description of the lens."""
        if name in (NO_LENS, OWN_WORDS):
            return _("A lens is a named instruction. It says what “similar” means.")
        return shown_lens(find_lens(self.catalog, read_choice(name, name="lens")).note)

    def values_of(self, name: object) -> str | None:
        """The lens's values in the syntax of the field; None to keep the typed ones."""
        if name == OWN_WORDS:
            return None
        if name == NO_LENS:
            return ""
        written = find_lens(self.catalog, read_choice(name, name="lens")).values
        return join_values([str(each) for each in parse_values(written)])

    def choose(self, choices: object, data: Mapping[str, object]) -> str:
        """The choices after a click."""
        return read_choices(choices).after(data.get("action"), data.get("subject"), data.get("value")).to_text()


def read_values(values: object, *, side: str = "") -> tuple[LensValue, ...]:
    """Raises InputError."""
    return parse_values(split_values(read_text(values, name="values", side=side, max_chars=MAX_VALUES_CHARS)))


def chosen_value(chosen: Choices, values: Sequence[LensValue]) -> str | None:
    """The clicked value if it is among `values`, else None."""
    is_there = values and chosen.value in (*(each.name for each in values), OTHER)
    return chosen.value if is_there else None
