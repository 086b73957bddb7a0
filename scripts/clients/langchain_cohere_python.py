"""LangChain's re-ranker of Cohere, for the embedding server."""

# /// script
# dependencies = ["langchain-cohere", "langchain-core"]
# ///

import cohere
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from reporting import EMBEDDER, EMBEDDER_KEY, QUERY, TEXTS, checked_ranking, run_calls

reranker = CohereRerank(
    client=cohere.ClientV2(api_key=EMBEDDER_KEY, base_url=EMBEDDER),
    cohere_api_key=EMBEDDER_KEY,
    model="gircse",
    top_n=2,
)


def compress() -> str:
    found = reranker.compress_documents([Document(text) for text in TEXTS], QUERY)
    assert found[0].metadata["relevance_score"] > found[1].metadata["relevance_score"]
    return checked_ranking([TEXTS.index(document.page_content) for document in found], 2)


run_calls(
    "langchain-cohere",
    {
        "CohereRerank.rerank": lambda: checked_ranking([row["index"] for row in reranker.rerank(TEXTS, QUERY)], 2),
        "CohereRerank.compress_documents": compress,
    },
)
