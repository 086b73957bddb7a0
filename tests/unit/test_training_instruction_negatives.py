"""Instruction negatives: a document must not find its query under an instruction that makes it irrelevant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_training import data_folder, write_config  # noqa: F401
from test_training_options import batch_of, gradient_of, trainer_factory  # noqa: F401
from torch.nn.functional import normalize

from embedder.errors import DataError
from embedder.training.config import read_config
from embedder.training.data import Aspect, Pair, TrainingData
from embedder.training.instruction_negatives import instruction_negative_loss
from embedder.training.sampling import BatchSampler, Mixture


def unit(*shape: int, seed: int) -> torch.Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_documents_are_scored_against_queries_and_their_own_poisoned_one() -> None:
    """Against loops over the definition."""
    asked, poisoned, documents = (unit(3, 2, 8, seed=seed) for seed in (1, 2, 3))
    allowed = torch.tensor([[True, True, False], [True, True, True], [True, False, True]])
    found = instruction_negative_loss(asked, poisoned, documents, temperature=0.1, allowed=allowed)
    for step in range(2):
        losses = []
        for row in range(3):
            others = [query for query in range(3) if query != row and allowed[query, row]]
            scores = [documents[row, step] @ asked[query, step] / 0.1 for query in (row, *others)]
            scores.append(documents[row, step] @ poisoned[row, step] / 0.1)
            losses.append(torch.logsumexp(torch.stack(scores), 0) - scores[0])
        torch.testing.assert_close(found[step], torch.stack(losses).mean())


def test_a_poisoned_query_is_pushed_away_from_its_document_and_no_other() -> None:
    asked, documents = unit(2, 1, 8, seed=1), unit(2, 1, 8, seed=3)
    poisoned = unit(2, 1, 8, seed=2).requires_grad_()
    allowed = torch.ones(2, 2, dtype=torch.bool)
    loss = instruction_negative_loss(asked, poisoned, documents, temperature=0.1, allowed=allowed)
    (gradient,) = torch.autograd.grad(loss.sum(), poisoned)
    for row in range(2):  # downhill is away from the own document, along it alone
        assert torch.cosine_similarity(gradient[row, 0], documents[row, 0], dim=0) == pytest.approx(1.0, abs=1e-5)


def labelled() -> TrainingData:
    """Texts with a colour and a size that vary freely of each other."""
    data = TrainingData()
    for name, values in (("colour", ("red", "blue")), ("size", ("small", "large"))):
        data.labels["box", name] = {}
        texts: dict[str, list[str]] = {value: [] for value in values}
        for number in range(32):
            value = values[number % 2 if name == "colour" else number // 2 % 2]
            texts[value].append(f"box {number}")
            data.labels["box", name][f"box {number}"] = frozenset([value])
        data.aspects.append(Aspect("box", name, f"Represent the {name} of this box.", texts))
    rows = [Pair("Represent the colour of this box.", f"box {n}", [f"box {n + 2}"], [f"box {n + 1}"]) for n in range(4)]
    data.triplets["box:colour|size"] = rows
    return data


@pytest.mark.parametrize("kind", ["contrasts", "triplets", "triplet_queries"])
def test_the_other_instruction_is_of_the_aspect_that_the_positive_does_not_share(kind: str) -> None:
    data = labelled()
    sampler = BatchSampler(data, Mixture({kind: 1.0}, {kind: 4}, paraphrase_share=0.0), seed=1)
    seen = set()
    for step in range(8):
        batch = sampler.batch(step)
        of = {"Represent the colour of this box.": "colour", "Represent the size of this box.": "size"}
        wanted, other = of[batch.query_instruction], of[batch.other_instruction]
        seen.add((wanted, other))
        assert wanted != other
        if kind == "contrasts":
            for query, document in zip(batch.queries, batch.documents, strict=False):
                assert not data.labels["box", other][query] & data.labels["box", other][document]
    assert seen <= {("colour", "size"), ("size", "colour")}


def test_where_no_other_aspect_is_known_there_is_none() -> None:
    data = labelled()
    data.triplets = {"box:colour|weight": data.triplets["box:colour|size"]}
    batch = BatchSampler(data, Mixture({"triplets": 1.0}, {"triplets": 4}), seed=1).batch(0)
    assert batch.other_instruction == ""


def test_training_adds_it_with_its_weight(trainer_factory) -> None:  # noqa: F811
    plain, taught = trainer_factory(), trainer_factory(instruction_negative_weight=0.5)
    batch = replace(batch_of(taught, "label_queries"), other_instruction="Represent the length of this text.")
    expected, terms, _ = gradient_of(plain, batch)
    found, with_negatives, _ = gradient_of(taught, batch)
    assert terms.instruction_negatives == 0
    assert with_negatives.instruction_negatives > 0
    added = 0.5 * with_negatives.instruction_negatives
    assert with_negatives.total.item() == pytest.approx(terms.total.item() + added, rel=1e-4)
    assert (found - expected).norm() > 0.01 * expected.norm()
    alone = replace(batch, other_instruction="")
    np.testing.assert_allclose(gradient_of(taught, alone)[0], expected, atol=1e-6)


def test_it_needs_whole_batches(tmp_path) -> None:
    with pytest.raises(DataError, match="instruction_negative_weight needs whole batches"):
        read_config(write_config(tmp_path, instruction_negative_weight=1.0, chunk_size=4))
