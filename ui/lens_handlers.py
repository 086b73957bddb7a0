"""Lenses and clicked choices, as every page that searches offers them: untrusted plain values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.ports.catalog import Catalog
from app.search.lenses import find_lens, lenses_of
from ui.choices import read_choices
from ui.handler_inputs import read_choice

NO_LENS, OWN_WORDS = "No lens", "Own words"


@dataclass(frozen=True, slots=True, kw_only=True)
class LensHandlers:
    catalog: Catalog

    def lens_names(self) -> list[str]:
        return [NO_LENS, *(lens.name for lens in lenses_of(self.catalog)), OWN_WORDS]

    def lens_of(self, instruction: object) -> str:
        """The name under which a page shows an instruction."""
        if not instruction:
            return NO_LENS
        return next((each.name for each in lenses_of(self.catalog) if each.query_instruction == instruction), OWN_WORDS)

    def instruction_of(self, name: object) -> str | None:
        """The lens's instruction; None where the person's own words are to stay."""
        if name == OWN_WORDS:
            return None
        if name == NO_LENS:
            return ""
        return find_lens(self.catalog, read_choice(name, name="lens")).query_instruction

    def choose(self, choices: object, data: Mapping[str, object]) -> str:
        """The choices so far, changed by a click."""
        return read_choices(choices).after(data.get("action"), data.get("subject"), data.get("value")).to_text()
