"""Cohere's Python clients of both versions, for the application."""

# /// script
# dependencies = ["cohere"]
# ///

import cohere
from reporting import APPLICATION, INSTRUCTION, QUERY, TEXTS, checked_ranking, raised, run_calls

v1 = cohere.Client(api_key="any", base_url=APPLICATION)
v2 = cohere.ClientV2(api_key="any", base_url=APPLICATION)


def rerank_v1() -> str:
    documents = [{"text": text, "id": str(place)} for place, text in enumerate(TEXTS)]
    answer = v1.rerank(query=QUERY, documents=documents, model="rerank-v3.5", return_documents=True)
    assert answer.results[0].document.text == TEXTS[0]
    return checked_ranking([row.index for row in answer.results])


def rerank_v2() -> str:
    answer = v2.rerank(query=QUERY, documents=TEXTS, model="rerank-v3.5", top_n=2, max_tokens_per_doc=512)
    assert answer.id
    assert answer.meta.billed_units.search_units == 1
    return checked_ranking([row.index for row in answer.results], 2)


def with_instruction() -> str:
    options = {"additional_body_parameters": {"instruction": INSTRUCTION}}
    answer = v2.rerank(query=QUERY, documents=TEXTS, model="gircse", request_options=options)
    return checked_ranking([row.index for row in answer.results])


def refuse() -> str:
    error = raised(cohere.BadRequestError, lambda: v2.rerank(query=QUERY, documents=[], model="gircse"))
    assert error.body["message"]
    return type(error).__name__


run_calls(
    "cohere",
    {
        "Client.rerank (v1), documents as objects": rerank_v1,
        "ClientV2.rerank (v2)": rerank_v2,
        "ClientV2.rerank with an instruction": with_instruction,
        "ClientV2.rerank without documents": refuse,
    },
)
