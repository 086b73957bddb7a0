"""Damaged files of every format through the child process; `make fuzz` reads thousands."""

from __future__ import annotations

from reader_fuzz import damaged_files, fuzz
from sample_files import samples

SEED = 11


def test_damaged_files_are_read_or_refused_with_a_reason():
    outcome = fuzz(60, SEED)
    assert outcome.errors == []
    assert outcome.read.total() + outcome.refused.total() == 60
    assert min(outcome.read.total(), outcome.refused.total()) > 10  # the damage is neither nothing nor everything
    assert set(outcome.read) | set(outcome.refused) == {name.partition(".")[2] for name in samples()}


def test_a_seed_gives_the_same_files_again():
    first = list(damaged_files(25, SEED))
    assert list(damaged_files(25, SEED)) == first
    assert list(damaged_files(25, SEED + 1)) != first
