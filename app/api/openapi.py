"""Completes the OpenAPI description: readable operation ids, error responses and an example of every body.

Examples are generated from the schemas, so that none can have a field that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from app.api.access import COOKIE, is_public
from app.api.problems import MEDIA_TYPE
from app.api.schemas import ProblemAnswer
from embedder.server.description import BEARER, complete_description, describe_errors, describe_keys

Schema = Mapping[str, Any]

_PROBLEMS = {
    400: "The body is malformed: not UTF-8, or not a form.",
    401: "Not logged in, and no valid API key.",
    403: "Not permitted for this user or key.",
    404: "A named object does not exist.",
    409: "The request conflicts with the current state.",
    413: "The body is too large.",
    422: "Invalid input. `detail` names the value and the remedy.",
    429: "Too many requests. Retry after the seconds in `Retry-After`.",
    503: "A component does not respond. Retry after the seconds in `Retry-After`.",
}
# A reference, not a model: FastAPI would build the model's schema again for every status of every route at startup.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{ProblemAnswer.__name__}"}}},
        "description": description,
    }
    for status, description in _PROBLEMS.items()
}

TAGS = {
    "search": "Search, see how the model refines a query, and get answers with citations.",
    "rerank": "Rank texts that you send, in the formats of Cohere, Jina, Voyage, vLLM and text-embeddings-inference.",
    "OpenAI": "Embeddings in the format of OpenAI's API.",
    "model": "The embedding model of this server.",
    "collections": "Collections: create, change, reindex, delete.",
    "documents": "Documents: add, list, read, move, delete.",
    "fetches": "Web pages that the server fetches into a collection.",
    "sources": "Folders, feeds and repositories that are synced on a schedule.",
    "jobs": "Background work: progress, retries, pauses.",
    "lenses": "Named instructions, and the values that they distinguish.",
    "judgements": "Which documents are relevant for which query, as people judged them.",
    "evaluations": "Measure searches on judged queries, and tune their weights.",
    "access": "Users, API keys, sessions and the audit log.",
    "health": "For monitoring.",
}
_KEYS = {
    "bearer": BEARER,
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key, without `Bearer`."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "The session of a person's browser."},
}

_ID, _CHUNK_ID, _TIME = (
    "1c2f6c1e-6f0b-4e0e-9b1f-0a4b5c6d7e8f",
    "7d9f0f0a-3c4b-5a6d-8e7f-001122334455",
    "2026-05-04T10:00:00Z",
)
_QUERY, _TEXT = "I still haven't received my new card", "My card has not arrived yet."
# Example values by field name, or by schema and field where a name has two meanings.
_VALUES: Mapping[str, Any] = {
    "id": _ID,
    "HitChunkAnswer.id": _CHUNK_ID,
    "ChunkAnswer.id": _CHUNK_ID,
    "document_id": _ID,
    "document_ids": [_ID],
    "chunk_ids": [_CHUNK_ID],
    "SearchQuestion.value": None,
    "NewRecurringSource.patterns": [],
    "NewLens.values": ["delivery", "account = login, password"],
    "NewPassword.current": "the password of before",
    "NewPassword.new": "a long password",
    "UserChange.password": "a long password",
    "run_id": _ID,
    "job_id": _ID,
    "collection": "letters",
    "collections": ["letters"],
    "judged_in": "letters",
    "compared_with": [],
    "name": "letters",
    "NewLens.name": "same feeling",
    "LensAnswer.name": "same feeling",
    "lens": None,
    "InstructionChoice.lens": "",
    "LensIndexAnswer.lens": "Same place",
    "NewLensIndex.lens": "Same place",
    "LensIndexAnswer.values": ["Africa", "Asia"],
    "query": _QUERY,
    "text": _TEXT,
    "RefineQuestion.text": _QUERY,
    "title": "A message",
    "ProblemAnswer.title": "UnknownCollectionError",
    "ProblemAnswer.type": "about:blank",
    "ProblemAnswer.status": 404,
    "uri": "https://example.org/letters/1",
    "url": "https://example.org/page",
    "urls": ["https://example.org/page"],
    "media_type": "text/plain",
    "content_hash": "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
    "fingerprint": "e0b1a6f3c9d24b7f",
    "metadata": {"language": "en"},
    "filters": {"language": "en"},
    "token_bias": {"delivery": 2},
    "instruction": "Identify the feeling that the message expresses",
    "query_instruction": "Identify the feeling that the message expresses",
    "document_instruction": "",
    "instructions": ["judged"],
    "EvaluationPlan.instructions": [{"policy": "judged", "lens": ""}],
    "like": [],
    "unlike": [],
    "vector": [0.6, 0.8],
    "token": "delay",
    "probability": 0.25,
    "weight": 0.4,
    "remaining": 0.01,
    "score": 0.71,
    "rank": 1,
    "moved_from": 3,
    "rerank": 0,
    "rerank_score": 0.83,
    "relevance_score": 0.83,
    "RerankResultAnswer.index": 0,
    "RerankResultAnswer.document": None,
    "TeiRankAnswer.index": 0,
    "TeiRankAnswer.text": None,
    "TeiError.error": "texts: document 1 is empty; leave it out",
    "error_type": "validation",
    "CohereError.error": {
        "message": "documents: document 1 is empty; leave it out",
        "type": "invalid_request_error",
        "param": "documents",
        "code": None,
    },
    "CohereError.message": "documents: document 1 is empty; leave it out",
    "notes": [],
    "grade": 3,
    "end": len(_TEXT),
    "HighlightAnswer.end": len(_TEXT),
    "total": 1,
    "states": {"ready": 1},
    "JobCountsAnswer.states": {"done": 1},
    "facets": {"language": [{"value": "en", "documents": 1}]},
    "contract": {"document_steps": 5},
    "timings_ms": {"embed": 9.1, "index": 1.3, "total": 10.6},
    "modes": ["dense"],
    "steps": 5,
    "NewEvaluation.steps": [5],
    "EvaluationPlan.steps": [5],
    "judged_by": "anna",
    "NewEvaluation.judged_by": [],
    "EvaluationPlan.judged_by": [],
    "created_at": _TIME,
    "updated_at": _TIME,
    "finished_at": _TIME,
    "judged_at": _TIME,
    "not_before": _TIME,
    "error": None,
    "AuditAnswer.detail": {"role": "reader"},
    "action": "user.added",
    "actor": "admin",
    "subject": "anna",
    "UserIdentity.subject": "248289761001",
    "at": _TIME,
    "user": "anna",
    "NewUser.name": "anna",
    "UserAnswer.name": "anna",
    "MeAnswer.name": "anna",
    "role": "reader",
    "label": "nightly export",
    "NewUser.collections": ["team-*"],
    "NewUser.password": "a long password",
    "key_id": None,
    "KeyAnswer.id": "4f6c2a9d01be",
    "NewKeyAnswer.id": "4f6c2a9d01be",
    "secret": "gk_4f6c2a9d01be_the-secret-that-is-told-only-once-here",
    "expires_at": None,
    "SessionAnswer.expires_at": _TIME,
    "revoked_at": None,
    "OpenAIError.error": {
        "message": "The model 'other' is not served here; 'gircse-small' is.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    },
    "detail": "No collection named 'letters'. There are: sample.",
    "model_name": "gircse-small",
    "version": "0.1.0",
    "status": "ok",
    "checks": {"catalog": True, "index": True},
    "error_id": "0a1b2c3d4e5f",
    "page": None,
    "PageAnswer.page": 1,
    "pages": 1,
    "width": 595,
    "height": 842,
    "PageStartAnswer.page": 1,
    "progress": 1.0,
    "low": 0.6,
    "high": 0.8,
    "report": None,
    "chunk_tokens": 200,
    "chunk_overlap": 30,
    "dimension": 384,
}
_BY_TYPE: Mapping[str, Any] = {"string": "", "integer": 1, "number": 0.5, "boolean": False, "null": None}


def describe(api: FastAPI, *, has_logins: bool) -> None:
    """Completes the description of `api.openapi()`. has_logins: whether requests need a key or a session."""

    def complete(schema: dict[str, Any]) -> None:
        describe_errors(schema)
        describe_keys(schema, _KEYS, is_open=is_public, required=has_logins)
        _complete(schema)

    complete_description(api, complete)


def _complete(schema: dict[str, Any]) -> None:
    shapes = schema["components"]["schemas"]
    shapes[ProblemAnswer.__name__] = ProblemAnswer.model_json_schema(mode="serialization")
    for name, shape in shapes.items():
        shape.setdefault("examples", [example_of(shape, shapes, name)])
    for path in schema["paths"].values():
        for operation in path.values():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for media_type, content in (each for body in bodies for each in body.get("content", {}).items()):
                if media_type.endswith("json") and content.get("schema"):
                    content.setdefault("example", example_of(content["schema"], shapes))


def example_of(schema: Schema, shapes: Mapping[str, Schema], name: str = "", field: str = "") -> Any:
    """An example value for `schema`, the field `field` of the schema `name`. `shapes` are all named schemas."""
    for key in (f"{name}.{field}", field):
        if key in _VALUES:
            return _VALUES[key]
    if "$ref" in schema:
        shape = schema["$ref"].rpartition("/")[2]
        return example_of(shapes[shape], shapes, shape)
    if schema.get("examples"):
        return schema["examples"][0]
    if "const" in schema or schema.get("enum"):
        return schema.get("const", schema.get("enum", [None])[0])
    if "default" in schema:
        return schema["default"]
    for options in ("anyOf", "oneOf", "allOf"):
        if options in schema:
            return example_of(schema[options][0], shapes, name)
    return _typed_example(schema, shapes, name)


def _typed_example(schema: Schema, shapes: Mapping[str, Schema], name: str) -> Any:
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {each: example_of(fields[each], shapes, schema.get("title", name), each) for each in fields}
    if kind == "array":
        prefix_items = schema.get("prefixItems")
        if prefix_items:
            return [example_of(item, shapes, name) for item in prefix_items]
        return [example_of(schema["items"], shapes, name)] if "items" in schema else []
    return _BY_TYPE.get(str(kind))
