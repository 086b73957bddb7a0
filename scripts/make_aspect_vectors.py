"""Regenerates app/search/aspect_vectors.safetensors after a change of the aspect bank or the model: `python
scripts/make_aspect_vectors.py`.
"""

from __future__ import annotations

from app.search.aspect_search import bank_wordings, embed_wordings
from app.search.aspect_vectors import FILE, keep_vectors
from app.wiring.embedding import LocalEmbedder
from embedder.command.standard_output import run_program
from embedder.model_info import DEFAULT_MODEL


def main() -> None:
    model = LocalEmbedder(DEFAULT_MODEL, dtype="float32")
    wordings = bank_wordings()
    keep_vectors(model.info, wordings, embed_wordings(model, wordings))
    model.close()
    print(f"{FILE}: {len(wordings)} wordings, {FILE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    run_program(main)
