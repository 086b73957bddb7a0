"""Rich Text Format: what stands on its pages, in any encoding, and nothing else."""

from __future__ import annotations

import pytest
from compressed_rtf import compress
from hypothesis import given, settings
from hypothesis import strategies as st
from outlook_files import outlook_message

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.document import read_document
from ingest.readers.limits import ReadLimits
from ingest.readers.mapi import unpack_rich_text
from ingest.readers.rtf import read_rtf

HEAD = r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial Cyr;}{\f2\fcharset128 Mincho;}}"


def read(body: str, head: str = HEAD) -> ExtractedText:
    return read_document(f"{head}{body}}}".encode("latin-1"), uri="a.rtf")


def lines(body: str, head: str = HEAD) -> list[str]:
    return read(body, head).text.split("\n\n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"Caf\'e9 \u8364? 5\par Second {\b bold} line.\par", "Café € 5\n\nSecond bold line."),
        (r"\lquote a\rquote\ldblquote b\rdblquote \endash\emdash\bullet\~c\_d\-e\line f", "‘a’“b”–—• c-de\nf"),
        (r"\{\\\}", "{\\}"),
        ("Wo\nrd\r\nend\\\nnew", "Wordend\n\nnew"),
        (r"\f1 \'cc\'ee\'f1\'ea\'e2\'e0 \plain \'cc", "Москва Ì"),
        (r"{\f2 \'93\'fa\'96\'7b}\f2 \'8e\'a9 end", "日本自 end"),
        (r"\f2 \'83A", "ア"),  # the second byte of a letter is one of ASCII
        (r"\uc2\u26085\'93\'fa\u26412\'96\'7b\uc0\u33258 x", "日本自x"),
        (r"\uc1\u26085 ab", "日b"),
        (r"\u-10179?\u-8704? \u61623?", "\U0001f600 ·"),
        (r"\bin5 {}\}{seen", "seen"),
    ],
)
def test_letters(body: str, text: str) -> None:
    assert read(body).text == text


@pytest.mark.parametrize(
    ("head", "text"),
    [(r"{\rtf1\mac", "é"), (r"{\rtf1\pc", "Ä"), (r"{\rtf1\ansi\ansicpg1250", "Ž"), (r"{\rtf1\ansi\ansicpg99999", "Ž")],
)
def test_encoding_of_the_document(head: str, text: str) -> None:
    assert read(r" \'8e", head).text == text


def test_what_no_program_shows_is_not_read() -> None:
    unseen = (
        r"{\*\generator Writer;}{\info{\title Of cities}{\author Ada}{\author Bob}{\creatim\yr2024\mo5\dy1}"
        r"{\doccomm no}}{\pict\pngblip 89504e47}{\*\unknown{\deep no}}{\xe no}{\v hidden}{\deleted gone}"
        r"{\colortbl;\red0;}{\field{\*\fldinst HYPERLINK no}{\fldrslt a link}}{\*\bkmkstart no}"
        r"{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 202}}}}"
    )
    found = read(unseen)
    assert (found.text, found.title) == ("a link", "Of cities")
    assert found.metadata == {"author": "Ada", "created": "2024-05-01"}


def test_paragraphs_whose_end_was_deleted_are_one_with_the_next() -> None:
    assert lines(r"One {\deleted\par}two.{\deleted gone\par} Three.\par Four.") == ["One two. Three.", "Four."]
    assert lines(r"One\deleted\par\plain  two.\par Three.") == ["One two.", "Three."]


def test_a_title_in_unicode_is_taken_for_that_in_the_code_page() -> None:
    assert read(r"{\info{\upr{\title ???}{\*\ud{\title \u26085?\u26412?}}}}text").title == "日本"
    assert read(r"{\upr{no}{\*\ud{\u26085?}}} text").text == "日 text"


def test_a_group_gives_back_what_it_changed_of_a_paragraph() -> None:
    found = read(r"{\pard\outlinelevel0 Head\par}Text one\par Text two\par")
    assert [found.text[mark.start : mark.end] for mark in found.marks] == ["Head"]


def test_texts_of_several_runs_are_one() -> None:
    shape = r"{\shp{\*\shpinst{\sp{\sn wzDescription}{\sv Ein B\u228\'e4r}}}}"
    body = r"a{\*\atnauthor M\u252\'fcller}{\*\annotation hi}" + shape + r"\par"
    assert lines(body) == ["a", "Comment by Müller: hi", "Picture: Ein Bär"]
    assert read(r"{\info{\author \u-10179?\u-8704?x}}text").metadata["author"] == "\U0001f600x"


def test_a_picture_of_a_property_is_passed_over() -> None:
    line = "0123456789abcdef" * 8 + "\n"
    assert lines(r"a{\shp{\*\shpinst{\sp{\sn pib}{\sv {\pict\jpegblip " + line * 20_000 + r"}}}}}\par") == ["a"]


def test_encodings_without_a_font() -> None:
    assert read(r" M\'9fller", r"{\rtf1\mac\ansicpg10000").text == "Müller"
    head = r"{\rtf1\ansi\deff1{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial Cyr;}}"
    assert read(r" \'cf\'f0", head).text == "Пр"


def test_headings() -> None:
    styles = r"{\stylesheet{\s0 Normal;}{\s3\sbasedon0 heading 2;}{\cs5 heading 1;}{\s6 Title;}}"
    found = read(styles + r"\pard\s6 Cities\par\pard\s3 Of Italy\par\pard Rome\par\pard\outlinelevel2 Deeper\par")
    assert found.text.split("\n\n") == ["Cities", "Of Italy", "Rome", "Deeper"]
    assert [mark.level for mark in found.marks] == [1, 2, 3]
    assert found.title == "Cities"


def test_what_stands_beside_the_text() -> None:
    body = (
        r"{\headerl Head\par}{\headerr Head\par}{\footer Page {\field{\fldrslt 1}}\par}"
        r"One{\footnote First.}{\footnote\ftnalt Last.} two"
        r"{\*\atnauthor Ann}{\*\annotation{\*\atndate 1}Sure?} three.\par"
        r"{\shp{\*\shpinst{\sp{\sn wzDescription}{\sv A map}}{\shptxt In a box\par and more}}{\shprslt no}}Next\par"
        r"{\listtext 2.\tab}Item\par{\pntext\'B7\tab}Dot\par"
    )
    assert lines(body) == [
        *("Head", "One two three.", "Footnote: First.", "Endnote: Last.", "Comment by Ann: Sure?", "Next"),
        *("Picture: A map", "In a box", "and more", "2. Item", "Dot", "Page 1"),
    ]


class TestTables:
    @staticmethod
    def row(*cells: str, edges: tuple[int, ...] = (), merges: tuple[str, ...] = (), end: str = r"\row") -> str:
        edges = edges or tuple(1000 * (number + 1) for number in range(len(cells)))
        merges = merges or ("",) * len(cells)
        defined = "".join(f"{merge}\\cellx{edge}" for merge, edge in zip(merges, edges, strict=True))
        return rf"\trowd{defined}" + "".join(rf"\pard\intbl {cell}\cell" for cell in cells) + end + "\n"

    def test_rows_have_the_names_of_their_columns(self) -> None:
        body = "Before\\par" + self.row("Land", "Units") + self.row("Italy", r"5\par 6") + r"\pard After\par"
        assert lines(body) == ["Before", "Land: Italy; Units: 5 6", "After"]

    def test_cells_over_several_columns_and_rows(self) -> None:
        over = self.row("Region", "Land", "Units")
        first = self.row("East", "A", "1", merges=(r"\clvmgf", "", ""))
        second = self.row("", "B", "2", merges=(r"\clvmrg", "", ""))
        wide, merged = (
            self.row("All", "3", edges=(2000, 3000)),
            self.row("Both", "", "4", merges=(r"\clmgf", r"\clmrg", "")),
        )
        expected = ["Region: East; Land: A; Units: 1", "Region: East; Land: B; Units: 2", "Region: All; Units: 3"]
        assert lines(over + first + second + wide + merged) == [*expected, "Region: Both; Units: 4"]

    def test_definition_of_a_row_holds_until_the_next(self) -> None:
        again = r"\pard\intbl East\cell\pard\intbl A\cell\row"
        assert lines(self.row("Region", "Land") + again) == ["Region: East; Land: A"]

    def test_table_in_a_cell(self) -> None:
        end = r"{\*\nesttableprops\trowd\cellx500\cellx900\nestrow}{\nonesttables\par}"
        inner = rf"\pard\intbl\itap2 Land\nestcell Units\nestcell{end}\pard\intbl\itap2 Italy\nestcell 5\nestcell{end}"
        body = r"\trowd\cellx1000\cellx2000\pard\intbl East\cell" + inner + r"\pard\intbl end\cell\row\pard After\par"
        assert lines(self.row("Region", "Holds") + body) == ["Region: East; Holds: Land: Italy; Units: 5 end", "After"]

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (
                r"\trowd\cellx1000\intbl a\cell\row after\par more\par",
                ["a: after more"],
            ),  # the properties of a row hold until \pard
            (r"{\trowd\cellx1000\pard\intbl a\cell\row}after\par more\par", ["a", "after", "more"]),
            (r"intro\par\trowd\cellx1000\intbl a\cell a long text", ["intro", "a", "a long text"]),
            (r"\trowd\cellx900\pard\intbl\itap2 in\nestcell and more", ["in", "and more"]),
        ],
    )
    def test_what_nothing_ends_is_read_all_the_same(self, body: str, expected: list[str]) -> None:
        assert [line for block in lines(body) for line in block.split("\n")] == expected

    def test_file_cut_short(self) -> None:
        assert lines(self.row("Land", "Units") + self.row("Italy", "5", end="")) == ["Land: Italy; Units: 5"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "{",
                    "}",
                    "\\par ",
                    "\\cell",
                    "\\row",
                    "\\trowd",
                    "\\cellx900",
                    "\\intbl ",
                    "\\itap3",
                    "\\nestcell",
                    "\\nestrow",
                    "text",
                ),
                *(
                    "{\\footnote ",
                    "{\\*\\annotation ",
                    "{\\upr",
                    "{\\*\\ud",
                    "\\u-3?",
                    "\\uc9",
                    "\\bin3 ",
                    "\\'",
                    "\\",
                    "{\\*",
                    "{\\info{\\title ",
                ),
            ]
        ),
        max_size=40,
    )
)
def test_nothing_stops_the_reader(parts: list[str]) -> None:
    read_rtf(("{\\rtf1 " + "".join(parts)).encode(), ReadLimits())


def test_a_file_without_text_is_refused() -> None:
    with pytest.raises(DocumentError, match="empty"):
        read("")


class TestInMessages:
    TEXT = HEAD.encode() + rb"\pard Rome lies on the Tiber, and Rome lies in Italy. Caf\'e9\par}" * 3

    @pytest.mark.parametrize("packed", [compress(TEXT), compress(TEXT, compressed=False)], ids=["packed", "plain"])
    def test_text_of_a_message(self, packed: bytes) -> None:
        assert unpack_rich_text(packed) == self.TEXT
        found = read_document(outlook_message("Trip", rich_text=packed), uri="a.msg")
        assert "Rome lies on the Tiber, and Rome lies in Italy. Café" in found.text

    @given(st.binary(max_size=5_000))
    def test_every_text_comes_back(self, data: bytes) -> None:
        assert unpack_rich_text(compress(data)) == data

    @given(st.binary(max_size=200))
    def test_what_is_damaged_ends(self, data: bytes) -> None:
        assert len(unpack_rich_text(b"\0\0\0\0\xff\xff\0\0LZFu\0\0\0\0" + data)) <= 18 * len(data)

    @pytest.mark.parametrize("packed", [b"short", bytes(20)])
    def test_other_text_is_told(self, packed: bytes) -> None:
        with pytest.raises(ValueError, match=r"truncated|no known compression"):
            unpack_rich_text(packed)
        found = read_document(outlook_message("Trip", rich_text=packed), uri="a.msg")
        assert "damaged RTF" in str(found.metadata)


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (r"{\field{\*\fldinst MACROBUTTON  None [a name]}}", ["To [a name] now"]),
        (r"{\field{\*\fldinst { MACROBUTTON None \b [a} name]}{\fldrslt }}", ["To [a name] now"]),
        (r"{\field{\*\fldinst MACROBUTTON None no}{\fldrslt result}}", ["To result now"]),
        (r"{\field{\*\fldinst REF no}{\fldrslt }}", ["To  now"]),
        (r"{\field{\*\fldinst { EQ \\* jc3 \\o\\al(\\s\\up 11(above),base)}}{\fldrslt {}}}", ["To base now", "above"]),
    ],
)
def test_fields_without_results_show_what_their_instructions_say(field: str, shown: list[str]) -> None:
    found = read_document(rf"{{\rtf1\ansi To {field} now\par}}".encode(), uri="a.rtf")
    assert found.text.split("\n\n") == shown
