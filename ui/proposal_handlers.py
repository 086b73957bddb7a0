"""Proposed values without Gradio: untrusted plain values in, HTML and values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.ports.services import Proposals
from app.search.value_syntax import join_values
from app.types.search import ALL_COLLECTIONS
from ui.handler_inputs import read_choice, read_text
from ui.lens_handlers import MAX_VALUES_CHARS, LensHandlers, read_values
from ui.render.proposals import render_proposals

LEAST_CHARS = 4  # of a meaningful instruction
MAX_INSTRUCTION_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalHandlers(LensHandlers):
    proposals: Proposals

    def propose(self, instruction: object, collection: object, values: object) -> str:
        """Proposes values for the instruction in one collection; nothing if the values are those of the lens."""
        words = read_text(instruction, name="instruction", max_chars=MAX_INSTRUCTION_CHARS)
        given = read_text(values, name="values", max_chars=MAX_VALUES_CHARS)
        if len(words) < LEAST_CHARS or not collection or collection == ALL_COLLECTIONS:
            return ""
        if given and given == self.values_of(self.lens_of(words)):
            return ""
        found = self.proposals.propose(words, read_choice(collection, name="collection"))
        return render_proposals(found, given)

    def use(self, data: Mapping[str, object]) -> str:
        """The values of a clicked proposal, in the syntax of the field."""
        return join_values([str(each) for each in read_values(data.get("values"))])
