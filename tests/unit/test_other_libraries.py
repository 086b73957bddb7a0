"""The same vectors through LlamaIndex and sentence-transformers, each by its own public interface."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from patience import PATIENCE_S
from tiny_models import save_tiny_model

from embedder import GircseEmbeddings, load_model_tokenizer
from embedder.errors import EmbedderError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from embedder.llamaindex import GircseEmbedding

# Both libraries take seconds to import, and every process collects this file: only the one that runs it imports them.
pytestmark = pytest.mark.xdist_group("other libraries")

TEXTS = ["The cat sleeps on the sofa.", "I still have not received my card.", "a", "one two three, " * 20 + "four"]
INSTRUCTION = "Identify the topic of the text."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="module")
def embeddings(folder: Path) -> GircseEmbeddings:
    return GircseEmbeddings(model=str(folder), query_instruction=INSTRUCTION, query_steps=3, document_steps=2)


class TestLlamaIndex:
    @pytest.fixture
    def embedding(self, embeddings: GircseEmbeddings) -> GircseEmbedding:
        from embedder.llamaindex import GircseEmbedding

        return GircseEmbedding(embeddings)

    def test_vectors_are_those_of_the_embeddings(
        self, embedding: GircseEmbedding, embeddings: GircseEmbeddings
    ) -> None:
        assert embedding.get_query_embedding(TEXTS[0]) == embeddings.embed_query(TEXTS[0])
        assert embedding.get_text_embedding_batch(TEXTS) == embeddings.embed_documents(TEXTS)
        assert embedding.get_text_embedding(TEXTS[0]) == embeddings.embed_documents(TEXTS[:1])[0]

    async def test_async_vectors_are_the_same(self, embedding: GircseEmbedding, embeddings: GircseEmbeddings) -> None:
        assert await embedding.aget_query_embedding(TEXTS[0]) == embeddings.embed_query(TEXTS[0])
        assert await embedding.aget_text_embedding_batch(TEXTS) == embeddings.embed_documents(TEXTS)

    def test_an_index_finds_by_them(self, embedding: GircseEmbedding, embeddings: GircseEmbeddings) -> None:
        from llama_index.core import Document, VectorStoreIndex

        documents = [Document(text=text, id_=str(place)) for place, text in enumerate(TEXTS)]
        index = VectorStoreIndex.from_documents(documents, embed_model=embedding)
        found = index.as_retriever(similarity_top_k=len(TEXTS)).retrieve(TEXTS[0])
        scores = np.array(embeddings.embed_documents(TEXTS)) @ np.array(embeddings.embed_query(TEXTS[0]))
        expected = [TEXTS[place] for place in np.argsort(-scores)]
        assert [each.node.get_content() for each in found] == expected
        np.testing.assert_allclose([each.score for each in found], -np.sort(-scores), atol=1e-6)

    def test_name_tells_models_apart(self, embedding: GircseEmbedding, embeddings: GircseEmbeddings) -> None:
        from llama_index.core.base.embeddings.base import BaseEmbedding

        assert isinstance(embedding, BaseEmbedding)
        assert embeddings.fingerprint in embedding.model_name


class TestSentenceTransformers:
    @pytest.fixture(scope="class")
    def model(self, folder: Path) -> SentenceTransformer:
        from embedder.sentence_transformers import open_sentence_transformer

        return open_sentence_transformer(str(folder))

    @pytest.fixture(scope="class")
    def exported(self, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        from embedder.sentence_transformers import export_model

        target = tmp_path_factory.mktemp("exported") / "model"
        export_model(target, str(folder))
        return target

    def test_vectors_are_those_of_the_embeddings(self, model: SentenceTransformer, folder: Path) -> None:
        plain = GircseEmbeddings(model=str(folder))
        queries = [plain.embed_query(text) for text in TEXTS]
        np.testing.assert_allclose(model.encode_query(TEXTS), queries, atol=1e-5)
        np.testing.assert_allclose(model.encode_document(TEXTS), plain.embed_documents(TEXTS), atol=1e-5)
        np.testing.assert_allclose(model.encode(TEXTS), plain.embed_documents(TEXTS), atol=1e-5)
        steered = plain.with_instructions(query=INSTRUCTION)
        vectors = model.encode_query(TEXTS, prompt=INSTRUCTION)
        np.testing.assert_allclose(vectors, [steered.embed_query(text) for text in TEXTS], atol=1e-5)
        assert np.abs(vectors - np.array(queries)).max() > 1e-3

    def test_its_own_helpers_work(self, model: SentenceTransformer) -> None:
        vectors = model.encode_document(TEXTS)
        assert model.get_embedding_dimension() == vectors.shape[1] == 32
        np.testing.assert_allclose(np.diag(model.similarity(vectors, vectors)), np.ones(len(TEXTS)), atol=1e-5)

    def test_programs_find_name_revision_and_tokenizer(self, model: SentenceTransformer, folder: Path) -> None:
        """mteb reads them; by name and revision it stores results."""
        embeddings = GircseEmbeddings(model=str(folder))
        assert model.model_card_data.model_name == f"gircse-search/{folder.name}"
        assert model.model_card_data.base_model_revision == embeddings.fingerprint
        tokenizer = load_model_tokenizer(str(folder))
        assert len(model.tokenizer.vocab) == tokenizer.get_vocab_size()
        assert model.tokenizer(TEXTS[0])["input_ids"] == tokenizer.encode(TEXTS[0]).ids
        assert model.max_seq_length == model.tokenizer.model_max_length

    def test_exported_model_names_a_class_of_ours_and_holds_no_code(self, exported: Path) -> None:
        from embedder.sentence_transformers import GircseModule

        (module,) = json.loads((exported / "modules.json").read_text())
        assert module["type"] == f"{GircseModule.__module__}.{GircseModule.__name__}"
        assert not list(exported.rglob("*.py"))
        assert not list(exported.rglob("*.bin"))

    def test_exported_model_gives_the_same_vectors(self, exported: Path, model: SentenceTransformer) -> None:
        from sentence_transformers import SentenceTransformer

        loaded = SentenceTransformer(str(exported), trust_remote_code=True)
        np.testing.assert_allclose(loaded.encode_query(TEXTS), model.encode_query(TEXTS), atol=1e-5)
        np.testing.assert_allclose(loaded.encode_document(TEXTS), model.encode_document(TEXTS), atol=1e-5)

    def test_sentence_transformers_wants_to_be_asked_first(self, exported: Path) -> None:
        from sentence_transformers import SentenceTransformer

        with pytest.raises(ValueError, match="trust_remote_code=True"):
            SentenceTransformer(str(exported))

    def test_nothing_is_overwritten(self, exported: Path, model: SentenceTransformer) -> None:
        from embedder.sentence_transformers import export_model

        with pytest.raises(EmbedderError, match="not empty"):
            export_model(exported)
        with pytest.raises(EmbedderError, match="python -m embedder"):
            model[0].save("folder")

    def test_only_texts_are_embedded(self, model: SentenceTransformer) -> None:
        with pytest.raises(EmbedderError, match="single texts"):
            model[0].preprocess([("a", "pair")])

    def test_command_exports(self, tmp_path: Path, folder: Path) -> None:
        command = [sys.executable, "-m", "embedder.sentence_transformers", tmp_path / "out", "--model", folder]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
        (module,) = json.loads((tmp_path / "out" / "modules.json").read_text())
        assert module["type"] == "embedder.sentence_transformers.GircseModule"
