"""Patterns of .gitignore: they match what git matches, in little time for any pattern."""

from __future__ import annotations

import random
import re

import pytest
from pathspec import GitIgnoreSpec

from ingest.path_patterns import path_patterns

PIECES = ["*", "**", "?", "a", "b", "/", ".", "(", "[ab]", "[(?]", "\\*", "ab"]
LETTERS = ["a", "b", "/", ".", "(", "*", "ab"]


def test_patterns_match_as_without_the_bounds():
    chance = random.Random(7)
    matched = 0
    for _ in range(2_000):
        pattern = "".join(chance.choices(PIECES, k=chance.randint(1, 7)))
        paths = ["".join(chance.choices(LETTERS, k=chance.randint(1, 9))).strip("/") for _ in range(12)]
        try:
            expected = GitIgnoreSpec.from_lines([pattern], backend="simple")
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                path_patterns([pattern])
            continue
        found = path_patterns([pattern])
        for path in filter(None, paths):
            assert found.match_file(path) == expected.match_file(path), (pattern, path)
            matched += found.match_file(path)
    assert matched > 1_000


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 12 + "b", "a" * 240),
        ("*[ab]" * 12 + "c", "ab" * 120),
        ("*(" * 12 + "b", "(" * 240),
        ("*?" * 12 + "/b", "a" * 240),
        ("b/**/" * 12 + "c", "b/" * 1_000 + "d"),
        ("**/" + "*a" * 12 + "b", "/".join(["a" * 100] * 20)),
        ("a*a*b/**/" * 8 + "c", "aaab/" * 200 + "d"),
    ],
)
def test_no_pattern_tries_every_way_to_divide_a_path(pattern, path):
    """Without the bounds each of these would take minutes to years."""
    assert not path_patterns([pattern]).match_file(path)
