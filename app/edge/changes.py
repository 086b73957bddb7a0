"""Records writes to a shard since it was copied, to apply them to the copy before it replaces the shard."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import qdrant_edge as edge

from app.edge.values import PointId


@dataclass(slots=True)
class Changes:
    """Ids of changed points, and schema changes. Ids suffice, since the final state is read from the live shard."""

    _points: dict[PointId, None] = field(default_factory=dict)
    _schema: list[edge.UpdateOperation] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._points or self._schema)

    def __len__(self) -> int:
        return len(self._points)

    def note_points(self, points: Iterable[PointId]) -> None:
        self._points.update(dict.fromkeys(points))

    def note_schema(self, operation: edge.UpdateOperation) -> None:
        self._schema.append(operation)

    def take_points(self, count: int) -> list[PointId]:
        taken = list(itertools.islice(self._points, count))
        for point_id in taken:
            del self._points[point_id]
        return taken

    def take_schema(self) -> list[edge.UpdateOperation]:
        taken, self._schema = self._schema, []
        return taken
