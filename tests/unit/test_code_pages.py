"""Code pages by number have the codecs of Python."""

from __future__ import annotations

import pytest

from ingest.readers.code_pages import codec_of_code_page


@pytest.mark.parametrize(
    ("number", "codec"),
    [
        (1251, "cp1251"),
        (932, "cp932"),
        (65001, "utf-8"),
        (10007, "mac-cyrillic"),
        (0x8000, "mac-roman"),
        (0x8001, "cp1252"),
        (1200, "cp1252"),
        (99999, "cp1252"),
    ],
)
def test_codecs(number: int, codec: str) -> None:
    assert codec_of_code_page(number) == codec
