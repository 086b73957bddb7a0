"""Clients that openapi-python-client generates from the descriptions of both servers."""

# /// script
# dependencies = ["openapi-python-client", "httpx", "attrs", "python-dateutil"]
# ///

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import httpx
from reporting import APPLICATION, EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checked_hits, checked_vectors, run_calls


def generated(name: str, url: str, folder: Path) -> None:
    """Makes the package `name`, importable from `folder`. Warnings name paths that the generator left out."""
    description = folder / f"{name}.json"
    description.write_bytes(httpx.get(f"{url}/openapi.json", headers=KEY).raise_for_status().content)
    settings = folder / f"{name}.settings.json"
    # Without the override the generator leaves images out, with a warning.
    overrides = {"image/jpeg": "application/octet-stream"}
    chosen = {"package_name_override": name, "post_hooks": [], "content_type_overrides": overrides}
    settings.write_text(json.dumps(chosen), encoding="utf-8")
    command = [Path(sys.executable).with_name("openapi-python-client"), "generate", "--meta", "none"]
    options = ["--path", description, "--config", settings, "--output-path", folder / name]
    made = subprocess.run([*command, *options], capture_output=True, text=True)
    said = made.stdout + made.stderr
    assert made.returncode == 0, said
    assert "WARNING" not in said.upper(), said


KEY = {"Authorization": f"Bearer {EMBEDDER_KEY}"}
FOLDER = Path(tempfile.mkdtemp())
sys.path.insert(0, str(FOLDER))


def generate(name: str, url: str) -> Callable[[], str]:
    def call() -> str:
        generated(name, url, FOLDER)
        endpoints = [path for path in (FOLDER / name / "api").rglob("*.py") if path.stem != "__init__"]
        return f"{len(endpoints)} operations, no warning"

    return call


def operation(package: str, name: str) -> Callable:
    [path] = (FOLDER / package / "api").rglob(f"{name}.py")
    return import_module(".".join(path.relative_to(FOLDER).with_suffix("").parts)).sync


def search() -> str:
    models = import_module("application.models")
    client = import_module("application").Client(APPLICATION, raise_on_unexpected_status=True)
    found = operation("application", "search")(
        client=client, body=models.SearchQuestion.from_dict({"query": QUERY, "collection": "letters"})
    )
    return checked_hits([hit.chunk.text for hit in found.hits])


def embed() -> str:
    models = import_module("embedding_server.models")
    client = import_module("embedding_server").AuthenticatedClient(
        EMBEDDER, EMBEDDER_KEY, raise_on_unexpected_status=True
    )
    body = models.EmbeddingQuestion.from_dict({"model": MODEL, "input": TEXTS})
    found = operation("embedding_server", "embeddings")(client=client, body=body)
    return checked_vectors([row.embedding for row in found.data], len(TEXTS))


run_calls(
    "openapi-python-client",
    {
        "generate from the application": generate("application", APPLICATION),
        "generated client of the application: search": search,
        "generate from the embedding server": generate("embedding_server", EMBEDDER),
        "generated client of the embedding server: embeddings": embed,
    },
)
