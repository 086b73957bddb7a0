"""LaSER: a reading that sees a query's labels teaches the soft tokens of the query alone."""

from __future__ import annotations

import pytest
import torch
from test_training import data_folder, write_config  # noqa: F401
from test_training_options import batch_of, gradient_of, trainer_factory  # noqa: F401
from torch.nn.functional import normalize

from embedder.errors import DataError
from embedder.training.config import read_config
from embedder.training.privileged import (
    PrivilegedReading,
    divergence,
    privileged_terms,
    privileged_texts,
    step_places,
)


def unit(*shape: int, seed: int) -> torch.Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_divergences_are_zero_where_both_readings_agree_and_teach_one_side_alone() -> None:
    documents, steps = unit(5, 8, seed=1), unit(3, 2, 8, seed=2).requires_grad_()
    reading = PrivilegedReading(torch.arange(3), steps)
    whole, by_step = privileged_terms(reading, steps.detach(), steps.detach(), documents)
    assert whole.item() == pytest.approx(0.0, abs=1e-5)
    assert by_step.item() == pytest.approx(0.0, abs=1e-5)
    student = unit(3, 2, 8, seed=3).requires_grad_()
    whole, by_step = privileged_terms(reading, student, student, documents)
    assert whole.item() > 0.01
    assert by_step.item() > 0.01
    (whole + by_step).backward()
    assert steps.grad is None
    assert student.grad.abs().max() > 0


def test_divergence_is_kullback_leibler_of_the_rankings() -> None:
    teacher, student, documents = unit(3, 8, seed=1), unit(3, 8, seed=2), unit(5, 8, seed=3)
    p = torch.exp(teacher @ documents.T / 0.05)
    q = torch.exp(student @ documents.T / 0.05)
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    expected = (p * (p / q).log()).sum(1).mean()
    found = divergence(teacher, student, documents, temperature=0.05)
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)


def test_steps_are_spread_over_what_the_query_does_not_say() -> None:
    assert step_places(10, 18, steps=4) == [11, 13, 15, 17]
    assert step_places(10, 13, steps=4) == [9, 10, 11, 12]  # Eq 11: floor(i * 3 / 4) = 0, 1, 2, 3
    assert step_places(10, 10, steps=2) == [9, 9]


def test_what_stands_among_the_documents_is_no_reading() -> None:
    texts = privileged_texts(["a", "b"], [["red", "one"], ["one"]], ["one", "two"])
    assert texts == ["a\nred", None]


def test_a_batch_is_read_twice_by_the_same_weights(trainer_factory) -> None:  # noqa: F811
    plain, taught = trainer_factory(), trainer_factory(privileged_weight=10.0)
    batch = batch_of(taught, "label_queries")
    expected, terms, _ = gradient_of(plain, batch)
    found, with_reading, _ = gradient_of(taught, batch)
    assert terms.privileged == 0
    assert with_reading.privileged > 0
    assert with_reading.stepwise == pytest.approx(terms.stepwise, rel=1e-5)
    assert with_reading.total.item() > terms.total.item()
    assert (found - expected).norm() > 0.01 * expected.norm()
    names = batch_of(taught, "label_names")  # whose labels are the documents
    assert gradient_of(taught, names)[1].privileged == 0


def test_the_reading_is_the_last_state_of_query_and_label(trainer_factory) -> None:  # noqa: F811
    """Against transformers alone, without pads or cache."""
    trainer = trainer_factory(privileged_weight=10.0)
    batch = batch_of(trainer, "label_queries")
    with torch.no_grad():
        reading = trainer._objective._read_privileged(batch, batch.steps)
        texts = privileged_texts(batch.queries, batch.hints, batch.documents)
        for row, final, steps in zip(reading.rows.tolist(), reading.final, reading.steps, strict=True):
            ids = trainer._prompts.encode([texts[row]], batch.query_instruction)[0].ids
            body = trainer._student.body
            states = body(input_ids=torch.tensor([list(ids)]), use_cache=False).last_hidden_state[0]
            torch.testing.assert_close(final, normalize(states[-1], dim=-1), atol=1e-5, rtol=0)
            alone = len(trainer._prompts.encode([batch.queries[row]], batch.query_instruction)[0].ids)
            place = alone - 1 + (len(ids) - alone) // batch.steps
            torch.testing.assert_close(steps[0], normalize(states[place], dim=-1), atol=1e-5, rtol=0)


def test_it_needs_soft_tokens_and_whole_batches(tmp_path) -> None:
    for changes in ({"chunk_size": 4}, {"pooling": "prompt_last"}):
        with pytest.raises(DataError, match="privileged_weight needs"):
            read_config(write_config(tmp_path, privileged_weight=10.0, **changes))
