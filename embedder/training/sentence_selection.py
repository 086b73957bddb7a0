"""`python -m embedder.training.sentence_selection` teaches a model which sentences an instruction asks for.

Over vectors of the base alone: wordings beside sentences of hand-written aspects (InfoNCE), and instructions that ask
for retrieval beside all others (logistic regression). Writes `selection.safetensors` and the contract anew.
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
from embedder.command import run_command
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
_NOISE = 0.5  # length of what is added to every vector
_SCALE, _RIDGE = 20.0, 3e-4  # of the logistic regression: of its weights, and of their squares in its loss
_OTHER_WEIGHT = 2.0  # of instructions that ask for no retrieval, which are the worse ones to take for it
_OF_LIKENESS = re.compile("similar|duplicate")


@dataclass(frozen=True, slots=True)
class WrittenAspects:
    """Plain vectors of the instructions (W, D) and sentences (S, D) of aspects, each with the number of its aspect."""

    instructions: Tensor
    instruction_aspects: list[int]
    sentences: Tensor
    sentences_of: list[list[int]]  # the rows of each aspect
    domains: Tensor  # of aspects


def retrieval_instructions(data: TrainingData) -> tuple[list[str], list[str]]:
    """Those that ask for retrieval, or for what says the same; and those that ask for one aspect of texts."""
    wordings = shipped_wordings()
    asking = {*wordings.similarity, *(each for written in wordings.pairs.values() for each in written)}
    asking |= {pair.instruction for pairs in data.pairs.values() for pair in pairs if pair.instruction}
    named = (each.format(subject=name) for each in wordings.retrieval_patterns for name in wordings.subjects)
    asking |= {" ".join(each.split()) for each in named}  # one of the subjects is none
    others = {said for aspect in data.aspects for said in (aspect.instruction, *aspect.wordings)}
    others |= {said for task in wordings.aspects.values() for written in task.values() for said in written}
    for row in load_instructions():
        is_whole = row.role != "both" or _OF_LIKENESS.search(row.instruction)
        (asking if is_whole else others).add(row.instruction)
    return sorted(asking), sorted(others - asking)


def train_selector(encoder: Encoder, data: TrainingData, *, seed: int = 0, steps: int = _STEPS) -> SentenceSelector:
    """Raises DataError where the data hold no hand-written aspects of two domains."""
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
        raise DataError("The data hold no hand-written aspects of two domains: aspects.jsonl.gz is needed.")
    instructions: list[str] = []
    sentences: list[str] = []
    instruction_aspects: list[int] = []
    sentences_of: list[list[int]] = []
    for at, aspect in enumerate(written):
        said = (aspect.instruction, *aspect.wordings)
        instructions += said
        instruction_aspects += [at] * len(said)
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
    """InfoNCE both ways over a wording and a sentence of so many aspects; aspects of one domain are no negatives."""
    rng = random.Random(seed)
    parameters = [*selector.instruction.parameters(), *selector.sentence.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _LEARNING_RATE, total_steps=steps, pct_start=_WARMUP)
    own = torch.eye(_BATCH, dtype=torch.bool)
    with tqdm(range(steps), unit="batch", desc="Selecting sentences") as bar:
        for _ in bar:
            rows = [rng.randrange(len(aspects.instructions)) for _ in range(_BATCH)]
            told = [aspects.instruction_aspects[row] for row in rows]
            sentences = aspects.sentences[[rng.choice(aspects.sentences_of[each]) for each in told]]
            scores = selector.instruction(_shaken(aspects.instructions[rows]))
            scores = scores @ selector.sentence(_shaken(sentences)).T / _TEMPERATURE
            domains = aspects.domains[told]
            scores = scores.masked_fill((domains[:, None] == domains) & ~own, float("-inf"))
            truth = torch.arange(_BATCH)
            loss = F.cross_entropy(scores, truth) + F.cross_entropy(scores.T, truth)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)


def _shaken(vectors: Tensor) -> Tensor:
    noise = torch.randn_like(vectors) * (_NOISE / vectors.shape[-1] ** 0.5)
    return F.normalize(vectors + noise, dim=-1)


def _fit_retrieval(selector: SentenceSelector, asking: Tensor, others: Tensor) -> None:
    """Each side weighs as much as the other, but for `_OTHER_WEIGHT`."""
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


def teach(folder: Path, data: TrainingData, *, seed: int = 0) -> Path:
    """Adds a selector to the published model in `folder`, or replaces it. Returns its file."""
    contract = read_contract(folder)
    if contract is None or not contract.plain_pooling:
        raise ContractError(f"{folder} is no model over an embedder: sentences are selected by vectors of its base.")
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
    parser.add_argument("--model", type=Path, required=True, help="folder of a published model, which is changed")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--skip-tasks", nargs="*", default=[], help="tasks whose instructions are left out")
    options = parser.parse_args(arguments)

    def work() -> str:
        data = read_training_data(options.data, skip_tasks=frozenset(options.skip_tasks), with_aspects=True)
        path = teach(options.model, data, seed=options.seed)
        return f"{path} is there, and {options.model} has another fingerprint."

    errors = (EmbedderError, DataError, OSError)
    return run_command(work, errors=errors, stopped=f"{options.model} is as it was.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
