"""The objective on tensors small enough to compute by hand."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from embedder.model.refine import RefinedStates, pool_prefixes
from embedder.training.losses import distillation, grounding, icr_loss, refinement_regulariser, stepwise_info_nce


def unit(*angles_degrees):
    """Unit vectors in the plane (n, 1 step, 2)."""
    radians = torch.tensor([math.radians(angle) for angle in angles_degrees])
    return torch.stack([radians.cos(), radians.sin()], dim=-1)[:, None, :]


def test_info_nce_by_hand():
    loss = stepwise_info_nce(unit(0.0), unit(60.0, 90.0), temperature=0.5)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(0 / 0.5 - 0.5 / 0.5)), rel=1e-5)


def test_false_negatives_do_not_count_and_positives_always_do():
    queries, candidates = unit(0.0, 90.0), unit(0.0, 0.0)
    masked = torch.zeros(2, 2, dtype=torch.bool)
    assert stepwise_info_nce(queries, candidates, temperature=1.0, allowed=masked).item() == 0.0
    open_mask = torch.ones(2, 2, dtype=torch.bool)
    expected = stepwise_info_nce(queries, candidates, temperature=1.0)
    assert stepwise_info_nce(queries, candidates, temperature=1.0, allowed=open_mask) == expected


@pytest.mark.parametrize(
    ("losses", "expected"),
    [([2.0, 1.0, 0.5], 0.0), ([1.0, 2.0, 1.0], math.log(2) / 2), ([1.0, 2.0, 4.0], math.log(2)), ([0.7], 0.0)],
)
def test_regulariser_counts_only_what_got_worse(losses, expected):
    assert refinement_regulariser(torch.tensor(losses)).item() == pytest.approx(expected, abs=1e-6)


def test_margin_asks_for_more_and_spares_the_earlier_step():
    losses = torch.tensor([1.0, 1.0], requires_grad=True)
    value = refinement_regulariser(losses, margin=0.5)
    value.backward()
    assert value.item() == pytest.approx(0.5)
    assert losses.grad.tolist() == [0.0, pytest.approx(1.0)]


def test_reductions_differ_by_the_number_of_steps():
    losses = torch.tensor([3.0, 2.0, 1.0])
    assert icr_loss(losses, reduction="sum", regulariser_weight=1.0).item() == pytest.approx(6.0)
    assert icr_loss(losses, reduction="mean", regulariser_weight=1.0).item() == pytest.approx(2.0)
    later = icr_loss(losses, reduction="mean", regulariser_weight=0.0, rising=1.0).item()
    assert later == pytest.approx((3 * 1 + 2 * 1.5 + 1 * 2) / 4.5)
    with pytest.raises(ValueError, match="median"):
        icr_loss(losses, reduction="median", regulariser_weight=1.0)


def test_distillation_is_one_minus_cosine():
    assert distillation(unit(0.0, 0.0), unit(0.0, 90.0)[:, 0]).item() == pytest.approx(0.5, abs=1e-6)


def test_grounding_is_the_cross_entropy_of_the_bag():
    soft_token = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
    rows, ids, weights = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), torch.tensor([0.5, 0.5, 1.0])
    expected = -(0.5 * math.log(0.5) + 0.5 * math.log(0.25) + math.log(0.8)) / 2
    assert grounding(soft_token, rows, ids, weights, texts=len(set(rows.tolist()))).item() == pytest.approx(
        expected, rel=1e-5
    )


def test_states_are_averaged_before_they_are_normalised():
    states = torch.tensor([[[3.0, 0.0], [0.0, 1.0]]])
    refined = RefinedStates(states, prompt_mean=torch.tensor([[0.0, 2.0]]), prompt_last=torch.tensor([[5.0, 0.0]]))
    expected = {"mean": (1, [1.5, 0.5]), "last": (1, [0.0, 1.0]), "residual": (0, [3.0, 2.0])}
    for pooling, (step, direction) in expected.items():
        found = pool_prefixes(refined, pooling)[0, step]
        torch.testing.assert_close(found, normalize(torch.tensor(direction), dim=0))


def test_baselines_pool_the_prompt_alone():
    refined = RefinedStates(
        torch.ones(1, 0, 2), prompt_mean=torch.tensor([[0.0, 2.0]]), prompt_last=torch.tensor([[5.0, 0.0]])
    )
    torch.testing.assert_close(pool_prefixes(refined, "prompt_mean"), torch.tensor([[[0.0, 1.0]]]))
    torch.testing.assert_close(pool_prefixes(refined, "prompt_last"), torch.tensor([[[1.0, 0.0]]]))
