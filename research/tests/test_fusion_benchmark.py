"""The benchmark of fusion prints the tables of its page, and refuses options that it would ignore."""

from __future__ import annotations

import sys

import pytest

from research.benchmarks import fusion, reading
from research.benchmarks.fusion import FORMULAS, table


def test_the_table_has_means_and_least_differences() -> None:
    rows = {
        "one": dict.fromkeys(FORMULAS, 50.0) | {"words alone": 60.0, "the product": 64.0},
        "two": dict.fromkeys(FORMULAS, 40.0) | {"words alone": 20.0, "the product": 38.0},
    }
    head, rule, one, two, mean, least = table(rows).splitlines()
    assert head.startswith("| | meaning alone | words alone | the product |")
    assert rule.count("---") == len(FORMULAS) + 1
    assert one.startswith("| one | 50.0 | 60.0 | 64.0 |")
    assert two.startswith("| two | 40.0 | 20.0 | 38.0 |")
    assert mean.startswith("| **mean** | 45.0 | 40.0 | 51.0 |")
    assert least.startswith("| least difference to the better of meaning and words | -10.0 | -20.0 | -2.0 |")


@pytest.mark.parametrize(
    ("main", "arguments", "error"),
    [
        (fusion.main, ["--data", "folder", "--fetch", "--cache", "cache"], "--fetch puts files of public repositories"),
        (reading.main, ["--fetch"], "either --files or --compare"),
        (reading.main, ["--files", "folder", "--compare", "a", "b"], "either --files or --compare"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    main: object,
    arguments: list[str],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    assert callable(main)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert error in capsys.readouterr().err
