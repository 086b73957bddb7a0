"""Two replicas of the embedding server on a Ray cluster of this machine, behind one address."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_models import save_tiny_model

from app.wiring.embedding import LocalEmbedder
from app.wiring.remote import RemoteEmbedder

pytest.importorskip("ray.serve")

import ray
from ray import serve

from embedder.server.ray_serve import NAME, deploy

KEY = "a-secret"

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(save_tiny_model(tmp_path / "tiny", "qwen2"))


@pytest.fixture
def url(model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with socket.create_server(("127.0.0.1", 0)) as free_soon:
        port = free_soon.getsockname()[1]
    environment = {"PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[at]) for at in (2, 0))}
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": environment})
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        deploy(model, replicas=2, cpus_each=0.5, dtype="float32", api_key=KEY)
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()


def test_replicas_give_the_library_s_vectors(url: str, model: str) -> None:
    remote = RemoteEmbedder(url, api_key=KEY)
    texts = [f"text {number}" for number in range(400)]
    found = remote.embed_documents(texts, instruction="Look at it", steps=2)
    local = LocalEmbedder(model, dtype="float32")
    np.testing.assert_allclose(found, local.embed_documents(texts, instruction="Look at it", steps=2), atol=1e-6)
    query = remote.embed_query("a river", steps=3)
    np.testing.assert_allclose(query.vector, local.embed_query("a river", steps=3).vector, atol=1e-6)
    assert remote.is_ready()
    replicas = serve.status().applications[NAME].deployments[NAME].replica_states
    assert replicas == {"RUNNING": 2}
