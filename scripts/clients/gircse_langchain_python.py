"""The embedder's own LangChain embeddings, in the process of the client, from an installed gircse-embedder."""

# /// script
# dependencies = ["gircse-embedder", "numpy"]
# ///

from langchain_core.vectorstores import InMemoryVectorStore
from reporting import INSTRUCTION, QUERY, TEXTS, checked_vectors, run_calls

from embedder import GircseEmbeddings

embeddings = GircseEmbeddings()


def instructed() -> str:
    own = GircseEmbeddings(query_instruction=INSTRUCTION, query_steps=2)
    return checked_vectors([own.embed_query(QUERY)], 1)


def search() -> str:
    store = InMemoryVectorStore(embeddings)
    store.add_texts(TEXTS)
    found = [document.page_content for document in store.similarity_search(QUERY, k=2)]
    assert found[0] == TEXTS[0], found
    return "2 hits, the relevant one first"


run_calls(
    "gircse-embedder",
    {
        "GircseEmbeddings.embed_documents": lambda: checked_vectors(embeddings.embed_documents(TEXTS), len(TEXTS)),
        "GircseEmbeddings.embed_query": lambda: checked_vectors([embeddings.embed_query(QUERY)], 1),
        "GircseEmbeddings.embed_query with instruction and steps": instructed,
        "InMemoryVectorStore.similarity_search": search,
    },
)
