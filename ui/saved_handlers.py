"""The page of saved and past searches without Gradio: untrusted plain values in, HTML out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from app.errors import InputError
from app.ports.catalog import LensesAndJudgements
from app.ports.searches import OwnSearches
from app.search.lenses import lenses_of
from app.types.search import ALL_COLLECTIONS, SearchRequest
from app.types.searches import MAX_SEARCH_NAME_CHARACTERS, PastSearch, SavedSearch, SearchQuestion, question_of
from ui.handler_inputs import read_choice, read_text
from ui.language import _, later
from ui.lens_names import shown_lens
from ui.render.saved import KeptSearch, render_history, render_saved
from ui.render.text import render_note
from ui.search_links import search_address


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedHandlers:
    catalog: LensesAndJudgements
    searches: OwnSearches

    def show(self) -> tuple[str, str]:
        """What is saved, and the history."""
        lenses = {each.query_instruction: each.name for each in lenses_of(self.catalog)}
        saved = [self._described(each, lenses) for each in self.searches.saved()]
        past = [self._described(each, lenses) for each in self.searches.history()]
        return render_saved(saved), render_history(past, limit=self.searches.history_limit)

    def act(self, data: Mapping[str, object]) -> str:
        """What a button in the lists asks for; what was done."""
        action = data.get("action")
        if action == "clear":
            self.searches.forget()
            return render_note(_("The history is empty."))
        if action not in ("delete", "save", "forget"):
            raise InputError(_("That button does not exist. Load the page again."))
        search_id = read_choice(data.get("subject"), name="search")
        if action == "delete":
            self.searches.delete(search_id)
            return render_note(_("Deleted."))
        if action == "forget":
            self.searches.forget(search_id)
            return ""
        past = next((each for each in self.searches.history() if each.id == search_id), None)
        if past is None:
            raise InputError(_("That search is not in your history any more. Load the page again."))
        return self._save("", past.request)

    def save(self, name: object, read_request: Callable[[], SearchRequest]) -> str:
        """The search that a page shows, under a name; without one, under its query."""
        return self._save(
            read_text(name, name="name of the search", max_chars=MAX_SEARCH_NAME_CHARACTERS),
            question_of(read_request()),
        )

    def _save(self, name: str, question: SearchQuestion) -> str:
        saved = self.searches.save(name or self._free_name(question), question)
        return render_note(_("Saved as “{name}”. You find it under Saved.").format(name=saved.name))

    def _free_name(self, question: SearchQuestion) -> str:
        """Its query; with a number where another search has that name."""
        query = " ".join(str(question["query"]).split())
        taken = {each.name for each in self.searches.saved() if dict(each.request) != dict(question)}
        numbered = (f" ({number})" if number > 1 else "" for number in count(1))
        names = (query[: MAX_SEARCH_NAME_CHARACTERS - len(more)].strip() + more for more in numbered)
        return next(name for name in names if name not in taken)

    def _described(self, search: SavedSearch | PastSearch, lenses: Mapping[str, str]) -> KeptSearch:
        asked = search.request
        return KeptSearch(
            id=search.id,
            name=search.name if isinstance(search, SavedSearch) else "",
            query=str(asked["query"]),
            collection=_("all collections") if asked["collection"] == ALL_COLLECTIONS else str(asked["collection"]),
            details=_details(asked, lenses),
            address=search_address(self.catalog, asked),
            at=search.created_at if isinstance(search, SavedSearch) else search.asked_at,
        )


_MODES = {"dense": later("by meaning"), "sparse": later("by words"), "hybrid": later("by meaning and words")}


def _details(asked: Mapping[str, Any], lenses: Mapping[str, str]) -> str:
    """`lenses` are names by instruction."""
    instruction = asked.get("instruction") or ""
    found = [shown_lens(asked.get("lens") or lenses.get(instruction, instruction))]
    found += [f"{key}: {value}" for key, value in asked.get("filters", {}).items()]
    found += [_("not about {phrase}").format(phrase=phrase) for phrase in asked.get("exclude", [])]
    found += [_(_MODES[asked["mode"]])] if "mode" in asked else []
    return " · ".join(filter(None, found))
