"""How many jobs have not ended."""

from __future__ import annotations

from collections.abc import Mapping

from app.types.documents import JobState

OPEN_STATES = (JobState.QUEUED, JobState.RUNNING, JobState.FAILED)


def count_open(counts: Mapping[JobState, int]) -> int:
    """`counts` are of one look: a job that changes its state between two looks would be in neither."""
    return sum(counts[state] for state in OPEN_STATES)
