"""Our numbers against the authors' implementation on the same tiny model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from embedder.backbone import load_causal_model, take_apart
from embedder.batching import PADDING_SIDES, pad
from embedder.checkpoint import find_checkpoint
from embedder.contract import Contract
from embedder.encoder import Encoder
from embedder.pooling import pool_prefixes
from embedder.prompts import PromptTokenizer, load_tokenizer
from embedder.refine import refine_states
from embedder.templates import TEMPLATES
from embedder.training.config import PRESETS
from embedder.training.losses import icr_loss, stepwise_info_nce

REFERENCE = Path(__file__).parent / "reference"
TEXTS = json.loads((REFERENCE / "texts.json").read_text(encoding="utf-8"))
ARRAYS = np.load(REFERENCE / "qwen2.npz")


@pytest.fixture(scope="module")
def backbone():
    return take_apart(load_causal_model(REFERENCE / "tiny-qwen2", with_soft_head=False).eval(), attention="causal")


def encoder(backbone, *, pooling="mean", padding_side="right"):
    contract = Contract(
        name="tiny",
        base=".",
        base_revision=None,
        base_files={},
        adapter_files={},
        template="official",
        attention="causal",
        pooling=pooling,
        head="lm_head",
        temperature=1.0,
        max_length=512,
        dimension=64,
    )
    return Encoder(backbone, load_tokenizer(REFERENCE / "tiny-qwen2"), contract, padding_side=padding_side)


@pytest.mark.parametrize("row", TEXTS, ids=[f"text{i}" for i in range(len(TEXTS))])
def test_template_renders_the_authors_prompt_byte_for_byte(row):
    assert TEMPLATES["official"].render(row["instruction"], row["text"]) == row["formatted"]


@pytest.mark.parametrize("padding_side", PADDING_SIDES)
@pytest.mark.parametrize("array", sorted(ARRAYS.files))
def test_embeddings_equal_the_reference(backbone, array, padding_side):
    name, steps = array.split(".K")
    ours = encoder(backbone, pooling="last" if name == "last" else "mean", padding_side=padding_side)
    one_by_one = np.concatenate(
        [ours.encode_queries([row["text"]], instruction=row["instruction"], steps=int(steps)) for row in TEXTS]
    )
    batched = ours.encode_queries([row["formatted"] for row in TEXTS], instruction="", steps=int(steps))
    np.testing.assert_allclose(one_by_one, ARRAYS[array], atol=1e-5, rtol=0)
    np.testing.assert_allclose(batched, ARRAYS[array], atol=1e-5, rtol=0)


def test_training_loss_and_gradient_equal_the_reference(backbone):
    case = json.loads((REFERENCE / "loss.json").read_text(encoding="utf-8"))
    model = load_causal_model(REFERENCE / "tiny-qwen2", with_soft_head=False).eval()
    trainable = take_apart(model, attention="causal")
    prompts = PromptTokenizer(load_tokenizer(REFERENCE / "tiny-qwen2"), TEMPLATES["official"], max_length=512)

    def embed(rows):
        ids = [prompts.encode([text], instruction)[0].ids for instruction, text in rows]
        states = refine_states(trainable, pad(ids, device=torch.device("cpu"), side="left"), steps=case["K"])
        return pool_prefixes(states.generated, states.prompt_mean, "mean")

    # The authors put each query's own positive first and count the rest as negatives.
    order = [0, 2, 1, 3]
    passages = embed([("", case["passages"][i]) for i in order])
    stepwise = stepwise_info_nce(embed(case["queries"]), passages, temperature=case["temperature"])
    released = PRESETS["released"]
    loss = icr_loss(
        stepwise,
        reduction=released["reduction"],
        regulariser_weight=released["regulariser_weight"] * case["reg_weight"],
    )
    loss.backward()
    expected = case["expected"]["qwen2"]
    gradient = dict(model.named_parameters())["model.layers.0.self_attn.q_proj.weight"].grad
    np.testing.assert_allclose(stepwise.detach().numpy(), expected["stepwise"], rtol=1e-4)
    assert loss.item() == pytest.approx(expected["loss"], rel=1e-4)
    assert gradient.norm().item() == pytest.approx(expected["grad_norm_layer0_q_proj"], rel=1e-4)


def test_plain_model_folder_is_served_with_the_official_contract():
    contract = find_checkpoint(str(REFERENCE / "tiny-qwen2")).contract
    assert (contract.template, contract.attention, contract.pooling) == ("official", "causal", "mean")
    assert (contract.default_query_steps, contract.default_document_steps) == (20, 20)
