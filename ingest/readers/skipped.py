"""Parts of a document that could not be parsed: how many, which, and why. Stored in its metadata."""

from __future__ import annotations

from collections.abc import Sequence

from app.types.documents import Metadata, MetadataValue

_MAX_PLACES = 5
_MAX_PLACE, _MAX_REASON = 200, 200


def first_notes(notes: Sequence[str], count: int) -> str:
    """The first five of the notes, a line each, and how many of the `count` notes are not among them."""
    shown = notes[:_MAX_PLACES]
    return "\n".join([*shown, *([_more_notes(count - len(shown))] if count > len(shown) else [])])


def _more_notes(count: int) -> str:
    return f"And {count:,} more places."


class Skipped:
    """Counts skipped parts. `kind` names them: `files`, `lines`.

    The metadata gets the count as `skipped_<kind>`, and the first five places with reasons as `skipped`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._first: list[str] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note(self, place: str, reason: str) -> None:
        self._count += 1
        if len(self._first) < _MAX_PLACES:
            self._first.append(f"{place[:_MAX_PLACE]}: {reason[:_MAX_REASON]}")

    @property
    def reasons(self) -> str:
        return first_notes(self._first, self._count)

    def added_to(self, metadata: Metadata) -> Metadata:
        """`metadata` with these notes appended to earlier ones."""
        if not self._count:
            return metadata
        before = metadata.get("skipped")
        reasons = f"{before}\n{self.reasons}" if before else self.reasons
        kind = f"skipped_{self._kind}"
        earlier = metadata.get(kind)
        count = self._count + (earlier if isinstance(earlier, int) else 0)
        return {**metadata, kind: count, "skipped": reasons}

    @property
    def metadata(self) -> dict[str, MetadataValue]:
        """The notes as metadata; empty if nothing was skipped."""
        return {f"skipped_{self._kind}": self._count, "skipped": self.reasons} if self._count else {}
