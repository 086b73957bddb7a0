"""Haystack's embedders and rankers."""

# /// script
# dependencies = ["haystack-ai", "cohere-haystack"]
# ///

from haystack import Document, Pipeline
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.retrievers import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret
from haystack_integrations.components.rankers.cohere import CohereRanker
from reporting import EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checked_ranking, checked_vectors, run_calls

key = Secret.from_token(EMBEDDER_KEY)
server = {"api_key": key, "model": MODEL, "api_base_url": f"{EMBEDDER}/v1"}


def embed() -> str:
    found = OpenAIDocumentEmbedder(**server).run([Document(content=text) for text in TEXTS])["documents"]
    return checked_vectors([document.embedding for document in found], len(TEXTS))


def retrieve() -> str:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(OpenAIDocumentEmbedder(**server).run([Document(content=text) for text in TEXTS])["documents"])
    pipeline = Pipeline()
    pipeline.add_component("embedder", OpenAITextEmbedder(**server))
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=2))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    found = pipeline.run({"embedder": {"text": QUERY}})["retriever"]["documents"]
    assert found[0].content == TEXTS[0], found
    return "2 hits, the relevant one first"


def rank() -> str:
    ranker = CohereRanker(model="gircse", api_key=key, api_base_url=EMBEDDER, top_k=2)
    found = ranker.run(query=QUERY, documents=[Document(content=text) for text in TEXTS])["documents"]
    return checked_ranking([TEXTS.index(document.content) for document in found], 2)


run_calls(
    "haystack-ai",
    {
        "OpenAIDocumentEmbedder": embed,
        "pipeline of OpenAITextEmbedder and InMemoryEmbeddingRetriever": retrieve,
        "CohereRanker": rank,
    },
)
