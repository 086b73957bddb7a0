"""A batch embedded in chunks gives the gradient of the whole batch."""

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from embedder.training.gradcache import RandomState, backward_in_chunks
from embedder.training.losses import icr_loss, stepwise_info_nce


class Embedder(nn.Module):
    """Two steps of embedding per row, with dropout; remembers how many rows it saw at once."""

    def __init__(self, dropout):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(6, 8)
        self.dropout = nn.Dropout(dropout)
        self.rows = []

    def forward(self, inputs):
        self.rows.append(len(inputs))
        dropped = self.dropout(inputs)
        states = torch.stack([self.first(dropped).tanh(), self.second(dropped)], dim=1)
        return normalize(states, dim=-1), torch.stack([states.square().sum(), states.sum()])


OWN_WEIGHTS = torch.tensor([0.5, 2.0])


def joint_loss(rows):
    losses = stepwise_info_nce(rows[:6], rows[6:], temperature=0.1)
    return icr_loss(losses, reduction="mean", regulariser_weight=3.0, margin=0.2)


def gradients(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    return torch.randn(14, 6)


def test_gradient_in_chunks_is_the_whole_batch_gradient(inputs):
    model = Embedder(dropout=0.0)
    rows, own = model(inputs)
    whole = joint_loss(rows) + own @ OWN_WEIGHTS
    whole.backward()
    expected = gradients(model)
    model.zero_grad()
    model.rows.clear()
    chunks = [lambda part=part: model(part) for part in inputs.split(4)]
    joint, own = backward_in_chunks(chunks, joint_loss, own_weights=OWN_WEIGHTS)
    assert (joint + own @ OWN_WEIGHTS).item() == pytest.approx(whole.item(), rel=1e-6)
    assert (gradients(model) - expected).norm() <= 1e-5 * expected.norm()
    assert model.rows == [4, 4, 4, 2] * 2


def test_dropout_is_replayed_and_the_random_numbers_go_on_as_after_one_pass(inputs):
    model = Embedder(dropout=0.5)
    start = RandomState()
    parts = inputs.split(7)
    embedded = [model(part) for part in parts]
    own = sum(own for _, own in embedded)
    (joint_loss(torch.cat([rows for rows, _ in embedded])) + own @ OWN_WEIGHTS).backward()
    expected, next_number = gradients(model), torch.rand(1)
    model.zero_grad()
    start.restore()
    backward_in_chunks([lambda part=part: model(part) for part in parts], joint_loss, own_weights=OWN_WEIGHTS)
    assert (gradients(model) - expected).norm() <= 1e-5 * expected.norm()
    assert torch.rand(1) == next_number
