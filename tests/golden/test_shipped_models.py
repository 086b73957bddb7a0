"""What the shipped models with soft tokens promise: similarity at every step, and words that follow the instruction."""

import json
import re
from collections import Counter
from itertools import permutations
from math import prod
from pathlib import Path

import numpy as np
import pytest

from app.search.soft_tokens import is_stop_word
from embedder import load_encoder
from embedder.checkpoint import find_checkpoint, load_model_tokenizer
from embedder.errors import TextError
from embedder.evaluation.data import read_rows
from embedder.evaluation.measures import sts_scores

FIXTURES = Path(__file__).parent.parent / "fixtures"
SAMPLE = Path(__file__).parents[2] / "sample" / "library.jsonl"
WHOLE_WORDS = {"red", "depend"}  # although the sample library has only longer ones with them
SENTENCE = "Why is it so hard to track down this card?"  # the paper's Table 4
INSTRUCTIONS = {"intent": "Represent the intention of this text.", "emotion": "Represent the emotion of this text."}

pytestmark = pytest.mark.xdist_group("other libraries")  # test_other_libraries has imported them


@pytest.fixture(scope="module", params=["gircse-small", "gircse-mini"])
def encoder(request):
    return load_encoder(request.param, device="cpu")


def test_after_0_steps_a_vector_is_that_of_sentence_transformers(encoder):
    """Of the base model, whatever the length: without an instruction retrieval is never worse than with it."""
    from sentence_transformers import SentenceTransformer  # takes seconds, and every process collects this file

    base = SentenceTransformer(str(find_checkpoint(encoder.name).base), device="cpu")
    texts = [SENTENCE, "7", "Straße, naïve — 北京 🚢", "A long one. " * 90]
    assert base.max_seq_length == encoder.contract.max_length
    expected = base.encode(texts, normalize_embeddings=True)
    assert np.abs(encoder.encode_documents(texts, steps=0) - expected).max() < 1e-5
    assert np.abs(encoder.encode_queries(texts, instruction="", steps=0) - expected).max() < 1e-5
    assert np.array_equal(encoder.encode_documents(texts), encoder.encode_documents(texts, steps=0))  # the default


def test_the_base_model_follows_no_instruction(encoder):
    with pytest.raises(TextError, match="follows no instruction"):
        encoder.encode_queries([SENTENCE], instruction=INSTRUCTIONS["intent"], steps=0)
    assert encoder.refine(SENTENCE, steps=0).step_count == 0


@pytest.mark.parametrize(("every", "least"), [(3, 81.0), pytest.param(1, 80.0, marks=pytest.mark.long)])
def test_similarity_holds_at_every_step_count(encoder, every, least):
    """Every fourth pair of the STS benchmark's test split (CC BY-SA 4.0), or a third of these."""
    scores = sts_scores(encoder, read_rows(FIXTURES / "sts_sample.jsonl")[::every], (1, 5, 20))
    assert min(scores.values()) >= least, scores


def word_weights(encoder, text, instruction):
    """word -> its probabilities at all steps, added."""
    weights = Counter()
    for step in encoder.refine(text, instruction=instruction).steps:
        for token in step.tokens:
            weights[token.token] += token.probability
    return weights


def top_words(weights, count=10):
    return [word for word, _ in weights.most_common() if not is_stop_word(word)][:count]


def test_words_of_the_papers_sentence_follow_the_instruction():
    encoder = load_encoder("gircse-mini", device="cpu")
    expected = json.loads((FIXTURES / "card_words.json").read_text(encoding="utf-8"))
    words = {
        view: top_words(word_weights(encoder, SENTENCE, instruction)) for view, instruction in INSTRUCTIONS.items()
    }
    assert len(set(words["intent"]) & set(words["emotion"])) <= 5, words
    for view, found in words.items():
        assert len(set(found) & set(expected[view])) >= 2, words


ASKED = {
    "We waited nine hours at the gate for our plane, it is an outrage.": {
        "What does the writer feel?": {"anger", "angry", "outrage", "outraged", "fear", "disgust"},
        "Which means of transport is it about?": {"plane", "flight", "airline", "gate", "airport", "aircraft"},
    },
    "In July the lake near our village dries up.": {
        "Which season is it about?": {"summer", "july", "spring", "season"},
        "What kind of landscape is described?": {"lake", "water", "dry", "desert", "drought"},
    },
}


@pytest.mark.parametrize("text", ASKED)
def test_first_words_of_the_default_are_what_was_asked_for_in_words_of_ones_own(text):
    encoder = load_encoder("gircse-small", device="cpu")
    weights = {instruction: word_weights(encoder, text, instruction) for instruction in ASKED[text]}
    found = {instruction: top_words(each, 4) for instruction, each in weights.items()}
    for instruction, expected in ASKED[text].items():
        assert set(found[instruction]) & expected, found
    gains = {}  # of the words asked for, over their weight under the other question
    for (instruction, own), (_, elsewhere) in permutations(weights.items()):
        asked = [sum(each[word] for word in ASKED[text][instruction]) for each in (own, elsewhere)]
        gains[instruction] = asked[0] / max(asked[1], 1e-4)
    assert prod(gains.values()) > 4, gains


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_no_word_that_is_shown_for_a_query_is_a_piece_of_one(encoder, count):
    """Judged by the texts of the sample library, which nobody has looked at for the list of fragments: what is shown
    does not begin other words of theirs ten times as often as it stands alone."""
    texts = [row["text"] for row in read_rows(SAMPLE)]
    queries = [sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text)[:4] if len(sentence) > 20]
    queries = [query[:120] for query in queries][:: 1000 // count][:count]
    assert len(queries) == count
    shown = set()
    for at in range(0, len(queries), 50):
        recorder = encoder.token_recorder(30)
        prompts = [each.ids for each in encoder.read_prompts(queries[at : at + 50], "")]
        encoder.refine_prompts(prompts, steps=5, on_step=recorder)
        rows = (encoder.words_of(recorder, row) for row in range(len(prompts)))
        shown |= {token.token for steps in rows for step in steps for token in step.tokens}

    vocabulary = load_model_tokenizer(encoder.name)
    assert len(shown) > count
    assert {"military", "government", "water"} <= shown
    assert not shown & {"em", "eva", "imp", "fe", "po", "ar", "bio", "micro", "inter", "thor", "mal", "der"}
    assert all(len(vocabulary.encode(word, add_special_tokens=False).ids) == 1 for word in shown)
    words = Counter(word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower()))
    begun = Counter()
    for word, encoding in zip(words, vocabulary.encode_batch(list(words), add_special_tokens=False), strict=True):
        if len(encoding.tokens) > 1:
            begun[encoding.tokens[0]] += words[word]
    assert {word for word in shown if begun[word] >= 5 and begun[word] > 10 * words[word]} <= WHOLE_WORDS
