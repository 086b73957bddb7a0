"""Parts of a document that could not be parsed: how many, which, and why. Stored in its metadata."""

from __future__ import annotations

from app.types.documents import Metadata, MetadataValue

_MAX_PLACES = 5
_MAX_PLACE, _MAX_REASON = 200, 200


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

    def add(self, place: str, reason: str) -> None:
        self._count += 1
        if len(self._first) < _MAX_PLACES:
            self._first.append(f"{place[:_MAX_PLACE]}: {reason[:_MAX_REASON]}")

    @property
    def reasons(self) -> str:
        more = self._count - len(self._first)
        return "\n".join(self._first) + (f"\nand {more:,} more" if more > 0 else "")

    def added_to(self, metadata: Metadata) -> Metadata:
        """`metadata` with these notes appended to earlier ones."""
        if not self._count:
            return metadata
        before = metadata.get("skipped")
        reasons = f"{before}\n{self.reasons}" if before else self.reasons
        return {**metadata, **self.metadata, "skipped": reasons}

    @property
    def metadata(self) -> dict[str, MetadataValue]:
        """The notes as metadata; empty if nothing was skipped."""
        return {f"skipped_{self._kind}": self._count, "skipped": self.reasons} if self._count else {}
