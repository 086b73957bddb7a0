"""The options of the contrastive loss on tensors small enough to compute by hand."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from embedder.training.losses import stepwise_info_nce, temperature_of_steps, truncations, unlike_positive


def test_last_temperature_holds_on():
    assert temperature_of_steps([0.5, 0.25], 4).tolist() == [0.5, 0.25, 0.25, 0.25]
    assert temperature_of_steps([0.5, 0.25, 0.125], 2).tolist() == [0.5, 0.25]
    assert temperature_of_steps(0.5, 3).tolist() == [0.5, 0.5, 0.5]


def test_every_step_is_divided_by_its_own_temperature():
    torch.manual_seed(0)
    queries, candidates = (normalize(torch.randn(count, 3, 5), dim=-1) for count in (2, 4))
    together = stepwise_info_nce(queries, candidates, temperature=(0.5, 0.1))
    for step, tau in enumerate((0.5, 0.1, 0.1)):
        alone = stepwise_info_nce(queries[:, [step]], candidates[:, [step]], temperature=tau)
        assert together[step].item() == pytest.approx(alone.item(), rel=1e-6)


def test_truncations_are_normalised_again_and_end_with_the_whole():
    whole = torch.tensor([[[0.6, 0.0, 0.8]], [[0.0, 1.0, 0.0]]])
    cut, last = truncations(whole, [2])
    assert cut.tolist() == [[[1.0, 0.0]], [[0.0, 1.0]]]
    assert torch.equal(last, whole)
    assert len(truncations(whole, [])) == 1


def test_guide_drops_what_it_finds_nearer_than_the_positive():
    def unit(*degrees):
        return torch.tensor([[math.cos(math.radians(each)), math.sin(math.radians(each))] for each in degrees])

    queries, candidates = unit(0.0, 90.0), unit(30.0, 80.0, 20.0)  # cosines to query 0: 0.866, 0.174, 0.940
    assert unlike_positive(queries, candidates, margin=0.0).tolist() == [[True, True, False], [True, True, True]]
    assert unlike_positive(queries, candidates, margin=-0.1).tolist()[0] == [True, True, True]
    assert unlike_positive(queries, candidates, margin=0.8).tolist()[0] == [False, False, False]
