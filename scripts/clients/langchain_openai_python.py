"""LangChain's OpenAI embeddings."""

# /// script
# dependencies = ["langchain-openai", "langchain-core", "numpy"]
# ///

import asyncio

from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings
from reporting import EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checked_vectors, run_calls

embeddings = OpenAIEmbeddings(
    base_url=f"{EMBEDDER}/v1", api_key=EMBEDDER_KEY, model=MODEL, check_embedding_ctx_length=False
)


def search() -> str:
    store = InMemoryVectorStore(embeddings)
    store.add_texts(TEXTS)
    found = [document.page_content for document in store.similarity_search(QUERY, k=2)]
    assert found[0] == TEXTS[0], found
    return "2 hits, the relevant one first"


run_calls(
    "langchain-openai",
    {
        "OpenAIEmbeddings.embed_documents": lambda: checked_vectors(embeddings.embed_documents(TEXTS), len(TEXTS)),
        "OpenAIEmbeddings.embed_query": lambda: checked_vectors([embeddings.embed_query(QUERY)], 1),
        "OpenAIEmbeddings.aembed_query": lambda: checked_vectors([asyncio.run(embeddings.aembed_query(QUERY))], 1),
        "InMemoryVectorStore.similarity_search": search,
    },
)
