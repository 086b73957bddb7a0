"""A GIRCSE model as a module of sentence-transformers. `python -m embedder.sentence_transformers FOLDER` exports one.

The exported folder holds no code; it refers to the class of this installed package.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from tokenizers import Tokenizer

from embedder.checkpoint import DEFAULT_MODEL, load_encoder, load_model_tokenizer, model_folder
from embedder.command.standard_output import run_program
from embedder.command.status import needs_extra
from embedder.encoder import Encoder
from embedder.errors import EmbedderError, TextError
from embedder.model.pretrained import PreTrainedTokenizerFast

with needs_extra("sentence-transformers", __name__):
    from sentence_transformers import SentenceTransformer, SentenceTransformerModelCardData
    from sentence_transformers.base.modules import InputModule

_PACKAGING = shutil.ignore_patterns("pyproject.toml", "*.egg-info", "build")  # of models that are distributions
_ORGANIZATION = "gircse-search"
_QUERY, _DOCUMENT = "query", "document"
_CONFIG = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine", "prompts": {_QUERY: "", _DOCUMENT: ""}}


class GircseModule(InputModule):
    """Embeds texts. `encode_query` uses the query's instruction and steps, all other methods the document's. `prompt`
    replaces the instruction; unlike elsewhere, it is not prepended to the text."""

    save_in_root = True

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._encoder = encoder
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, model_max_length=encoder.contract.max_length
        )
        """For programs that count tokens. It adds no instruction."""

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, task: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Passes the texts through: the encoder itself makes batches of equal length."""
        if not all(isinstance(text, str) for text in inputs):
            raise TextError("A GIRCSE model embeds single texts, not pairs or images.")
        # sentence-transformers needs lengths; the texts travel beside them.
        return {"texts": list(inputs), "instruction": prompt or None, "task": task, "modality": "text"}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        encode = self._encoder.encode_queries if features["task"] == _QUERY else self._encoder.encode_documents
        vectors = encode(features["texts"], instruction=features["instruction"])
        features["sentence_embedding"] = torch.from_numpy(vectors)
        return features

    def get_embedding_dimension(self) -> int:
        return self._encoder.contract.dimension

    @property
    def max_seq_length(self) -> int:
        return self._encoder.contract.max_length

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        raise EmbedderError(
            f"Saving is not supported. Export the model: python -m embedder.sentence_transformers {output_path}"
        )

    @classmethod
    def load(cls, model_name_or_path: str, *_: Any, **__: Any) -> Self:
        return cls(load_encoder(model_name_or_path, dtype="auto"), load_model_tokenizer(model_name_or_path))


def open_sentence_transformer(
    model: str = DEFAULT_MODEL, *, device: str | None = None, dtype: str | None = "auto"
) -> SentenceTransformer:
    """Opens the model without an exported folder and without `trust_remote_code`.

    Its card has the name and, as revision, the fingerprint, by which mteb stores results.
    """
    encoder = load_encoder(model, device=device, dtype=dtype)
    module = GircseModule(encoder, load_model_tokenizer(model))
    # On the CPU, since only texts and vectors pass between modules.
    return SentenceTransformer(modules=[module], device="cpu", model_card_data=_card(encoder))


def _card(encoder: Encoder) -> SentenceTransformerModelCardData:
    """mteb takes only names of the form `organization/model`; a folder has another."""
    name = encoder.name
    if name.count("/") != 1:
        name = f"{_ORGANIZATION}/{Path(name).name}"
    card = SentenceTransformerModelCardData(model_name=name)
    card.base_model_revision = encoder.fingerprint
    return card


def export_model(folder: Path, model: str = DEFAULT_MODEL) -> None:
    """Copies the checkpoint and adds the module files of sentence-transformers. Raises EmbedderError."""
    if folder.exists() and any(folder.iterdir()):
        raise EmbedderError(f"{folder} is not empty; name a new folder.")
    shutil.copytree(model_folder(model), folder, ignore=_PACKAGING, dirs_exist_ok=True)
    module = {"idx": 0, "name": "0", "path": "", "type": f"{__spec__.name}.{GircseModule.__name__}"}
    (folder / "modules.json").write_text(json.dumps([module], indent=2) + "\n", encoding="utf-8")
    (folder / "config_sentence_transformers.json").write_text(json.dumps(_CONFIG, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m embedder.sentence_transformers", description=export_model.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    chosen = parser.parse_args()
    try:
        export_model(chosen.folder, chosen.model)
    except (EmbedderError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    run_program(main)
