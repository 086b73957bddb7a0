"""GircseEmbeddings as LangChain sees it: their own suites, then what ours adds."""

import asyncio

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from tiny_models import save_tiny_model

from embedder import GircseEmbeddings


class TestUnitSuite(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return GircseEmbeddings

    @property
    def embedding_model_params(self) -> dict:
        return {"model": "gircse-small"}


class TestIntegrationSuite(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return GircseEmbeddings

    @property
    def embedding_model_params(self) -> dict:
        return {"model": "gircse-small", "query_steps": 3, "document_steps": 2}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return GircseEmbeddings(model=str(save_tiny_model(tmp_path_factory.mktemp("llama"), "llama")), query_steps=4)


def test_queries_and_documents_have_their_own_instruction_and_steps(tiny):
    text = "a text for both sides"
    steered = tiny.with_instructions(query="Represent the emotion.")
    assert steered.embed_query(text) != tiny.embed_query(text)
    assert steered.embed_documents([text]) == tiny.embed_documents([text])
    same = GircseEmbeddings(model=tiny.model, query_steps=4, document_steps=4)
    np.testing.assert_allclose(same.embed_query(text), same.embed_documents([text])[0], atol=1e-6)


def test_copies_share_the_loaded_model(tiny):
    copy = tiny.with_instructions(query="One.", document="Two.")
    assert (copy.query_instruction, copy.document_instruction) == ("One.", "Two.")
    assert copy._encoder is tiny._encoder
    assert tiny.query_instruction is None


def test_async_gives_the_same_vectors(tiny):
    async def both():
        return await asyncio.gather(tiny.aembed_query("one"), tiny.aembed_documents(["one", "two"]))

    query, documents = asyncio.run(both())
    assert query == tiny.embed_query("one")
    assert documents == tiny.embed_documents(["one", "two"])


def test_refinement_ends_at_the_embedding(tiny):
    refinement = tiny.refine("what is a soft token", steps=6)
    assert refinement.prefix_vectors.shape == (6, 32)
    np.testing.assert_allclose(refinement.vector, tiny.refine("what is a soft token", steps=6).prefix_vectors[-1])
    assert [step.step for step in refinement.steps] == [1, 2, 3, 4, 5, 6]
    for step in refinement.steps:
        probabilities = [token.probability for token in step.tokens]
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1 + 1e-6


def test_no_texts_give_no_vectors(tiny):
    assert tiny.embed_documents([]) == []


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [({"query_steps": -1}, "query_steps"), ({"unknown": 1}, "unknown"), ({"batch_size": 0}, "batch_size")],
)
def test_wrong_fields_are_refused_by_name(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        GircseEmbeddings(**fields)


def test_empty_text_is_refused_with_its_index(tiny):
    with pytest.raises(ValueError, match="Text 1 is empty"):
        tiny.embed_documents(["fine", " \n"])


def test_truncated_dimensions_are_normalised_again(tiny):
    short = GircseEmbeddings(model=tiny.model, truncate_dim=8).embed_query("one two three")
    assert len(short) == 8
    assert np.linalg.norm(short) == pytest.approx(1, abs=1e-6)
