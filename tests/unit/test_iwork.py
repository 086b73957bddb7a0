"""Documents of Pages, Numbers and Keynote, since 2013 and from before."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iwork_samples import buffer, cell, decimal, double, keynote, link, number_of, pages, stream, table, text
from sample_files import pdf, with_part, zip_of

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers import ReadLimits
from ingest.readers.document import read_document
from ingest.readers.iwa import unsnapped

TEXT, NUMBER, BOOL, DATE = 3, 2, 6, 5
TABLE = table(
    10,
    "Rivers",
    ["City", "Length", "Seine"],
    [
        [cell(TEXT, 8, struct.pack("<I", 1)), cell(TEXT, 8, struct.pack("<I", 2))],
        [cell(TEXT, 8, struct.pack("<I", 3)), cell(NUMBER, 1, decimal("-776.50"))],
        [cell(DATE, 4, struct.pack("<d", 86_400 * 1.5)), cell(BOOL, 2, struct.pack("<d", 1))],
        [b"", cell(NUMBER, 0x9, decimal("7E3") + struct.pack("<I", 99))],
    ],
)


def read(data: bytes, name: str, **options: Any) -> ExtractedText:
    return read_document(data, uri=f"file:///{name}", **options)


class TestSince2013:
    @pytest.mark.parametrize("name", ["a.pages", "a", "a.zip"])
    def test_the_body_comes_first_and_footnotes_last(self, name):
        found = read(pages((5, 3056, buffer((1, "Too thick?"))), *TABLE), name)
        assert found.media_type == "application/vnd.apple.iwork"
        assert found.text.split("\n\n") == [
            *("The pump", "opens", "slowly.", "A box", "Rivers"),
            *("City: Seine; Length: -776.5", "City: 2001-01-02 12:00; Length: TRUE", "Length: 7000"),
            *("Footnote: See the manual.", "Comment: Too thick?"),
        ]

    def test_slides_stand_in_their_order(self):
        found = read(keynote("First", "Second"), "a.key")
        assert found.text.split() == ["First", "Words", "0", "Second", "Notes:", "Words", "1"]
        assert (found.title, found.metadata["pages"], len(found.page_starts)) == ("First", 2, 2)
        assert found.text[found.page_starts[1] :].lstrip().startswith("Second")

    def test_sheets_have_names(self):
        sheets = [(20, 2, buffer((1, "One"), (2, link(10)))), (21, 2, buffer((1, "Two"), (2, link(22))))]
        root = (1, 1, buffer((1, link(20)), (1, link(21))))
        chart = buffer((1, "Lowest"), (2, "2025"), (2, "2026"), (3, buffer((1, double(1, 1.5)), (1, double(1, 2.0)))))
        data = stream(root, *sheets, (22, 5021, buffer((10_000, buffer((7, chart))))), *TABLE)
        found = read(zip_of({"Index/Document.iwa": data}), "a.numbers")
        assert found.text.startswith("One\n\nRivers\n\nCity: Seine; Length: -776.5\n\n")
        assert found.text.endswith("Two\n\nLowest; 2025: 1.5; 2026: 2")

    def test_cells_of_older_versions(self):
        def old(kind: int, flags: int, *values: bytes) -> bytes:
            return bytes([4, kind, 0, 0]) + struct.pack("<I", flags) + bytes(4) + b"".join(values)

        four = struct.pack("<I", 3)
        cells = [old(3, 0x14, bytes(4), four), old(2, 0x26, bytes(8), struct.pack("<d", 4650))]
        offsets = struct.pack("<2H", 0, len(cells[0]))
        tile = (12, 6002, buffer((5, buffer((1, 0), (3, b"".join(cells)), (4, offsets)))))
        objects = [tile if each[0] == tile[0] else each for each in TABLE]
        assert "Seine; 4650" in read(pages(*objects), "a.pages").text

    def test_what_is_damaged_or_unknown_is_told(self):
        strange = table(30, "Odd", ["a"], [[cell(TEXT, 8, struct.pack("<I", 1)), bytes([9]) * 20]])
        found = read(pages(*strange, files={"Index/Section.iwa": b"\0\x05\0\0\xff\xff\xff\xff\xff"}), "a.pages")
        assert "The pump" in found.text
        assert "Odd: 1 cells are in a form that is not known." in str(found.metadata["skipped"])
        assert "Index/Section.iwa: It is damaged" in str(found.metadata["skipped"])

    def test_only_a_preview(self):
        data = zip_of({"Index/Document.iwa": stream((1, 10_000, b"")), "QuickLook/Preview.pdf": pdf("Seen")})
        found = read(data, "a.pages")
        assert found.text.strip() == "Seen"
        assert "Only this preview" in str(found.metadata["skipped"])

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (zip_of({"Index.zip": b"x", ".iwph": b"x"}), "protected by a password"),
            (zip_of({"Index/Document.iwa": stream((1, 10_000, b""))}), "no text that can be read"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, data, reason):
        with pytest.raises(DocumentError, match=reason):
            read(data, "a.pages")

    def test_more_than_the_limit_is_not_unpacked(self):
        bomb = pages((9, 2001, text("a" * 60_000)))
        assert "a" * 50 in read(bomb, "a.pages").text
        with pytest.raises(DocumentError):
            read(bomb, "a.pages", limits=ReadLimits(max_expanded_bytes=5_000))

    @given(st.binary(max_size=60), st.integers(0, 400))
    def test_damage_is_read_or_refused(self, noise, at):
        def damaged(data: bytes) -> bytes:
            return data[:at] + noise + data[at + len(noise) :]

        with suppress(DocumentError):
            read(with_part(pages(*TABLE), "Index/Document.iwa", damaged), "a.pages")

    @given(st.binary(max_size=40))
    def test_snappy_of_any_bytes(self, noise):
        with suppress(ValueError, IndexError):
            assert len(unsnapped(number_of(100) + noise, 1_000)) <= 100


SF = 'xmlns:sf="http://developer.apple.com/namespaces/sf" xmlns:sfa="http://developer.apple.com/namespaces/sfa"'


def storage(kind: str, *paragraphs: str, more: str = "") -> str:
    body = "".join(f"<sf:p>{paragraph}</sf:p>" for paragraph in paragraphs)
    return f'<sf:text-storage sf:kind="{kind}">{more}<sf:text-body>{body}</sf:text-body></sf:text-storage>'


class TestBefore2013:
    GRID = (
        '<sf:tabular-model sf:name="Rivers"><sf:grid sf:numcols="2"><sf:datasource>'
        '<sf:t sf:ct="0"><sf:ct sfa:s="City"/></sf:t><sf:t><sf:ct sfa:s="Length"/></sf:t>'
        '<sf:pm sf:ct="255"><sf:menu-choices><sf:t sfa:ID="a"><sf:ct sfa:s="Po"/></sf:t>'
        '<sf:t sfa:ID="b"><sf:ct sfa:s="Seine"/></sf:t></sf:menu-choices><sf:proxied-cell-ref sfa:IDREF="b"/></sf:pm>'
        '<sf:f><sf:fo sf:fs="=A1"/><sf:r><sf:rn sf:v="-872.39999999999998"/></sf:r></sf:f>'
        '<sf:d sf:ct="255" sf:cell-date="86400"/><sf:n sf:v="5"/></sf:datasource></sf:grid></sf:tabular-model>'
    )

    def test_a_text_with_its_notes_and_tables(self):
        notes = f"<sf:footnotes>{storage('footnote', 'See the manual.')}</sf:footnotes>"
        index = (
            f"<sl:document {SF} xmlns:sl='sl'>"
            f"<sl:section-prototypes>{storage('body', 'unseen')}</sl:section-prototypes>"
            f"<sf:annotation>{storage('comment', 'Too thick?')}</sf:annotation>"
            f"<sl:drawables>{storage('textbox', 'A box')}</sl:drawables>"
            + storage("body", "The <sf:span>pump</sf:span><sf:br/>opens", more=notes + self.GRID)
            + "</sl:document>"
        )
        found = read(zip_of({"index.xml": index, "buildVersionHistory.plist": "<plist/>"}), "a.pages")
        assert found.text.split("\n\n") == [
            *("The pump\nopens", "A box", "Rivers"),
            *("City: Seine; Length: -872.4", "City: 2001-01-02; Length: 5"),
            *("Footnote: See the manual.", "Comment: Too thick?"),
        ]

    def test_a_presentation(self):
        index = (
            f"<key:presentation {SF} xmlns:key='key'><key:theme-list>{storage('textbox', 'unseen')}</key:theme-list>"
            f"<key:slide>{storage('textbox', 'First')}</key:slide></key:presentation>"
        )
        assert read(zip_of({"index.apxl": index, "buildVersionHistory.plist": "<plist/>"}), "a.key").text == "First"


def test_a_private_key_is_a_text():
    assert "PRIVATE KEY" in read(b"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", "a.key").text
