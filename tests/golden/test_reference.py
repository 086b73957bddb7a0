"""Our numbers against the authors' implementation on the same tiny model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from embedder.checkpoint import find_checkpoint
from embedder.encoder import Encoder
from embedder.model.backbone import split_model, with_decoder
from embedder.model.causal_model import load_causal_model
from embedder.model.contract import Contract
from embedder.model.prefill import PADDING_SIDES, PaddedPrefill, pad
from embedder.model.refine import RefinedStates, pool_prefixes, refine_states
from embedder.text.prompts import TEMPLATES, PromptTokenizer, load_tokenizer
from embedder.training.config import PRESETS
from embedder.training.losses import icr_loss, stepwise_info_nce

REFERENCE = Path(__file__).parent / "reference"
TEXTS = json.loads((REFERENCE / "texts.json").read_text(encoding="utf-8"))
ARRAYS = np.load(REFERENCE / "qwen2.npz")


@pytest.fixture(scope="module", params=["packed", "padded"])
def backbone(request):
    """As it serves, and as transformers reads it in training."""
    model = load_causal_model(REFERENCE / "tiny-qwen2", with_soft_head=False).eval()
    padded = split_model(model, attention="causal")
    return with_decoder(padded) if request.param == "packed" else padded


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


CASE = json.loads((REFERENCE / "loss.json").read_text(encoding="utf-8"))


def released_loss(stepwise):
    released = PRESETS["released"]
    return icr_loss(
        stepwise,
        reduction=released["reduction"],
        regulariser_weight=released["regulariser_weight"] * CASE["reg_weight"],
    )


def embed_with_cache(backbone, prompt, steps):
    return refine_states(PaddedPrefill(backbone, prompt), steps=steps).generated


def embed_by_recomputing(backbone, prompt, steps):
    """Algorithm 1 as it is written: the whole sequence again at every step, no cache."""
    inputs, mask = backbone.embed(prompt.ids), prompt.mask
    for _ in range(steps):
        states = backbone.body(inputs_embeds=inputs, attention_mask=mask.long(), use_cache=False).last_hidden_state
        soft_embedding = torch.softmax(backbone.head(states[:, -1]), dim=-1) @ backbone.weight
        inputs = torch.cat([inputs, soft_embedding[:, None]], dim=1)
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    states = backbone.body(inputs_embeds=inputs, attention_mask=mask.long(), use_cache=False).last_hidden_state
    return states[:, -steps:]


def loss_and_gradient(embed_prompt):
    """The case of loss.json: stepwise losses, total, and the gradient of the first layer's query projection."""
    model = load_causal_model(REFERENCE / "tiny-qwen2", with_soft_head=False).eval()
    backbone = split_model(model, attention="causal")
    prompts = PromptTokenizer(load_tokenizer(REFERENCE / "tiny-qwen2"), TEMPLATES["official"], max_length=512)

    def embed(rows):
        ids = [prompts.encode([text], instruction)[0].ids for instruction, text in rows]
        prompt = pad(ids, device=torch.device("cpu"), side="left")
        return pool_prefixes(
            RefinedStates(embed_prompt(backbone, prompt, CASE["K"]), *torch.zeros(2, len(rows), 64)), "mean"
        )

    # Query i belongs to passage 2i; ours wants the positives first.
    passages = embed([("", CASE["passages"][i]) for i in (0, 2, 1, 3)])
    stepwise = stepwise_info_nce(embed(CASE["queries"]), passages, temperature=CASE["temperature"])
    loss = released_loss(stepwise)
    loss.backward()
    gradient = dict(model.named_parameters())["model.layers.0.self_attn.q_proj.weight"].grad
    return stepwise.detach(), loss.detach(), gradient


def test_total_of_the_reference_losses_is_the_reference_loss():
    expected = CASE["expected"]["qwen2"]
    assert released_loss(torch.tensor(expected["stepwise"])).item() == pytest.approx(expected["loss"], rel=1e-4)


def test_training_through_the_cache_is_exact():
    cached, recomputed = loss_and_gradient(embed_with_cache), loss_and_gradient(embed_by_recomputing)
    torch.testing.assert_close(cached[0], recomputed[0], rtol=1e-4, atol=1e-6)
    assert (cached[2] - recomputed[2]).norm() < 1e-4 * recomputed[2].norm()


def test_training_loss_and_gradient_equal_the_reference():
    stepwise, loss, gradient = loss_and_gradient(embed_with_cache)
    expected = CASE["expected"]["qwen2"]
    np.testing.assert_allclose(stepwise.numpy(), expected["stepwise"], rtol=1e-4)
    assert loss.item() == pytest.approx(expected["loss"], rel=1e-4)
    assert gradient.norm().item() == pytest.approx(expected["grad_norm_layer0_q_proj"], rel=1e-4)


def test_plain_model_folder_is_served_with_the_official_contract():
    contract = find_checkpoint(str(REFERENCE / "tiny-qwen2")).contract
    assert (contract.template, contract.attention, contract.pooling) == ("official", "causal", "mean")
    assert (contract.default_query_steps, contract.default_document_steps) == (5, 20)
