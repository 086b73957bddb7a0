"""Systems of the field, published: each is a model of its own, a collection's if one likes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import Run, forget_settings, run_command
from tiny_models import save_tiny_model
from typer.testing import CliRunner

from app.cli import app
from app.edge import EdgeProcess
from app.types.chunk_text import with_context
from embedder import Encoder, load_encoder
from embedder.checkpoint import find_checkpoint
from embedder.engine.engine import Engine
from embedder.engine.errors import InvalidRequestError
from embedder.errors import ContractError
from embedder.evaluation.stored_vectors import StoredVectors
from embedder.extensions.auxiliary_models import AuxiliaryModels
from embedder.extensions.hyper_projection import PROJECTION_FILE, ProjectionShape, build_projection, save_projection
from embedder.integrations.langchain import GircseEmbeddings
from embedder.model.contract import CONTRACT_FILE
from embedder.server.protocol import EmbedTask, InputType
from embedder.server.service import EngineSource
from embedder.text.prompts import INSTRUCTION_END
from research.evaluation.__main__ import main
from research.evaluation.projected import ProjectedEncoder, load_projection

TEXTS = {
    "owl": "Owls hunt at night. They fly without a sound.",
    "eel": "Eels live in rivers and breed in the sea.",
    "fox": "The fox hunts alone, mostly after sunset.",
}
QUERY, INSTRUCTION, STEPS = "who hunts at night", "the animal", 3


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "qwen3")


def train_projection(folder: Path, model: str, *, seed: int = 0) -> Path:
    """As after training: no layer of zeros."""
    torch.manual_seed(seed)
    encoder = load_encoder(model)
    projection = build_projection(ProjectionShape("film", encoder.dimension, 4))
    with torch.no_grad():
        for parameter in projection.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    save_projection(projection, folder, fingerprint=encoder.fingerprint)
    return folder


def published(out: Path, model: Path | str, *chosen: str) -> Path:
    assert main(["publish", "--model", str(model), "--out", str(out), *chosen]) == 0
    return out


def subtracted(model: str, texts: list[str], *, instruction: str, steps: int) -> np.ndarray:
    """In numpy, of the model as it is."""
    encoder = load_encoder(model)
    own = encoder.encode_queries([instruction], instruction="", steps=steps)
    found = encoder.encode_queries(texts, instruction=instruction, steps=steps) - 0.5 * own
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def test_a_published_system_is_a_model_with_golden_vectors(tmp_path: Path, tiny_model: Path) -> None:
    folder = published(tmp_path / "less", tiny_model, "--system", "GIRCSE - 0.5 instruction")
    encoder = load_encoder(str(folder))
    assert encoder.name == "less"
    assert len(encoder.contract.golden) == 2
    texts = list(TEXTS.values())
    expected = subtracted(str(tiny_model), texts, instruction=INSTRUCTION, steps=STEPS)
    found = encoder.encode_queries(texts, instruction=INSTRUCTION, steps=STEPS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    said = json.loads((folder / CONTRACT_FILE).read_text())
    said["subtracted_instruction"] = 0.25
    (folder / CONTRACT_FILE).write_text(json.dumps(said))
    with pytest.raises(ContractError, match="golden vector"):
        load_encoder(str(folder))


def test_first_dimensions_alone(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--system", "Causal-EOS", "--dimensions", "8")
    encoder, whole = (
        load_encoder(str(published(tmp_path / name, tiny_model, *options)))
        for name, options in (("short", chosen), ("whole", chosen[:2]))
    )
    texts = list(TEXTS.values())
    expected = whole.encode_queries(texts, instruction=INSTRUCTION)[:, :8]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_queries(texts, instruction=INSTRUCTION), expected, atol=1e-6)
    assert encoder.info.dimension == 8
    assert encoder.fingerprint != whole.fingerprint
    for wrong, told in (("33", "vectors have 32"), ("0", "must be at least 1")):
        assert main(["publish", "--model", str(tiny_model), "--out", str(tmp_path / "x"), *chosen[:3], wrong]) == 1
        assert told in capsys.readouterr().err


def test_by_the_class_for_langchain(tmp_path: Path, tiny_model: Path) -> None:
    """Whose engine queues token ids, and which asks for one text after another, and for many at a time."""
    folder = published(tmp_path / "less", tiny_model, "--system", "GIRCSE - 0.5 instruction")
    texts = list(TEXTS.values())
    embeddings = GircseEmbeddings(
        model=str(folder),
        dtype="float32",
        query_instruction=INSTRUCTION,
        document_instruction=INSTRUCTION,
        query_steps=2,
        document_steps=2,
    )
    expected = subtracted(str(tiny_model), [*texts, QUERY], instruction=INSTRUCTION, steps=2)
    for _ in range(2):
        np.testing.assert_allclose(embeddings.embed_documents(texts), expected[:3], atol=1e-5)
        np.testing.assert_allclose(embeddings.embed_query(QUERY), expected[3], atol=1e-5)


def test_a_projection_over_a_decoder(tmp_path: Path, tiny_model: Path) -> None:
    """Texts are read without the instruction, whose own vector projects them, as in `gircse eval --projection`."""
    projection = train_projection(tmp_path / "film", str(tiny_model))
    encoder = load_encoder(str(published(tmp_path / "hyper", tiny_model, "--projection", str(projection))))
    plain = load_encoder(str(tiny_model))
    texts = list(TEXTS.values())
    expected = ProjectedEncoder(StoredVectors(plain), load_projection(projection, plain))
    np.testing.assert_allclose(
        encoder.encode_queries(texts, instruction=INSTRUCTION),
        expected.encode(texts, instruction=INSTRUCTION),
        atol=1e-5,
    )
    np.testing.assert_allclose(encoder.encode_documents(texts), plain.encode_documents(texts), atol=1e-6)
    (prompt,) = encoder.read_prompts([texts[0]], INSTRUCTION)
    assert prompt.ids[prompt.ids.index(INSTRUCTION_END) + 1 :] == plain.read_prompts([texts[0]], "")[0].ids
    assert len({plain.fingerprint, encoder.fingerprint}) == 2


def test_a_projection_over_an_embedder_needs_no_adapter(tmp_path: Path) -> None:
    projection = train_projection(tmp_path / "film", "gircse-small")
    folder = published(tmp_path / "hyper", "gircse-small", "--projection", str(projection))
    assert not list(folder.glob("adapter*"))
    encoder, plain = load_encoder(str(folder)), load_encoder("gircse-small")
    expected = ProjectedEncoder(StoredVectors(plain), load_projection(projection, plain))
    texts = list(TEXTS.values())
    for instruction in (INSTRUCTION, ""):
        found = encoder.encode_queries(texts, instruction=instruction)
        np.testing.assert_allclose(found, expected.encode(texts, instruction=instruction), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_documents(texts), plain.encode_documents(texts), atol=1e-5)


def test_a_projection_over_first_dimensions_and_published_again(tmp_path: Path, tiny_model: Path) -> None:
    short = published(tmp_path / "short", tiny_model, "--system", "GIRCSE", "--dimensions", "8")
    projection = train_projection(tmp_path / "film", str(short))
    folder = published(tmp_path / "hyper", short, "--projection", str(projection))
    encoder, plain = load_encoder(str(folder)), load_encoder(str(short))
    expected = ProjectedEncoder(StoredVectors(plain), load_projection(projection, plain))
    texts = list(TEXTS.values())
    found = encoder.encode_queries(texts, instruction=INSTRUCTION)
    np.testing.assert_allclose(found, expected.encode(texts, instruction=INSTRUCTION), atol=1e-5)
    again = load_encoder(str(published(tmp_path / "again", folder, "--system", "GIRCSE")))
    assert again.fingerprint == encoder.fingerprint
    command = ["publish", "--model", str(folder), "--out", str(tmp_path / "x")]
    assert main([*command, "--projection", str(projection)]) == 1
    assert main([*command, "--system", "GIRCSE", "--dimensions", "4"]) == 1  # the projection is of 8


def test_hard_tokens_and_differences_load_in_other_dtypes(tmp_path: Path) -> None:
    """Whose golden vectors would not hold: a near tie is another word, and little is left after a subtraction."""
    for system in ("Hard tokens", "GIRCSE - 0.5 instruction"):
        folder = published(tmp_path / system, "gircse-small", "--system", system)
        for dtype in ("bfloat16", "int8"):
            assert load_encoder(str(folder), dtype=dtype).name == system


def test_texts_that_fit_are_not_refused_by_a_server(tmp_path: Path, tiny_model: Path) -> None:
    """The instruction stands apart among the ids, and is no part of a text's length."""
    folder = published(tmp_path / "less", tiny_model, "--system", "GIRCSE - 0.5 instruction")
    encoder = load_encoder(str(folder), dtype="float32")
    text, most = "a", encoder.contract.max_length
    while (prompt := encoder.read_prompts([text + " a"], INSTRUCTION)[0]).tokens <= most and not prompt.is_cut:
        text += " a"
    with Engine(encoder) as engine:
        source = EngineSource(engine)

        def task(said: str) -> EmbedTask:
            return EmbedTask((said,), InputType.DOCUMENT, instruction=INSTRUCTION, steps=1, may_cut=False)

        answer = asyncio.run(source.embed(task(text)))
        assert (answer.tokens, answer.truncated) == (most, 0)
        with pytest.raises(InvalidRequestError, match=f"has {most + 1} tokens"):
            asyncio.run(source.embed(task(text + " a")))
        source.close()


def test_a_damaged_projection_is_refused(tmp_path: Path, tiny_model: Path) -> None:
    projection = train_projection(tmp_path / "film", str(tiny_model))
    folder = published(tmp_path / "hyper", tiny_model, "--projection", str(projection))
    train_projection(folder, str(tiny_model), seed=1)
    with pytest.raises(ContractError, match=r"projection\.safetensors has SHA-256"):
        load_encoder(str(folder))
    said = json.loads((folder / CONTRACT_FILE).read_text())
    (folder / CONTRACT_FILE).write_text(json.dumps(said | {"projection_files": {"tokenizer.json": "0"}}))
    with pytest.raises(ContractError, match=r"no hash of projection\.safetensors"):
        load_encoder(str(folder))
    (folder / CONTRACT_FILE).write_text(json.dumps(said))
    (folder / PROJECTION_FILE).unlink()
    with pytest.raises(ContractError, match="is missing"):
        load_encoder(str(folder))
    checkpoint = find_checkpoint(str(tiny_model))
    encoder = load_encoder(str(tiny_model))
    with pytest.raises(ContractError, match="a projection was loaded, but the contract has no files of one"):
        Encoder(
            encoder._backbone,
            encoder._prompts.vocabulary,
            checkpoint.contract,
            auxiliary=AuxiliaryModels(load_projection(projection, encoder)),
        )


def test_what_cannot_be_published(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    projection = train_projection(tmp_path / "film", str(tiny_model))
    other = save_tiny_model(tmp_path / "other", "llama")
    assert main(["publish", "--model", str(other), "--out", str(tmp_path / "a"), "--projection", str(projection)]) == 1
    assert "Name the model that it was trained with" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    assert main(["publish", "--model", str(other), "--out", str(other), "--system", "Echo"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main(["publish", "--model", str(tmp_path / "none"), "--out", str(tmp_path / "b"), "--system", "Echo"]) == 1
    assert "No folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["publish", "--model", str(other), "--out", str(tmp_path / "c")])
    command = ["publish", "--out", str(tmp_path / "d"), "--system", "Causal-EOS"]
    assert main([*command, "--model", "gircse-mini", "--generator", "same"]) == 1
    assert main([*command, "--model", str(other)]) == 0  # of what failed, nothing is left
    assert not list(tmp_path.glob(".*"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    forget_settings(monkeypatch)
    home = tmp_path / "home"
    monkeypatch.setenv("GIRCSE_HOME", str(home))
    monkeypatch.setenv("GIRCSE_DTYPE", "float32")
    with EdgeProcess(home / "edge"):
        yield run_command


@pytest.mark.parametrize("chosen", ["GIRCSE - 0.5 instruction", "Hyper-CL", "Two-stage", "Echo"])
def test_a_collection_is_searched_by_it_and_by_nothing_else(
    run: Run, tmp_path: Path, tiny_model: Path, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chosen == "Hyper-CL":
        projection = train_projection(tmp_path / "film", str(tiny_model))
        folder = published(tmp_path / "system", tiny_model, "--projection", str(projection))
    elif chosen == "Two-stage":
        folder = published(tmp_path / "system", tiny_model, "--system", "Causal-EOS", "--generator", "same")
    else:
        folder = published(tmp_path / "system", tiny_model, "--system", chosen)
    monkeypatch.setenv("GIRCSE_MODEL", str(folder))
    texts = tmp_path / "animals"
    texts.mkdir()
    for name, text in TEXTS.items():
        (texts / f"{name}.txt").write_text(text, encoding="utf-8")
    run("ingest", str(texts))
    asked = ("search", QUERY, "--mode", "dense", "--no-prefer-prose", "--json", "--instruction", INSTRUCTION)
    hits = json.loads(run(*asked, "--steps", str(STEPS)).stdout)["hits"]
    assert len(hits) == len(TEXTS)
    encoder = load_encoder(str(folder))
    read = encoder.encode_documents([with_context(hit["chunk"]["context"], hit["chunk"]["text"]) for hit in hits])
    asked_for = encoder.encode_queries([QUERY], instruction=INSTRUCTION, steps=STEPS)[0]
    assert [hit["score"] for hit in hits] == pytest.approx((read @ asked_for).tolist(), abs=1e-4)
    monkeypatch.setenv("GIRCSE_MODEL", str(tiny_model))
    refused = CliRunner().invoke(app, list(asked))
    assert refused.exit_code == 1
    assert f"another model ({encoder.fingerprint})" in refused.stderr
