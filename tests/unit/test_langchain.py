"""GircseEmbeddings as LangChain sees it: their own suites, then what ours adds."""

import asyncio
import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.embeddings import Embeddings
from langchain_core.stores import InMemoryByteStore
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from tiny_models import save_tiny_model

from embedder import DeviceError, GircseEmbeddings, GircseReranker, GircseRetriever


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
    other = tiny.with_instructions(query="One.", document="Two.")
    assert (other.query_instruction, other.document_instruction) == ("One.", "Two.")
    assert other._encoder is tiny._encoder
    assert tiny.query_instruction is None


def test_deep_copies_share_the_loaded_model(tiny):
    copied = copy.deepcopy({"embeddings": tiny})["embeddings"]
    assert copied is not tiny
    assert copied == tiny
    assert copied._encoder is tiny._encoder


def test_a_pickle_holds_the_settings_and_loads_the_model(tiny):
    steered = tiny.with_instructions(query="One.")
    pickled = pickle.dumps(steered)
    assert len(pickled) < 5_000
    loaded = pickle.loads(pickled)
    assert loaded.model_dump() == steered.model_dump()
    assert loaded.embed_query("a text") == steered.embed_query("a text")
    assert asyncio.run(loaded.aembed_query("a text")) == steered.embed_query("a text")


def embedded(settings: GircseEmbeddings) -> list[float]:
    return settings.embed_query("a text")


def test_it_goes_to_spawned_processes(tiny):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(embedded, tiny).result()
    np.testing.assert_allclose(found, embedded(tiny), atol=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        {"query_instruction": "Represent the emotion."},
        {"document_instruction": "Represent the emotion."},
        {"query_steps": 3},
        {"document_steps": 3},
        {"tolerance": 0.1},
        {"truncate_dim": 8},
        {"dtype": "int8"},
    ],
)
def test_vectors_that_differ_have_caches_of_their_own(tiny, other):
    here = {"model": tiny.model, "query_steps": 4}
    assert GircseEmbeddings(**here, device="cpu", batch_size=2).cache_namespace == tiny.cache_namespace
    assert GircseEmbeddings(**here | other).cache_namespace != tiny.cache_namespace


def test_a_cache_gives_each_instruction_its_own_vectors(tiny):
    store = InMemoryByteStore()
    for embeddings in (tiny, tiny.with_instructions(document="Represent the emotion."), tiny):
        cached = CacheBackedEmbeddings.from_bytes_store(
            embeddings, store, namespace=embeddings.cache_namespace, key_encoder="sha256"
        )
        for _ in range(2):
            assert cached.embed_documents(["a text"]) == embeddings.embed_documents(["a text"])


def test_a_blank_instruction_is_none(tiny):
    blank = tiny.with_instructions(query=" \n", document="\t")
    assert blank.embed_query("a text") == tiny.with_instructions(query="").embed_query("a text")
    assert blank.cache_namespace == tiny.with_instructions(query="", document="").cache_namespace


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


@pytest.mark.parametrize("options", [{}, {"document_instruction": "Look at it"}])
def test_empty_texts_get_one_vector_and_one_warning(tiny, options):
    embeddings = GircseEmbeddings(model=tiny.model, **options)
    with pytest.warns(UserWarning, match=r"2 of 4 texts are empty \(the first is text 1\)") as warned:
        found = np.array(embeddings.embed_documents(["fine", " \n", "a river", ""]))
    assert len(warned) == 1
    np.testing.assert_allclose(found[[0, 2]], embeddings.embed_documents(["fine", "a river"]), atol=1e-6)
    np.testing.assert_array_equal(found[1], found[3])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    with pytest.warns(UserWarning, match="1 of 1 texts"):
        np.testing.assert_allclose(embeddings.embed_documents([""]), found[1:2], atol=1e-6)


def test_the_shipped_model_embeds_an_empty_document():
    shipped = GircseEmbeddings(dtype="float32")
    with pytest.warns(UserWarning, match="1 of 2 texts are empty"):
        found = np.array(shipped.embed_documents(["", "A river."]))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    refined = GircseEmbeddings(dtype="float32", document_instruction="Identify the topic.", document_steps=2)
    with pytest.warns(UserWarning, match="1 of 1 texts are empty"):
        vectors = refined.embed_documents([""])
    np.testing.assert_allclose(np.linalg.norm(vectors), 1, atol=1e-5)


def test_an_empty_document_is_embedded_as_its_instruction_alone(tiny):
    prompts = GircseEmbeddings(model=tiny.model)._encoder._prompts
    (empty,) = prompts.encode([""], "Look at it", allow_empty=True)
    (full,) = prompts.encode(["river"], "Look at it")
    shared = len(empty.ids) - 1
    assert shared > 3
    assert empty.ids[:shared] == full.ids[:shared]
    with pytest.raises(ValueError, match="Text 0 is empty"):
        prompts.encode([""], "Look at it")


def test_texts_may_come_from_a_generator(tiny):
    assert tiny.embed_documents(text for text in ("one", "two")) == tiny.embed_documents(["one", "two"])


def test_texts_without_an_empty_one_cause_no_warning(tiny, recwarn):
    tiny.embed_documents(["fine"])
    assert not [each for each in recwarn if "empty" in str(each.message)]


def test_an_empty_query_and_none_are_refused(tiny):
    with pytest.raises(ValueError, match="Text 0 is empty"):
        tiny.embed_query(" ")
    with pytest.raises(ValueError, match="not one string"):
        tiny.embed_documents("two words")
    for before in ("fine", ""):
        with pytest.raises(ValueError, match="Text 1 is of type NoneType"):
            tiny.embed_documents([before, None])


def test_truncated_dimensions_are_normalised_again(tiny):
    short = GircseEmbeddings(model=tiny.model, truncate_dim=8).embed_query("one two three")
    assert len(short) == 8
    assert np.linalg.norm(short) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("build", "advice"),
    [
        (lambda: GircseEmbeddings(instruction="x"), "Did you mean query_instruction or document_instruction?"),
        (lambda: GircseEmbeddings(model_name="x"), "Did you mean model?"),
        (lambda: GircseRetriever(top_n=3), "Options: .*url, api_key, collection"),
        (lambda: GircseRetriever(api_token="x"), r"Did you mean api_key\?"),
        (lambda: GircseRetriever(top_k=3), r"Did you mean k\?"),
        (lambda: GircseReranker(query_instruction="x"), "Did you mean instruction?"),
    ],
)
def test_an_unknown_option_names_the_ones_that_exist(build, advice):
    with pytest.raises(ValueError, match=advice):
        build()


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_torch_cannot_use_is_refused(device):
    with pytest.raises(DeviceError, match=f"cannot compute on the device '{device}' here .* such as cpu"):
        GircseEmbeddings(device=device)
