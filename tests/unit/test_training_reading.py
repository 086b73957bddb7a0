"""Training that reads values: hand-written aspects, names under an instruction, plain documents, encoders without a
head, several batches a step."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
import torch
from test_training import data_folder, write_config, write_rows  # noqa: F401
from test_training_options import trainer_factory  # noqa: F401
from tiny_models import TOKENIZER_FOLDER, tiny_tokenizer
from transformers import MPNetConfig, MPNetModel

from embedder import Encoder, load_encoder
from embedder.errors import DataError
from embedder.model.contract import resolve_defaults
from embedder.training.config import read_config
from embedder.training.data import ASPECTS_FILE, WRITTEN_ASPECTS, fingerprint_of, is_inner, read_training_data
from embedder.training.sampling import BatchSampler, Mixture
from embedder.training.train import Trainer

ALONE = {"grounding_weight": 0.0, "distillation_weight": 0.0}


@pytest.fixture
def aspects_folder(tmp_path):
    folder = tmp_path / "train"
    folder.mkdir()
    names = [f"kind{number}" for number in range(24, 34)]
    write_rows(
        folder / ASPECTS_FILE,
        [
            {"aspect": name, "domain": f"domain {turn % 2}", "instructions": [f"Which {name}?", f"the {name}"],
             "values": {value: [f"{value} {name} {n}" for n in range(4)] for value in ("one", "two", "three")}}
            for turn, name in enumerate(names)
        ],
    )  # fmt: skip
    return folder


def test_written_aspects_are_read_but_for_those_held_out(aspects_folder):
    data = read_training_data(aspects_folder, with_aspects=True)
    with gzip.open(aspects_folder / ASPECTS_FILE, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    held_out = {row["aspect"] for row in rows if is_inner(row["aspect"])}
    assert held_out, "the fixture's aspects must have some of both kinds"
    assert {each.name.split()[0] for each in data.aspects} == {row["aspect"] for row in rows} - held_out
    first = data.aspects[0]
    assert data.labels[WRITTEN_ASPECTS, first.name][first.texts["two"][1]] == {"two"}
    sampler = BatchSampler(data, Mixture({"labels": 1.0, "composed": 1.0}, {"labels": 40, "composed": 4}), seed=1)
    batches = [sampler.batch(step) for step in range(60)]
    assert {batch.query_instruction[:4] for batch in batches} == {"Whic", "the "}  # all wordings of an aspect
    assert max(len(batch.queries) for batch in batches if batch.kind == "labels") == 6  # of its twelve texts
    composed = [batch for batch in batches if batch.kind == "composed"]
    assert composed  # texts of one domain joined with texts of the other
    with pytest.raises(DataError):  # they count only where they are asked for
        read_training_data(aspects_folder)


def test_another_file_of_aspects_is_another_run(aspects_folder):
    before = fingerprint_of(aspects_folder, with_aspects=True), fingerprint_of(aspects_folder)
    write_rows(aspects_folder / ASPECTS_FILE, [{"aspect": "x", "domain": "y", "instructions": ["z"], "values": {}}])
    assert fingerprint_of(aspects_folder, with_aspects=True) != before[0]
    assert fingerprint_of(aspects_folder) == before[1]


def test_aspects_without_wordings_are_refused_by_their_line(aspects_folder):
    write_rows(aspects_folder / ASPECTS_FILE, [{"aspect": "x", "domain": "y", "instructions": [], "values": {}}])
    with pytest.raises(DataError, match="line 1"):
        read_training_data(aspects_folder, with_aspects=True)


def test_names_ask_for_texts_of_theirs(data_folder):  # noqa: F811
    data = read_training_data(data_folder)
    sampler = BatchSampler(data, Mixture({"name_queries": 1.0}, {"name_queries": 6}, paraphrase_share=0.0), seed=2)
    batch = sampler.batch(0)
    aspect = "colour" if batch.query_instruction == "Which colour?" else "animal"
    labels = data.labels["zoo", aspect]
    assert batch.document_instruction == ""
    for row, name in enumerate(batch.queries):
        assert name in labels[batch.documents[row]]
        assert batch.allowed[row].tolist() == [name not in labels[text] for text in batch.documents]


def batches_of(trainer, *kinds, steps=2):
    drawn = map(trainer._sampler.batch, range(400))
    return [dataclasses.replace(next(b for b in drawn if b.kind == kind), steps=steps) for kind in kinds]


def gradient(trainer, batches):
    trainer._optimiser.zero_grad(set_to_none=True)
    terms = trainer._objective.backward(batches)
    return torch.cat([p.grad.flatten() for p in trainer._trained.values() if p.grad is not None]), terms


@pytest.mark.parametrize("plain_documents", [False, True])
def test_several_batches_are_the_mean_of_each(trainer_factory, plain_documents):  # noqa: F811
    changes = {"distillation_weight": 1.0, "plain_documents": plain_documents}
    trainer = trainer_factory(**changes)
    batches = batches_of(trainer, "pairs", "labels", "label_names", "name_queries", "similarity")
    each = [gradient(trainer, [batch]) for batch in batches]
    whole, terms = gradient(trainer, batches)
    expected = torch.stack([found for found, _ in each]).mean(0)
    assert (whole - expected).norm() <= 1e-4 * expected.norm()
    assert terms.total.item() == pytest.approx(np.mean([found.total.item() for _, found in each]), rel=1e-5)
    assert terms.distillation == pytest.approx(np.mean([found.distillation for _, found in each]), abs=1e-6)


def test_a_step_takes_as_many_batches_as_asked_for_and_counts_their_texts(trainer_factory):  # noqa: F811
    trainer = trainer_factory(batches_per_step=3)
    batches = trainer._batches_of(5)
    assert [batch.queries for batch in batches] == [trainer._sampler.batch(at).queries for at in (15, 16, 17)]
    assert len({batch.steps for batch in batches}) == 1
    trainer._out.mkdir()
    row = trainer._train_step(5)
    assert row["texts"] == sum(len(batch.queries) + len(batch.documents) for batch in batches)


def test_plain_documents_are_what_the_base_makes_of_them(trainer_factory):  # noqa: F811
    trainer = trainer_factory(distillation_weight=1.0, plain_documents=True)
    seen = []
    embed = trainer._objective._embed
    trainer._objective._embed = lambda parts, steps: (
        seen.extend(text for _, texts, _ in parts for text in texts) or embed(parts, steps)
    )
    (batch,) = batches_of(trainer, "label_queries")
    rows = []
    joint = trainer._objective._joint
    trainer._objective._joint = lambda *given: rows.append(given[2]) or joint(*given)
    trainer._objective([batch])
    assert seen == batch.queries  # documents do not go through the adapter
    of_base = trainer._objective.teacher_vectors(batch.documents)
    for step in range(batch.steps):
        torch.testing.assert_close(rows[0][len(batch.queries) :, step], of_base)


def test_a_query_of_pairs_stays_in_the_space_of_plain_documents(trainer_factory):  # noqa: F811
    (batch,) = batches_of(trainer_factory(distillation_weight=1.0, plain_documents=True), "pairs")
    asked = dataclasses.replace(batch, query_instruction="Find it.", document_instruction="")
    free, kept = (trainer_factory(distillation_weight=1.0, plain_documents=plain) for plain in (False, True))
    assert kept._objective([asked]).distillation > 0
    sides = [trainer._objective._sides([asked])[0][0] for trainer in (free, kept)]
    assert [side.is_plain for side in sides] == [False, True]


def test_both_ways_are_told_apart_between_names_and_texts(trainer_factory):  # noqa: F811
    trainer = trainer_factory(**ALONE, regulariser_weight=0.0, temperature=0.2)
    (batch,) = batches_of(trainer, "name_queries", steps=1)
    objective = trainer._objective
    with torch.no_grad():
        sides = objective._sides([batch])[0]
        rows = objective._embed([(side.instruction, side.texts, False) for side in sides], 1).prefixes[:, 0]
        count = len(batch.queries)
        scores = rows[:count] @ rows[count:].T / 0.2
        masked = scores.masked_fill(~(torch.from_numpy(batch.allowed) | torch.eye(count, dtype=torch.bool)), -torch.inf)
        target = torch.arange(count)
        both = [torch.nn.functional.cross_entropy(each, target).item() for each in (masked, masked.T)]
        found = objective([batch]).total.item()
    assert both[0] != pytest.approx(both[1], rel=1e-3)
    assert found == pytest.approx(np.mean(both), rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"plain_documents": True, "distillation_weight": 0.0}, "plain_documents"),
        ({"plain_documents": True, "chunk_size": 4}, "plain_documents"),
        ({"batches_per_step": 2, "chunk_size": 4}, "batches_per_step"),
        ({"batches_per_step": 0}, "batches_per_step"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, changes, said):
    with pytest.raises(DataError, match=said):
        read_config(write_config(tmp_path, **changes))


@pytest.fixture
def mpnet(tmp_path):
    torch.manual_seed(3)
    folder = tmp_path / "mpnet"
    shape = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = MPNetModel(MPNetConfig(vocab_size=tiny_tokenizer().get_vocab_size(), max_position_embeddings=202, **shape))
    torch.nn.init.normal_(model.encoder.relative_attention_bias.weight, std=2.0)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((TOKENIZER_FOLDER / "tokenizer.json").read_bytes())
    return folder


def test_an_encoder_without_a_head_is_trained_and_served(data_folder, mpnet, tmp_path):  # noqa: F811
    changes = {
        "base": str(mpnet), "head": "none", "pooling": "prompt_mean", "attention": "prefix", "plain_documents": True,
        "with_aspects": False, "grounding_weight": 0.0, "optimiser_steps": 4, "query_steps": 1, "document_steps": 0,
    }  # fmt: skip
    trainer = Trainer(read_config(write_config(tmp_path, **changes)), data=data_folder, out=tmp_path / "run")
    encoder = load_encoder(str(trainer.run()), dtype="float32")
    text, instruction = "the red dog number 1", "Which colour?"
    # In training and as served, to the last digits: with the adapter and without.
    plain = encoder.encode_documents([text], steps=0)[0]
    read = encoder.encode_queries([text], instruction=instruction)[0]
    np.testing.assert_allclose(trainer._objective.teacher_vectors([text])[0].numpy(), plain, atol=1e-5)
    with torch.no_grad():
        trained = trainer._objective._embed([(instruction, [text], False)], 0).prefixes[0, -1].numpy()
    np.testing.assert_allclose(trained, read, atol=1e-5)
    assert encoder.contract.min_steps == 0
    assert encoder.contract.head == "none"
    # Without an instruction it is the base itself, whatever steps are asked for.
    for vector in (encoder.encode_queries([text])[0], encoder.encode_queries([text], steps=1)[0]):
        np.testing.assert_array_equal(vector, plain)
    np.testing.assert_array_equal(encoder.encode_prefixes([text], steps=1)[0, -1], plain)
    assert resolve_defaults(encoder.contract, "query", "", 1) == ("", 0)
    # The adapter has a part in what is read under an instruction.
    base_alone = dataclasses.replace(encoder._backbone, base=None, decoder=encoder._backbone.base.decoder)
    bare = Encoder(base_alone, encoder._prompts.vocabulary, encoder.contract)
    assert np.abs(bare.encode_queries([text], instruction=instruction)[0] - read).max() > 1e-4
