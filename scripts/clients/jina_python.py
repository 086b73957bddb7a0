"""Jina's requests as its API documents them; Jina has no client of its own for them."""

# /// script
# dependencies = ["httpx"]
# ///

import httpx
from reporting import EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checked_ranking, checked_vectors, run_calls

client = httpx.Client(base_url=EMBEDDER, headers={"Authorization": f"Bearer {EMBEDDER_KEY}"}, timeout=60)


def rerank() -> str:
    body = {"model": "jina-reranker-v3", "query": QUERY, "documents": TEXTS, "top_n": 2, "return_documents": False}
    answer = client.post("/v1/rerank", json=body).raise_for_status().json()
    assert answer["usage"]["total_tokens"] > 0
    return checked_ranking([row["index"] for row in answer["results"]], 2)


def embed() -> str:
    body = {"model": MODEL, "task": "retrieval.passage", "normalized": True, "embedding_type": "float", "input": TEXTS}
    answer = client.post("/v1/embeddings", json=body).raise_for_status()
    return checked_vectors([row["embedding"] for row in answer.json()["data"]], len(TEXTS))


run_calls("httpx", {"POST /v1/rerank in Jina's format": rerank, "POST /v1/embeddings in Jina's format": embed})
