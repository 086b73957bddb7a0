"""What is derived from a document's address and dates, to narrow down searches by."""

from __future__ import annotations

import pytest

from app.types.metadata_keys import derived_metadata


@pytest.mark.parametrize(
    ("uri", "metadata", "derived"),
    [
        ("file:///home/me/my%20papers/tides.PDF", {}, {"file_type": "pdf", "folder": "/home/me/my papers"}),
        (
            "upload://2024/notes/a.tar.gz",
            {"date": "2024-05-01"},
            {"file_type": "gz", "folder": "2024/notes", "year": 2024},
        ),
        ("upload://readme", {"created": "1999", "modified": "2001-01-01"}, {"year": 1999}),
        ("file:///data/rows.jsonl#7", {"date": 20240501}, {}),
        ("https://example.org/a/b.html", {"date": "spring", "created": "2020-01-01"}, {}),
        ("upload://Dr. Smith v1.5 final", {}, {}),
        ("upload://Chapter 1.5", {}, {}),
        ("upload://.gitignore", {}, {}),
        ("upload://a.averylongextension", {}, {}),
        ("upload://song.mp3", {}, {"file_type": "mp3"}),
        ("letters/a.txt", {"modified": "2023"}, {"year": 2023}),
    ],
)
def test_metadata_derived_from_address_and_date(
    uri: str, metadata: dict[str, object], derived: dict[str, object]
) -> None:
    assert derived_metadata(uri, metadata) == derived
