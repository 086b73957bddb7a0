"""Which sentence carries a match of words, by the words of the index's own BM25."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.search.highlights_bm25 import MAX_SENTENCES, highlight_by_bm25
from app.types.search import Hit, HitChunk, HitDocument, Leg, LegRank, SearchMode

CAT = "The cat sleeps on the sofa. It dreams of mice. The room is quiet."
RATES = "The bank raised interest rates. The savers of the town were glad."


def hit(text: str, number: int = 0, legs: tuple[LegRank, ...] = ()) -> Hit:
    return Hit(1, 3.0, HitDocument("d", "t", "u", {}), HitChunk(f"c{number}", text, 0, len(text), None), legs=legs)


def marked(*texts: str, query: str) -> list[str | None]:
    hits = [hit(text, number) for number, text in enumerate(texts)]
    found = highlight_by_bm25(hits, query, mode=SearchMode.SPARSE)
    return [each.chunk.text[each.why.start : each.why.end] if each.why else None for each in found]


def test_the_sentence_with_the_words_is_marked() -> None:
    assert marked(CAT, RATES, query="mice") == ["It dreams of mice.", None]


def test_a_rare_word_weighs_more_than_words_that_every_sentence_has() -> None:
    assert marked(CAT, RATES, query="the dreams of the town") == [
        "It dreams of mice.",
        "The savers of the town were glad.",
    ]


def test_inflected_words_and_accents_count() -> None:
    assert marked("Nothing here. A café was dreaming.", query="CAFE dreams") == ["A café was dreaming."]


def test_of_equals_the_first_is_marked() -> None:
    assert marked("A cat here. A cat here.", query="cat") == ["A cat here."]


def test_scripts_without_spaces_are_read() -> None:
    assert marked("今天下雨。猫在沙发上睡觉。", query="沙发") == ["猫在沙发上睡觉。"]


def test_a_sentence_is_worth_what_bm25_loses_without_it() -> None:
    hits = [hit("The cat.", 1), hit("The cat. The cat.", 2)]
    alone, beside = highlight_by_bm25(hits, "cat", mode=SearchMode.SPARSE)
    assert alone.why is not None
    assert beside.why is not None
    assert alone.why.score > beside.why.score > 0  # another sentence says the same


def test_a_chunk_of_too_many_sentences_stays_unmarked() -> None:
    assert marked("A cat. " * (MAX_SENTENCES + 1), query="cat") == [None]


def test_only_what_words_alone_found_is_explained_by_words() -> None:
    dense, sparse = LegRank(Leg.DENSE, 1, 0.5), LegRank(Leg.SPARSE, 1, 3.0)
    hits = [hit(CAT, 0, (dense, sparse)), hit(CAT, 1, (sparse,)), hit(CAT, 2, (dense,))]
    found = highlight_by_bm25(hits, "mice", mode=SearchMode.HYBRID)
    assert [each.why is not None for each in found] == [False, True, False]
    assert highlight_by_bm25(found, "sofa", mode=SearchMode.HYBRID) == found
    assert highlight_by_bm25([hit(CAT)], "mice", mode=SearchMode.DENSE) == (hit(CAT),)


@given(st.lists(st.text(max_size=60), max_size=4), st.text(max_size=30))
def test_any_text_is_marked_within_itself_or_not_at_all(texts: list[str], query: str) -> None:
    hits = [hit(text, number) for number, text in enumerate(texts)]
    for text, found in zip(texts, highlight_by_bm25(hits, query, mode=SearchMode.SPARSE), strict=True):
        assert found.chunk.text == text
        if found.why is not None:
            assert 0 <= found.why.start < found.why.end <= len(text)
            assert found.why.score > 0
