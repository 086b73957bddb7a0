"""The OpenAPI description of a server is complete for every reader, also while another one builds it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import FastAPI

from embedder.server.description import complete_description


def test_nobody_reads_a_description_that_is_being_built() -> None:
    api = FastAPI()
    built = []

    def complete(schema: dict[str, Any]) -> None:
        built.append(schema)
        time.sleep(0.1)
        schema["security"] = []

    complete_description(api, complete)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: "security" in api.openapi(), range(8)))
    assert len(built) == 1
