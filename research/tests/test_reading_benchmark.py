"""How the benchmark of reading counts words."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from research.benchmarks import reading
from research.benchmarks.reading import (
    CHROMIUM,
    Score,
    Shown,
    agreed_words,
    listed_files,
    of_sheets,
    score,
    table,
    unbroken,
    without_margins,
    words_of,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A well-\nknown fact, isn’t it", ["a", "wellknown", "fact", "isnt", "it"]),
        ("ﬁrst of 12a", ["first", "of", "12", "a"]),
        ("17-05-2007, 2-for-1, B-52", ["17", "05", "2007", "2", "for", "1", "b", "52"]),
        ("天気 is_fine", ["天", "気", "is", "fine"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_words_that_are_lost_torn_apart_and_added() -> None:
    shown = ["one", "two", "three", "four", "five", "six"]
    assert score(shown, shown) == (1, 1, 0, 0)
    assert score(shown, ["four", "five", "six", "one", "two", "three"]) == (1, 1, 0, 0)  # blocks in another order
    assert score(shown, ["one", "four", "two", "five", "three", "six"]) == (1, 0, 0, 0)  # lines of two columns mixed
    assert score(shown, ["one", "two", "three", "more"]) == (0.5, 0.5, 0.25, 0)
    assert score(shown, ["one", "two", "two", "two"]) == (1 / 3, 1 / 3, 0, 0.5)
    assert score(["no"] * 4, ["no", "no"]) == (0.5, 0.5, 0, 0)


def test_programs_that_show_other_words_are_not_believed() -> None:
    assert agreed_words("one two") == (["one", "two"], [])
    agreed, doubtful = agreed_words("t es t one two two\0test one two")
    assert (agreed, sorted(doubtful)) == (["one", "two"], ["es", "t", "t", "test", "two"])
    assert score(agreed, ["test", "one", "two", "more"], doubtful) == (1, 1, 0.25, 0.25)


def test_the_table_is_of_files_that_both_runs_have() -> None:
    before = [
        Score("a/b/1.pdf", "pdf", 100, 0.5, 0.25, 0.0, 0.0, 1.0),
        Score("a/b/2.pdf", "pdf", 100, 1, 1, 0.0, 0.0, 1.0),
    ]
    after = [
        Score("a/b/1.pdf", "pdf", 100, 1.0, 0.75, 0.1, 0.2, 1.0),
        Score("a/b/3.pdf", "pdf", 100, 0, 0, 0.0, 0.0, 1.0),
    ]
    found = table(before, after).split("\n")
    figures = ["50.0 % → 100.0 %", "25.0 % → 75.0 %", "0.0 % → 100.0 %", "0.0 % → 10.0 %", "0.0 % → 20.0 %"]
    assert found[2] == f"| pdf | 1 | {' | '.join(figures)} |"


def test_a_page_is_what_a_person_sees_of_it(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("No chromium is installed.")
    path = tmp_path / "page.html"
    path.write_text(
        "<title>Tab</title><body>One<noscript>no scripts</noscript><select><option>Two<option selected>Three</select>"
        "<input value=Four><input type=hidden value=no><input placeholder=Five style='display: none'>"
        "<details><summary>Six</summary>Seven</details><ol start=4><li>Eight</ol><img alt=Nine>",
        "utf-8",
    )
    with ExitStack() as files:
        shown, beside = Shown(files, tmp_path / "kept").text(path, "html")
        assert shown.split() == ["One", "Three", "Four", "Six", "Seven", "Eight"]
        assert beside.split() == ["Nine", "4", "5"]
    assert Shown(ExitStack(), tmp_path / "kept").text(path, "html")[0].split()[0] == "One"  # without a browser


def test_headers_and_footers_of_pages_count_once() -> None:
    body = "\n".join(f"line {number}" for number in "abcdefgh")
    pages = "\f".join(f"Report\n{body}\nPage {number} of 2\n" for number in (1, 2))
    kept, repeated = without_margins(pages)
    assert kept.count("Report") == kept.count("Page") == 1
    assert {"Report", "Page 2 of 2"} <= set(repeated.split("\n"))
    assert without_margins("Report\n\fReport 2\n")[0].split() == ["Report", "Report", "2"]


def test_words_that_a_narrow_box_breaks_are_whole() -> None:
    shown = "Docume\nnt tok\nens\nin a\nbox"
    assert words_of(unbroken(shown, {"document", "tokens", "in", "a", "box", "abox"})) == [
        "document",
        "tokens",
        "in",
        "a",
        "box",
    ]
    assert words_of(unbroken("docume\n\nnt", {"document"})) == ["docume", "nt"]  # of two boxes
    assert words_of(unbroken("docume\nnt", {"docume", "nt"})) == ["docume", "nt"]


def test_cells_are_apart_and_stand_beside_nothing() -> None:
    dates = ["2017", "03", "21", "on", "1998", "01", "02"]
    assert of_sheets(["3/21/2017 on 1/2/98", "2013-11-3"], "")[0] == [*dates, "", "2013", "11", "03", "", ""]
    shown, doubtful = of_sheets(["Fresh water", "7"], "Fres\nhwater7\n12 Title of\n")
    assert shown == ["fresh", "water", "", "7", "", "", "", "title", "of", "", ""]
    assert doubtful == ["fres", "hwater", "7", "12"]
    assert score(shown, ["7", "of", "fresh", "water"]) == (4 / 5, 3 / 5, 0, 0)  # "of" is not beside "title"
    assert score(shown, ["water", "7", "fresh", "title", "of"]) == (1, 3 / 5, 0, 0)


def test_cells_that_change_each_time_are_not_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    sheets = iter([[{("a", 0, 0): "3", ("a", 0, 1): "x"}], [{("a", 0, 0): "4", ("a", 0, 1): "x"}]])
    monkeypatch.setattr(Shown, "_cells_once", lambda *_: next(sheets))
    assert Shown(ExitStack())._cells(Path()) == [(["x"], ["3", "4"])]


def test_a_program_that_hangs_ends_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_TIMEOUT_S", 0.5)
    with pytest.raises(subprocess.TimeoutExpired):
        reading._run("sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):  # a killed process stays until its parent collects it
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("The child still runs.")


def test_the_list_names_files_of_public_repositories() -> None:
    files = listed_files()
    assert len(files) == len(set(files)) >= 300
    assert all(each.repository.count("/") == 1 and len(each.commit) == 40 for each in files)
