"""The description of the API: every route is summed up, grouped, shown by an example, and tells its problems."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedder.server.client_errors import is_client_path

MAKE_DOCS = Path(__file__).parents[2] / "scripts" / "make_docs.py"
PROBLEMS = {"400", "401", "403", "404", "409", "413", "422", "429", "503"}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("make_docs", MAKE_DOCS)
    assert spec is not None
    assert spec.loader is not None
    make_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_docs)
    schema: dict[str, Any] = make_docs.openapi_schema()
    return schema


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_has_a_readable_name_of_its_own(described: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(described)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)
    assert {"search", "refine", "add_document", "list_documents", "create_collection", "retry_job"} <= set(names)


def test_every_operation_is_summed_up_and_grouped(described: dict[str, Any]) -> None:
    wanting = [
        name
        for name, operation in operations(described)
        if not (operation.get("summary") and operation.get("description") and operation.get("tags"))
    ]
    assert not wanting


def test_every_operation_tells_its_problems(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        if is_client_path(name.partition(" ")[2]):  # in the format of the clients that ask
            continue
        assert operation["responses"].keys() >= PROBLEMS, name
        for status in PROBLEMS - {"503"}:  # which /readyz answers in its own shape
            assert "application/problem+json" in operation["responses"][status]["content"], (name, status)


def json_bodies(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, operation in operations(schema):
        bodies = {"request": operation.get("requestBody", {}), **operation["responses"]}
        for which, body in bodies.items():
            for media_type, content in body.get("content", {}).items():
                if media_type.endswith("json") and content:
                    yield f"{name} {which} {media_type}", content


def test_every_body_has_an_example_that_its_shape_allows(described: dict[str, Any]) -> None:
    import jsonschema  # reads 38 grammars, two seconds in every process that collects this file

    seen = 0
    for name, content in json_bodies(described):
        schema = {**content["schema"], "components": described["components"]}
        try:
            jsonschema.validate(content["example"], schema)
        except (KeyError, jsonschema.ValidationError) as error:
            pytest.fail(f"{name}: {error!r}")
        seen += 1
    assert seen > 100


def test_every_answer_that_is_not_empty_has_a_body(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        for status, answer in operation["responses"].items():
            assert bool(answer.get("content")) == (status != "204"), (name, status)
