"""`python -m embedder.server`: runs the embedding server in an installation with only the extra `[server]`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from ipaddress import ip_address
from pathlib import Path

from embedder.checkpoint import DEFAULT_MODEL
from embedder.command.standard_output import run_program
from embedder.command.status import needs_extra
from embedder.engine.limits import Limits
from embedder.errors import EmbedderError

COMMAND = "python -m embedder.server"
with needs_extra("server", __name__):
    from embedder.server.protocol import InputType
    from embedder.server.serving import DEFAULT_PORT, listen, run_server


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = _options()
    try:
        api_key = _api_key()
        listener = listen(
            options.host, options.port, is_open=not _is_loopback(options.host), api_key=api_key, command=COMMAND
        )
        with listener:
            run_server(
                listener,
                options.model,
                device=options.device,
                dtype=options.dtype,
                limits=Limits(
                    query_inputs=options.query_inputs,
                    query_wait_s=options.query_wait_s,
                    batch_tokens=options.batch_tokens,
                    batch_s=options.batch_s,
                ),
                api_key=api_key,
                input_type=InputType(options.input_type),
                announce=_announce,
            )
    except (EmbedderError, OSError) as error:
        sys.exit(f"{COMMAND}: {error}")


def _announce(url: str) -> None:
    sys.stdout.write(f"Ready: {url}   (API: {url}/docs, Ctrl-C stops)\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description=__doc__,
        epilog="Set the key in GIRCSE_EMBEDDER_API_KEY, or in a file named by GIRCSE_EMBEDDER_API_KEY_FILE.",
    )
    parser.add_argument(
        "--model", default=os.environ.get("GIRCSE_MODEL") or DEFAULT_MODEL, help="name of a model, or its folder"
    )
    parser.add_argument("--device", default=os.environ.get("GIRCSE_DEVICE") or None, help="default: CUDA, else CPU")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or int8")
    parser.add_argument(
        "--host",
        default=os.environ.get("GIRCSE_HOST") or "127.0.0.1",
        help="address to listen at; default: %(default)s",
    )
    parser.add_argument(
        "--port", type=int, default=int(os.environ.get("GIRCSE_PORT") or DEFAULT_PORT), help="default: %(default)s"
    )
    parser.add_argument(
        "--input-type", default="document", choices=[*InputType], help="role of texts if the request gives none"
    )
    limits = Limits()
    parser.add_argument(
        "--query-inputs", type=int, default=limits.query_inputs, help="maximum number of waiting queries"
    )
    parser.add_argument(
        "--query-wait-s",
        type=float,
        default=limits.query_wait_s,
        help="refuse a query (429) if it would take longer than this and than 1.8 times a query alone",
    )
    parser.add_argument("--batch-tokens", type=int, default=limits.batch_tokens, help="maximum tokens per batch")
    parser.add_argument("--batch-s", type=float, default=limits.batch_s, help="target duration of a batch of documents")
    return parser.parse_args()


def _api_key() -> str | None:
    file = os.environ.get("GIRCSE_EMBEDDER_API_KEY_FILE")
    key = Path(file).read_text(encoding="utf-8").strip() if file else os.environ.get("GIRCSE_EMBEDDER_API_KEY")
    return key or None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    run_program(main)
