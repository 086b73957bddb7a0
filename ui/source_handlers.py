"""Scheduled sources on the documents page, without Gradio: plain values in, HTML out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.errors import ForbiddenError, InputError, UnknownCollectionError
from app.ports.sources import RecurringSources
from app.types.sources import MAX_PATTERN_CHARACTERS, MAX_PATTERNS, SourceKind, SourceOptions
from app.types.uris import shown_address
from ui.handler_inputs import read_choice, read_text
from ui.language import _
from ui.render.sources import render_sources
from ui.render.text import render_note

_MAX_ADDRESS_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class SourcesView:
    """The sources of a collection; `is_awaited` if one of them is running or due."""

    listing: str = ""
    is_awaited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHandlers:
    sources: RecurringSources

    def show(self, collection: object) -> SourcesView:
        """Empty for a collection that does not exist yet."""
        if not collection:
            return SourcesView()
        try:
            found = self.sources.sources(read_choice(collection, name="collection"))
        except UnknownCollectionError:
            return SourcesView()
        now = datetime.now(UTC)
        is_awaited = any(each.is_running or each.next_at <= now for each in found)
        return SourcesView(render_sources(found, self._credentials()), is_awaited)

    def act(self, collection: object, data: Mapping[str, object]) -> str:
        """Runs the action of a button. Returns a message."""
        action = data.get("action")
        if action == "add-source":
            return self._add(collection, data)
        if action == "run-source":
            found = self.sources.hurry(read_choice(data.get("subject"), name="choice"))
            return render_note(
                _("{name} will be synced as soon as the server is free.").format(name=shown_address(found.address))
            )
        if action == "delete-source":
            self.sources.delete(read_choice(data.get("subject"), name="choice"))
            return render_note(_("The source was removed. Its documents are kept."))
        raise InputError(_("Unknown button. Reload the page."))

    def _add(self, collection: object, data: Mapping[str, object]) -> str:
        kind = read_choice(data.get("kind"), name="choice")
        if kind not in {*SourceKind}:
            raise InputError(_("This {name} does not exist.").format(name=_("choice")))
        most = MAX_PATTERNS * MAX_PATTERN_CHARACTERS
        lines = read_text(data.get("patterns"), name="list of paths", max_chars=most).splitlines()
        found = self.sources.add(
            read_choice(collection, name="collection"),
            SourceKind(kind),
            read_text(data.get("address"), name="address", max_chars=_MAX_ADDRESS_CHARS),
            every=_read_minutes(data.get("every")),
            removes=data.get("removes") == "yes",
            options=SourceOptions(
                tuple(line.strip() for line in lines if line.strip()),
                read_text(data.get("branch"), name="branch", max_chars=200),
                read_text(data.get("credentials"), name="name", max_chars=100),
            ),
        )
        return render_note(
            _("{name} will be synced as soon as the server is free.").format(name=shown_address(found.address))
        )

    def _credentials(self) -> list[str]:
        try:
            return self.sources.credentials()
        except ForbiddenError:  # readers see sources but cannot add any
            return []


def _read_minutes(value: object) -> timedelta:
    text = str(value or "")[:20]
    if not text.isascii() or not text.isdecimal():
        raise InputError(_("Enter the sync interval in whole minutes."))
    return timedelta(minutes=int(text))
