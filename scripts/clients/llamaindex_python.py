"""LlamaIndex, with an index in memory over the embedding server."""

# /// script
# dependencies = [
#     "llama-index-core",
#     "llama-index-embeddings-openai-like",
#     "llama-index-postprocessor-cohere-rerank",
# ]
# ///

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.postprocessor.cohere_rerank import CohereRerank
from reporting import EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checked_ranking, checked_vectors, run_calls

embedding = OpenAILikeEmbedding(model_name=MODEL, api_base=f"{EMBEDDER}/v1", api_key=EMBEDDER_KEY)


def retrieve() -> str:
    index = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS], embed_model=embedding)
    found = [each.node.get_content() for each in index.as_retriever(similarity_top_k=2).retrieve(QUERY)]
    assert found[0] == TEXTS[0], found
    return "2 hits, the relevant one first"


def rerank() -> str:
    reranker = CohereRerank(api_key=EMBEDDER_KEY, model="gircse", top_n=2, base_url=EMBEDDER)
    found = reranker.postprocess_nodes(
        [NodeWithScore(node=TextNode(text=text), score=0.0) for text in TEXTS], query_str=QUERY
    )
    return checked_ranking([TEXTS.index(each.node.get_content()) for each in found], 2)


run_calls(
    "llama-index-core",
    {
        "OpenAILikeEmbedding.get_text_embedding_batch": lambda: checked_vectors(
            embedding.get_text_embedding_batch(TEXTS), len(TEXTS)
        ),
        "VectorStoreIndex retriever": retrieve,
        "CohereRerank.postprocess_nodes": rerank,
    },
)
