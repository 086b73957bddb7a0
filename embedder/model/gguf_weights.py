"""Dequantises GGUF files once into a folder that transformers loads, cached by the file's hash.

Handles files and caches; `embedder.model.gguf_families` knows the families.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub.constants
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file

from embedder.errors import ContractError
from embedder.model.contract import sha256_of
from embedder.model.gguf_families import ROPE_FACTORS, config_of, family_of
from embedder.model.gguf_source import SOURCE_FILE
from embedder.model.pretrained import AutoTokenizer

_FORMAT = 1  # format version of the folder; part of its name
_BLOCK = 2**22


def convert(parts: Sequence[Path], *, expected: str | None, notices: Sequence[Path], cache: Path | None = None) -> Path:
    """The folder of the model in a GGUF file, given in `parts`. Raises ContractError.

    expected: SHA-256 of the whole file, if known. cache: parent of such folders.
    """
    digest = _digest_of(parts)
    if expected is not None and digest != expected:
        raise ContractError(
            f"{parts[0].name} has SHA-256 {digest[:12]}…, not the expected {expected[:12]}…: it is "
            "damaged. Get it again."
        )
    cache = cache or Path(huggingface_hub.constants.HF_HOME) / "gircse-gguf"
    folder = cache / f"{digest}-{_FORMAT}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="unfinished-") as made, _joined(parts, cache) as file:
            _write_model(file, Path(made), digest=digest, name=_whole_name(parts))
            _publish(Path(made), folder)
    for notice in notices:  # an earlier copy of the same file may have lacked them
        if not (folder / notice.name).is_file():
            shutil.copyfile(notice, folder / notice.name)
    return folder


def _publish(made: Path, folder: Path) -> None:
    """Publishes the folder atomically; another process may have been faster."""
    try:
        os.rename(made, folder)
    except OSError:
        if not folder.is_dir():
            raise
    else:
        made.mkdir()  # the caller removes it
        folder.chmod(0o755)


def _digest_of(parts: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _whole_name(parts: Sequence[Path]) -> str:
    name = parts[0].name
    return name if len(parts) == 1 else f"{name.partition('.gguf')[0]}.gguf"


@contextmanager
def _joined(parts: Sequence[Path], cache: Path) -> Iterator[Path]:
    """Joins the parts into one temporary file."""
    if len(parts) == 1:
        yield parts[0]
        return
    with tempfile.TemporaryDirectory(dir=cache, prefix="joined-") as folder:
        whole = Path(folder) / _whole_name(parts)
        with whole.open("wb") as file:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, file, _BLOCK)
        yield whole


def _write_model(file: Path, folder: Path, *, digest: str, name: str) -> None:
    try:
        reader = GGUFReader(file)
    except (ValueError, OSError, IndexError, KeyError) as error:
        raise ContractError(f"{file} is not valid GGUF ({error}). Get it again.") from error
    metadata = {
        key: field.contents()
        for key, field in reader.fields.items()
        if len(field.data) == 1 and not key.startswith("tokenizer.chat")
    }
    family, architecture = family_of(metadata), metadata["general.architecture"]
    heads = metadata[f"{architecture}.attention.head_count"]
    key_heads = metadata.get(f"{architecture}.attention.head_count_kv", heads)
    weights, factors = {}, []
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype("float32", copy=False)
        if tensor.name == ROPE_FACTORS:
            factors = [float(each) for each in values]
            continue
        restored = family.restore(tensor.name, values, heads=heads, key_heads=key_heads)
        weights[family.name_of(tensor.name)] = torch.from_numpy(restored.copy() if restored is values else restored)
    embedding = weights.get("model.embed_tokens.weight")
    if embedding is None:
        raise ContractError(f"{file} holds no token_embd.weight. Get it again.")
    config = config_of(
        metadata,
        vocabulary_size=embedding.shape[0],
        is_tied="lm_head.weight" not in weights,
        rope_factors=factors,
    )
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    _write_tokenizer(file, folder)
    if (template := reader.fields.get("tokenizer.chat_template")) is not None:
        (folder / "chat_template.jinja").write_text(str(template.contents()), encoding="utf-8")
    files = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    source = {"gguf": name, "sha256": digest, "files": files}
    (folder / SOURCE_FILE).write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")


def _write_tokenizer(file: Path, folder: Path) -> None:
    """Writes the tokenizer. GGUF has only the vocabulary with scores or merges; transformers knows the family's
    pre-tokeniser."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
        tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ContractError(f"The tokenizer of {file} cannot be read ({error}). Take another file.") from error
