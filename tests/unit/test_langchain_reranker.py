"""GircseReranker as LangChain uses it, and the arithmetic behind it beside that of searches."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever

from app.search import gircse_reranker as search_reranker
from app.search import value_syntax
from app.search.text_reranking import rerank_texts
from app.search.value_syntax import parse_values
from app.wiring.embedding import LocalEmbedder
from embedder import DEFAULT_MODEL, GircseEmbeddings, GircseReranker, TextError
from embedder.text.relevance import (
    INSTRUCTED_TEMPERATURE,
    MAX_PHRASES,
    MAX_VALUES,
    MENTION,
    MIN_VALUES,
    MOST_ALIKE,
    SENTENCE_TEMPERATURE,
    TEMPERATURE,
    VALUE_WEIGHT,
    Parts,
    ValuePhrases,
)
from embedder.text.relevance import value_similarities as similarities
from embedder.text.sentences import sentences_to_read

TEXTS = ("The band played rock songs.", "The striker scored a goal.", "", "A concert of old music.", "   ")
ROOT = Path(__file__).parents[2]


class Fixed(BaseRetriever):
    """Finds the same documents for every query."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return documents()


def documents() -> list[Document]:
    return [Document(id=str(at), page_content=text, metadata={"at": at}) for at, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def embeddings() -> GircseEmbeddings:
    return GircseEmbeddings(dtype="float32", query_instruction="Identify the topic of the text.")


def test_documents_come_best_first_with_their_scores(embeddings: GircseEmbeddings) -> None:
    reranker = GircseReranker(embeddings=embeddings)
    assert isinstance(reranker, BaseDocumentCompressor)
    found = reranker.compress_documents(documents(), "a singer on tour")
    assert [each.metadata["at"] for each in found][-1] == 1
    assert {each.metadata["at"] for each in found} == {0, 1, 3}  # what is empty is left out
    scores = [each.metadata["relevance_score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    assert [each.id for each in found] == [str(each.metadata["at"]) for each in found]
    assert "relevance_score" not in documents()[0].metadata


def test_scores_are_cosines_with_the_instruction_on_both_sides(embeddings: GircseEmbeddings) -> None:
    (found,) = GircseReranker(embeddings=embeddings, instruction="Which sport?", steps=2).compress_documents(
        [Document("The striker scored.")], "a goal"
    )
    both = GircseEmbeddings(
        dtype="float32",
        query_instruction="Which sport?",
        document_instruction="Which sport?",
        query_steps=2,
        document_steps=2,
    )
    expected = np.dot(both.embed_query("a goal"), both.embed_documents(["The striker scored."])[0])
    assert found.metadata["relevance_score"] == pytest.approx(expected, abs=1e-5)


async def test_async_and_in_a_chain_it_gives_the_same(embeddings: GircseEmbeddings) -> None:
    reranker = GircseReranker(embeddings=embeddings, top_n=1)
    best = list(reranker.compress_documents(documents(), "a goal"))
    assert [each.metadata["at"] for each in best] == [1]
    assert list(await reranker.acompress_documents(documents(), "a goal")) == best
    chain = ContextualCompressionRetriever(base_compressor=reranker, base_retriever=Fixed())
    assert chain.invoke("a goal") == best
    assert await chain.ainvoke("a goal") == best


def test_values_rank_documents(embeddings: GircseEmbeddings) -> None:
    texts = [Document("Paris has a new museum."), Document("Tokyo has a new airport.")]
    reranker = GircseReranker(embeddings=embeddings, instruction="", values=["France = Paris", "Japan = Tokyo"])
    best = reranker.compress_documents(texts, "An airport was opened in Lyon, France.")[0]
    assert best.page_content.startswith("Paris")
    with pytest.raises(TextError, match="2 to 200"):
        GircseReranker(embeddings=embeddings, values=["one"]).compress_documents(texts, "x")


def test_nothing_gives_nothing_and_no_query_is_refused(embeddings: GircseEmbeddings) -> None:
    reranker = GircseReranker(embeddings=embeddings)
    assert list(reranker.compress_documents([], "x")) == []
    assert list(reranker.compress_documents([Document(" ")], "x")) == []
    with pytest.raises(ValueError, match="empty"):
        reranker.compress_documents(documents(), " ")
    with pytest.raises(ValueError, match="top"):
        GircseReranker(embeddings=embeddings, top=3)


def test_values_are_read_as_in_searches() -> None:
    written = ["pleased  = happy, delighted, happy", "angry", "calm ="]
    values = value_syntax.parse_values(written)
    read = ValuePhrases.parse(written)
    assert read.phrases == tuple(phrase for value in values for phrase in value.phrases)
    assert read.owners == tuple(at for at, value in enumerate(values) for _ in value.phrases)
    rng = np.random.default_rng(1)
    texts, phrases = rng.normal(size=(6, 16)), rng.normal(size=(len(read.phrases), 16))
    said = rng.random((6, len(read.phrases))) < 0.3
    cosines = texts @ phrases.T + MENTION * said
    best = np.stack([cosines[:, np.array(read.owners) == at].max(axis=1) for at in range(3)], axis=1)
    p = np.exp(best / TEMPERATURE) / np.exp(best / TEMPERATURE).sum(axis=1, keepdims=True)
    expected = p[1:] @ p[0] / (np.linalg.norm(p[1:], axis=1) * np.linalg.norm(p[0]))
    np.testing.assert_allclose(similarities(texts, phrases, read.owners, said), expected, atol=1e-9)
    assert (TEMPERATURE, MENTION) == (0.07, 0.15)
    assert (MIN_VALUES, MAX_VALUES, MAX_PHRASES) == (
        value_syntax.MIN_VALUES,
        value_syntax.MAX_VALUES,
        value_syntax.MAX_PHRASES,
    )
    for wrong in (["a"], ["a", " = b"], ["a"] * 201, [f"v{at} = {', '.join(map(str, range(9)))}" for at in range(150)]):
        with pytest.raises(TextError):
            ValuePhrases.parse(wrong)


def scores_of_both(
    embeddings: GircseEmbeddings, texts: list[str], instruction: str, values: list[str]
) -> tuple[list[float], list[float]]:
    """Of all texts for the first one: by the compressor of LangChain, and by the application."""
    found = GircseReranker(embeddings=embeddings, instruction=instruction, values=values).compress_documents(
        [Document(each) for each in texts[1:]], texts[0]
    )
    scores = {each.page_content: each.metadata["relevance_score"] for each in found}
    with closing(LocalEmbedder(DEFAULT_MODEL, dtype="float32")) as embedder:
        reranker = search_reranker.EmbedderReranker(embedder)
        answer = rerank_texts(
            embedder, reranker, texts[0], texts[1:], instruction=instruction, values=parse_values(values)
        )
    return [scores[each] for each in texts[1:]], answer


@pytest.mark.parametrize("instruction", ["", "Identify the country."])
def test_values_are_read_in_the_plain_space_and_under_the_instruction(
    embeddings: GircseEmbeddings, instruction: str
) -> None:
    encoder = embeddings._encoder
    texts = ["An airport in Lyon.", "Paris has a new museum.", "Tokyo has a new airport.", "A bridge in Nice, France."]
    written = ["France = Paris", "Japan = Tokyo", "Chad"]
    values = ValuePhrases.parse(written)
    seen, names = (
        encoder.encode_documents(list(each), instruction=instruction, steps=1) for each in (texts, values.phrases)
    )
    plain, own = (encoder.encode_documents(list(each), instruction="", steps=0) for each in (texts, values.phrases))
    said = np.zeros((4, 5), dtype=bool)
    said[[1, 2, 3], [1, 3, 0]] = True
    alike = [similarities(plain, own, values.owners, said)]
    if instruction:
        alike += [similarities(seen, names, values.owners, temperature=INSTRUCTED_TEMPERATURE)]
    expected = (1 - VALUE_WEIGHT) * seen[1:] @ seen[0] + VALUE_WEIGHT * np.mean(alike, axis=0)
    for scores in scores_of_both(embeddings, texts, instruction, written):
        assert scores == pytest.approx(expected.tolist(), abs=1e-5)


def test_values_are_read_sentence_by_sentence_where_a_text_says_unrelated_things(embeddings: GircseEmbeddings) -> None:
    """The expected scores by their formula, for the compressor of LangChain and for that of the application."""
    encoder, instruction, written = embeddings._encoder, "Identify the country.", ["France = Paris", "Japan = Tokyo"]
    sentences = [
        ["The airport is in Lyon.", "Her cat sleeps on the sofa."],
        ["A song won the prize.", "Nice is in France."],
    ]
    related = "Tokyo has a new airport. The airport of Tokyo is far away."
    texts = [*map(" ".join, sentences), related, "Tokyo is large."]
    values, flat = ValuePhrases.parse(written), [*sentences[0], *sentences[1]]

    def embed(texts: list[str], instruction: str) -> np.ndarray:
        return encoder.encode_documents(texts, instruction=instruction, steps=1 if instruction else 0)

    alikeness = [embed(pair, "")[0] @ embed(pair, "")[1] for pair in (*sentences, sentences_to_read(related))]
    assert [each < MOST_ALIKE for each in alikeness] == [True, True, False]
    near = embed(flat, instruction) @ embed([instruction], "")[0] / SENTENCE_TEMPERATURE
    alike = []
    for under, sharpness, mention in (("", TEMPERATURE, MENTION), (instruction, INSTRUCTED_TEMPERATURE, 0.0)):
        of_phrases = embed(list(values.phrases), under)
        said = np.array([[phrase in text for phrase in values.phrases] for text in (*texts, *flat)])
        cosines = embed([*texts, *flat], under) @ of_phrases.T + mention * said
        best = np.stack([cosines[:, np.array(values.owners) == at].max(axis=1) for at in range(2)], axis=1)
        read = best[: len(texts)].astype(float)
        for at in range(2):
            own = slice(2 * at, 2 * at + 2)
            weights = np.exp(near[own]) / np.exp(near[own]).sum()
            mixed = SENTENCE_TEMPERATURE * np.log(weights @ np.exp(best[len(texts) :][own] / SENTENCE_TEMPERATURE))
            read[at] = read[at] / 3 + 2 * mixed / 3
        p = np.exp(read / sharpness)
        p /= np.linalg.norm(p, axis=1, keepdims=True)
        alike.append(p[1:] @ p[0])
    seen = embed(texts, instruction)
    expected = (1 - VALUE_WEIGHT) * seen[1:] @ seen[0] + VALUE_WEIGHT * np.mean(alike, axis=0)
    for scores in scores_of_both(embeddings, texts, instruction, written):
        assert scores == pytest.approx(expected.tolist(), abs=1e-4)


def test_sentences_of_parts_that_are_kept() -> None:
    parts = Parts.of(["One thing only.", "It rains today. It rains again.", "A cat sleeps here. The bank is shut."])
    assert parts.owners == (1, 1, 2, 2)
    asked = parts.to_embed(["a value"], "the instruction")
    assert asked[-2:] == ("a value", "the instruction")
    vectors = np.zeros((len(asked), 4))
    vectors[[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 0, 1, 1, 1, 2, 3, 3]] = 1
    kept, left = parts.unrelated(vectors)
    assert kept.texts == (*parts.texts[:3], *parts.texts[5:])
    assert kept.owners == (2, 2)
    np.testing.assert_array_equal(left, vectors[[0, 1, 2, 5, 6, 7, 8]])
    vectors[6] = vectors[5]
    kept, left = parts.unrelated(vectors)
    assert (kept.texts, kept.owners) == (parts.texts[:3], ())
    np.testing.assert_array_equal(left, vectors[[0, 1, 2, 7]])  # nor is the instruction's any longer


def test_importing_the_embedder_brings_no_reranker() -> None:
    code = "import embedder, sys; sys.exit('embedder.integrations.reranker' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
