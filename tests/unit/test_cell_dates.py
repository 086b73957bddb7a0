"""Dates and times of spreadsheets are shown as Excel shows them."""

from __future__ import annotations

import pytest

from ingest.readers.cell_values import formatted_value


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        ("0.000663194", "mm:ss.0", "00:57.3"),
        ("0.000663194", "ss.00", "57.30"),
        ("0.000663194", "mm:ss", "00:57"),
        ("0.00066955", "mm:ss", "00:58"),
        ("0.999999", "h:mm:ss.0", "23:59:59.9"),
        ("0.9999999", "h:mm:ss.0", "0:00:00.0"),
        ("0.000663194", "[m]:ss.000", "0:57.300"),
        ("1.000663194", "[h]:mm:ss.0", "24:00:57.3"),
        ("0.000663194", "[s].0", "57.3"),
        ("-0.000663194", "[s].0", "-57.3"),
        ("-0.0000001", "[s].0", "0.0"),
        ("39219.000663194", "yyyy-mm-dd hh:mm:ss.0", "2007-05-17 00:00:57.3"),
        ("0.000663194", f"ss.{'0' * 9}", "57.299962"),
    ],
)
def test_fractions_of_seconds_are_rounded_to_the_places_of_the_format(value: str, code: str, shown: str) -> None:
    assert formatted_value(value, code) == shown
