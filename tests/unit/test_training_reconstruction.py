"""Anchor embedding: a vector generates its counterpart (stage I), and runs that start from others (stage II)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from test_training import data_folder, write_config  # noqa: F401
from test_training_matrix import log_rows, write_matrix
from test_training_options import batch_of, trainer_factory  # noqa: F401
from tiny_models import save_tiny_model
from torch.nn.functional import cross_entropy

from embedder.errors import DataError
from embedder.training import reconstruction
from embedder.training.config import read_config
from embedder.training.data import read_training_data
from embedder.training.plots import plot_run
from embedder.training.progress import RecentSteps, summarise
from embedder.training.train import Trainer
from research.training import matrix as matrix_module
from research.training.matrix import plan, read_matrix, run_matrix

NO_TERMS = {"distillation_weight": 0.0, "grounding_weight": 0.0}
STAGE_ONE = {"objective": "reconstruction", "pooling": "prompt_last", **NO_TERMS}


def gradients(trainer) -> dict[str, torch.Tensor]:
    return {name: each.grad.clone() for name, each in trainer._trained.items() if each.grad is not None}


def terms_of(trainer, *batches):
    """The batches' terms and gradient."""
    trainer._optimiser.zero_grad(set_to_none=True)
    terms = trainer._objective.backward(batches)
    return terms, gradients(trainer)


def losses_without_pads(trainer, instruction, texts, counterparts, *, detach=False) -> list[torch.Tensor]:
    """-log P of each token of each counterpart, by transformers alone: no pads, cache, or batch."""
    model, embedding = trainer._student.model, trainer._student.embedding
    losses = []
    for text, counterpart in zip(texts, counterparts, strict=True):
        prompt = torch.tensor([trainer._prompts.encode([text], instruction)[0].ids])
        hidden = model(input_ids=prompt, use_cache=False, output_hidden_states=True).hidden_states[-1]
        vector = hidden[:, -1:].detach() if detach else hidden[:, -1:]
        target = torch.tensor(trainer._tokenizer.encode(counterpart, add_special_tokens=False).ids)
        inputs = torch.cat([vector, embedding(target[None])], dim=1)
        logits = model(inputs_embeds=inputs, use_cache=False).logits[0, :-1]  # what follows the last is not asked for
        losses.append(cross_entropy(logits, target, reduction="none"))
    return losses


def losses_of_batch(trainer, batch, *, detach=False) -> tuple[torch.Tensor, torch.Tensor]:
    """L_Q2D and L_D2Q, row by row."""
    documents = batch.documents[: len(batch.queries)]
    to_document = losses_without_pads(trainer, batch.query_instruction, batch.queries, documents, detach=detach)
    to_query = losses_without_pads(trainer, batch.document_instruction, documents, batch.queries, detach=detach)
    return torch.cat(to_document).mean(), torch.cat(to_query).mean()


def uneven_batch(trainer, kind="pairs"):
    """Rows of different lengths, with hard negatives, which are nobody's counterpart."""
    batch = batch_of(trainer, kind)
    queries = [
        query if row else f"{query}, and of what colour is it, please" for row, query in enumerate(batch.queries)
    ]
    return replace(batch, queries=queries)


@pytest.mark.parametrize("family", ["qwen2", "gemma3"])
def test_loss_and_gradient_are_those_of_transformers_row_by_row(trainer_factory, tmp_path, family) -> None:  # noqa: F811
    save_tiny_model(tmp_path / "base", family)
    trainer = trainer_factory(**STAGE_ONE)
    batch = uneven_batch(trainer)
    assert len(batch.documents) > len(batch.queries)
    terms, found = terms_of(trainer, batch)
    trainer._optimiser.zero_grad(set_to_none=True)
    to_document, to_query = losses_of_batch(trainer, batch)
    (0.2 * to_document + 0.8 * to_query).backward()
    expected = gradients(trainer)
    assert terms.reconstruction == pytest.approx((to_document.item(), to_query.item()), rel=1e-5)
    assert terms.total.item() == pytest.approx(0.2 * to_document.item() + 0.8 * to_query.item(), rel=1e-5)
    assert terms.stepwise == [pytest.approx(terms.total.item())]
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert (found[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-7, name
    # Without the way back through the vector it would be another gradient.
    trainer._optimiser.zero_grad(set_to_none=True)
    to_document, to_query = losses_of_batch(trainer, batch, detach=True)
    (0.2 * to_document + 0.8 * to_query).backward()
    assert any((found[name] - each).norm() > 0.05 * each.norm() for name, each in gradients(trainer).items())


def test_texts_are_read_through_their_vectors_alone(trainer_factory) -> None:  # noqa: F811
    """The encoding pass has a gradient at the last token of each prompt and nowhere else."""
    trainer = trainer_factory(**STAGE_ONE)
    states, masks = [], []

    def keep(_, __, kwargs, output) -> None:
        output.last_hidden_state.retain_grad()
        states.append(output.last_hidden_state)
        masks.append(kwargs["attention_mask"].bool())

    hook = trainer._student.body.register_forward_hook(keep, with_kwargs=True)
    batch = uneven_batch(trainer)
    terms_of(trainer, batch)
    hook.remove()
    seen = 0
    for state, mask in zip(states, masks, strict=True):
        has_gradient = state.grad.abs().sum(dim=-1) > 0
        last = mask.sum(dim=1) - 1
        if seen < 2 * len(batch.queries):
            assert torch.equal(has_gradient, torch.arange(mask.shape[1]) == last[:, None])
        else:  # where tokens are predicted, at every place
            assert torch.equal(has_gradient, mask)
        seen += len(mask)
    assert seen == 4 * len(batch.queries)


def test_alpha_weighs_the_two_directions(trainer_factory) -> None:  # noqa: F811
    found = {}
    for alpha in (0.0, 0.2, 1.0):
        trainer = trainer_factory(**STAGE_ONE, reconstruction_alpha=alpha)
        terms, gradient = terms_of(trainer, uneven_batch(trainer))
        to_document, to_query = terms.reconstruction
        assert terms.total.item() == pytest.approx(alpha * to_document + (1 - alpha) * to_query, rel=1e-6)
        found[alpha] = gradient
    for name, gradient in found[0.2].items():
        torch.testing.assert_close(gradient, 0.2 * found[1.0][name] + 0.8 * found[0.0][name], atol=1e-6, rtol=1e-4)


def test_loss_is_the_mean_over_tokens_however_rows_are_padded(trainer_factory, monkeypatch) -> None:  # noqa: F811
    trainer = trainer_factory(**STAGE_ONE)
    batch = uneven_batch(trainer)
    whole, gradient = terms_of(trainer, batch)
    alone = [
        replace(batch, queries=[query], documents=[document])
        for query, document in zip(batch.queries, batch.documents, strict=False)
    ]
    counts, losses = [], []
    for row in alone:
        sides = (row.documents[0], row.queries[0])
        counts.append([len(trainer._tokenizer.encode(text, add_special_tokens=False).ids) for text in sides])
        losses.append(terms_of(trainer, row)[0].reconstruction)
    assert whole.reconstruction == pytest.approx(np.average(losses, axis=0, weights=counts), rel=1e-5)
    apart, same = terms_of(trainer, *alone)  # as batches of one step
    assert apart.total.item() == pytest.approx(whole.total.item(), rel=1e-5)
    monkeypatch.setattr(reconstruction, "_LOGITS_AT_ONCE", 5 * len(trainer._student.weight))
    in_parts, too = terms_of(trainer, batch)
    assert in_parts.reconstruction == pytest.approx(whole.reconstruction, rel=1e-6)
    for name, each in gradient.items():
        torch.testing.assert_close(same[name], each, atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(too[name], each, atol=1e-6, rtol=1e-4)


def test_what_is_predicted_is_never_seen_beforehand(trainer_factory) -> None:  # noqa: F811
    """Where prompts see both ways, decoding is causal: other last words leave the losses before them as they are."""
    trainer = trainer_factory(**STAGE_ONE, attention="prefix")
    objective = trainer._objective
    vectors = torch.randn(1, trainer._student.hidden_size)
    one, other = (objective._decode(vectors, [[5, 6, 7, last]]).states for last in (8, 9))
    torch.testing.assert_close(one, other)
    first = objective._decode(vectors, [[5, 11, 7, 8]]).states
    torch.testing.assert_close(one[:2], first[:2])
    assert not torch.allclose(one[2:], first[2:])


@pytest.mark.parametrize("pooling", ["prompt_mean", "mean", "last", "residual"])
def test_every_kind_of_batch_and_pooling_has_a_finite_loss(trainer_factory, pooling) -> None:  # noqa: F811
    trainer = trainer_factory(**{**STAGE_ONE, "pooling": pooling})
    kinds = {batch.kind: batch for batch in map(trainer._sampler.batch, range(60))}
    assert len(kinds) > 5
    for batch in kinds.values():
        terms, gradient = terms_of(trainer, batch)
        assert torch.isfinite(terms.total)
        assert any(each.abs().max() > 0 for each in gradient.values())


def test_whole_weights_are_trained_too(trainer_factory) -> None:  # noqa: F811
    trainer = trainer_factory(**STAGE_ONE, tuning="full")
    batch = uneven_batch(trainer)
    _, found = terms_of(trainer, batch)
    trainer._optimiser.zero_grad(set_to_none=True)
    to_document, to_query = losses_of_batch(trainer, batch)
    (0.2 * to_document + 0.8 * to_query).backward()
    for name, each in gradients(trainer).items():  # the head and the embedding among them
        assert (found[name] - each).norm() <= 1e-4 * each.norm() + 1e-7, name


def test_bf16_computes_nearly_the_same(trainer_factory) -> None:  # noqa: F811
    exact, rough = trainer_factory(**STAGE_ONE), trainer_factory(**STAGE_ONE, precision="bf16")
    batch = uneven_batch(exact)
    expected, found = (terms_of(each, batch)[0].reconstruction for each in (exact, rough))
    assert found == pytest.approx(expected, rel=0.05)
    assert found != expected


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"head": "soft_head"}, "needs head: lm_head, but head is 'soft_head'"),
        ({"chunk_size": 4}, "does not use chunk_size"),
        ({"distillation_weight": 1.0, "matryoshka": [8]}, "does not use distillation_weight, matryoshka"),
        ({"reconstruction_alpha": 1.5}, "reconstruction_alpha is 1.5"),
        ({"objective": "other"}, "objective is 'other'"),
    ],
)
def test_settings_that_cannot_go_together_are_refused_by_name(tmp_path, changes, complaint) -> None:
    with pytest.raises(DataError, match=complaint):
        read_config(write_config(tmp_path, **{**STAGE_ONE, **changes}))


def test_a_run_lowers_the_loss_and_shows_both_directions(data_folder, tmp_path) -> None:  # noqa: F811
    mixture = {"weights": {"pairs": 1.0}, "sizes": {"pairs": 8}, "steps": [2]}
    path = write_config(
        tmp_path, **STAGE_ONE, optimiser_steps=30, tuning="full", learning_rate=3e-3, mixture=mixture
    )  # fmt: skip
    Trainer(read_config(path), data=data_folder, out=tmp_path / "run").run()
    rows = log_rows(tmp_path / "run")
    assert {row["texts"] for row in rows} == {16}  # hard negatives are not read
    assert all(row["stepwise"] == [pytest.approx(row["loss"])] for row in rows)
    first, last = (np.mean([row["reconstruction"] for row in part], axis=0) for part in (rows[:5], rows[-5:]))
    assert (last < 0.9 * first).all()
    assert "L_Q2D" in summarise(tmp_path / "run")
    recent = RecentSteps()
    recent.add(rows[0])
    assert list(recent.postfix()) == ["loss", "L_Q2D", "L_D2Q"]
    plot_run(tmp_path / "run", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


STAGES = {"reconstruction": STAGE_ONE, "anchor": {"pooling": "prompt_last", "start_from": "reconstruction"}}


def weights_of(run) -> dict[str, torch.Tensor]:
    return load_file(run / "adapter" / "adapter_model.safetensors")


def test_a_variant_begins_with_the_weights_of_the_one_it_starts_from(data_folder, tmp_path) -> None:  # noqa: F811
    variants = {
        **STAGES,
        "still": {**STAGES["anchor"], "learning_rate": 0.0},
        "generation": {"start_from": "reconstruction", "learning_rate": 0.0},
    }
    matrix = read_matrix(write_matrix(tmp_path, variants=variants, texts=24))
    runs = run_matrix(matrix, data=data_folder, out=tmp_path / "out")
    assert [run.name for run in runs] == [f"{variant}-{seed}" for seed in (1, 2) for variant in variants]
    first, anchor, still, generation = map(weights_of, runs[:4])
    other_seed = weights_of(runs[4])
    for name, value in first.items():
        assert torch.equal(still[name], value)
        assert torch.equal(generation[name], value)
    assert any(not torch.allclose(anchor[name], value) for name, value in first.items())
    assert any(not torch.allclose(other_seed[name], value) for name, value in first.items())
    assert json.loads((runs[5] / "done.json").read_text())["start_from"] == "reconstruction-2"


def test_a_stage_waits_for_the_one_before(data_folder, tmp_path) -> None:  # noqa: F811
    matrix = read_matrix(write_matrix(tmp_path, variants=STAGES, seeds=[1], texts=8))
    (tmp_path / "out" / "reconstruction-1").mkdir(parents=True)
    with FileLock(tmp_path / "out" / "reconstruction-1" / "lock"):  # as another process would hold it
        assert run_matrix(matrix, data=data_folder, out=tmp_path / "out") == []
    assert not (tmp_path / "out" / "anchor-1").exists()
    assert len(run_matrix(matrix, data=data_folder, out=tmp_path / "out")) == 2


@pytest.mark.parametrize(
    ("variants", "complaint"),
    [
        ({"anchor": {"start_from": "nothing"}}, "'anchor': start_from is 'nothing', .* there are: none"),
        ({"anchor": STAGES["anchor"], "reconstruction": STAGE_ONE}, "start_from is 'reconstruction', which is no"),
        ({**STAGES, "anchor": {"start_from": "reconstruction", "lora_rank": 2}}, "has another lora_rank"),
        ({**STAGES, "anchor": {"start_from": "reconstruction", "tuning": "full"}}, "has another tuning"),
    ],
)
def test_a_start_that_cannot_be_is_refused_before_anything_is_trained(
    data_folder,  # noqa: F811
    tmp_path,
    variants,
    complaint,
) -> None:
    matrix = read_matrix(write_matrix(tmp_path, variants=variants, seeds=[1], texts=8))
    with pytest.raises(DataError, match=complaint):
        run_matrix(matrix, data=data_folder, out=tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


class KilledError(Exception):
    pass


def test_killed_stages_go_on_to_the_same_weights(data_folder, tmp_path) -> None:  # noqa: F811
    config = read_config(write_config(tmp_path, **STAGE_ONE, optimiser_steps=5))
    second = replace(config, objective="contrastive")

    def run(out, config, *, start_from=None, stop_at=None) -> None:
        trainer = Trainer(config, data=data_folder, out=out, start_from=start_from)
        take = trainer._train_step

        def take_or_die(step):
            if step == stop_at:
                raise KilledError
            return take(step)

        trainer._train_step = take_or_die
        trainer.run()

    run(tmp_path / "whole", config)
    run(tmp_path / "whole-2", second, start_from=tmp_path / "whole")
    with pytest.raises(KilledError):
        run(tmp_path / "broken", config, stop_at=3)  # after the checkpoint at 2, with one step done since
    run(tmp_path / "broken", config)
    with pytest.raises(KilledError):
        run(tmp_path / "broken-2", second, start_from=tmp_path / "broken", stop_at=3)
    run(tmp_path / "broken-2", second, start_from=tmp_path / "broken")
    for stage in ("", "-2"):
        found, expected = (weights_of(tmp_path / f"{name}{stage}") for name in ("broken", "whole"))
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, atol=1e-6, rtol=1e-4)


def test_both_stages_stand_in_the_shipped_matrix(data_folder) -> None:  # noqa: F811
    path = Path(matrix_module.__file__).parent / "configs" / "systems-gemma.yaml"
    runs = plan(replace(read_matrix(path), texts=100), read_training_data(data_folder))
    started = {run.name: run.start_from for run in runs if run.start_from is not None}
    seeds = (1, 3, 6)
    assert started == {f"{name}-{n}": f"reconstruction-{n}" for name in ("anchor", "anchor_gircse") for n in seeds}
    first = [run.name for run in runs if run.config.objective == "reconstruction"]
    assert first == [f"reconstruction-{n}" for n in seeds]
