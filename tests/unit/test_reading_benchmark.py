"""How the benchmark of reading counts words."""

from __future__ import annotations

import pytest

from benchmarks.reading import Score, listed_files, score, table, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A well-\nknown fact, isn’t it", ["a", "wellknown", "fact", "isnt", "it"]),
        ("ﬁrst of 12a", ["first", "of", "12", "a"]),
        ("天気 is_fine", ["天", "気", "is", "fine"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_words_that_are_lost_torn_apart_and_added() -> None:
    shown = ["one", "two", "three", "four", "five", "six"]
    assert score(shown, shown) == (1, 1, 0)
    assert score(shown, ["four", "five", "six", "one", "two", "three"]) == (1, 1, 0)  # blocks in another order
    assert score(shown, ["one", "four", "two", "five", "three", "six"]) == (1, 0, 0)  # lines of two columns mixed
    assert score(shown, ["one", "two", "three", "more"]) == (0.5, 0.5, 0.25)
    assert score(["no"] * 4, ["no", "no"]) == (0.5, 0.5, 0)


def test_the_table_is_of_files_that_both_runs_have() -> None:
    before = [Score("a/b/1.pdf", "pdf", 100, 0.5, 0.25, 0.0, 1.0), Score("a/b/2.pdf", "pdf", 100, 1, 1, 0.0, 1.0)]
    after = [Score("a/b/1.pdf", "pdf", 100, 1.0, 0.75, 0.1, 1.0), Score("a/b/3.pdf", "pdf", 100, 0, 0, 0.0, 1.0)]
    found = table(before, after).split("\n")
    assert found[2] == "| pdf | 1 | 50.0 % → 100.0 % | 25.0 % → 75.0 % | 0.0 % → 100.0 % | 0.0 % → 10.0 % |"


def test_the_list_names_files_of_public_repositories() -> None:
    files = listed_files()
    assert len(files) == len(set(files)) >= 300
    assert all(each.repository.count("/") == 1 and len(each.commit) == 40 for each in files)
