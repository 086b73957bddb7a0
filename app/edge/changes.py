"""What was written to a shard since its copy was made, to be brought over before the copy takes the shard's place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import qdrant_edge as edge

from app.edge.values import PointId


@dataclass(slots=True)
class Changes:
    """Of points the ids alone: a long ingestion takes little room, and what counts is what they are in the end."""

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
