"""OpenAI's Python client."""

# /// script
# dependencies = ["openai"]
# ///

import openai
from reporting import EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checked_vectors, raised, run_calls

client = openai.OpenAI(base_url=f"{EMBEDDER}/v1", api_key=EMBEDDER_KEY, max_retries=0)


def embed() -> str:
    answer = client.embeddings.create(model=MODEL, input=TEXTS)
    assert answer.usage.prompt_tokens > 0
    return checked_vectors([row.embedding for row in answer.data], len(TEXTS))


def embed_query() -> str:
    answer = client.embeddings.create(
        model=MODEL,
        input=QUERY,
        encoding_format="float",
        extra_body={"input_type": "query", "instruction": "Identify the feeling.", "steps": 5},
    )
    return checked_vectors([answer.data[0].embedding], 1)


def models() -> str:
    names = [model.id for model in client.models.list()]
    assert names == [MODEL], names
    return client.models.retrieve(MODEL).id


def refuse_key() -> str:
    other = client.with_options(api_key="wrong")
    error = raised(openai.AuthenticationError, lambda: other.embeddings.create(model=MODEL, input=QUERY))
    return type(error).__name__


def refuse_model() -> str:
    name = "text-embedding-3-small"
    error = raised(openai.NotFoundError, lambda: client.embeddings.create(model=name, input=QUERY))
    return f"{type(error).__name__}, {error.code}"


run_calls(
    "openai",
    {
        "embeddings.create": embed,
        "embeddings.create with instruction and steps": embed_query,
        "models.list, models.retrieve": models,
        "a wrong key": refuse_key,
        "an unknown model": refuse_model,
    },
)
