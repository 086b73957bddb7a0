"""The embedding server as a Ray Serve deployment: replicas on the nodes of a cluster, behind one address.

Import it only with the extra `[ray]` installed. `python -m embedder.server.ray_serve` runs it.
"""

from __future__ import annotations

import argparse
import logging
import os
import time

from embedder.checkpoint import DEFAULT_MODEL
from embedder.command.standard_output import run_program
from embedder.command.status import needs_extra
from embedder.engine.errors import NotServingError
from embedder.engine.limits import Limits

with needs_extra("ray", __name__):
    import ray
    from fastapi import FastAPI
    from ray import serve
    from ray.serve.handle import DeploymentHandle

    from embedder.server.protocol import InputType
    from embedder.server.serving import DEFAULT_PORT, ListenError, load_application, require_key

NAME = "gircse-embedder"
# The engine itself refuses requests under load; Serve only forwards.
_MOST_ONGOING = 1_000
_HEALTH_PERIOD_S = 2.0


def deploy(
    model: str = DEFAULT_MODEL,
    *,
    replicas: int = 1,
    gpus_each: float = 0.0,
    cpus_each: float = 1.0,
    dtype: str | None = "auto",
    limits: Limits | None = None,
    api_key: str | None = None,
    input_type: InputType = InputType.DOCUMENT,
) -> DeploymentHandle:
    """Starts the replicas in the cluster joined by `ray.init`; returns when all are ready."""
    device = "cuda" if gpus_each else "cpu"

    def build() -> FastAPI:
        application, _ = load_application(
            model, device=device, dtype=dtype, limits=limits or Limits(), api_key=api_key, input_type=input_type
        )
        return application

    @serve.deployment(
        name=NAME,
        num_replicas=replicas,
        ray_actor_options={"num_cpus": cpus_each, "num_gpus": gpus_each},
        max_ongoing_requests=_MOST_ONGOING,
        health_check_period_s=_HEALTH_PERIOD_S,
    )
    @serve.ingress(build)
    class EmbeddingReplica:
        """One model per replica. Serve replaces a replica whose compute thread has ended."""

        def check_health(self) -> None:
            if not self.app.state.engine.is_serving:  # type: ignore[attr-defined]
                raise NotServingError("The compute thread has ended.")

    return serve.run(EmbeddingReplica.bind(), name=NAME, route_prefix="/")  # type: ignore[attr-defined]


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    parser = argparse.ArgumentParser(prog="python -m embedder.server.ray_serve", description=__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--gpus-each", type=float, default=0.0, help="GPUs per replica; 0 computes on CPUs")
    parser.add_argument("--cpus-each", type=float, default=1.0)
    parser.add_argument(
        "--address", default=None, help="address of a Ray cluster, or auto. Default: start one on this machine"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    options = parser.parse_args()
    api_key = os.environ.get("GIRCSE_EMBEDDER_API_KEY") or None
    if options.host not in ("127.0.0.1", "localhost", "::1"):
        try:
            require_key(options.host, api_key, command=parser.prog)
        except ListenError as error:
            parser.error(str(error))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address=options.address, include_dashboard=False if options.address is None else None)
    serve.start(http_options={"host": options.host, "port": options.port})
    deploy(
        options.model,
        replicas=options.replicas,
        gpus_each=options.gpus_each,
        cpus_each=options.cpus_each,
        api_key=api_key,
    )
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        serve.shutdown()


if __name__ == "__main__":
    run_program(main)
