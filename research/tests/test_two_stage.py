"""Two-stage generation: what a language model is asked, how it writes, what is kept, and what is embedded of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from served import in_thread
from tiny_models import save_tiny_model, tiny_tokenizer
from tokenizers.processors import TemplateProcessing

from embedder.checkpoint import find_checkpoint, load_parts
from embedder.errors import ContractError, ServerError, TextError
from embedder.extensions.expansion import expansion_prompt
from embedder.extensions.generators import TransformersGenerator
from embedder.model.causal_model import load_causal_model
from research.evaluation.__main__ import main
from research.evaluation.systems import SYSTEMS, open_systems
from research.evaluation.two_stage import (
    Augmentations,
    ServerGenerator,
    open_generator,
    open_two_stage,
)

PROMPTS = ["Short.", "A prompt that is a good deal longer than the first, in 2026.", "Two words"]
KEY = "sk-a-key-that-never-shows"


@dataclass
class CountingGenerator:
    """Writes how many prompts it has seen; nothing for those that end in `silent`."""

    name: str = "counting"
    fingerprint: str = "counting, 1"
    batch_size: int = 2
    seen: list[str] = field(default_factory=list)
    clock_s: float = 0.0

    def generate(self, prompts: Sequence[str]) -> list[str]:
        self.clock_s += 3.0 * len(prompts)
        self.seen += prompts
        first = len(self.seen) - len(prompts) + 1
        return ["" if each.endswith("silent") else f"é {first + at}" for at, each in enumerate(prompts)]

    def read_clock(self) -> float:
        return self.clock_s


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), "gemma3")


def generator_of(folder: Path, *, max_tokens: int = 12, ends: int | list[int] | None = None) -> TransformersGenerator:
    model = load_causal_model(folder, with_soft_head=False).eval()
    model.generation_config.eos_token_id = ends
    return TransformersGenerator(
        model, tiny_tokenizer(), name="tiny", fingerprint="tiny", max_tokens=max_tokens, batch_size=2
    )


def greedy(folder: Path, prompt: str | list[int], *, max_tokens: int, ends: Sequence[int] = ()) -> list[int]:
    """One prompt, reread whole for each token: no pads, no cache."""
    model = load_causal_model(folder, with_soft_head=False).eval()
    ids = tiny_tokenizer().encode(prompt).ids if isinstance(prompt, str) else prompt
    written: list[int] = []
    while len(written) < max_tokens:
        with torch.no_grad():
            token = int(model(input_ids=torch.tensor([ids + written]), use_cache=False).logits[0, -1].argmax())
        if token in ends:
            break
        written.append(token)
    return written


def test_the_prompt_is_that_of_the_paper() -> None:
    assert expansion_prompt("Group by topic", "A text") == (
        "Given the INSTRUCTION and the TEXT, produce a helpful augmentation that, when concatenated to the original TEXT and embedded, is likely to improve embedding quality for the instruction\u2019s task. Do not explain yourself or output anything other than the augmentation. Your answer must be written within 256 tokens.\nINSTRUCTION: Group by topic\nTEXT: A text"  # noqa: E501
    )
    assert expansion_prompt("", "A text").endswith("256 tokens.\nINSTRUCTION: \nTEXT: A text")


def test_braces_of_texts_stay() -> None:
    said = expansion_prompt("{text} {0}", "{instruction} {{x}} %s {")
    assert said.endswith("\nINSTRUCTION: {text} {0}\nTEXT: {instruction} {{x}} %s {")


def test_padded_batches_write_what_greedy_decoding_of_each_alone_does(folder: Path) -> None:
    expected = [greedy(folder, prompt, max_tokens=12) for prompt in PROMPTS]
    assert len({tuple(each) for each in expected}) > 1
    found = generator_of(folder).generate(PROMPTS)
    assert found == [tiny_tokenizer().decode(each).strip() for each in expected]


def test_writing_ends_at_an_end_token_and_at_the_budget(folder: Path) -> None:
    whole = greedy(folder, PROMPTS[1], max_tokens=12)
    end = whole[5]
    cut = [greedy(folder, prompt, max_tokens=12, ends=[end]) for prompt in PROMPTS]
    assert len(cut[1]) < len(whole)
    for ends in (end, [end, 1023]):
        found = generator_of(folder, ends=ends).generate(PROMPTS)
        assert found == [tiny_tokenizer().decode(each).strip() for each in cut]
    (short,) = generator_of(folder, max_tokens=3).generate(PROMPTS[1:2])
    assert short == tiny_tokenizer().decode(whole[:3]).strip()


def test_a_models_own_settings_do_not_change_what_is_greedy(folder: Path) -> None:
    model = load_causal_model(folder, with_soft_head=False).eval()
    model.generation_config.update(do_sample=True, temperature=9.0, top_k=3, repetition_penalty=50.0)
    model.generation_config.eos_token_id = None
    generator = TransformersGenerator(model, tiny_tokenizer(), name="tiny", fingerprint="tiny", max_tokens=12)
    assert generator.generate(PROMPTS) == generator_of(folder).generate(PROMPTS)


def test_prompts_that_leave_no_room_are_refused(folder: Path) -> None:
    with pytest.raises(TextError, match=r"plus 12 to generate, but the model reads 512"):
        generator_of(folder).generate(["word " * 600])


def test_a_chat_template_is_applied_where_there_is_one(tmp_path: Path) -> None:
    folder, turn = save_tiny_model(tmp_path, "llama"), "<user>Hi {x}<answer>"
    starting = tiny_tokenizer()  # with a token before every text, which a template would write itself
    starting.post_processor = TemplateProcessing(single="! $A", special_tokens=[("!", starting.token_to_id("!"))])
    starting.save(str(folder / "tokenizer.json"))
    checkpoint = find_checkpoint(str(folder))
    parts = load_parts(checkpoint, device="cpu", dtype="float32")
    (bare,) = open_generator("same", checkpoint=checkpoint, parts=parts).generate(["Hi {x}"])
    assert bare == tiny_tokenizer().decode(greedy(folder, starting.encode("Hi {x}").ids, max_tokens=256, ends=[2]))
    (folder / "chat_template.jinja").write_text(
        "{% for each in messages %}<{{ each.role }}>{{ each.content }}{% endfor %}{% if add_generation_prompt %}<answer"
        "{% if enable_thinking is not defined or enable_thinking %} slowly{% endif %}>{% endif %}"
    )
    end = greedy(folder, turn, max_tokens=8)[-1]
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": tiny_tokenizer().id_to_token(end)}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    expected = tiny_tokenizer().decode(greedy(folder, turn, max_tokens=8, ends=[end])).strip()
    for name in ("same", str(folder)):
        assert open_generator(name, checkpoint=checkpoint, parts=parts).generate(["Hi {x}"]) == [expected]


def test_what_was_written_is_kept_and_a_cut_line_costs_itself_alone(tmp_path: Path) -> None:
    file, first = tmp_path / "new" / "kept.jsonl", CountingGenerator()
    found = Augmentations(first, file).of(["a", "b", "a", "c silent"])
    assert [each.augmentation for each in found] == ["é 1", "é 2", "é 1", ""]
    assert {each.seconds for each in found} == {3.0}
    assert first.seen == ["a", "b", "c silent"]  # each once

    second = CountingGenerator()
    assert Augmentations(second, file).of(["c silent", "a", "b"]) == [found[3], found[0], found[1]]
    assert second.seen == []
    file.write_bytes(file.read_bytes()[:-20])
    for expected in (["c silent"], []):
        again = CountingGenerator()
        assert Augmentations(again, file).of(["a", "b", "c silent"])[:2] == found[:2]
        assert again.seen == expected
    other = CountingGenerator(fingerprint="counting, 2")
    Augmentations(other, file).of(["a"])
    assert other.seen == ["a"]


def test_a_stopped_run_loses_nothing_that_was_written(tmp_path: Path) -> None:
    class Stopped(CountingGenerator):
        def generate(self, prompts: Sequence[str]) -> list[str]:
            if len(self.seen) >= 2:
                raise KeyboardInterrupt
            return super().generate(prompts)

    with pytest.raises(KeyboardInterrupt):
        Augmentations(Stopped(), tmp_path / "kept.jsonl").of(["a", "b", "c"])
    rest = CountingGenerator()
    Augmentations(rest, tmp_path / "kept.jsonl").of(["a", "b", "c"])
    assert rest.seen == ["c"]


@pytest.mark.parametrize("system", ["Causal-EOS", "PromptEOL"])
def test_texts_are_embedded_with_what_was_written(folder: Path, tmp_path: Path, system: str) -> None:
    checkpoint = find_checkpoint(str(folder))
    parts = load_parts(checkpoint, device="cpu", dtype="float32")
    (alone,) = open_systems([SYSTEMS[system]], checkpoint, parts, steps=1)
    generator = CountingGenerator()
    kept = tmp_path / "kept.jsonl"
    embedder = open_two_stage(generator, checkpoint, parts, kept=kept, steps=1, system=system)
    assert embedder.name == f"Two-stage {system} (counting)"
    assert embedder.fingerprint != alone.fingerprint
    texts = ["A longer text.", "A text.", "silent"]
    expected = alone.embed(["A longer text.\né 3", "A text.\né 2", "silent"], instruction="the {topic}", steps=[])[None]
    for _ in range(2):  # written, then kept
        found = embedder.embed(texts, instruction="the {topic}", steps=[])[None]
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert sorted(generator.seen) == sorted(expansion_prompt("the {topic}", text) for text in texts)
    assert embedder.cost.texts == 6
    assert embedder.cost.seconds >= 6 * 3.0  # kept ones cost what they did


def test_the_model_itself_writes_only_with_a_language_model_head() -> None:
    checkpoint = find_checkpoint("gircse-mini")
    parts = load_parts(checkpoint, device="cpu", dtype="float32")
    with pytest.raises(ContractError, match="no language-model head"):
        open_generator("same", checkpoint=checkpoint, parts=parts)


@dataclass
class Completions:
    """A chat server that does not stream. `{key}` in `raw` is the key that it was given."""

    status: int = 200
    raw: str = ""
    pause_s: float = 0.0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    url: str = ""


@contextmanager
def completions(**options: Any) -> Iterator[Completions]:
    state, ended = Completions(**options), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.bodies.append({"path": self.path, **body})
            state.keys.append(self.headers.get("authorization"))
            text = f" About {body['messages'][0]['content']}\ud800\n"
            said = state.raw.replace("{key}", KEY) or json.dumps({"choices": [{"message": {"content": text}}]})
            ended.wait(state.pause_s)
            self.send_response(state.status)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with in_thread(server):
        yield state
        ended.set()


def test_a_server_writes() -> None:
    with completions() as server:
        generator = ServerGenerator(f"{server.url}/", model="small", api_key=KEY)
        assert generator.generate(["a", "b {x}", "c"]) == ["About a?", "About b {x}?", "About c?"]
    assert set(server.keys) == {f"Bearer {KEY}"}
    (body,) = (each for each in server.bodies if each["messages"][0]["content"] == "a")
    assert body == {
        "path": "/v1/chat/completions",
        "model": "small",
        "messages": [{"role": "user", "content": "a"}],
        "temperature": 0,
        "max_tokens": 256,
    }


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"status": 404, "raw": "no model 'small' for {key}"}, r"answered with 404: .no model 'small' for \[API key\]"),
        ({"status": 401, "raw": "wrong key {key}"}, r"answered with 401: it refuses the API key"),
        ({"status": 302, "raw": "elsewhere"}, r"answered with 302"),
        ({"raw": "{key}"}, r"no chat completion"),
        ({"raw": '{"choices": []}'}, r"no chat completion"),
        ({"pause_s": 5.0}, r"took longer than 0.2 s"),
    ],
)
def test_failures_are_told_and_the_key_never_shows(
    answer: dict[str, Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with completions(**answer) as server:
        generator = ServerGenerator(server.url, model="small", api_key=KEY, timeout_s=0.2 if "pause_s" in answer else 5)
        with pytest.raises(ServerError, match=told) as caught:
            generator.generate(["a"])
    assert server.url in str(caught.value)
    assert KEY not in str(caught.value) + caplog.text + generator.fingerprint


def test_keys_and_addresses_that_cannot_be_used_are_not_repeated() -> None:
    for url in (f"http://user:{KEY}@127.0.0.1/v1", f"http://127.0.0.1/v1?key={KEY}", f"http://u:{KEY}:{KEY}/v1"):
        with pytest.raises(ServerError, match="address") as caught:
            ServerGenerator(url, model="small")
        assert KEY not in str(caught.value)
    for key in (f"{KEY}\n", f"{KEY}é", f"{KEY} {KEY}"):
        with pytest.raises(ServerError, match="API key") as caught:
            ServerGenerator("http://127.0.0.1:9/v1", model="small", api_key=key)
        assert KEY not in str(caught.value)
    with pytest.raises(ServerError, match=r"No server answers at http://127\.0\.0\.1:9/v1"):
        ServerGenerator("http://127.0.0.1:9/v1", model="small").generate(["a"])


def sts_folder(folder: Path) -> Path:
    folder.mkdir()
    rows = [
        {"a": f"Text {at}", "b": f"Another, {at * 7}", "score": at % 5, "instruction": "numbers"} for at in range(8)
    ]
    (folder / "sts.tiny.test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_command_measures_it_beside_the_systems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data, out = (
        save_tiny_model(tmp_path / "model", "llama"),
        sts_folder(tmp_path / "data"),
        tmp_path / "out.json",
    )
    page = tmp_path / "page.md"
    command = ["--data", str(data), "--model", str(model), "--tasks", "sts", "--bootstrap", "20"]
    with completions() as server:
        monkeypatch.setenv("GIRCSE_TWO_STAGE_API_KEY", KEY)
        command += ["--two-stage", server.url]
        assert main([*command, "--out", str(out)]) == 1
        assert "--two-stage-model" in capsys.readouterr().err
        command += ["--two-stage-model", "small", "--two-stage-system", "PromptEOL", "--systems", "Causal-EOS"]
        assert main([*command, "--out", str(out), "--page", str(page)]) == 0, capsys.readouterr().err
        asked = len(server.bodies)
        assert main([*command, "--out", str(out)]) == 0
        assert len(server.bodies) == asked
    name = "Two-stage PromptEOL (small)"
    results = json.loads(out.read_text())
    assert list(results["systems"]) == ["Causal-EOS", name]
    assert results["costs"][name]["texts"] == results["costs"]["Causal-EOS"]["texts"]
    assert f"| {name} |" in page.read_text()
    kept = (tmp_path / "out.augmentations.jsonl").read_text()
    assert len(kept.splitlines()) == asked
    assert KEY not in kept + out.read_text() + page.read_text()
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_the_command_lets_the_model_itself_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data, out = (
        save_tiny_model(tmp_path / "model", "llama"),
        sts_folder(tmp_path / "data"),
        tmp_path / "out.json",
    )
    command = ["--data", str(data), "--model", str(model), "--tasks", "sts", "--bootstrap", "20", "--limit", "2"]
    assert main([*command, "--two-stage", "same", "--out", str(out)]) == 0, capsys.readouterr().err
    assert list(json.loads(out.read_text())["costs"]) == ["Two-stage Causal-EOS (same)"]
