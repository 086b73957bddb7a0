"""Loads an Encoder by a model's name: finds the files, verifies them, loads them and checks the golden vectors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import Tokenizer

from embedder.encoder import Encoder, LibraryEncoder
from embedder.errors import ContractError, DeviceError, ModelNotFoundError
from embedder.extensions.auxiliary_models import AuxiliaryModels
from embedder.extensions.hyper_projection import PROJECTION_FILE, read_projection
from embedder.extensions.sentence_selection import SELECTION_FILE, read_selector
from embedder.model.adapter import CONFIG_FILE
from embedder.model.backbone import (
    DTYPES,
    GGUF_PREFIX,
    Backbone,
    load_backbone,
    locate_model,
    release_body,
)
from embedder.model.bare_encoder import load_bare_encoder
from embedder.model.context_token import load_context_encoder, with_context
from embedder.model.contract import (
    CONTRACT_FILE,
    SAME_MODEL,
    Contract,
    Golden,
    digest_of,
    hash_files,
    read_contract,
    resolve_defaults,
    verify_files,
)
from embedder.model.gguf_source import hash_weights, is_from_gguf, verify_weights
from embedder.model.model_thread import on_model_thread
from embedder.model.weight_formats import multiplies_bfloat16
from embedder.model_info import DEFAULT_MODEL, MODEL_PACKAGES
from embedder.refinement_steps import DOCUMENT_STEPS
from embedder.text.prompts import TOKENIZER_FILE, load_tokenizer
from embedder.text.tokens import read_fragments

_TEXTS = (
    ("Rivers carry sand and clay towards the sea.", "", 5),
    ("Please move my appointment to Thursday afternoon.", "Represent the intention of this text.", 20),
)
_NUMBERS = 16
_TOLERANCE = 1e-4
_COSINE = 0.999  # minimum cosine where weights are not float32
_COSINE_OF_DIFFERENCES = 0.98  # lower, because the difference of two vectors is short and rounding errors weigh more
_ALL_BUT_GREEDY = 1e-2  # below this temperature a soft token is practically one word


def make_golden(encoder: Encoder) -> tuple[Golden, ...]:
    """The golden vectors for the contract of a new model: built-in texts, embedded by `encoder` in float32.

    Empty if words are chosen greedily, by a generator or as hard tokens: another processor may break a near tie
    differently.
    """
    if encoder.contract.generator is not None or encoder.contract.temperature < _ALL_BUT_GREEDY:
        return ()
    return tuple(_golden(encoder, *each) for each in _TEXTS)


def _golden(encoder: Encoder, text: str, instruction: str, steps: int) -> Golden:
    instruction, steps = resolve_defaults(encoder.contract, "query", instruction, min(steps, encoder.max_steps))
    vector = encoder.refine(text, instruction=instruction, steps=steps).vector
    return Golden(text, instruction, steps, tuple(round(float(x), 6) for x in vector[:_NUMBERS]))


def check_golden(encoder: Encoder) -> None:
    """Raises ContractError unless the encoder reproduces the golden vectors of the contract."""
    for golden in encoder.contract.golden:
        wrong, fits = _compare(encoder, golden)
        if not fits:
            raise ContractError(
                f"Model {encoder.name!r} does not reproduce its golden vector of {golden.text!r} "
                f"(error or cosine {wrong:.2g}). "
                "The weights or libraries differ from the author's. Get the checkpoint again."
            )


def is_reproduced(encoder: Encoder, golden: Golden) -> bool:
    return _compare(encoder, golden)[1]


def _compare(encoder: Encoder, golden: Golden) -> tuple[float, bool]:
    """The largest error in float32, else the cosine; and whether it is within tolerance."""
    vector = encoder.encode_queries([golden.text], instruction=golden.instruction, steps=golden.steps)[0]
    expected = np.asarray(golden.vector, dtype=np.float32)
    vector = vector[: len(expected)]
    if encoder.dtype == torch.float32:
        wrong = float(np.abs(vector - expected).max())
        return wrong, wrong <= _TOLERANCE
    cosine = float(vector @ expected / (np.linalg.norm(vector) * np.linalg.norm(expected)))
    return cosine, cosine >= (_COSINE_OF_DIFFERENCES if encoder.contract.subtracted_instruction else _COSINE)


if TYPE_CHECKING:  # importing it loads transformers
    from embedder.extensions.generators import TransformersGenerator

CARD_FILE = "README.md"
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_SHIPPED = Path(__file__).parent / "models"
_SMALL_BYTES = 500_000_000
_DEFAULT_MAX_LENGTH = 512  # for models without a contract; the authors evaluate at 512 tokens


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's files and its contract."""

    contract: Contract
    base: Path
    adapter: Path | None
    context: Path | None = None  # files of the encoder of contextual tokens
    projection: Path | None = None  # folder of the projection that instructions apply to vectors
    generator: Path | None = None  # files of the generating language model, unless it is the model itself
    selection: Path | None = None  # folder of the sentence selector


def find_checkpoint(model: str) -> Checkpoint:
    """Finds the files of `model`: a shipped name, a folder, or a hub id. A folder or hub model may be

    - a GIRCSE checkpoint (gircse.json, and usually an adapter),
    - a PEFT adapter without a contract, such as the authors' releases (its config names the base),
    - a plain causal language model; the last two use the `official` template, causal attention and mean pooling.
    """
    folder = model_folder(model)
    contract = read_contract(folder)
    if contract is None:
        return _checkpoint_without_contract(model, folder)
    adapter = folder if (folder / CONFIG_FILE).is_file() else None
    if adapter is None and contract.adapter_files:
        raise ContractError(f"{folder} has a contract but no adapter. Get the checkpoint again.")
    base = locate_model(_relative_to(contract.base, folder), revision=contract.base_revision)
    verify_weights(base, contract.base_files)
    if adapter is not None:
        verify_files(adapter, contract.adapter_files)
        _verify_own_tokenizer(adapter, contract)
    context = None
    if contract.context_encoder is not None:
        context = locate_model(_relative_to(contract.context_encoder, folder))
        verify_weights(context, contract.context_files)
    projection = _verified_folder(folder, PROJECTION_FILE, contract.projection_files)
    selection = _verified_folder(folder, SELECTION_FILE, contract.selection_files)
    generator = None
    if contract.generator not in (None, SAME_MODEL):
        generator = locate_model(_relative_to(contract.generator, folder))
        verify_weights(generator, contract.generator_files)
    return Checkpoint(contract, base, adapter, context, projection, generator, selection)


def _verified_folder(folder: Path, name: str, expected: Mapping[str, str]) -> Path | None:
    """Verifies the file `name` against its hash. Returns the folder, or None if the contract lists no such file."""
    if not expected:
        return None
    if name not in expected:
        raise ContractError(f"{folder / CONTRACT_FILE} has no hash of {name}. Get the checkpoint again.")
    verify_files(folder, expected)
    return folder


def _verify_own_tokenizer(adapter: Path, contract: Contract) -> None:
    """A tokenizer beside the adapter replaces that of the base, so it must have the hash of one of them in the
    contract. Contracts of earlier releases may have neither.
    """
    expected = contract.adapter_files.get(TOKENIZER_FILE, contract.base_files.get(TOKENIZER_FILE))
    if expected is not None and (adapter / TOKENIZER_FILE).is_file():
        verify_files(adapter, {TOKENIZER_FILE: expected})


def _relative_to(base: str, folder: Path) -> str:
    """Resolves a base that the contract gives relative to its own folder; `.` is a full model beside the contract."""
    file = base.removeprefix(GGUF_PREFIX)
    if not file.startswith("."):
        return base
    return f"{GGUF_PREFIX if file != base else ''}{folder / file}"


def _checkpoint_without_contract(model: str, folder: Path) -> Checkpoint:
    adapter = folder if (folder / CONFIG_FILE).is_file() else None
    base_name = model if adapter is None else _base_of_adapter(adapter)
    base = folder if adapter is None else locate_model(base_name)
    config = read_config(base)
    contract = Contract(
        name=model,
        base=base_name,
        base_revision=None,
        base_files=hash_weights(base),
        adapter_files=hash_files(adapter) if adapter else {},
        template="official",
        attention="causal",
        pooling="mean",
        head="lm_head",
        temperature=1.0,
        max_length=min(_DEFAULT_MAX_LENGTH, max(int(config.get("max_position_embeddings") or 1024) - 64, 1)),
        dimension=_hidden_size(config, base),
        dtype=stored_dtype(config),
        # A plain GGUF decoder was not trained to refine; more steps do not improve it.
        default_document_steps=1 if adapter is None and is_from_gguf(base) else DOCUMENT_STEPS,
    )
    return Checkpoint(contract, base, adapter)


def read_config(base: Path) -> dict[str, Any]:
    file = base / "config.json"
    if not file.is_file():
        raise ModelNotFoundError(f"{base} has no config.json, so transformers cannot load it.")
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return config


def stored_dtype(config: Mapping[str, Any]) -> str:
    """The dtype to compute in, derived from the dtype of the stored weights; float16 is slow on CPUs."""
    return "bfloat16" if config.get("dtype", config.get("torch_dtype")) in ("bfloat16", "float16") else "float32"


def _base_of_adapter(adapter: Path) -> str:
    config = json.loads((adapter / CONFIG_FILE).read_text(encoding="utf-8"))
    name = config.get("base_model_name_or_path") or ""
    if not name:
        raise ModelNotFoundError(f"{adapter / CONFIG_FILE} names no base model. Add base_model_name_or_path to it.")
    return name


def find_tokenizer(model: str) -> Path:
    """The tokenizer's folder for `model` (anything `find_checkpoint` accepts). Verifies no weights."""
    folder = model_folder(model)
    if (folder / CONFIG_FILE).is_file() and (folder / TOKENIZER_FILE).is_file():
        return folder
    contract = read_contract(folder)
    if contract is not None:
        return locate_model(_relative_to(contract.base, folder), revision=contract.base_revision)
    return locate_model(_base_of_adapter(folder)) if (folder / CONFIG_FILE).is_file() else folder


def load_model_tokenizer(model: str = DEFAULT_MODEL) -> Tokenizer:
    """Loads only the tokenizer of the model; it neither truncates nor pads."""
    tokenizer = load_tokenizer(find_tokenizer(model))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_model_card(model: str = DEFAULT_MODEL) -> str | None:
    """The model card of `model` (anything `find_checkpoint` accepts) in Markdown, or None.

    The hub's YAML front matter is removed.
    """
    card = model_folder(model) / CARD_FILE
    if not card.is_file():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    return _FRONT_MATTER.sub("", text, count=1).strip()


def model_folder(model: str) -> Path:
    """The folder of `model` (anything `find_checkpoint` accepts). A folder of the same name in the working directory
    does not hide a shipped model. Raises ModelNotFoundError."""
    if not model.strip():
        raise ModelNotFoundError(f"The name of the model is empty. Give one, such as {DEFAULT_MODEL}, or a folder.")
    if (_SHIPPED / model / CONTRACT_FILE).is_file():
        return _SHIPPED / model
    if model in MODEL_PACKAGES:
        return _packaged_folder(model)
    shipped = sorted({*(file.parent.name for file in _SHIPPED.glob(f"*/{CONTRACT_FILE}")), *MODEL_PACKAGES})
    near = get_close_matches(model, shipped, n=1) if "/" not in model and not Path(model).is_dir() else []
    if near:
        raise ModelNotFoundError(
            f"No model or folder {model!r}. Did you mean {near[0]!r}? Shipped: {', '.join(shipped)}."
        )
    return locate_model(model)


def _packaged_folder(model: str) -> Path:
    """The folder of a shipped model that is a separate distribution. In a clone of the repository it lies beside the
    other models."""
    found = find_spec(model.replace("-", "_"))
    for place in (found and found.submodule_search_locations) or ():
        if (Path(place) / CONTRACT_FILE).is_file():
            return Path(place)
    raise ModelNotFoundError(
        f"The model {model!r} is a package that is not installed. Run `pip install '{MODEL_PACKAGES[model]}'`."
    )


def _hidden_size(config: Mapping[str, object], base: Path) -> int:
    size = config.get("hidden_size")
    if not isinstance(size, int):
        raise ModelNotFoundError(f"{base / 'config.json'} gives no hidden_size, so it is not a plain decoder.")
    return size


def load_encoder(
    model: str = DEFAULT_MODEL,
    *,
    device: str | None = None,
    dtype: str | None = None,
    truncate_dim: int | None = None,
    cache_mb: float = 0,
    top_entries: int | None = None,
    cuda_graphs: bool = False,
    own_thread: bool = False,
) -> Encoder:
    """Loads `model` on `device` (default: CUDA if available) in `dtype` (default: the contract's).

    Verifies hashes and golden vectors. Raises ModelNotFoundError, ContractError or DeviceError.

    - dtype "auto": bfloat16 if the device has hardware for it (CUDA, CPUs with AVX-512 BF16 or AMX), else the
      contract's. "int8": 8-bit weights, computed in bfloat16; only for architectures with our own decoder.
    - cache_mb: memory for a cache of vectors.
    - top_entries: mix only that many words into a soft token if all others have at most 1 % of the probability. Faster
      with a large vocabulary and sharp soft tokens; those of gircse-mini are not sharp.
    - cuda_graphs: on CUDA, run steps of batches of up to 256 texts as CUDA graphs, which take up to 1 GiB more.
    - own_thread: load and compute on the CPU in one thread per process, whichever thread calls. Threads that compute at
      the same time slow each other down.
    """
    if top_entries is not None and top_entries < 1:
        raise ContractError(f"top_entries is {top_entries}, but must be at least 1.")
    checkpoint = find_checkpoint(model)
    contract = checkpoint.contract
    device = chosen_device(device)
    chosen = chosen_dtype(dtype or contract.dtype, default=contract.dtype, device=device)

    has_own_thread = own_thread and device == "cpu"

    def load() -> Encoder:
        backbone, tokenizer = load_parts(
            checkpoint, device=device, dtype=chosen, top_entries=top_entries, cuda_graphs=cuda_graphs
        )
        if contract.generator != SAME_MODEL:  # such a generator writes with transformers' modules
            release_body(backbone)
        parts = backbone, tokenizer, contract
        named: dict[str, Any] = {
            "truncate_dim": truncate_dim,
            "fragments": read_fragments(checkpoint.adapter or checkpoint.base),
            "auxiliary": load_auxiliary_models(checkpoint, backbone, tokenizer),
        }
        if has_own_thread or cache_mb > 0:
            encoder: Encoder = LibraryEncoder(*parts, cache_mb=cache_mb, own_thread=has_own_thread, **named)
        else:
            encoder = Encoder(*parts, **named)
        if truncate_dim is None:
            check_golden(encoder)
        return encoder

    def load_gently() -> Encoder:
        with _threads_for_loading(checkpoint):
            return load()

    return on_model_thread(load_gently) if has_own_thread else load_gently()


def write_contract(folder: Path, contract: Contract, *, kept: Sequence[Golden] = ()) -> None:
    """Writes the contract beside the weights of a new model, with golden vectors from a fresh load.

    kept: earlier golden vectors, perhaps from another implementation. Those that still match are kept unchanged.
    """
    path = folder / CONTRACT_FILE
    path.write_text(replace(contract, golden=()).to_json(), encoding="utf-8")
    encoder = load_encoder(str(folder), device="cpu", dtype="float32")
    still_true = [each for each in kept if is_reproduced(encoder, each)]
    golden: dict[tuple[str, str, int], Golden] = {}
    for each in (*still_true, *make_golden(encoder)):
        golden.setdefault((each.text, each.instruction, each.steps), each)
    path.write_text(replace(contract, golden=tuple(golden.values())).to_json(), encoding="utf-8")


@contextmanager
def _threads_for_loading(checkpoint: Checkpoint) -> Iterator[None]:
    """Loads with a single thread inside the block. Loading a small model is many small operations, and threads mostly
    wait for each other: on a busy machine, several threads take four times the processor time of one."""
    threads = torch.get_num_threads()
    size = sum(path.stat().st_size for path in checkpoint.base.glob("*.safetensors"))
    if size < _SMALL_BYTES:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def load_parts(
    checkpoint: Checkpoint, *, device: str, dtype: str, top_entries: int | None = None, cuda_graphs: bool = False
) -> tuple[Backbone, Tokenizer]:
    """Loads the model on `device` in `dtype`, and its tokenizer."""
    if checkpoint.contract.head == "none":
        bare = load_bare_encoder(checkpoint.base, adapter=checkpoint.adapter, device=device, dtype=dtype)
        return bare, load_tokenizer(checkpoint.base)
    context = None
    if checkpoint.context is not None:
        context = load_context_encoder(checkpoint.context, device=device, dtype=dtype)
    backbone = load_backbone(
        checkpoint.base,
        attention=checkpoint.contract.attention,
        with_soft_head=checkpoint.contract.head == "soft_head",
        adapter=checkpoint.adapter,
        device=device,
        dtype=dtype,
        top_entries=top_entries,
        cuda_graphs=cuda_graphs,
        keep_base=checkpoint.contract.plain_pooling is not None,
        context_size=None if context is None else context.backbone.hidden_size,
    )
    folder = checkpoint.base
    if checkpoint.adapter is not None and (checkpoint.adapter / TOKENIZER_FILE).is_file():
        folder = checkpoint.adapter
    tokenizer = load_tokenizer(folder)
    if context is not None:
        backbone = with_context(backbone, context, tokenizer, checkpoint.contract.template)
    return backbone, tokenizer


def load_auxiliary_models(checkpoint: Checkpoint, backbone: Backbone, tokenizer: Tokenizer) -> AuxiliaryModels:
    """Loads the auxiliary models of the contract: projection, selector, generator, context encoder. Projections and
    selectors compute in float32, a generator in the dtype of its weights."""
    projection = generator = None
    if checkpoint.projection is not None:
        projection = read_projection(checkpoint.projection)[0].to(backbone.device)
    if checkpoint.generator is not None:  # only a generator that the contract names has files
        digest = digest_of(checkpoint.contract.generator_files)
        generator = _load_other_generator(checkpoint.generator, str(checkpoint.generator), digest, backbone, None)
    elif checkpoint.contract.generator is not None:
        generator = load_generator(SAME_MODEL, checkpoint, backbone, tokenizer)
    selector = None
    if checkpoint.selection is not None:
        selector = read_selector(checkpoint.selection).to(backbone.device)
    return AuxiliaryModels(projection, generator, selector)


def load_generator(
    name: str, checkpoint: Checkpoint, backbone: Backbone, tokenizer: Tokenizer, *, dtype: str | None = None
) -> TransformersGenerator:
    """Loads a generator. `name` is anything `locate_model` accepts, or `same` for the model itself with its adapter.

    dtype: for another model; default: the dtype of its weights, float32 for a GGUF file.
    """
    if name != SAME_MODEL:
        folder = locate_model(name)
        return _load_other_generator(folder, name, digest_of(hash_weights(folder)), backbone, dtype)
    contract = checkpoint.contract
    if contract.head != "lm_head":
        raise ContractError(
            f"{contract.name} has no language-model head, so it cannot generate text. Name another generator."
        )
    generator: TransformersGenerator = import_module("embedder.extensions.generators").generator_of(
        backbone.model,
        tokenizer,
        checkpoint.base,
        name=name,
        fingerprint=digest_of({**contract.base_files, **contract.adapter_files}),
    )
    return generator


def _load_other_generator(
    folder: Path, name: str, digest: str, backbone: Backbone, dtype: str | None
) -> TransformersGenerator:
    """Loads a generator from another model's folder. digest: hash of its weight files, passed in because they are
    large."""
    stored, device = stored_dtype(read_config(folder)), str(backbone.device)
    chosen = chosen_dtype(dtype or stored, default=stored, device=device)
    generator: TransformersGenerator = import_module("embedder.extensions.generators").load_generator(
        folder, name=name, fingerprint=digest, device=device, dtype=chosen
    )
    return generator


def chosen_device(device: str | None) -> str:
    """`device`, or the fastest one here. Raises DeviceError if torch cannot compute on it."""
    if not device:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter from a torch without CUDA
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DeviceError(
            f"torch {torch.__version__} cannot compute on the device {device!r} here ({reason}). "
            "Name another one, such as cpu or cuda:0, or none for the fastest."
        ) from error
    return device


def chosen_dtype(dtype: str, *, default: str, device: str) -> str:
    """`dtype`, with "auto" resolved for `device`. Raises ContractError."""
    if dtype == "auto":
        return "bfloat16" if device.startswith("cuda") or multiplies_bfloat16() else default
    if dtype not in DTYPES:
        raise ContractError(f"dtype is {dtype!r}, but must be one of auto, {', '.join(DTYPES)}.")
    return dtype
