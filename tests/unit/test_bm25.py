"""Words of any text as sparse vectors."""

from __future__ import annotations

import unicodedata
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.search.bm25 import (
    AVERAGE_WORDS,
    K1,
    MAX_DOCUMENT_TERMS,
    MAX_QUERY_TERMS,
    MAX_WORD_CHARACTERS,
    B,
    SparseVector,
    document_vector,
    query_vector,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)
WORDS = st.lists(st.text("abcdefg", min_size=1, max_size=6), min_size=1, max_size=30)


def dot(query: SparseVector, document: SparseVector) -> float:
    weights = dict(zip(document.indices, document.values, strict=True))
    return sum(value * weights.get(index, 0) for index, value in zip(query.indices, query.values, strict=True))


def finds(query: str, document: str) -> bool:
    """With every term of the query."""
    terms = query_vector(query)
    return bool(terms) and set(terms.indices) <= set(document_vector(document).indices)


def ids(*terms: str) -> set[int]:
    return {zlib.crc32(term.encode()) for term in terms}


def test_the_ids_of_terms_never_change() -> None:
    """They are stored: a change of these rules must give the vector another name."""
    text = "The cafés of Łódź aren't OPEN: 東京, ١٢ foo_bar"
    expected = ["the", "cafe", "of", "lodz", "aren", "open", "東", "京", "東京", "12", "foo", "bar"]
    assert set(document_vector(text).indices) == ids(*expected)
    assert set(query_vector(text).indices) == ids(*expected) - ids("東", "京")
    assert 2451981039 in query_vector("東京").indices


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("cafe", "das CAFÉ"),
        ("CAFÉ", "a cafe"),
        ("café", unicodedata.normalize("NFD", "le café")),
        ("strasse", "Straße"),
        ("fiance", "ﬁancé"),
        ("oresund", "Øresund"),
        ("running", "they run"),
        ("johns", "John's"),
        ("John", "John’s book"),
        ("12", "１２"),
        ("12", "١٢"),
        ("כלב", "כֶּלֶב"),
        ("كتاب", "كِتَــاب"),
        ("東京", "私は東京に住む"),
        ("京", "私は東京に住む"),
        ("とうきょう", "とうきょうへ"),
        ("バス", "ﾊﾞｽ停"),
        ("한국", "한국어"),
        ("집", "우리 집에서"),
        ("ไทย", "ประเทศไทย"),
        ("हिन्दी", "हिन्दी में"),
        ("iphone15", "新しいiPhone15を買う"),
        ("password", "pass\u200bword"),
        ("password", "pass\u00adword"),
        ("password", "pass\u202eword"),
        ("password", "pass\x00word"),
        ("password", "päss\x00word"),
        ("bar", "foo_bar"),
    ],
)
def test_a_word_is_found_however_it_is_written(query: str, document: str) -> None:
    assert finds(query, document)


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("cat", "concatenate"),
        ("か", "が"),
        ("हिन्दू", "हिन्दी"),
        ("京東", "東京"),
        ("word", "pass\x00word"),
        ("ab", "a b"),
    ],
)
def test_another_word_is_not_found(query: str, document: str) -> None:
    assert not finds(query, document)


@pytest.mark.parametrize("text", ["", "   ", "?!… — \U0001f600", "\u200b\u200e", "\ud800", "'s"])
def test_a_text_may_have_no_words(text: str) -> None:
    if text != "'s":
        assert not document_vector(text)
        assert not query_vector(text)
    else:
        assert finds("s", text)  # nothing is contracted


def test_the_weight_of_a_word_is_its_share_of_bm25() -> None:
    text = "red " * 3 + "boat sea"
    norm = K1 * (1 - B + B * 5 / AVERAGE_WORDS)
    assert dot(query_vector("red"), document_vector(text)) == pytest.approx(3 * (K1 + 1) / (3 + norm), abs=1e-4)
    assert query_vector("red red boat").values == (1.0, 1.0)


def test_a_run_of_characters_is_as_long_as_its_pairs() -> None:
    norm = K1 * (1 - B + B * 3 / AVERAGE_WORDS)
    assert dot(query_vector("東京"), document_vector("東京都庁")) == pytest.approx((K1 + 1) / (1 + norm), abs=1e-4)


def test_a_word_of_50_000_characters_is_one_bounded_term() -> None:
    for letter in "xé":
        vector = document_vector(letter * 50_000)
        assert len(vector.indices) == 1
        assert finds(letter * 50_000, letter * MAX_WORD_CHARACTERS)


def test_terms_are_bounded() -> None:
    text = " ".join(f"w{number}" for number in range(20_000))
    assert len(document_vector(text).indices) == MAX_DOCUMENT_TERMS
    assert len(query_vector(text).indices) == MAX_QUERY_TERMS
    assert len(query_vector("".join(map(chr, range(0x4E00, 0x9000)))).indices) == MAX_QUERY_TERMS
    assert all(value > 0 for value in document_vector("word " * 3 + "x " * 3_000_000).values)


@given(ANY_TEXT)
def test_any_text_becomes_a_proper_vector(text: str) -> None:
    for vector in (document_vector(text), query_vector(text)):
        assert list(vector.indices) == sorted(set(vector.indices))
        assert all(0 <= index < 2**32 for index in vector.indices)
        assert all(0 < value <= K1 + 1 for value in vector.values)
        assert len(vector.indices) == len(vector.values)


@given(ANY_TEXT)
def test_every_text_is_found_by_itself(text: str) -> None:
    assert set(query_vector(text).indices) <= set(document_vector(text).indices)


@given(ANY_TEXT)
def test_case_accents_and_form_make_no_difference(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert query_vector(unicodedata.normalize(form, text)) == query_vector(text)


@given(WORDS)
def test_a_text_in_ascii_is_read_as_in_any_other_company(words: list[str]) -> None:
    text = " ".join(words)
    assert set(query_vector(text + " é").indices) == set(query_vector(text).indices) | ids("e")


@given(WORDS)
def test_the_order_of_words_makes_no_difference(words: list[str]) -> None:
    assert document_vector(" ".join(words)) == document_vector(" ".join(reversed(words)))


@given(WORDS, st.text("abc", min_size=1, max_size=3))
def test_more_of_a_word_weighs_more_and_more_of_others_less(words: list[str], word: str) -> None:
    query, once = query_vector(word), " ".join([*words, word])
    assert dot(query, document_vector(f"{once} {word}")) > dot(query, document_vector(once))
    assert dot(query, document_vector(f"{once} zzz zzz")) < dot(query, document_vector(once))


def test_threads_get_the_same_vectors() -> None:
    texts = [" ".join(f"running{chr(97 + n % 26)}ing walked{m} nationally" for m in range(50)) for n in range(64)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(document_vector, texts)) == [document_vector(text) for text in texts]
