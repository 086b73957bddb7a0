"""Creates, deletes, pauses and reindexes collections on the documents page. Uses no Gradio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import InputError
from app.ports.catalog import Catalog
from app.ports.services import Collections, Reindexing
from app.types.documents import Collection
from app.types.upkeep import ContractChange
from ui.handler_inputs import read_choice, read_text, read_whole_number
from ui.language import _
from ui.render.text import render_note

MAX_NAME_CHARS = 63
MAX_INSTRUCTION_CHARS = 2_000
SETTINGS = 4  # fields of the page: instruction, steps, tokens and overlap
LEAST_CHUNK_TOKENS, MOST_CHUNK_TOKENS = 16, 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionHandlers:
    catalog: Catalog
    collections: Collections
    reindexing: Reindexing
    min_steps: int
    max_steps: int

    def create(self, name: object, *settings: object) -> tuple[str, str]:
        """Returns a message and the name. `settings`: instruction, steps, tokens, overlap; empty means default."""
        wanted = read_text(name, name="name", max_chars=MAX_NAME_CHARS)
        if not wanted:
            raise InputError(_("Enter a name for the collection first, such as letters or papers-2024."))
        given = self._read_settings(settings).given()
        made = self.collections.create_collection(wanted, **given)  # type: ignore[arg-type]
        said = _("The collection “{name}” was created. Add documents above.").format(name=made.name)
        return render_note(said, until_upload=True), made.name

    def delete(self, collection: object, typed: object) -> str:
        name = self._collection(collection).name
        if read_text(typed, name="name", max_chars=MAX_NAME_CHARS) != name:
            raise InputError(
                _("To delete the collection and all its documents, type its name: {name}.").format(name=name)
            )
        self.collections.delete_collection(name)
        return render_note(_("The collection “{name}” was deleted.").format(name=name))

    def settings_of(self, collection: object) -> tuple[str, str, str, str]:
        """Current settings, as values of the form fields."""
        if not collection:
            return "", "", "", ""
        found = self._collection(collection)
        numbers = (found.document_steps, found.chunk_tokens, found.chunk_overlap)
        return found.document_instruction, *map(str, numbers)  # type: ignore[return-value]

    def reindex(self, collection: object, *settings: object) -> str:
        present = self._collection(collection)
        wanted = self._read_settings(settings)
        changed = {name: value for name, value in wanted.given().items() if value != getattr(present, name)}
        self.reindexing.start(present.name, ContractChange(**changed))  # type: ignore[arg-type]
        return render_note(
            _("Reindexing “{name}”. Searches use the previous index until it is finished.").format(name=present.name)
        )

    def manage(self, collection: object, data: Mapping[str, object]) -> str:
        """Runs the action of a button in the settings."""
        name, action = self._collection(collection).name, data.get("action")
        if action == "pause":
            self.catalog.pause(name)
            return render_note(_("Indexing of “{name}” is paused.").format(name=name))
        if action == "resume":
            self.catalog.resume(name)
            return render_note(_("Indexing of “{name}” continues.").format(name=name))
        if action in ("go-on", "start-over"):
            change = self._half_built(name) if action == "start-over" else ContractChange()
            self.reindexing.start(name, change, restart=action == "start-over")
            return render_note(
                _("Reindexing “{name}”. Searches use the previous index until it is finished.").format(name=name)
            )
        if action == "roll-back":
            index = self.reindexing.roll_back(name).active_index
            return render_note(_("“{name}” uses its previous index again ({index}).").format(name=name, index=index))
        raise InputError(_("Unknown button. Reload the page."))

    def _half_built(self, name: str) -> ContractChange:
        """The settings of the unfinished index, to rebuild it from scratch."""
        building = self.reindexing.status(name).contract
        fields = building.keys() & set(ContractChange.__slots__)
        return ContractChange(**{field: building[field] for field in fields})  # type: ignore[arg-type]

    def _read_settings(self, settings: tuple[object, ...]) -> ContractChange:
        if len(settings) != SETTINGS:
            raise InputError(_("The settings are incomplete. Reload the page."))
        instruction, steps, tokens, overlap = settings
        return ContractChange(
            document_instruction=read_text(instruction, name="instruction", max_chars=MAX_INSTRUCTION_CHARS),
            document_steps=_read_number(steps, "number of steps", self.min_steps, self.max_steps),
            chunk_tokens=_read_number(tokens, "size of a passage", LEAST_CHUNK_TOKENS, MOST_CHUNK_TOKENS),
            chunk_overlap=_read_number(overlap, "overlap", 0, MOST_CHUNK_TOKENS // 2),
        )

    def _collection(self, name: object) -> Collection:
        return self.catalog.collection(read_choice(name, name="collection"))


def _read_number(value: object, name: str, minimum: int, maximum: int) -> int | None:
    """Parses a text field. None if it is empty, which means default."""
    text = read_text(value, name=name, max_chars=12)
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdecimal() else text
    return read_whole_number(number, name=name, minimum=minimum, maximum=maximum)
