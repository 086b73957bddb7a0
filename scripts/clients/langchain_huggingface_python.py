"""LangChain's embeddings of Hugging Face endpoints, against `/embed` of the embedding server.

Their `model` accepts no address, so the script gives them a client with the address.
"""

# /// script
# dependencies = ["langchain-huggingface", "langchain-core", "huggingface_hub", "numpy"]
# ///

from huggingface_hub import InferenceClient
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_huggingface import HuggingFaceEndpointEmbeddings
from reporting import EMBEDDER, EMBEDDER_KEY, QUERY, TEXTS, checked_vectors, run_calls

embeddings = HuggingFaceEndpointEmbeddings(huggingfacehub_api_token=EMBEDDER_KEY)
embeddings.client = InferenceClient(model=f"{EMBEDDER}/embed", token=EMBEDDER_KEY)


def search() -> str:
    store = InMemoryVectorStore(embeddings)
    store.add_texts(TEXTS)
    found = [document.page_content for document in store.similarity_search(QUERY, k=2)]
    assert found[0] == TEXTS[0], found
    return "2 hits, the relevant one first"


run_calls(
    "langchain-huggingface",
    {
        "HuggingFaceEndpointEmbeddings.embed_documents": lambda: checked_vectors(
            embeddings.embed_documents(TEXTS), len(TEXTS)
        ),
        "HuggingFaceEndpointEmbeddings.embed_query": lambda: checked_vectors([embeddings.embed_query(QUERY)], 1),
        "InMemoryVectorStore.similarity_search": search,
    },
)
