"""The examples and the limits of both OpenAPI descriptions: the servers accept the ones and enforce the others."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from api_application import api_of
from embedding_server import embedding_client
from fastapi.testclient import TestClient
from toy_reindexing import toy_reindexing

from app.access.accounts import MAX_PASSWORD_CHARACTERS, MAX_PATTERNS
from app.documents.fetching import BackgroundFetching
from app.types.documents import Source
from app.types.search import MAX_FILTERS, MAX_QUERY_CHARACTERS
from embedder import DEFAULT_MODEL, load_encoder
from embedder.refinement_steps import MAX_BIASED_WORDS

KEY = "a-secret"
REFUSED = (400, 413, 422)
OF_USERS = ("/api/v1/users/", "/api/v1/me/", "/api/v1/keys")  # without the user, that is what they answer
PLACES = {"name": "letters", "document_id": "1c2f6c1e-6f0b-4e0e-9b1f-0a4b5c6d7e8f", "page": "1"}


def read_url(url: str) -> Source:
    return Source(name=url, uri=url, media_type="text/plain", data=b"A page of the web.")


@pytest.fixture
def application(toy_services: Any) -> Iterator[TestClient]:
    toy_services.add("The card has not arrived.", collection="letters", metadata={"language": "en"})
    services = toy_services.services

    with (
        closing(toy_reindexing(toy_services)) as reindexing,
        closing(BackgroundFetching(services.catalog, services.library, read_url=read_url)) as fetching,
    ):
        app = api_of(services, reindexing=reindexing, fetching=fetching, read_url=read_url)
        yield TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def embedding_server() -> Iterator[TestClient]:
    """With the model that the examples name."""
    with embedding_client(load_encoder(DEFAULT_MODEL, dtype="float32"), api_key=KEY) as client:
        yield client


def bodies(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], list[Any]]]:
    """Method, path, schema and examples of every JSON body."""
    shapes = schema["components"]["schemas"]
    for path, operations in schema["paths"].items():
        address = re.sub(r"\{(\w+)\}", lambda found: PLACES.get(found[1], "x"), path)
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            for named in (content or {}).get("schema", {}).get("oneOf", [content["schema"]] if content else []):
                shape = shapes[named["$ref"].rpartition("/")[2]] if "$ref" in named else named
                given = [content["example"]] if "example" in content else []
                yield method, address, shape, given + shape.get("examples", [])


@pytest.mark.parametrize("server", ["application", "embedding_server"])
def test_every_example_is_accepted(server: str, request: pytest.FixtureRequest) -> None:
    client: TestClient = request.getfixturevalue(server)
    refused, seen = [], 0
    for method, path, shape, examples in bodies(client.get("/openapi.json").json()):
        assert examples or not shape.get("properties"), (path, "has no example")
        for example in examples:
            answer = client.request(method, path, json=example)
            seen += 1
            if answer.status_code in REFUSED or answer.status_code >= 500:
                refused.append((method, path, answer.status_code, answer.text[:200]))
    assert not refused
    assert seen > (4 if server == "embedding_server" else 30)


def beyond(shape: Mapping[str, Any], name: str) -> Iterator[Any]:
    """Values of a field that are one over each of its limits."""
    for option in shape.get("anyOf", [shape]):
        if "maxLength" in option:
            yield "a" * (option["maxLength"] + 1)
        if "maxItems" in option:
            yield ["a" * 9 + str(at) for at in range(option["maxItems"] + 1)]
        if "maxProperties" in option:
            yield {f"a{at}": 1 if name == "token_bias" else "b" for at in range(option["maxProperties"] + 1)}
        if "maximum" in option:
            yield option["maximum"] + 1
        if "minimum" in option:
            yield option["minimum"] - 1
        if option.get("minLength"):
            yield ""
        if option.get("minItems"):
            yield []


@pytest.mark.parametrize("server", ["application", "embedding_server"])
def test_every_limit_is_enforced(server: str, request: pytest.FixtureRequest) -> None:
    client: TestClient = request.getfixturevalue(server)
    taken, seen = [], 0
    for method, path, shape, examples in bodies(client.get("/openapi.json").json()):
        for name, field in shape.get("properties", {}).items():
            for value in beyond(field, name):
                body = {**copy.deepcopy(examples[-1]), name: value}
                answer = client.request(method, path, json=body)
                seen += 1
                if answer.status_code not in REFUSED and not path.startswith(OF_USERS):
                    taken.append((method, path, name, str(value)[:40], answer.status_code))
    assert not taken
    assert seen > (10 if server == "embedding_server" else 60)


def test_limits_with_their_own_error_messages_are_in_the_schema(application: TestClient) -> None:
    shapes = application.get("/openapi.json").json()["components"]["schemas"]

    def first(shape: str, name: str) -> Any:
        return shapes[shape]["properties"][name]

    for shape, name in (("SearchQuestion", "query"), ("RefineQuestion", "text"), ("RerankQuestion", "query")):
        assert first(shape, name)["maxLength"] == MAX_QUERY_CHARACTERS, shape
    for shape in ("SearchQuestion", "RefineQuestion"):
        assert first(shape, "token_bias")["maxProperties"] == MAX_BIASED_WORDS
    assert first("SearchQuestion", "filters")["maxProperties"] == MAX_FILTERS
    assert first("NewPassword", "new")["maxLength"] == MAX_PASSWORD_CHARACTERS
    for shape in ("NewUser", "UserChange", "NewKey"):
        assert {each.get("maxItems") for each in first(shape, "collections")["anyOf"]} == {MAX_PATTERNS, None}


@pytest.mark.parametrize("server", ["application", "embedding_server"])
def test_keys_tags_server_and_licence_are_described(server: str, request: pytest.FixtureRequest) -> None:
    client: TestClient = request.getfixturevalue(server)
    schema = client.get("/openapi.json").json()
    assert schema["info"]["license"] == {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
    assert [each["url"] for each in schema["servers"]] == ["/"]
    described = {each["name"] for each in schema["tags"] if each["description"]}
    used = {tag for path in schema["paths"].values() for operation in path.values() for tag in operation["tags"]}
    assert used <= described
    schemes = schema["components"]["securitySchemes"]
    assert schemes["bearer"]["scheme"] == "bearer"
    assert [list(each) for each in schema["security"] if each] == [[name] for name in schemes]
    assert ({} in schema["security"]) == (server == "application")  # which here has no access control
    assert schema["paths"]["/healthz"]["get"]["security"] == []
    assert "HTTPValidationError" not in schema["components"]["schemas"]
