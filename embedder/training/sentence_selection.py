"""`python -m embedder.training.sentence_selection` trains the sentence selector of a model.

Uses only vectors of the base. Trains wordings against sentences of hand-written aspects (InfoNCE), and retrieval
instructions against all others (logistic regression). Writes `selection.safetensors` and updates the contract.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from embedder.checkpoint import load_encoder, write_contract
from embedder.command.standard_output import run_program
from embedder.command.status import run_command
from embedder.encoder import Encoder
from embedder.errors import ContractError, DataError, EmbedderError
from embedder.extensions.sentence_selection import SELECTION_FILE, SentenceSelector, save_selector
from embedder.model.contract import hash_files, read_contract
from embedder.text.instructions import load_instructions
from embedder.text.prompts import without_cut_warnings
from embedder.training.data import WRITTEN_ASPECTS, TrainingData, read_training_data
from embedder.training.wordings import shipped_wordings

_WIDTH, _STEPS, _BATCH = 64, 600, 256
_LEARNING_RATE, _WARMUP, _WEIGHT_DECAY = 1e-3, 0.1, 0.01
_TEMPERATURE = 0.05
_NOISE = 0.5  # length of the noise added to every vector
_SCALE, _RIDGE = 20.0, 3e-4  # of the logistic regression: initial scale, and L2 penalty
_OTHER_WEIGHT = 2.0  # for non-retrieval instructions, because mistaking them for retrieval is worse
_OF_LIKENESS = re.compile("similar|duplicate")


@dataclass(frozen=True, slots=True)
class WrittenAspects:
    """Plain vectors of the instructions (W, D) and sentences (S, D) of aspects, each with the index of its aspect."""

    instructions: Tensor
    instruction_aspects: list[int]
    sentences: Tensor
    sentences_of: list[list[int]]  # the rows of each aspect
    domains: Tensor  # domain of each aspect


def retrieval_instructions(data: TrainingData) -> tuple[list[str], list[str]]:
    """Instructions that ask for retrieval or for equivalent texts; and instructions that ask for one aspect of
    texts."""
    wordings = shipped_wordings()
    asking = {*wordings.similarity, *(each for written in wordings.pairs.values() for each in written)}
    asking |= {pair.instruction for pairs in data.pairs.values() for pair in pairs if pair.instruction}
    named = (each.format(subject=name) for each in wordings.retrieval_patterns for name in wordings.subjects)
    asking |= {" ".join(each.split()) for each in named}  # one of the subjects is empty
    others = {wording for aspect in data.aspects for wording in (aspect.instruction, *aspect.wordings)}
    others |= {wording for task in wordings.aspects.values() for written in task.values() for wording in written}
    for row in load_instructions():
        is_whole = row.role != "both" or _OF_LIKENESS.search(row.instruction)
        (asking if is_whole else others).add(row.instruction)
    return sorted(asking), sorted(others - asking)


def train_selector(encoder: Encoder, data: TrainingData, *, seed: int = 0, steps: int = _STEPS) -> SentenceSelector:
    """Trains a selector. Raises DataError unless the data have hand-written aspects of two domains."""
    aspects = _written_aspects(encoder, data)
    torch.manual_seed(seed)
    selector = SentenceSelector(encoder.dimension, _WIDTH)
    _fit_towers(selector, aspects, seed=seed, steps=steps)
    asking, others = retrieval_instructions(data)
    _fit_retrieval(selector, _plain(encoder, asking), _plain(encoder, others))
    return selector.eval().requires_grad_(False)


def _written_aspects(encoder: Encoder, data: TrainingData) -> WrittenAspects:
    written = [aspect for aspect in data.aspects if aspect.task == WRITTEN_ASPECTS]
    domains = sorted({aspect.family for aspect in written})
    if len(domains) < 2:
        raise DataError("Training needs hand-written aspects of two domains. Add aspects.jsonl.gz.")
    instructions: list[str] = []
    sentences: list[str] = []
    instruction_aspects: list[int] = []
    sentences_of: list[list[int]] = []
    for at, aspect in enumerate(written):
        wordings = (aspect.instruction, *aspect.wordings)
        instructions += wordings
        instruction_aspects += [at] * len(wordings)
        own = [text for texts in aspect.texts.values() for text in texts]
        sentences_of.append(list(range(len(sentences), len(sentences) + len(own))))
        sentences += own
    return WrittenAspects(
        _plain(encoder, instructions),
        instruction_aspects,
        _plain(encoder, sentences),
        sentences_of,
        torch.tensor([domains.index(aspect.family) for aspect in written]),
    )


def _plain(encoder: Encoder, texts: Sequence[str]) -> Tensor:
    return torch.from_numpy(encoder.encode_documents(texts, instruction="", steps=0, show_progress=True))


def _fit_towers(selector: SentenceSelector, aspects: WrittenAspects, *, seed: int, steps: int) -> None:
    """InfoNCE in both directions over one wording and one sentence of each drawn aspect; aspects of one domain are not
    negatives."""
    rng = random.Random(seed)
    parameters = [*selector.instruction.parameters(), *selector.sentence.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _LEARNING_RATE, total_steps=steps, pct_start=_WARMUP)
    own = torch.eye(_BATCH, dtype=torch.bool)
    with tqdm(range(steps), unit="batch", desc="Selecting sentences") as bar:
        for _ in bar:
            rows = [rng.randrange(len(aspects.instructions)) for _ in range(_BATCH)]
            drawn = [aspects.instruction_aspects[row] for row in rows]
            sentences = aspects.sentences[[rng.choice(aspects.sentences_of[each]) for each in drawn]]
            scores = selector.instruction(_with_noise(aspects.instructions[rows]))
            scores = scores @ selector.sentence(_with_noise(sentences)).T / _TEMPERATURE
            domains = aspects.domains[drawn]
            scores = scores.masked_fill((domains[:, None] == domains) & ~own, float("-inf"))
            truth = torch.arange(_BATCH)
            loss = F.cross_entropy(scores, truth) + F.cross_entropy(scores.T, truth)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)


def _with_noise(vectors: Tensor) -> Tensor:
    noise = torch.randn_like(vectors) * (_NOISE / vectors.shape[-1] ** 0.5)
    return F.normalize(vectors + noise, dim=-1)


def _fit_retrieval(selector: SentenceSelector, asking: Tensor, others: Tensor) -> None:
    """Fits the logistic regression. Both classes have equal weight, except for `_OTHER_WEIGHT`."""
    inputs = torch.cat([asking, others])
    truth = torch.cat([torch.ones(len(asking)), torch.zeros(len(others))])
    weights = torch.where(truth > 0, 1 / len(asking), _OTHER_WEIGHT / len(others))
    direction = torch.zeros(inputs.shape[1], requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.LBFGS([direction, bias], max_iter=300)

    def loss() -> float:
        optimiser.zero_grad()
        logits = _SCALE * (inputs @ direction) + bias
        found = F.binary_cross_entropy_with_logits(logits, truth, weight=weights, reduction="sum")
        found = found + _RIDGE * (direction**2).sum()
        found.backward()
        return found.item()

    optimiser.step(loss)
    with torch.no_grad():
        selector.retrieval.weight.copy_(_SCALE * direction[None])
        selector.retrieval.bias.copy_(bias)


def train_and_save(folder: Path, data: TrainingData, *, seed: int = 0) -> Path:
    """Adds a selector to the published model in `folder`, or replaces it. Returns its file."""
    contract = read_contract(folder)
    if contract is None or not contract.plain_pooling:
        raise ContractError(f"The base of {folder} is not an embedder; selecting sentences needs its vectors.")
    with without_cut_warnings():
        selector = train_selector(load_encoder(str(folder), device="cpu", dtype="float32"), data, seed=seed)
    path = save_selector(selector, folder)
    changed = dataclasses.replace(contract, selection_files=hash_files(folder, (SELECTION_FILE,)))
    write_contract(folder, changed, kept=contract.golden)
    return path


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m embedder.training.sentence_selection",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of training files, with aspects.jsonl.gz")
    parser.add_argument("--model", type=Path, required=True, help="folder of a published model, to be changed")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--skip-tasks", nargs="*", default=[], help="tasks whose instructions to skip")
    options = parser.parse_args(arguments)

    def work() -> str:
        data = read_training_data(options.data, skip_tasks=frozenset(options.skip_tasks), with_aspects=True)
        path = train_and_save(options.model, data, seed=options.seed)
        return f"Wrote {path}; {options.model} has a new fingerprint."

    errors = (EmbedderError, DataError, OSError)
    return run_command(work, errors=errors, stopped=f"{options.model} is unchanged.")


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
