"""Chunks that keep to headings, pages, rows and tables: nothing is lost, and what belongs together stays together."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_files import CSV, pdf, presentation, word_file
from test_splitter import TEXTS, WordCounter, assert_holds, document, prose

from app.types.documents import ChunkKind, Collection
from app.types.texts import ROW, ExtractedText, Mark, Span
from ingest.chunk_kinds import kind_of
from ingest.readers.document import read_document
from ingest.splitter import TokenSplitter
from ingest.splitters import splitter_of
from ingest.structure import StructureSplitter


def split(data: bytes | str, uri: str = "a.txt", *, max_tokens: int = 200) -> list[Span]:
    found = read_document(data.encode() if isinstance(data, str) else data, uri=uri)
    return StructureSplitter(WordCounter(), max_tokens=max_tokens, overlap=max_tokens // 6)(found)


def texts(spans: list[Span]) -> list[str]:
    return [span.text for span in spans]


@st.composite
def structured(draw: st.DrawFn) -> ExtractedText:
    """Any text with marks and pages anywhere, or lines of numbers."""
    parts = draw(
        st.lists(
            st.tuples(TEXTS | st.just("1.5 2.5 3.5\n" * 4), st.booleans(), st.none() | st.integers(0, 6)), max_size=8
        )
    )
    text, pages, marks = "", [], []
    for part, begins_page, level in parts:
        if begins_page:
            pages.append(len(text))
        if level is not None and part:
            marks.append(Mark(len(text), len(text) + len(part), level))
        text += part
    return ExtractedText(text, "", "", page_starts=pages, marks=marks)


@given(found=structured(), max_tokens=st.integers(8, 60), share=st.floats(0, 0.5))
@settings(deadline=None)
def test_chunks_cover_any_text_within_the_limit(found, max_tokens, share):
    splitter = StructureSplitter(WordCounter(), max_tokens=max_tokens, overlap=int(share * max_tokens))
    spans = splitter(found)
    assert_holds(found.text, spans, WordCounter(), max_tokens=max_tokens)
    for span in spans:
        assert span.page == (
            sum(start <= span.start for start in found.page_starts) or 1 if found.page_starts else None
        )
        rows = [mark for mark in found.marks if mark.level == ROW and found.text[mark.start : mark.end].strip()]
        assert sum(mark.start < span.end and span.start < mark.end for mark in rows) <= 1
    assert splitter(found) == spans


def test_a_short_document_is_tokenised_once() -> None:
    asked: list[str] = []

    class Counter(WordCounter):
        def token_offsets(self, text: str) -> list[tuple[int, int]]:
            asked.append(text)
            return super().token_offsets(text)

    text = "A note of two sentences. It is short."
    (span,) = StructureSplitter(Counter(), max_tokens=60, overlap=0)(ExtractedText(text, "", ""))
    assert span.text == text
    assert asked == [text]


def test_a_collection_that_does_not_say_so_is_split_as_before():
    old = Collection("c", "f", 3, "", 0, 24, 4, "c--1")
    found = read_document("\n\n".join(f"## Part {n}\n\nShort." for n in range(5)).encode(), uri="a.md")
    before = splitter_of(old, WordCounter())(found)
    assert before == TokenSplitter(WordCounter(), max_tokens=24, overlap=4)(replace(found, marks=()))
    assert splitter_of(replace(old, chunk_structure=True), WordCounter())(found) != before


@pytest.mark.parametrize(
    "text",
    ["x" * 300_000, "word " * 60_000, "." * 300_000, "1" + "," * 300_000 + "a", " " * 300_000 + "b", "(" * 300_000],
    ids=["one word", "words", "signs", "number", "gap", "brackets"],
)
def test_huge_lines_headings_and_pages_take_linear_time(text):
    marks = [Mark(0, len(text), 1), *(Mark(at, at + 1, at % 2) for at in range(len(text), len(text) + 40_000, 2))]
    found = ExtractedText(text + "\n" * 40_001, "", "", page_starts=range(0, len(text), 1000), marks=marks)
    spans = StructureSplitter(WordCounter())(found)
    assert_holds(found.text, spans, WordCounter(), max_tokens=200)


def test_a_section_begins_with_its_heading_and_holds_no_other_one():
    text = "\n\n".join(f"## Part {n}\n\nSome eight words stand in this short section." for n in range(6))
    spans = split(text, "a.md")
    assert texts(spans) == [f"## Part {n}\n\nSome eight words stand in this short section." for n in range(6)]


def test_headings_without_text_stay_with_what_follows():
    spans = split("# Book\n\n## Part\n\n### Chapter\n\nSome eight words stand in this short section.\n\n# End", "a.md")
    assert texts(spans)[0].startswith("# Book\n\n## Part\n\n### Chapter\n\nSome")
    assert texts(spans)[1] == "# End"


def test_scraps_go_with_the_next_section():
    assert len(split("# A\n\nTiny.\n\n# B\n\nSome eight words stand in this short section.", "a.md")) == 1


def test_rows_are_passages_with_their_header():
    assert texts(split(CSV, "a.csv")) == [
        "City: Paris; Country: France; Note: On the Seine.",
        "City: Köln; Country: Germany; Note: On the Rhine and old.",
    ]
    table = [["City", "Country"], *([f"city{n}", f"land{n}"] for n in range(5))]
    spans = texts(split(word_file(table=table), "a.docx"))
    assert spans[0].endswith("Of cities\n\nCity: city0; Country: land0")
    rows = [f"City: city{n}; Country: land{n}" for n in range(1, 5)]
    assert spans[1:] == [*rows, "After the table."]


def test_a_row_longer_than_a_chunk_is_split_and_a_shorter_one_is_not():
    names = [f"column{n}" for n in range(30)]
    rows = [",".join(names), ",".join(f"value{n}" for n in range(30)), "x" + "," * 29]
    assert len(split("\n".join(rows), "a.csv")) == 2
    spans = split("\n".join(rows), "a.csv", max_tokens=80)
    assert len(spans) == 3
    assert all(span.text.startswith("column0: ") for span in spans)


PAGES = [
    "Bread\nFlour, water and salt are mixed and rest for a night before they are baked.",
    "Glass\nSand is melted with soda and lime, and is blown while it is hot.",
    "Paper\nFibres of wood are boiled, pressed and dried until a sheet remains.",
    "Ink\nSoot and gum are rubbed with water for a long time.",
    "Soap\nFat is boiled with lye and becomes hard in its mould.",
    "Salt\nSea water dries in flat ponds, and what is left is raked together.",
]


def test_pages_of_one_topic_are_passages_of_their_own():
    spans = split(pdf(*PAGES), "a.pdf")
    assert [span.page for span in spans] == [1, 2, 3, 4, 5, 6]
    assert [span.text.split()[0] for span in spans] == ["Bread", "Glass", "Paper", "Ink", "Soap", "Salt"]


def test_slides_are_passages_of_their_own_with_and_without_sentences():
    bullets = [f"Topic {n}\nfirst point of {n}\nsecond and last point of {n}" for n in "ABCD"]
    assert [span.page for span in split(pdf(*bullets), "a.pdf")] == [1, 2, 3, 4]
    slides = [(f"Topic {n}", "first of the points\nsecond of the points") for n in range(4)]
    assert [span.page for span in split(presentation(*slides), "a.pptx")] == [1, 2, 3, 4]


def test_a_sentence_that_goes_on_with_the_next_page_is_not_cut_there():
    line = "This is one of the lines of a paragraph that fills the whole width of its page and goes"
    pages = ["\n".join([line] * 3), "on to the next page, where it ends. Another sentence follows it here."]
    (span,) = split(pdf(*pages), "a.pdf")
    assert (span.page, span.text.endswith("follows it here.")) == (1, True)


def test_page_numbers_and_running_titles_end_no_sentence_and_begin_none():
    body = ["The first page of this text goes on and", "on to this one, which goes on and", "on until it ends."]
    pages = [f"Annual report\n{text}\n{number}" for number, text in enumerate(body, start=1)]
    assert len(split(pdf(*pages), "a.pdf")) == 1
    ended = [f"Annual report\nThis page has a sentence of ten or more words in it.\n{number}" for number in range(3)]
    assert len(split(pdf(*ended), "a.pdf")) == 3


def test_passages_begin_and_end_with_sentences():
    long_sentence = "Long " + "word " * 36 + "end."
    text = " ".join(["Ten words stand here in a row without a stop.", long_sentence] * 6)
    spans = StructureSplitter(WordCounter(), max_tokens=60, overlap=12)(document(text))
    assert len(spans) > 3
    assert all(span.text[0].isupper() and span.text.endswith(".") for span in spans)
    for seed in range(3):
        for span in StructureSplitter(WordCounter())(document(prose(paragraphs=40, seed=seed))):
            assert span.text[0].isupper()
            assert span.text.endswith(".")


def test_sentences_are_repeated_whole_or_not_at_all():
    text = " ".join(f"Sentence {number} has its words." for number in range(100))
    spans = StructureSplitter(WordCounter(), max_tokens=40, overlap=15)(document(text))
    assert all(text[after.start : before.end].startswith("Sentence") for before, after in pairwise(spans))


SCORES = "Model A 67.83 62.97 55.10\nModel B 66.32 47.05 54.28\nModel C 68.32 56.62 49.50\nMean 67.49 55.55 52.96"
REFERENCES = (
    "[1] T. Mikolov, K. Chen and G. Corrado. Efficient estimation of word representations in vector space. "
    "arXiv:1301.3781, 2013.\n[2] Q. Le and T. Mikolov. Distributed representations of sentences. In Proc. ICML, 2014.\n"
    "[3] Devlin, J., Chang, M. BERT: Pre-training of deep transformers. In Proceedings of NAACL, pp. 4171-4186, 2019."
)
PROSE = [
    "GIRCSE reaches 67.83 on MTEB and 62.97 on instruction following, the best of all that were trained on as little.",
    "Early studies leveraged models such as BERT (Devlin et al., 2019) and T5 (Raffel et al., 2020). These approaches "
    "were extended by Wang et al. (2024) and by many others (Muennighoff et al., 2023; Lewis et al., 2020).",
    "In 1815 Ada Lovelace was born; in 1843 she published her notes, and in 1852 she died.",
    "1. Mix 500 g of flour with 350 ml of water. 2. Let it rest for 30 minutes. 3. Bake it at 230 degrees.",
    "City: Paris; Country: France; Population: 2100000; Founded: 250",
]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ChunkKind.TABLE, SCORES),
        (ChunkKind.TABLE, "| a | 1 | 2.5 |\n| b | 3 | 4.5 |\n| c | 5 | 6.5 |"),
        (ChunkKind.REFERENCES, REFERENCES),
        *((ChunkKind.PROSE, text) for text in PROSE),
    ],
)
def test_kinds_are_told_by_their_form(kind, text):
    assert kind_of(text) is kind


def test_tables_and_references_within_a_text_are_passages_of_their_own():
    text = f"{PROSE[0]}\n\n{SCORES}\n\n{PROSE[1]}\n\nReferences\n\n{REFERENCES}\n\nAppendix A More\n\n{PROSE[2]}"
    spans = split(text)
    assert [span.kind.value for span in spans] == ["prose", "table", "prose", "references", "prose"]
    assert spans[1].text == SCORES
    assert spans[3].text.startswith("References\n\n[1]")


def test_what_stands_under_references_need_say_less():
    entry = "Tom Brown and Benjamin Mann. 2020. Language models are few shot learners. Advances in research."
    assert kind_of(f"{entry} " * 2, is_under_references=True) is ChunkKind.REFERENCES
    assert [
        span.kind for span in split(f"# References\n\n{entry}\n\n# Notes\n\n{entry.replace('2020', 'Now')}", "a.md")
    ] == [
        ChunkKind.REFERENCES,
        ChunkKind.PROSE,
    ]
