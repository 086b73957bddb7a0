"""Two-stage generation (GIRCSE, appendix G): a language model writes an augmentation of a text, and a system of the
field embeds the text with what was written. Knows no task and no environment."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import httpx
import numpy as np
from tokenizers import Tokenizer
from tqdm.auto import tqdm

from embedder.checkpoint import Checkpoint, load_generator
from embedder.encoder import Encoder
from embedder.errors import ServerError
from embedder.evaluation.outcomes import Steps
from embedder.extensions.auxiliary_models import AuxiliaryModels
from embedder.extensions.expansion import MAX_TOKENS, expanded, expansion_prompt
from embedder.model.backbone import Backbone
from research.evaluation.systems import SYSTEMS, SystemEmbedder, open_systems

_URLS = ("http://", "https://")
_PATH = "/chat/completions"
_CONNECT_S = 5.0
_TOLD_CHARACTERS = 300
_GOES_ON = "What was written is kept: the same command goes on from there."


class Generator(Protocol):
    """Of this process or of a server."""

    name: str
    fingerprint: str  # of all that decides what it writes for a prompt
    batch_size: int

    def generate(self, prompts: Sequence[str]) -> list[str]: ...

    def read_clock(self) -> float:
        """Seconds, of which differences are the cost of what was written in between."""


class ServerGenerator:
    """A server with OpenAI's chat API. Its cost is time on the clock: its processor is out of sight."""

    batch_size = 4  # requests at once

    def __init__(
        self, url: str, *, model: str, api_key: str | None = None, timeout_s: float = 120, max_tokens: int = MAX_TOKENS
    ) -> None:
        self._url = _server_url(url)
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise ServerError(f"The API key of {self._url} holds what no HTTP header can. Copy it again.")
        self.name = model
        self.fingerprint = f"{model} at {self._url}, {max_tokens} tokens"
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._client = httpx.Client(
            headers={} if api_key is None else {"authorization": f"Bearer {api_key}"},
            timeout=httpx.Timeout(timeout_s, connect=_CONNECT_S),
        )

    def read_clock(self) -> float:
        return time.perf_counter()

    def generate(self, prompts: Sequence[str]) -> list[str]:
        with ThreadPoolExecutor(self.batch_size) as threads:
            return list(threads.map(self._ask, prompts))

    def _ask(self, prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self.name, "messages": messages, "temperature": 0, "max_tokens": self._max_tokens}
        try:
            answer = self._client.post(self._url, json=body)
        except httpx.TimeoutException as error:
            raise ServerError(f"{self._url} took longer than {self._timeout_s:g} s. {_GOES_ON}") from error
        except httpx.HTTPError as error:
            raise ServerError(f"No server answers at {self._url} ({error}). Start one. {_GOES_ON}") from error
        if answer.status_code != httpx.codes.OK:
            raise ServerError(f"{self._url} answered with {answer.status_code}{self._told(answer)}. {_GOES_ON}")
        try:
            text = answer.json()["choices"][0]["message"]["content"] or ""
            return str(text).encode("utf-8", "replace").decode().strip()  # JSON can hold what UTF-8 cannot
        except (ValueError, LookupError, TypeError) as error:
            raise ServerError(f"{self._url} answered with what is no chat completion. Is it OpenAI's API?") from error

    def _told(self, answer: httpx.Response) -> str:
        """What the server says of it; nothing where it refuses the key, which it may repeat in part."""
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return ": it refuses the API key, or wants one"
        text = answer.text.replace(self._api_key, "[API key]") if self._api_key else answer.text
        return f": {text[:_TOLD_CHARACTERS].strip()!r}"


def _server_url(url: str) -> str:
    """Of chat completions. What is refused is not repeated: it may hold a password."""
    try:
        parsed = httpx.URL(url.rstrip("/").removesuffix(_PATH) + _PATH)
    except httpx.InvalidURL:
        raise ServerError("The generator's address cannot be read. Write it as http://127.0.0.1:8000/v1.") from None
    if not parsed.host or parsed.userinfo or parsed.query or parsed.fragment:
        raise ServerError("The generator's address must be scheme, host and path alone; an API key goes elsewhere.")
    return str(parsed)


@dataclass(frozen=True, slots=True)
class Augmentation:
    """seconds: what it cost when it was written."""

    augmentation: str
    seconds: float


class Augmentations:
    """What a generator writes for prompts. Every one is added to a file of JSON lines as it comes, and is not written
    again: generation is by far the dearest part, and a run that was stopped goes on from there."""

    def __init__(self, generator: Generator, file: Path) -> None:
        self.generator = generator
        self._file = file
        self._kept, self._is_cut = _read_kept(file)

    def of(self, prompts: Sequence[str]) -> list[Augmentation]:
        keys = [self._key_of(prompt) for prompt in prompts]
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._kept}
        order = sorted(missing, key=lambda key: len(missing[key]))  # prompts of similar length need few pads
        with tqdm(total=len(order), desc=self.generator.name, unit="text", leave=False, disable=not order) as bar:
            for start in range(0, len(order), self.generator.batch_size):
                batch = order[start : start + self.generator.batch_size]
                self._write(batch, [missing[key] for key in batch])
                bar.update(len(batch))
        return [self._kept[key] for key in keys]

    def _key_of(self, prompt: str) -> str:
        return hashlib.sha256(f"{self.generator.fingerprint}\0{prompt}".encode()).hexdigest()

    def _write(self, keys: Sequence[str], prompts: Sequence[str]) -> None:
        start = self.generator.read_clock()
        texts = self.generator.generate(prompts)
        seconds = round((self.generator.read_clock() - start) / len(prompts), 4)
        found = {key: Augmentation(text, seconds) for key, text in zip(keys, texts, strict=True)}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            if self._is_cut:
                file.write("\n")
                self._is_cut = False
            for key, each in found.items():
                row = {"key": key, "generator": self.generator.name, **asdict(each)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._kept |= found


def _read_kept(path: Path) -> tuple[dict[str, Augmentation], bool]:
    """By their keys, and whether the last line was cut. What cannot be read is written anew."""
    kept: dict[str, Augmentation] = {}
    data = path.read_bytes() if path.is_file() else b""
    for line in data.splitlines():
        try:
            row = json.loads(line)
            kept[row["key"]] = Augmentation(str(row["augmentation"]), float(row["seconds"]))
        except (ValueError, LookupError, TypeError):
            continue
    return kept, bool(data) and not data.endswith(b"\n")


class TwoStageEmbedder(SystemEmbedder):
    """A system over texts with their augmentations, as `text`, a line break, `augmentation`, on both sides of a task.

    An augmentation that was kept costs nothing to take again; its cost is told as it was when it was written. The
    prompt is cut at the contract's max_length as ever: of a text that fills it, the augmentation is lost.
    """

    def __init__(self, system: str, encoder: Encoder, augmentations: Augmentations, *, steps: int) -> None:
        super().__init__(f"Two-stage {system} ({augmentations.generator.name})", encoder, steps=steps)
        self._augmentations = augmentations

    @property
    def fingerprint(self) -> str:
        said = f"{super().fingerprint}\0{self._augmentations.generator.fingerprint}"
        return hashlib.sha256(said.encode()).hexdigest()[:32]

    def embed(self, texts: Sequence[str], *, instruction: str, steps: Sequence[int]) -> dict[Steps, np.ndarray]:
        written = self._augmentations.of([expansion_prompt(instruction, text) for text in texts])
        self.cost.seconds += sum(each.seconds for each in written)
        joined = [expanded(text, each.augmentation) for text, each in zip(texts, written, strict=True)]
        return super().embed(joined, instruction=instruction, steps=steps)


def open_two_stage(
    generator: Generator,
    checkpoint: Checkpoint,
    parts: tuple[Backbone, Tokenizer],
    *,
    kept: Path,
    steps: int,
    system: str = "Causal-EOS",
    auxiliary: AuxiliaryModels | None = None,
) -> TwoStageEmbedder:
    """kept: the file of augmentations."""
    (embedder,) = open_systems([SYSTEMS[system]], checkpoint, parts, steps=steps, auxiliary=auxiliary)
    return TwoStageEmbedder(system, embedder.encoder, Augmentations(generator, kept), steps=steps)


def open_generator(
    name: str,
    *,
    checkpoint: Checkpoint,
    parts: tuple[Backbone, Tokenizer],
    server_model: str | None = None,
    api_key: str | None = None,
    dtype: str | None = None,
) -> Generator:
    """`name` is what `locate_model` takes, `same` for the model under evaluation, or a server's address. dtype: what
    another model computes in, by default that of its weights, which of a GGUF file is float32."""
    if not name.startswith(_URLS):
        return load_generator(name, checkpoint, *parts, dtype=dtype)
    if server_model is None:
        raise ServerError("The generator is a server: say which of its models shall write (--two-stage-model).")
    return ServerGenerator(name, model=server_model, api_key=api_key)
