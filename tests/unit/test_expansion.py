"""Two-stage generation inside a model: what a text is embedded with is written where its batch is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tiny_models import contract, family_backbone, save_tiny_model, tiny_tokenizer

from embedder import Encoder, load_encoder, load_model_tokenizer
from embedder.checkpoint import find_checkpoint, load_parts
from embedder.engine.engine import Engine
from embedder.engine.work import query_item
from embedder.errors import ContractError
from embedder.extensions.auxiliary_models import AuxiliaryModels
from embedder.extensions.expansion import Expander, expanded, expansion_prompt
from embedder.model.backbone import Backbone, with_decoder
from embedder.text.prompts import TEMPLATES, PromptTokenizer, split_instructions
from research.evaluation.__main__ import main
from research.evaluation.systems import SYSTEMS
from research.evaluation.two_stage import open_generator, open_two_stage

INSTRUCTION = "the {topic}"
TEXTS = ["A longer text, of two lines.\n Here is the second.", " A text.", "silent", "Über 20 °C"]


@dataclass
class Writing:
    """Writes its prompts' numbers of characters; nothing for texts that end in `silent`."""

    batch_size: int = 2
    seen: list[str] = field(default_factory=list)
    before_the_end: Callable[[], object] = lambda: None

    def generate(self, prompts: Sequence[str], *, between_tokens: Callable[[], None] | None = None) -> list[str]:
        self.seen += prompts
        self.before_the_end()
        if between_tokens is not None:
            between_tokens()
        return ["" if each.endswith("silent") else f"of {len(each)} characters" for each in prompts]


def joined(text: str, instruction: str) -> str:
    return expanded(text, Writing().generate([expansion_prompt(instruction, text)])[0])


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    return with_decoder(family_backbone(save_tiny_model(tmp_path_factory.mktemp("tiny"), "llama")))


def encoder_of(backbone: Backbone, writer: Writing, **changes: object) -> Encoder:
    said = contract(generator="same", max_length=400, **changes)
    return Encoder(backbone, tiny_tokenizer(), said, auxiliary=AuxiliaryModels(generator=writer))


@pytest.mark.parametrize("template", [name for name, each in TEMPLATES.items() if not each.end_token])
@pytest.mark.parametrize("instruction", [INSTRUCTION, ""])
def test_a_writer_is_asked_about_the_text_as_it_is(template: str, instruction: str) -> None:
    """Whatever stands around it, and twice where the template says it twice."""
    vocabulary, writer = tiny_tokenizer(), Writing()
    prompts = PromptTokenizer(vocabulary, TEMPLATES[template], max_length=400, instruction_apart=True)
    expander = Expander(writer, vocabulary, TEMPLATES[template], max_length=400)
    own, ids = split_instructions([each.ids for each in prompts.encode(TEXTS, instruction)])
    found = expander.expand(own, ids)
    assert sorted(writer.seen) == sorted(expansion_prompt(instruction, text) for text in TEXTS)
    plain = PromptTokenizer(vocabulary, TEMPLATES[template], max_length=400)
    assert found == [each.ids for each in plain.encode([joined(text, instruction) for text in TEXTS], instruction)]
    assert expander.expand(own, ids) == found
    assert len(writer.seen) == len(TEXTS)  # remembered


def test_a_vocabulary_without_upper_case_spells_texts_in_its_own_way() -> None:
    vocabulary, writer, template = load_model_tokenizer("gircse-small"), Writing(), TEMPLATES["official+special"]
    prompts = PromptTokenizer(vocabulary, template, max_length=128, instruction_apart=True)
    own, ids = split_instructions([each.ids for each in prompts.encode(["Owls hunt mice"], "Which Animal?")])
    Expander(writer, vocabulary, template, max_length=128).expand(own, ids)
    (asked,) = writer.seen
    assert asked == expansion_prompt("which animal?", "owls hunt mice")


def test_vectors_are_those_of_texts_with_what_was_written(backbone: Backbone) -> None:
    writer = Writing()
    encoder = encoder_of(backbone, writer)
    plain = Encoder(backbone, tiny_tokenizer(), contract(max_length=400))
    for instruction in (INSTRUCTION, ""):
        expected = plain.encode_prefixes(
            [joined(text, instruction) for text in TEXTS], instruction=instruction, steps=3
        )
        found = encoder.encode_prefixes(TEXTS, instruction=instruction, steps=3)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        refined = encoder.refine(TEXTS[1], instruction=instruction, steps=2)
        np.testing.assert_allclose(refined.vector, expected[1, 1], atol=1e-6)
    assert len(writer.seen) == 2 * len(TEXTS)


def test_by_an_engine_which_lets_queries_in_between_two_tokens(backbone: Backbone) -> None:
    writer, plain = Writing(), Encoder(backbone, tiny_tokenizer(), contract(max_length=400))
    encoder = encoder_of(backbone, writer)
    with Engine(encoder, streams=1) as engine:
        (prompt,) = encoder.read_prompts(["a query"], "")
        query = query_item(prompt, "a query", instruction="", steps=1, token_bias={}, tolerance=None)
        order: list[str] = []
        query.answer.add_done_callback(lambda _: order.append("query"))
        writer.before_the_end = lambda: engine.submit([query]) if not order and query.taken_at == 0.0 else None
        found = engine.embed(TEXTS, instruction=INSTRUCTION, steps=2)
        order.append("documents")
        assert order == ["query", "documents"]
        expected = [joined(text, INSTRUCTION) for text in TEXTS]
        np.testing.assert_allclose(found, plain.encode_documents(expected, instruction=INSTRUCTION, steps=2), atol=1e-6)
        # Before the first batch of documents was over.
        assert writer.seen[2] == expansion_prompt("", "a query")
        np.testing.assert_array_equal(engine.embed(TEXTS, instruction=INSTRUCTION, steps=2), found)
        assert len(writer.seen) == len(TEXTS) + 1


def test_an_instruction_that_is_subtracted_is_read_as_it_is(backbone: Backbone) -> None:
    writer = Writing()
    encoder = encoder_of(backbone, writer, subtracted_instruction=0.5)
    plain = Encoder(backbone, tiny_tokenizer(), contract(max_length=400))
    texts = [joined(text, INSTRUCTION) for text in TEXTS]
    expected = plain.encode_queries(texts, instruction=INSTRUCTION, steps=2)
    expected = expected - 0.5 * plain.encode_queries([INSTRUCTION], steps=2)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS, instruction=INSTRUCTION, steps=2), expected, atol=1e-6)
    assert len(writer.seen) == len(TEXTS)


def test_a_generator_is_there_where_the_contract_names_it(backbone: Backbone) -> None:
    with pytest.raises(ContractError, match="names the generator"):
        Encoder(backbone, tiny_tokenizer(), contract(generator="same"))
    with pytest.raises(ContractError, match="a generator was loaded, but the contract names none"):
        Encoder(backbone, tiny_tokenizer(), contract(), auxiliary=AuxiliaryModels(generator=Writing()))
    with pytest.raises(ContractError, match="cannot be combined with a projection"):
        contract(generator="same", projection_files={"projection.safetensors": "0"})
    fingerprints = {
        contract(generator=name, generator_files=files).fingerprint
        for name, files in (("same", {}), ("a/model", {"a": "1"}), ("a/model", {"a": "2"}), (None, {}))
    }
    assert len(fingerprints) == 4
    assert "generator" not in contract().to_json()


@pytest.mark.parametrize("generator", ["same", "another"])
def test_published_it_embeds_as_the_evaluation_measures(tmp_path: Path, generator: str) -> None:
    model = save_tiny_model(tmp_path / "model", "llama")
    if generator == "another":
        generator = str(save_tiny_model(tmp_path / "another", "qwen3", seed=1))
    folder = tmp_path / "two-stage"
    chosen = ["--system", "Causal-EOS", "--generator", generator]
    assert main(["publish", "--model", str(model), "--out", str(folder), *chosen]) == 0
    encoder = load_encoder(str(folder), dtype="float32")
    assert encoder.contract.golden == ()
    checkpoint = find_checkpoint(str(model))
    parts = load_parts(checkpoint, device="cpu", dtype="float32")
    measured = open_two_stage(
        open_generator(generator, checkpoint=checkpoint, parts=parts, dtype="float32"),
        checkpoint,
        parts,
        kept=tmp_path / "kept.jsonl",
        steps=1,
    )
    expected = measured.embed(TEXTS[:2], instruction=INSTRUCTION, steps=[])[None]
    np.testing.assert_allclose(encoder.encode_queries(TEXTS[:2], instruction=INSTRUCTION), expected, atol=1e-5)
    plain = SYSTEMS["Causal-EOS"].contract_of(checkpoint.contract)
    assert encoder.fingerprint != plain.fingerprint
    if generator != "same":
        save_tiny_model(Path(generator), "qwen3", seed=2)
        with pytest.raises(ContractError, match="SHA-256"):
            load_encoder(str(folder))


def test_who_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["publish", "--out", str(tmp_path / "out"), "--generator", "same"]
    assert main([*command, "--model", "gircse-mini", "--system", "Causal-EOS"]) == 1
    assert "no language-model head" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--model", "gircse-mini", "--projection", str(tmp_path)])
    assert "go with --system" in capsys.readouterr().err
