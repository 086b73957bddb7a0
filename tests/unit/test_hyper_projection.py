"""Hyper-CL: a projection that the instruction determines, what it saves, how it is trained, kept and measured."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_models import contract, family_backbone, save_tiny_model, tiny_tokenizer

from embedder.encoder import Encoder
from embedder.errors import ContractError, DataError
from embedder.evaluation.stored_vectors import StoredVectors
from embedder.extensions.hyper_projection import (
    KINDS,
    PROJECTION_FILE,
    InstructionProjection,
    ProjectionShape,
    build_projection,
    save_projection,
)
from embedder.model.backbone import Backbone, with_decoder
from embedder.training.data import Aspect, TrainingData, labels_by_text
from embedder.training.progress import read_log
from embedder.training.sampling import Mixture
from research.evaluation.__main__ import main as evaluate
from research.evaluation.projected import ProjectedEncoder, load_projection, open_projections
from research.training import hyper_projection
from research.training.hyper_projection import ProjectionConfig, ProjectionTrainer, main
from research.training.plain_vectors import PlainVectors

COLOURS, SHAPES = ("red", "green", "blue", "white"), ("circle", "square", "star", "cube")
TEXTS = [f"a {colour} {shape}" for colour in COLOURS for shape in SHAPES]
BY_COLOUR, BY_SHAPE = "Group by colour.", "Which form does it have?"
MIXTURE = Mixture(weights={"labels": 1.0}, sizes={"labels": 4}, paraphrase_share=0.0)


class CountingEncoder(Encoder):
    """Counts the prompts that the model reads."""

    passes = 0

    def _raw_prefixes(self, prompts: Sequence[tuple[int, ...]], *given: Any, **named: Any) -> np.ndarray:
        self.passes += len(prompts)
        return super()._raw_prefixes(prompts, *given, **named)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    return with_decoder(family_backbone(save_tiny_model(tmp_path_factory.mktemp("tiny"), "llama")))


@pytest.fixture
def encoder(backbone: Backbone) -> CountingEncoder:
    return CountingEncoder(backbone, tiny_tokenizer(), contract(default_document_steps=1))


@pytest.fixture(params=KINDS)
def projection(request: pytest.FixtureRequest) -> InstructionProjection:
    return shaken(request.param)


def shaken(kind: str, *, width: int = 3, seed: int = 0) -> InstructionProjection:
    """As after training: no layer of zeros."""
    torch.manual_seed(seed)
    built = build_projection(ProjectionShape(kind, 32, width))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return built


def toy_data() -> TrainingData:
    """The same texts, alike by one thing under one instruction and by another under the other."""
    data = TrainingData()
    for name, instruction, at in (("colour", BY_COLOUR, 1), ("shape", BY_SHAPE, 2)):
        values: dict[str, tuple[str, ...]] = {}
        for text in TEXTS:
            value = text.split()[at]
            values[value] = (*values.get(value, ()), text)
        data.aspects.append(Aspect("toys", name, instruction, values))
        data.labels["toys", name] = labels_by_text(values)
    return data


def trainer(
    encoder: Encoder, out: Path, *, kind: str = "film", batches: int = 300, seed: int = 1, width: int = 16
) -> ProjectionTrainer:
    config = ProjectionConfig(kind, batches, seed=seed, width=width, learning_rate=3e-3, temperature=0.2)
    return ProjectionTrainer(
        config, encoder, toy_data(), PlainVectors(encoder, out.parent / "vectors"), out, mixture=MIXTURE
    )


def test_a_known_text_is_not_read_again_under_another_instruction(
    encoder: CountingEncoder, projection: InstructionProjection
) -> None:
    projected = ProjectedEncoder(StoredVectors(encoder), projection)
    first = projected.encode(TEXTS, instruction=BY_COLOUR)
    assert encoder.passes == len(TEXTS) + 1  # and the instruction
    second = projected.encode(TEXTS, instruction=BY_SHAPE)
    assert encoder.passes == len(TEXTS) + 2
    np.testing.assert_array_equal(projected.encode(TEXTS[::-1], instruction=BY_COLOUR), first[::-1])
    assert encoder.passes == len(TEXTS) + 2
    assert np.abs(first - second).max(axis=1).min() > 1e-3
    np.testing.assert_allclose(np.linalg.norm(second, axis=1), 1, atol=1e-5)


def test_without_an_instruction_it_is_the_stored_vector(
    encoder: CountingEncoder, projection: InstructionProjection
) -> None:
    found = ProjectedEncoder(StoredVectors(encoder), projection).encode([*TEXTS, TEXTS[0]], instruction="")
    np.testing.assert_array_equal(found[:-1], encoder.encode_documents(TEXTS, instruction=""))
    np.testing.assert_array_equal(found[-1], found[0])


@pytest.mark.parametrize("kind", KINDS)
def test_it_begins_with_stored_vectors(encoder: Encoder, kind: str) -> None:
    stored = StoredVectors(encoder)
    found = ProjectedEncoder(stored, build_projection(ProjectionShape(kind, 32, 4))).encode(TEXTS, instruction="x")
    np.testing.assert_allclose(found, stored.of(TEXTS), atol=1e-6)


def test_a_low_rank_projection_is_one_matrix_of_the_instruction() -> None:
    """W = I + A(c) B(c)ᵀ, of which no more than `width` directions are not plain."""
    projection = shaken("low_rank")
    vectors, instruction = torch.nn.functional.normalize(torch.randn(33, 32), dim=1).split([32, 1])
    with torch.no_grad():
        found = projection(vectors, instruction[0])
        down, up = (layer(instruction[0] * 32**0.5) for layer in (projection.down, projection.up))
        change = (down.view(32, 3) @ up.view(3, 32)) / 32 * 32**0.5
    expected = torch.nn.functional.normalize(vectors @ (torch.eye(32) + change), dim=1)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert int(torch.linalg.matrix_rank(change)) == 3


def test_gradient_reaches_the_network_of_the_instruction(projection: InstructionProjection) -> None:
    vectors, instruction = torch.nn.functional.normalize(torch.randn(9, 32), dim=1).split([8, 1])
    instruction.requires_grad_()
    (projection(vectors, instruction[0]) @ torch.randn(32)).sum().backward()
    assert instruction.grad is not None
    assert instruction.grad.abs().max() > 0
    for name, parameter in projection.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def nearest_share(encode: Callable[[str], np.ndarray], instruction: str, at: int) -> float:
    """Share of texts of which two others that agree in word `at` alone are nearer than any that agree in the other."""
    vectors = encode(instruction)
    alike = vectors @ vectors.T
    words = [text.split() for text in TEXTS]
    hits = []
    for row, own in enumerate(words):
        wanted = [alike[row, other] for other, each in enumerate(words) if other != row and each[at] == own[at]]
        rivals = [alike[row, other] for other, each in enumerate(words) if other != row and each[3 - at] == own[3 - at]]
        hits.append(np.mean(np.array(wanted)[:, None] > np.array(rivals)))
    return float(np.mean(hits))


@pytest.mark.parametrize("kind", KINDS)
def test_two_instructions_that_want_opposite_things_are_learned(encoder: Encoder, tmp_path: Path, kind: str) -> None:
    folder = trainer(encoder, tmp_path / "run", kind=kind).run()
    stored = StoredVectors(encoder)
    projected = ProjectedEncoder(stored, load_projection(folder, encoder))
    shares = [
        nearest_share(lambda said: projected.encode(TEXTS, instruction=said), said, at)
        for said, at in ((BY_COLOUR, 1), (BY_SHAPE, 2))
    ]
    plain = [nearest_share(lambda _: stored.of(TEXTS), "", at) for at in (1, 2)]
    assert min(shares) > 0.95
    assert sum(plain) == pytest.approx(1.0, abs=1e-6)  # what ignores the instruction
    losses = [row["loss"] for row in read_log(folder)]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) / 2


def test_a_stopped_run_goes_on_as_if_nothing_had_been(
    encoder: CountingEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hyper_projection, "_BLOCK", 4)
    whole = trainer(encoder, tmp_path / "whole", batches=10)
    whole.run()
    read = encoder.passes
    stopped = trainer(encoder, tmp_path / "stopped", batches=10)
    save = stopped._save

    def save_once(step: int) -> None:
        save(step)
        if step == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(stopped, "_save", save_once)
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    again = trainer(encoder, tmp_path / "stopped", batches=10)
    again.run()
    assert encoder.passes == read  # all texts were kept
    for name, tensor in whole.projection.state_dict().items():
        torch.testing.assert_close(again.projection.state_dict()[name], tensor, atol=0, rtol=0)
    assert [row["step"] for row in read_log(tmp_path / "stopped")] == [*range(10)]
    with pytest.raises(DataError, match="seed, width differ"):
        trainer(encoder, tmp_path / "stopped", batches=10, seed=2, width=8)


def test_vectors_are_kept_by_model(backbone: Backbone, encoder: CountingEncoder, tmp_path: Path) -> None:
    assert PlainVectors(encoder, tmp_path).read([*TEXTS, TEXTS[0]]) == len(TEXTS)
    kept = PlainVectors(encoder, tmp_path)
    assert kept.read(TEXTS) == 0
    assert encoder.passes == len(TEXTS)
    np.testing.assert_allclose(kept.of(TEXTS[3:5]), encoder.encode_documents(TEXTS[3:5], instruction=""), atol=1e-3)
    assert kept.of(TEXTS).dtype == np.float32
    other = Encoder(backbone, tiny_tokenizer(), contract(template="echo"))
    with pytest.raises(DataError, match="another model"):
        PlainVectors(other, tmp_path)


def test_what_is_saved_is_loaded(encoder: Encoder, projection: InstructionProjection, tmp_path: Path) -> None:
    save_projection(projection, tmp_path / "a", fingerprint=encoder.fingerprint)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [PROJECTION_FILE]
    loaded = load_projection(tmp_path / "a", encoder)
    assert loaded.shape == projection.shape
    stored = StoredVectors(encoder)
    first, second = (ProjectedEncoder(stored, each).encode(TEXTS, instruction="x") for each in (projection, loaded))
    np.testing.assert_array_equal(first, second)


def test_a_projection_of_another_model_is_refused(backbone: Backbone, encoder: Encoder, tmp_path: Path) -> None:
    save_projection(shaken("film"), tmp_path, fingerprint=encoder.fingerprint)
    other = Encoder(backbone, tiny_tokenizer(), contract(template="echo"))
    with pytest.raises(ContractError, match=f"{encoder.fingerprint}, but tiny has {other.fingerprint}"):
        load_projection(tmp_path, other)
    with pytest.raises(ContractError, match="32 dimensions, but vectors have 8"):
        load_projection(tmp_path, Encoder(backbone, tiny_tokenizer(), encoder.contract, truncate_dim=8))


def test_what_is_no_projection_is_refused(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="is missing"):
        load_projection(tmp_path, encoder)
    path = tmp_path / PROJECTION_FILE
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ContractError, match="cannot be read"):
        load_projection(tmp_path, encoder)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ContractError, match="not a projection, or of an unknown version"):
        load_projection(tmp_path, encoder)
    said = {"format": "1", "model": encoder.fingerprint, "kind": "film", "dimension": "32", "width": "3"}
    for wrong in ({}, {"kind": "cubic"}, {"width": "0"}, {"width": "many"}):
        save_file({"a": torch.zeros(1)}, path, {**said, **wrong})
        with pytest.raises(ContractError):
            load_projection(tmp_path, encoder)


def written(folder: Path) -> tuple[Path, Path]:
    """A model and training files of the toys."""
    data = folder / "data" / "train"
    data.mkdir(parents=True)
    rows = [{"text": text, "labels": dict(zip(("colour", "shape"), text.split()[1:], strict=True))} for text in TEXTS]
    (data / "labels.toys.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = {"toys": {"colour": BY_COLOUR, "shape": BY_SHAPE}}
    (data.parent / "instructions.json").write_text(json.dumps(said))
    return save_tiny_model(folder / "model", "llama"), data


def test_one_command_trains_and_another_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = written(tmp_path)
    level = logging.getLogger("embedder.text.prompts").level
    for kind in KINDS:
        command = ["--data", str(data), "--model", str(model), "--out", str(tmp_path / kind), "--batches", "3"]
        assert main([*command, "--kind", kind, "--width", "4"]) == 0, capsys.readouterr().err
    assert logging.getLogger("embedder.text.prompts").level == level  # so that what comes after still warns
    assert main([*command, "--kind", kind, "--width", "5"]) == 1
    assert "another config; width differ" in capsys.readouterr().err

    out, page = tmp_path / "results.json", tmp_path / "page.md"
    command = ["--data", str(data), "--model", str(model), "--tasks", "label_names", "--bootstrap", "10"]
    command += ["--half", "all", "--systems-steps", "1", "--out", str(out), "--page", str(page)]
    command += ["--projection", *(str(tmp_path / kind) for kind in KINDS)]
    assert evaluate(command) == 0, capsys.readouterr().err
    results = json.loads(out.read_text())
    names = ["Stored vectors", "Reading", *(f"Hyper-CL ({kind})" for kind in KINDS)]
    assert list(results["systems"]) == names
    assert len(set(results["systems"].values())) == 3  # the first two are one model
    texts = {name: results["costs"][name]["texts"] for name in names}
    assert texts == {names[0]: len(TEXTS) + 8, **dict.fromkeys(names[1:], 2 * len(TEXTS))}
    text = page.read_text()
    assert "to Stored vectors |" in text
    summary = text.partition("## All in one table")[2].partition("##")[0]
    assert "label_names.mean" in summary
    assert "label_names.toys" not in summary  # of which that is the mean
    assert "## label_names.mean" in text
    assert "## label_names.toys.colour" not in text
    assert evaluate([*command, "--against", "Reading"]) == 0  # what was measured is not measured again
    assert "to Reading |" in page.read_text()
    assert evaluate([*command, "--against", "Listening"]) == 1
    assert "the systems are Stored vectors" in capsys.readouterr().err


def test_a_command_that_is_stopped_says_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = written(tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProjectionTrainer, "_train_step", stop)
    assert main(["--data", str(data), "--model", str(model), "--out", str(tmp_path / "run"), "--batches", "2"]) == 130
    assert "goes on" in capsys.readouterr().err
    assert not (tmp_path / "run" / PROJECTION_FILE).exists()


def test_rows_have_names_of_their_own(encoder: Encoder, tmp_path: Path) -> None:
    for place in ("a/film", "b/film"):
        save_projection(shaken("film"), tmp_path / place, fingerprint=encoder.fingerprint)
    with pytest.raises(ContractError, match=r"called 'Hyper-CL \(film\)'"):
        open_projections([tmp_path / "a" / "film", tmp_path / "b" / "film"], encoder, steps=1)
