"""Clients of text-embeddings-inference (TEI): Hugging Face's own, and LlamaIndex's."""

# /// script
# dependencies = [
#     "huggingface_hub",
#     "numpy",
#     "llama-index-embeddings-text-embeddings-inference",
#     "llama-index-postprocessor-tei-rerank",
# ]
# ///

from huggingface_hub import InferenceClient
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference as TeiRerank
from reporting import EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checked_ranking, checked_vectors, run_calls

client = InferenceClient(model=f"{EMBEDDER}/embed", token=EMBEDDER_KEY)
embedding = TextEmbeddingsInference(model_name=MODEL, base_url=EMBEDDER, auth_token=EMBEDDER_KEY)


def extract_query() -> str:
    vectors = client.feature_extraction(QUERY, prompt_name="query", normalize=True, truncate=True)
    return checked_vectors(vectors.tolist(), 1)


def rerank() -> str:
    reranker = TeiRerank(base_url=EMBEDDER, auth_token=f"Bearer {EMBEDDER_KEY}", top_n=2)
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.0) for text in TEXTS]
    found = reranker.postprocess_nodes(nodes, query_str=QUERY)
    return checked_ranking([TEXTS.index(each.node.get_content()) for each in found], 2)


run_calls(
    "huggingface_hub",
    {
        "InferenceClient.feature_extraction": lambda: checked_vectors(
            client.feature_extraction(TEXTS).tolist(), len(TEXTS)
        ),
        "InferenceClient.feature_extraction with prompt_name": extract_query,
    },
)
run_calls(
    "llama-index-embeddings-text-embeddings-inference",
    {
        "TextEmbeddingsInference.get_text_embedding_batch": lambda: checked_vectors(
            embedding.get_text_embedding_batch(TEXTS), len(TEXTS)
        ),
    },
)
run_calls("llama-index-postprocessor-tei-rerank", {"TextEmbeddingInference.postprocess_nodes": rerank})
