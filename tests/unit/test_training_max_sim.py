"""Training and evaluation by max-sim: a query's last step against a document's best one, as in DEBATER."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from test_training import data_folder, write_config, write_rows  # noqa: F401
from test_training_matrix import write_matrix
from test_training_options import batch_of, trainer_factory  # noqa: F401
from tiny_models import bert_encoder, contract, save_tiny_model
from torch.nn.functional import normalize

from embedder import load_encoder
from embedder.errors import ContractError, DataError
from embedder.evaluation.data import is_tuning
from embedder.evaluation.embedders import EncoderEmbedder
from embedder.evaluation.measures import validate_briefly
from embedder.evaluation.similarity import scores_of
from embedder.model.contract import CONTRACT_FILE, Contract, hash_files
from embedder.training.config import read_config
from embedder.training.losses import stepwise_scores
from research.evaluation.__main__ import main
from research.evaluation.systems import SYSTEMS, SystemEmbedder, open_trained
from research.training.matrix import read_matrix, run_matrix

TEXTS = ["the red dog", "a blue owl sits there", "green"]
ALONE = {"grounding_weight": 0.0, "distillation_weight": 0.0, "regulariser_weight": 0.0}


def random_steps(*, rows: int, steps: int = 4, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(rows, steps, 6, generator=generator), dim=-1)


def test_a_score_is_the_best_of_the_documents_steps_so_far() -> None:
    queries, documents = random_steps(rows=3), random_steps(rows=5, seed=1)
    found = stepwise_scores(queries, documents, similarity="max_sim")
    assert found.shape == (4, 3, 5)
    for k in range(4):
        for q, query in enumerate(queries.numpy()):
            for m, document in enumerate(documents.numpy()):
                expected = max(float(query[k] @ document[j]) for j in range(k + 1))
                assert found[k, q, m].item() == pytest.approx(expected, abs=1e-6)
    # What it is trained for is what an evaluation and a search compare by.
    np.testing.assert_allclose(found[-1], scores_of(queries.numpy(), documents.numpy()), atol=1e-6)
    assert not torch.allclose(found[-1], stepwise_scores(queries, documents)[-1], atol=1e-3)


def test_the_gradient_reaches_the_best_step_alone() -> None:
    queries, documents = random_steps(rows=1).requires_grad_(), random_steps(rows=1, seed=2).requires_grad_()
    best = int((documents[0] @ queries[0, -1]).argmax())
    assert best < 3  # not the last, which would be no choice
    stepwise_scores(queries, documents, similarity="max_sim")[-1].sum().backward()
    assert queries.grad is not None
    assert documents.grad is not None
    assert [bool(each.any()) for each in queries.grad[0]] == [False, False, False, True]
    assert [bool(each.any()) for each in documents.grad[0]] == [step == best for step in range(4)]
    torch.testing.assert_close(documents.grad[0, best], queries[0, -1].detach())


@pytest.mark.parametrize("kind", ["pairs", "labels", "name_queries"])
def test_the_loss_is_info_nce_of_the_best_steps(trainer_factory, kind) -> None:  # noqa: F811
    names = {"weights": {kind: 1.0}, "sizes": {kind: 4}, "steps": [3]}
    trainer = trainer_factory(**ALONE, mixture=names, similarity="max_sim", supervise="last", temperature=0.2)
    batch, objective = batch_of(trainer, kind), trainer._objective
    ((queries, documents),) = objective._sides([batch])
    with torch.no_grad():
        rows = objective._embed([(side.instruction, side.texts, False) for side in (queries, documents)], 3).prefixes
        scores = torch.tensor(scores_of(rows[: len(batch.queries)].numpy(), rows[len(batch.queries) :].numpy())) / 0.2
        allowed = torch.from_numpy(batch.allowed) | torch.eye(*scores.shape, dtype=torch.bool)
        scores = scores.masked_fill(~allowed, -torch.inf)
        expected = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))
        if kind == "name_queries":  # the names stay the queries, whichever side must tell the other apart
            expected = (expected + torch.nn.functional.cross_entropy(scores.T, torch.arange(len(scores)))) / 2
        terms = objective([batch])
    assert terms.total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert len(terms.stepwise) == 3


def test_a_variant_of_a_matrix_is_trained_published_and_evaluated_by_it(data_folder, tmp_path) -> None:  # noqa: F811
    path = write_matrix(tmp_path, variants={"best": {"similarity": "max_sim"}, "last": {}}, seeds=[1], texts=24)
    folders = [run / "adapter" for run in run_matrix(read_matrix(path), data=data_folder, out=tmp_path / "out")]
    best, last = (load_encoder(str(folder)) for folder in folders)
    assert (best.contract.similarity, last.contract.similarity) == ("max_sim", "cosine")
    assert "max-sim" in (folders[0] / "README.md").read_text()
    assert "max-sim" not in (folders[1] / "README.md").read_text()
    trained = open_trained(folders, device="cpu", steps=[3], systems=[SYSTEMS["Best step"]])
    assert [each.name for each in trained] == ["best-1, trained", "last-1, trained", "last-1, trained, Best step"]
    found = trained[0].embed(TEXTS, instruction="", steps=[])[None]
    np.testing.assert_allclose(found, best.encode_prefixes(TEXTS, steps=3), atol=1e-6)
    assert trained[1].embed(TEXTS, instruction="", steps=[])[None].ndim == 2


def test_the_model_itself_is_evaluated_by_all_steps_so_far() -> None:
    encoder = bert_encoder(similarity="max_sim")
    found = EncoderEmbedder(encoder).embed(TEXTS, instruction="", steps=[1, 3])
    expected = encoder.encode_prefixes(TEXTS, steps=3)
    assert list(found) == [1, 3]
    np.testing.assert_allclose(found[1], expected[:, :1], atol=1e-6)
    np.testing.assert_allclose(found[3], expected, atol=1e-6)


def test_systems_that_generate_keep_a_models_similarity() -> None:
    said = contract(similarity="max_sim")
    assert SYSTEMS["GIRCSE"].contract_of(said).similarity == "max_sim"
    assert SYSTEMS["Causal-EOS"].contract_of(said).similarity == "cosine"
    encoder = bert_encoder(similarity="max_sim")
    system = SYSTEMS["GIRCSE - 1.0 instruction"]
    assert system.contract_of(said).similarity == "max_sim"
    less = bert_encoder(similarity="max_sim", subtracted_instruction=system.subtracted_instruction)
    found = SystemEmbedder(system.name, less, steps=3).embed(TEXTS, instruction="the topic", steps=[])[None]
    plain = encoder.encode_prefixes(TEXTS, instruction="the topic", steps=3)
    left = plain - encoder.encode_prefixes(["the topic"], steps=3)
    np.testing.assert_allclose(found, left / np.linalg.norm(left, axis=-1, keepdims=True), atol=1e-5)


def test_one_command_evaluates_it(tmp_path, capsys) -> None:
    folder, data = save_tiny_model(tmp_path / "model", "llama"), tmp_path / "data"
    said = contract(similarity="max_sim", base_files=hash_files(folder))
    (folder / CONTRACT_FILE).write_text(said.to_json())
    data.mkdir()
    rows = [{"a": f"Text {at}", "b": f"Another, of {at * 7}", "score": at % 5, "instruction": "n"} for at in range(24)]
    (data / "sts.tiny.test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["--data", str(data), "--model", str(folder), "--out", str(tmp_path / "out.json"), "--tasks", "sts"]
    assert main([*command, "--bootstrap", "5", "--steps", "1", "3", "--document-steps", "3", "--alone"]) == 0, (
        capsys.readouterr().err
    )


def test_contracts_that_say_nothing_of_it_stay_as_they_were() -> None:
    plain, best = contract(), contract(similarity="max_sim")
    assert "similarity" not in json.loads(plain.to_json())
    assert (
        Contract(**json.loads(plain.to_json())).fingerprint == plain.fingerprint == "d8449c408670f81373e02b0f35cb0a2c"
    )
    assert json.loads(best.to_json())["similarity"] == "max_sim"
    assert best.fingerprint != plain.fingerprint
    for changes in ({"pooling": "prompt_last"}, {"plain_pooling": "prompt_mean"}):
        with pytest.raises(ContractError, match="max_sim"):
            dataclasses.replace(best, **changes)
    with pytest.raises(ContractError, match="similarity is 'dot'"):
        contract(similarity="dot")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"similarity": "dot"}, "similarity is 'dot'"),
        ({"similarity": "max_sim", "pooling": "prompt_last"}, "pooling 'prompt_last' gives only one vector"),
        ({"similarity": "max_sim", "privileged_weight": 1.0}, "no privileged_weight"),
        ({"similarity": "max_sim", "plain_documents": True}, "no plain_documents"),
    ],
)
def test_what_has_no_vector_for_every_step_is_refused(tmp_path, changes, said) -> None:
    with pytest.raises(DataError, match=said):
        read_config(write_config(tmp_path, **changes))


def test_a_look_during_training_is_by_the_best_step(tmp_path) -> None:
    words = ["red dog", "blue owl", "green fox", "old cat", "new tale", "tall oak", "wet stone", "dry leaf"]
    pairs = [
        {"a": one, "b": f"the {other}", "score": (7 * at + 3 * to) % 11}
        for at, one in enumerate(words)
        for to, other in enumerate(words)
    ]
    triplets = [(word, f"{word} {at}", f"{at} of {words[at - 1]}") for at, word in enumerate(words)]
    rows = [
        {"task": "zoo:a|b", "instruction": "Which?", "query": query, "pos": [near], "neg": [far]}
        for query, near, far in triplets
    ]
    write_rows(tmp_path / "sts.stsbenchmark.dev.jsonl.gz", pairs)
    write_rows(tmp_path / "triplets.zoo.jsonl.gz", rows)
    encoder = bert_encoder(similarity="max_sim")
    found = validate_briefly(encoder, tmp_path)

    def scores(queries: list[str], documents: list[str], *, steps: int, instruction: str = "") -> np.ndarray:
        asked, read = (
            encoder.encode_prefixes(each, steps=steps, instruction=instruction) for each in (queries, documents)
        )
        return np.array([max(q[-1] @ step for step in d) for q, d in zip(asked, read, strict=True)])

    of_pairs = scores([row["a"] for row in pairs], [row["b"] for row in pairs], steps=20)
    expected = spearmanr(of_pairs, [row["score"] for row in pairs]).statistic
    assert found["sts.k20"] == pytest.approx(100 * expected, abs=0.01)
    tuned = [row for row in rows if is_tuning(row["query"])]
    assert tuned
    positive, negative = (
        scores([r["query"] for r in tuned], [r[side][0] for r in tuned], steps=5, instruction="Which?")
        for side in ("pos", "neg")
    )
    assert found["triplets.all_sides"] == pytest.approx(100 * np.mean(positive > negative), abs=0.01)
