"""What a query is found to negate, and what is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.search.negation import MAX_NEGATED, MAX_READ_CHARACTERS, Negation, find_negation


@pytest.mark.parametrize(
    ("query", "text", "phrases"),
    [
        ("jazz, not about New York", "jazz", ["New York"]),
        ("Jazz not about the New York scene.", "Jazz.", ["New York scene"]),
        ("films that are not about war", "films", ["war"]),
        ("news that's not about war", "news", ["war"]),
        ("books about love (not about marriage)", "books about love", ["marriage"]),
        ("economy – but not about oil or gas", "economy", ["oil", "gas"]),
        ("earthquakes, not about Italy, in the 1950s", "earthquakes, in the 1950s", ["Italy"]),
        ("history not about the war but about culture", "history about culture", ["war"]),
        ('jazz, not about "New York or Paris"', "jazz", ["New York or Paris"]),
        ("laws not related to taxes?", "laws?", ["taxes"]),
        ("Which laws are there, not regarding taxes", "Which laws are there", ["taxes"]),
    ],
)
def test_what_is_negated_is_taken_out(query: str, text: str, phrases: list[str]) -> None:
    assert find_negation(query) == Negation(text, tuple(phrases))


@pytest.mark.parametrize("query", ["soups without meat", "countries except France", "prices, excluding taxes"])
def test_a_condition_is_only_offered(query: str) -> None:
    """“GCC without Xcode” is about Xcode, too."""
    found = find_negation(query)
    assert (len(found.phrases), found.is_clear) == (1, False)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "not about New York",  # nothing would be left
        "why do plants without light die",
        "How do I paste code without losing its indentation?",
        "pasting code without losing its indentation",
        "Doctors Without Borders",
        "it is not about the money",
        "It's not about the money",
        "I am not about to send it",
        "games, not about to end",
        "why is it not about money?",
        "whether or not about taxes",
        "music not only about love",
        "go out with people not related to me",
        '"not about love" lyrics',
        "“soups without meat” poem",
        "I wrote to you. They are thieves, not about my card",
        "jazz, not about one two three four five six",
        "jazz, not about " + "x" * MAX_READ_CHARACTERS,
        "Jazz\nnot about New York",
        "Jazz, nicht über New York",
        "jazz, pas sur New York",
        "沒有肉的湯",
        "супы без мяса",
    ],
)
def test_other_queries_are_left_alone(query: str) -> None:
    assert find_negation(query) == Negation(query)


@given(st.text(max_size=MAX_READ_CHARACTERS + 20))
def test_any_text_keeps_all_that_is_not_negated(query: str) -> None:
    found = find_negation(query)
    assert len(found.phrases) <= MAX_NEGATED
    assert all(phrase and phrase in query for phrase in found.phrases)
    assert bool(found.phrases) or found == Negation(query)


words = st.lists(st.from_regex(r"[a-zà-öα-ω一-龥]{1,9}", fullmatch=True), min_size=1, max_size=4).map(" ".join)


@given(words, st.sampled_from([", not about ", " but not about ", " which is not regarding "]), words)
def test_text_and_phrase_are_told_apart_whatever_they_are(topic: str, joint: str, phrase: str) -> None:
    found = find_negation(topic + joint + phrase)
    assert found.text in (topic, topic + joint + phrase)
    if found.phrases:
        assert found.text == topic
        assert all(each in phrase for each in found.phrases)


@given(st.text(alphabet=st.characters(exclude_characters="tTxX"), max_size=80))
def test_texts_without_the_english_words_are_left_alone(query: str) -> None:
    assert find_negation(query) == Negation(query)
