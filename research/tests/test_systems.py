"""Systems of the field without training: each is a choice over one model, and has the property that defines it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import SHAPE, TOKENIZER_FOLDER, contract, family_backbone, save_tiny_model, tiny_tokenizer
from transformers import BertConfig, BertModel

from embedder.checkpoint import find_checkpoint, load_encoder, load_parts
from embedder.encoder import Encoder
from embedder.errors import ContractError
from embedder.evaluation.similarity import paired_scores, scores_of
from embedder.model.backbone import Backbone, with_decoder
from embedder.model.contract import CONTRACT_FILE, hash_files
from embedder.model.prefill import start_prefill
from embedder.model.refine import step_distances, steps_to_convergence
from embedder.text.prompts import INSTRUCTION_END, TEMPLATES, Frame, PromptTokenizer
from research.evaluation.__main__ import main
from research.evaluation.systems import (
    SYSTEMS,
    SystemEmbedder,
    choose_systems,
    open_systems,
    open_trained,
)

TEXTS = ["A short one.", "A text that is somewhat longer than the other one, in 2026."]
CAUSAL = ["Causal-EOS", "Causal-Avg", "SGPT", "Echo", "PromptEOL"]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    return family_backbone(save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen3"))


def encoder_of(backbone: Backbone, system: str, *, is_packed: bool = True) -> Encoder:
    said = SYSTEMS[system].contract_of(contract())
    body = replace(backbone, attention=said.attention)
    return Encoder(with_decoder(body) if is_packed else body, tiny_tokenizer(), said)


def states_of(backbone: Backbone, ids: list[int], *, both_ways: bool = False) -> torch.Tensor:
    """By transformers alone, without cache or pads (N, D)."""
    mask = torch.ones(1, 1, len(ids), len(ids), dtype=torch.bool) if both_ways else None
    with torch.no_grad():
        return backbone.body(input_ids=torch.tensor([ids]), attention_mask=mask, use_cache=False).last_hidden_state[0]


def expected_of(backbone: Backbone, system: str, text: str, instruction: str) -> torch.Tensor:
    """Each system as its authors write it."""
    tokenizer = tiny_tokenizer()
    own = tokenizer.encode(f"Instruct: {instruction}\nQuery:{text}", add_special_tokens=False).ids

    def spelled(part: str) -> list[int]:
        return tokenizer.encode(part, add_special_tokens=False).ids

    if system == "Echo":
        before = [*spelled("Rewrite the following paragraph:\n"), *own, *spelled("\nThe rewritten paragraph:\n")]
        return states_of(backbone, [*before, *own])[len(before) :].mean(dim=0)
    if system == "PromptEOL":
        return states_of(backbone, [*spelled('This sentence: "'), *own, *spelled('" means in one word: "')])[-1]
    states = states_of(backbone, own, both_ways=system == "Bidirectional-Avg")
    if system == "SGPT":
        weights = torch.arange(1, len(own) + 1, dtype=torch.float32)
        return (states * weights[:, None]).sum(dim=0) / weights.sum()
    return states[-1] if system == "Causal-EOS" else states.mean(dim=0)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("system", [*CAUSAL, "Bidirectional-Avg"])
def test_each_system_pools_what_its_authors_say(backbone: Backbone, system: str, is_packed: bool) -> None:
    found = encoder_of(backbone, system, is_packed=is_packed).encode_queries(TEXTS, instruction="the topic", steps=1)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = torch.nn.functional.normalize(expected_of(backbone, system, text, "the topic"), dim=0)
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5, rtol=0)


def test_prompts_byte_for_byte() -> None:
    tokenizer = tiny_tokenizer()
    said = {
        "echo": "Rewrite the following paragraph:\nInstruct: I\nQuery:A b\n"
        "The rewritten paragraph:\nInstruct: I\nQuery:A b",
        "prompt_eol": 'This sentence: "Instruct: I\nQuery:A b" means in one word: "',
        "official": "Instruct: I\nQuery:A b",
    }
    for name, expected in said.items():
        prompt = PromptTokenizer(tokenizer, TEMPLATES[name], max_length=256).encode(["A b"], "I")[0]
        assert tokenizer.decode(list(prompt.ids), skip_special_tokens=False) == expected
        assert prompt.length == len(prompt.ids)


@pytest.mark.parametrize("name", ["echo", "prompt_eol"])
def test_the_text_is_cut_and_what_stands_around_it_stays(name: str) -> None:
    tokenizer, text = tiny_tokenizer(), "one two three four five six seven eight nine ten " * 8
    prompts = PromptTokenizer(tokenizer, TEMPLATES[name], max_length=60)
    prompt = prompts.encode([text], "")[0]
    assert len(prompt.ids) in (59, 60)
    assert prompt.length > 60
    said = tokenizer.decode(list(prompt.ids))
    if name == "prompt_eol":
        assert said.endswith('" means in one word: "')
    else:
        place = prompts.frame.second_copy(len(prompt.ids))
        second = [prompt.ids[at] for at in place]
        start = len(prompts.frame.begin)
        assert second == list(prompt.ids[start : start + len(second)])
        assert tokenizer.decode(second) == text[: len(tokenizer.decode(second))]


def test_subtraction_takes_the_instruction_away(backbone: Backbone) -> None:
    whole, less = (encoder_of(backbone, name) for name in ("GIRCSE", "GIRCSE - 0.5 instruction"))
    own = whole.encode_prefixes(["the topic"], instruction="", steps=3)
    expected = whole.encode_prefixes(TEXTS, instruction="the topic", steps=3) - 0.5 * own
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    for _ in range(2):  # computed, and remembered
        found = less.encode_prefixes(TEXTS, instruction="the topic", steps=3)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(less.encode_queries(TEXTS, instruction="the topic", steps=3), expected[:, -1], atol=1e-6)
    np.testing.assert_allclose(
        less.refine(TEXTS[1], instruction="the topic", steps=3).vector, expected[1, -1], atol=1e-6
    )
    np.testing.assert_array_equal(less.encode_queries(TEXTS, steps=3), whole.encode_queries(TEXTS, steps=3))


def test_subtraction_in_a_batch_of_several_instructions(backbone: Backbone) -> None:
    """As the engine's batches are: each row has its own instruction, or none."""
    less = encoder_of(backbone, "GIRCSE - 1.0 instruction")
    asked = ["the topic", "", "the mood of the text", "the topic"]
    prompts = [less.read_prompts([TEXTS[at % 2]], each)[0] for at, each in enumerate(asked)]
    found = less.refine_prompts([each.ids for each in prompts], steps=2)
    for at, instruction in enumerate(asked):
        alone = less.encode_prefixes([TEXTS[at % 2]], instruction=instruction, steps=2)[0]
        np.testing.assert_allclose(found[at], alone, atol=1e-6)
    whole = encoder_of(backbone, "GIRCSE").read_prompts(TEXTS, "the topic")
    apart = less.read_prompts(TEXTS, "the topic")
    for one, other in zip(whole, apart, strict=True):  # the prompt itself is the same, and nothing was cut
        assert other.ids[other.ids.index(INSTRUCTION_END) + 1 :] == one.ids
        assert (one.length, other.length, other.is_cut) == (len(one.ids), len(one.ids), False)
        assert (one.tokens, other.tokens) == (len(one.ids), len(one.ids))
    cut = less.read_prompts(["many words " * 300], "the topic")[0]
    assert len(cut.ids) - cut.ids.index(INSTRUCTION_END) - 1 == less.contract.max_length
    assert cut.is_cut
    assert cut.tokens == less.contract.max_length


def test_steps_end_by_what_subtraction_left(backbone: Backbone) -> None:
    less = encoder_of(backbone, "GIRCSE - 1.0 instruction")
    prefixes = torch.from_numpy(less.encode_prefixes(TEXTS, instruction="the topic", steps=8))
    tolerance = float(step_distances(prefixes).median())
    expected = steps_to_convergence(prefixes, tolerance)
    assert 1 < int(expected.min()) < 8
    vectors, taken = less.encode_until_converged(TEXTS, instruction="the topic", steps=8, tolerance=tolerance)
    np.testing.assert_array_equal(taken, expected)
    np.testing.assert_allclose(vectors, prefixes[np.arange(2), expected - 1], atol=1e-6)


def test_a_contract_takes_away_a_part_at_most_and_has_one_use_of_the_instruction() -> None:
    for wrong in ({"subtracted_instruction": 1.5}, {"subtracted_instruction": 0.5, "projection_files": {"a": "b"}}):
        with pytest.raises(ContractError, match="subtracted_instruction"):
            contract(**wrong)
    plain = contract()
    assert "subtracted_instruction" not in plain.to_json()
    assert "projection" not in plain.to_json()
    assert contract(subtracted_instruction=0.5).fingerprint != plain.fingerprint
    assert contract(subtracted_instruction=1).fingerprint == contract(subtracted_instruction=1.0).fingerprint


def test_hard_tokens_are_the_words_that_greedy_decoding_gives(backbone: Backbone) -> None:
    """Against transformers' own rereading of prompt and words, without cache (InBedder)."""
    found = encoder_of(backbone, "Hard tokens").encode_queries(TEXTS, instruction="the topic", steps=3)
    for text, vector in zip(TEXTS, found, strict=True):
        ids = tiny_tokenizer().encode(f"Instruct: the topic\nQuery:{text}", add_special_tokens=False).ids
        states = []
        for _ in range(3):
            ids.append(int(backbone.head(states_of(backbone, ids)[-1]).argmax()))
            states.append(states_of(backbone, ids)[-1])
        expected = torch.nn.functional.normalize(torch.stack(states).mean(dim=0), dim=0)
        np.testing.assert_allclose(vector, expected.detach().numpy(), atol=1e-4, rtol=0)


def trained_model(folder: Path, name: str, **changes: str) -> Path:
    save_tiny_model(folder, "llama")
    said = replace(find_checkpoint(str(folder)).contract, name=name, base=".", base_files=hash_files(folder), **changes)
    (folder / CONTRACT_FILE).write_text(said.to_json())
    return folder


def test_trained_models_stand_beside_the_systems_at_every_step_count(tmp_path: Path) -> None:
    generating = trained_model(tmp_path / "a", "soft")
    reading = trained_model(tmp_path / "b", "eos", pooling="prompt_last")
    found = open_trained([generating, reading], device="cpu", steps=[1, 4])
    assert [each.name for each in found] == ["soft, trained, K = 1", "soft, trained, K = 4", "eos, trained"]
    vectors = [each.embed(TEXTS, instruction="the topic", steps=[])[None] for each in found]
    encoder = load_encoder(str(generating))
    for steps, given in zip((1, 4), vectors[:2], strict=True):
        np.testing.assert_allclose(
            given, encoder.encode_queries(TEXTS, instruction="the topic", steps=steps), atol=1e-6
        )
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
    with pytest.raises(ContractError, match="called 'soft, trained'"):
        open_trained([generating, generating], device="cpu", steps=[1])


def test_a_model_that_generates_nothing_is_made_to(tmp_path: Path) -> None:
    reading = trained_model(tmp_path / "eos", "eos", pooling="prompt_last")
    chosen = choose_systems(["Soft tokens, last", "Soft tokens, mean", "Hard tokens"])
    found = open_trained([reading], device="cpu", steps=[1, 3], systems=chosen)
    names = [f"eos, trained, Soft tokens, {pooled}, K = {count}" for pooled in ("last", "mean") for count in (1, 3)]
    assert [each.name for each in found] == ["eos, trained", *names]
    _, last_1, last_3, mean_1, mean_3 = (each.embed(TEXTS, instruction="the topic", steps=[])[None] for each in found)
    np.testing.assert_allclose(last_1, mean_1, atol=1e-6)  # of one state
    assert np.abs(last_3 - mean_3).max() > 1e-3
    generating = trained_model(tmp_path / "soft", "soft")
    np.testing.assert_allclose(  # the same weights, whose contract pools all steps
        mean_3, load_encoder(str(generating)).encode_queries(TEXTS, instruction="the topic", steps=3), atol=1e-6
    )


def test_what_subtracts_stands_over_trained_models_too(tmp_path: Path) -> None:
    folder = trained_model(tmp_path / "a", "soft")
    found = open_trained([folder], device="cpu", steps=[2], systems=[SYSTEMS["GIRCSE - 1.0 instruction"]])
    whole, less = (each.embed(TEXTS, instruction="the topic", steps=[])[None] for each in found)
    expected = whole - load_encoder(str(folder)).encode_queries(["the topic"], steps=2)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(less, expected, atol=1e-5)
    assert len({each.fingerprint for each in found}) == 2


def test_first_dimensions_leave_the_base_models_vectors_as_they_are() -> None:
    whole = find_checkpoint("gircse-mini").contract
    for system in (replace(SYSTEMS["GIRCSE"], dimensions=64), SYSTEMS["GIRCSE - 0.5 instruction"]):
        said = system.contract_of(whole)
        assert said.fingerprint != whole.fingerprint
        assert (said.plain_pooling, said.min_steps) == (whole.plain_pooling, 0)
        assert said.default_document_steps == whole.default_document_steps
    reading = replace(whole, head="none", pooling="prompt_mean")  # has no states but its prompt's
    assert replace(SYSTEMS["GIRCSE"], dimensions=64).contract_of(reading).dimension == 64
    with pytest.raises(ContractError, match="without a head"):
        SYSTEMS["Causal-EOS"].contract_of(reading)


def test_an_encoder_without_a_head_is_read_once_and_generates_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "reading"
    BertModel(BertConfig(**SHAPE)).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((TOKENIZER_FOLDER / "tokenizer.json").read_bytes())
    poolings = {"pooling": "prompt_mean", "plain_pooling": "prompt_mean"}
    said = contract(name="reading", attention="prefix", head="none", base_files=hash_files(folder), **poolings)
    (folder / CONTRACT_FILE).write_text(said.to_json())
    (alone,) = open_trained([folder], device="cpu", steps=[1, 3], systems=choose_systems(["Soft tokens, mean"]))
    assert alone.name == "reading, trained"
    found = alone.embed(TEXTS, instruction="the topic", steps=[])[None]
    np.testing.assert_allclose(found, load_encoder(str(folder)).encode_queries(TEXTS, instruction="the topic", steps=1))


def test_every_system_has_a_fingerprint_of_its_own_and_can_be_served(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "llama")
    said = replace(find_checkpoint(str(folder)).contract, base=".", base_files=hash_files(folder), pooling="residual")
    fingerprints = set()
    for system in SYSTEMS.values():
        (folder / CONTRACT_FILE).write_text(system.contract_of(said).to_json())
        encoder = load_encoder(str(folder))
        fingerprints.add(encoder.fingerprint)
        assert np.isfinite(encoder.encode_queries(TEXTS, steps=2)).all()
    assert len(fingerprints) == len(SYSTEMS)


def test_another_attention_is_read_by_the_same_decoder() -> None:
    """Of gircse-mini, which transformers does not run, prompts are causal where a system says so."""
    checkpoint = find_checkpoint("gircse-mini")
    parts = load_parts(checkpoint, device="cpu", dtype="float32")
    whole, causal = open_systems([SYSTEMS["Bidirectional-Avg"], SYSTEMS["Causal-EOS"]], checkpoint, parts, steps=1)
    for embedder, looks_ahead in ((whole, True), (causal, False)):
        # The first token's state, which alone knows whether what follows was seen.
        states = [
            start_prefill(
                embedder.encoder._backbone,
                [embedder.encoder.read_prompts([text], "")[0].ids],
                steps=0,
                pooling="prompt_copy_mean",
                frame=Frame((), None, tuple(range(len(embedder.encoder.read_prompts([text], "")[0].ids) - 1))),
            ).read()[1]
            for text in ("red apples", "red cars")
        ]
        assert bool(torch.allclose(*states, atol=1e-6)) is not looks_ahead


def test_systems_are_chosen_by_name() -> None:
    assert choose_systems(["all"]) == list(SYSTEMS.values())
    assert choose_systems(["Echo", "SGPT"]) == [SYSTEMS["Echo"], SYSTEMS["SGPT"]]
    with pytest.raises(ContractError, match=r"no system 'Ecco'.*PromptEOL"):
        choose_systems(["Ecco"])


def test_one_command_makes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save_tiny_model(tmp_path / "model", "llama")
    data = tmp_path / "data"
    data.mkdir()
    rows = [
        {"a": f"Text number {at}", "b": f"Another text, of {at * 7}", "score": at % 5, "instruction": "numbers"}
        for at in range(24)
    ]
    (data / "sts.tiny.test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["--data", str(data), "--model", str(folder), "--out", str(tmp_path / "out.json"), "--tasks", "sts"]
    page = tmp_path / "comparison.md"
    command += ["--systems", "all", "--bootstrap", "50", "--page", str(page)]
    assert main(command) == 0, capsys.readouterr().err
    text = page.read_text()
    summary, _, details = text.partition("## All in one table")[2].partition("## sts.tiny.test")
    for name in SYSTEMS:
        (row,) = (line for line in summary.splitlines() if line.startswith(f"| {name} |"))
        assert row.count("[") == 2  # its intervals, without and with the instruction
        assert f"| {name} |" in details
    assert (tmp_path / "comparison.png").stat().st_size > 1000
    results = json.loads((tmp_path / "out.json").read_text())
    assert set(results["costs"]) == set(SYSTEMS)
    assert all(each["texts"] >= 48 for each in results["costs"].values())
    before = page.read_text()
    assert main([*command, "--systems", "Echo"]) == 0  # the file holds all of them, and the page shows them
    assert page.read_text() == before


def test_systems_join_what_was_measured_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As do runs of several seeds, of which the page makes one row."""
    folder, data, out = save_tiny_model(tmp_path / "tiny", "llama"), tmp_path / "data", tmp_path / "systems.json"
    data.mkdir()
    rows = [{"a": f"a text {n}", "b": f"one text of {n}", "score": n % 6, "instruction": "Alike?"} for n in range(12)]
    (data / "sts.tiny.test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["--model", str(folder), "--data", str(data), "--tasks", "sts", "--out", str(out), "--bootstrap", "20"]
    assert main([*command, "--systems", "Causal-EOS"]) == 0, capsys.readouterr().err
    first = json.loads(out.read_text())
    runs = [trained_model(tmp_path / name, name) for name in ("soft-1", "soft-2")]
    page = tmp_path / "page.md"
    wanted = [*command, "--trained", *map(str, runs), "--trained-steps", "1", "3", "--page", str(page)]
    wanted += ["--trained-systems", "Best step", "Hard tokens", "--trained-dimensions", "8"]
    last, first_step, plain = "soft, trained, K = 3", "soft, trained, K = 1", "Causal-EOS"
    wanted += ["--pair", last, first_step, "--pair", plain, plain]
    assert main(wanted) == 0, capsys.readouterr().err
    found = json.loads(out.read_text())
    told = ["K = 1", "K = 3", "Best step", "Hard tokens", "8 dimensions"]
    assert list(found["systems"]) == ["Causal-EOS", *(f"soft-{n}, trained, {each}" for n in (1, 2) for each in told)]
    assert found["costs"]["Causal-EOS"] == first["costs"]["Causal-EOS"]  # not measured again
    assert first["tasks"]["sts"]["outcomes"] == found["tasks"]["sts"]["outcomes"][:2]
    text = page.read_text()
    _, _, table = text.partition("## sts.tiny.test, spearman, instruction: none")
    for name in told:
        (row,) = (
            line for line in table.partition("##")[0].splitlines() if line.startswith(f"| soft, trained, {name} |")
        )
        seeds = [float(each) for each in row.rstrip(" |").rpartition("|")[2].split(", ")]
        assert len(seeds) == 2
        assert float(row.split("|")[2].split("[")[0]) == pytest.approx(sum(seeds) / 2, abs=0.11)
    assert "soft-1" not in text
    figures = [
        [
            float(each)
            for each in next(line for line in table.splitlines() if line.startswith(f"| {row} |"))
            .rstrip(" |")
            .rpartition("|")[2]
            .split(", ")
        ]
        for row in (last, first_step)
    ]
    (cell,) = (line.split("|")[2] for line in text.splitlines() if line.startswith(f"| {last} – {first_step} |"))
    changes = [float(each) for each in cell.partition("(")[2].rstrip(") ").split(", ")]
    assert changes == pytest.approx([one - other for one, other in zip(*figures, strict=True)], abs=0.11)
    assert float(cell.strip(" *").split()[0]) == pytest.approx(sum(changes) / 2, abs=0.11)
    (same,) = (line.split("|")[2] for line in text.splitlines() if line.startswith(f"| {plain} – {plain} |"))
    assert "(" not in same  # it has no seeds
    assert main([*wanted, "--pair", last, "soft"]) == 1
    assert "--pair names 'soft'" in capsys.readouterr().err

    trained_model(tmp_path / "soft-1", "soft-1", pooling="last")
    assert main(wanted) == 1
    assert "results of another 'soft-1, trained, K = 1'" in capsys.readouterr().err
    whole = [*command, "--alone", "--steps", "1", "--document-steps", "1"]
    assert main(whole) == 1
    assert "kind (of one model, or of systems)" in capsys.readouterr().err


def test_first_dimensions_alone_are_compared(tmp_path: Path) -> None:
    folder = trained_model(tmp_path / "a", "soft")
    short, whole = open_trained([folder], device="cpu", steps=[2], dimensions=[8])[::-1]
    vectors = whole.embed(TEXTS, instruction="the topic", steps=[])[None]
    cut = short.embed(TEXTS, instruction="the topic", steps=[])[None]
    expected = vectors[:, :8] / np.linalg.norm(vectors[:, :8], axis=1, keepdims=True)
    np.testing.assert_allclose(cut, expected, atol=1e-6)


def test_the_best_step_of_a_document_counts_for_a_querys_last(backbone: Backbone) -> None:
    encoder = encoder_of(backbone, "Best step", is_packed=True)
    found = SystemEmbedder("Best step", encoder, steps=3).embed(TEXTS, instruction="", steps=[])[None]
    assert found.shape == (2, 3, 32)
    np.testing.assert_array_equal(found, encoder.encode_prefixes(TEXTS, instruction="", steps=3))
    expected = [[max(float(q[-1] @ step) for step in d) for d in found] for q in found]
    np.testing.assert_allclose(scores_of(found, found), expected, atol=1e-6)
    np.testing.assert_allclose(paired_scores(found, found[::-1]), [expected[0][1], expected[1][0]], atol=1e-6)
    np.testing.assert_allclose(scores_of(found[:, -1], found[:, -1]), found[:, -1] @ found[:, -1].T, atol=1e-6)


def test_another_dtype_is_told_in_the_results_and_not_mixed(tmp_path: Path) -> None:
    folder, data, out = save_tiny_model(tmp_path / "tiny", "qwen3"), tmp_path / "data", tmp_path / "systems.json"
    data.mkdir()
    rows = [{"a": f"a text {n}", "b": f"one text of {n}", "score": n % 6, "instruction": "Alike?"} for n in range(12)]
    (data / "sts.tiny.test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["--systems", "Causal-EOS", "--model", str(folder), "--data", str(data), "--tasks", "sts"]
    asked += ["--out", str(out), "--bootstrap", "5"]
    assert main([*asked, "--dtype", "bfloat16"]) == 0
    assert json.loads(out.read_text())["settings"]["dtype"] == "bfloat16"
    assert main(asked) == 1
