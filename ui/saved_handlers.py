"""The saved-searches page without Gradio: untrusted plain values in, HTML out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from app.errors import InputError, NotFoundError
from app.ports.catalog import LensesAndJudgements
from app.ports.searches import OwnSearches
from app.ports.standing import StandingSearches
from app.search.lenses import lenses_of
from app.types.search import ALL_COLLECTIONS, SearchRequest
from app.types.searches import MAX_SEARCH_NAME_CHARACTERS, PastSearch, SavedSearch, SearchQuestion, question_of
from app.types.standing import MAX_WEBHOOK_CHARACTERS, News, StandingSearch, Strength, Watch
from ui.handler_inputs import read_choice, read_text
from ui.language import _, later
from ui.lens_names import shown_lens
from ui.render.saved import KeptSearch, render_history, render_saved
from ui.render.standing import SHOWN_NEWS, ShownStanding
from ui.render.text import render_note
from ui.search_links import search_address


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedHandlers:
    catalog: LensesAndJudgements
    searches: OwnSearches
    standing: StandingSearches

    def show(self) -> tuple[str, str]:
        """The saved searches and the history."""
        lenses = {each.query_instruction: each.name for each in lenses_of(self.catalog)}
        standing = {each.search.id: each for each in self._shown_standing()}
        saved = [
            replace(self._described(each, lenses), standing=standing.get(each.id)) for each in self.searches.saved()
        ]
        past = [self._described(each, lenses) for each in self.searches.history()]
        return render_saved(saved), render_history(past, limit=self.searches.history_limit)

    def act(self, data: Mapping[str, object]) -> str:
        """Runs the action of a button. Returns a message."""
        action = data.get("action")
        if action == "clear":
            self.searches.forget()
            return render_note(_("The history is empty."))
        if isinstance(action, str) and action in _STANDING:
            return self._act_on_standing(action, data)
        if action not in ("delete", "save", "forget", "rename"):
            raise InputError(_("Unknown button. Reload the page."))
        search_id = read_choice(data.get("subject"), name="search")
        if action == "rename":
            name = read_text(data.get("name"), name="name of the search", max_chars=MAX_SEARCH_NAME_CHARACTERS)
            renamed = self.searches.rename(search_id, name)
            return render_note(_("The search is now named “{name}”.").format(name=renamed.name))
        if action == "delete":
            name = next((each.name for each in self.searches.saved() if each.id == search_id), "")
            self.searches.delete(search_id)
            return render_note(_("The saved search “{name}” was deleted.").format(name=name))
        if action == "forget":
            self.searches.forget(search_id)
            return ""
        past = next((each for each in self.searches.history() if each.id == search_id), None)
        if past is None:
            raise InputError(_("This search is no longer in your history. Reload the page."))
        return self._save("", past.request)

    def _act_on_standing(self, action: str, data: Mapping[str, object]) -> str:
        search_id = read_choice(data.get("subject"), name="search")
        if action == "seen":
            self.standing.mark_seen(search_id)
            return ""
        if action == "unwatch":
            self.standing.unwatch(search_id)
            return render_note(_("The alert was removed."))
        if action == "renew-feed":
            self.standing.renew_feed(search_id)
            return render_note(_("The feed has a new address."))
        self.standing.watch(search_id, Watch() if action == "watch" else _read_watch(data))
        return render_note(_("Alert saved. New matching passages will appear under the search."))

    def _shown_standing(self) -> list[ShownStanding]:
        found = self.standing.standing()
        failures, alerts = self.standing.failures(found), self.standing.alerts() if found else []
        return [
            ShownStanding(
                search=each,
                news=self._news(each),
                feed=f"/feeds/{each.feed_token}.atom",
                alerts=alerts,
                failures=failures.get(each.id, {}),
            )
            for each in found
        ]

    def _news(self, search: StandingSearch) -> Sequence[News]:
        """New matches; none if the caller can no longer read the collection."""
        if not search.unseen:
            return ()
        try:
            return self.standing.news(search.id, limit=SHOWN_NEWS)
        except NotFoundError:
            return ()

    def save(self, name: object, read_request: Callable[[], SearchRequest]) -> str:
        """Saves the current search under a name; by default under its query."""
        return self._save(
            read_text(name, name="name of the search", max_chars=MAX_SEARCH_NAME_CHARACTERS),
            question_of(read_request()),
        )

    def _save(self, name: str, question: SearchQuestion) -> str:
        saved = self.searches.save(name or self._free_name(question), question)
        return render_note(_("Saved as “{name}”. You find it on the Saved page.").format(name=saved.name))

    def _free_name(self, question: SearchQuestion) -> str:
        """The query, with a number if another search has that name."""
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


_STANDING = ("watch", "rewatch", "unwatch", "seen", "renew-feed")


def _read_watch(data: Mapping[str, object]) -> Watch:
    strength = read_choice(data.get("strength"), name="choice")
    if strength not in {*Strength}:
        raise InputError(_("This {name} does not exist.").format(name=_("choice")))
    webhook = read_text(data.get("webhook"), name="address", max_chars=MAX_WEBHOOK_CHARACTERS)
    alert = read_text(data.get("alert"), name="choice", max_chars=80)
    return Watch(Strength(strength), webhook or None, alert or None)


_MODES = {"dense": later("by meaning"), "sparse": later("by words"), "hybrid": later("by meaning and words")}


def _details(asked: Mapping[str, Any], lenses: Mapping[str, str]) -> str:
    """`lenses` maps instructions to lens names."""
    instruction = asked.get("instruction") or ""
    found = [shown_lens(asked.get("lens") or lenses.get(instruction, instruction))]
    found += [f"{key}: {value}" for key, value in asked.get("filters", {}).items()]
    found += [_("not about {phrase}").format(phrase=phrase) for phrase in asked.get("exclude", [])]
    found += [_(_MODES[asked["mode"]])] if "mode" in asked else []
    return " · ".join(filter(None, found))
