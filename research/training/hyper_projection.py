"""`python -m research.training.hyper_projection`: trains a projection of stored vectors by instructions (Hyper-CL)."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.command.standard_output import run_program
from embedder.command.status import run_command
from embedder.encoder import Encoder
from embedder.errors import DataError, EmbedderError
from embedder.extensions.hyper_projection import KINDS, ProjectionShape, build_projection, save_projection
from embedder.model.backbone import DTYPES
from embedder.text.prompts import without_cut_warnings
from embedder.training.data import ASPECTS_FILE, TrainingData, fingerprint_of, read_training_data
from embedder.training.losses import stepwise_info_nce
from embedder.training.progress import RunLog
from embedder.training.sampling import Batch, BatchSampler, Mixture
from embedder.training.state import TrainingState, load_checkpoint, save_checkpoint
from research.training.plain_vectors import PlainVectors

CONFIG_FILE = "projection.json"
WIDTHS = {"low_rank": 32, "film": 512}
# Every kind of batch that has an instruction: on both sides, or on the query alone.
_WEIGHTS = {
    **dict.fromkeys(("labels", "label_queries", "triplets"), 0.14),
    **dict.fromkeys(("name_queries", "triplet_queries", "contrasts", "composed"), 0.10),
    "label_names": 0.18,
}
_SIZES = {kind: 48 if kind.startswith(("label", "name")) else 32 for kind in _WEIGHTS}
MIXTURE = Mixture(weights=_WEIGHTS, sizes=_SIZES, bare_document_share=0.5, task_weights={"aspects": 2.0})
_BLOCK = 250  # batches whose texts are read together, and after which the run is saved
_SHOWN = 50  # steps whose mean loss the progress bar shows
_WEIGHT_DECAY = 0.01
_MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True, slots=True)
class ProjectionConfig:
    """What decides about a run besides its data. width: None takes the kind's own; warmup: a share of all batches."""

    kind: str
    batches: int
    seed: int = 1
    width: int | None = None
    learning_rate: float = 1e-3
    temperature: float = 0.05
    warmup: float = 0.03
    skip_tasks: tuple[str, ...] = ()

    def shape(self, dimension: int) -> ProjectionShape:
        return ProjectionShape(self.kind, dimension, self.width or WIDTHS[self.kind])

    def rate_factor(self, step: int) -> float:
        """Linear warm-up, then a cosine down to nothing."""
        warm = (step + 1) / (self.warmup * self.batches + 1)
        return min(1.0, warm) * (1 + math.cos(math.pi * step / self.batches)) / 2


class ProjectionTrainer:
    """One run in one folder; begins, or goes on from its last checkpoint."""

    def __init__(
        self,
        config: ProjectionConfig,
        encoder: Encoder,
        rows: TrainingData,
        vectors: PlainVectors,
        out: Path,
        *,
        data: str = "",
        mixture: Mixture = MIXTURE,
    ) -> None:
        """data: fingerprint of the training files. Raises DataError where `out` holds another run."""
        torch.manual_seed(config.seed)
        self._config, self._out, self._data = config, out, data
        self._fingerprint = encoder.fingerprint
        self._vectors = vectors
        self._sampler = BatchSampler(rows, mixture, seed=config.seed)
        self.projection = build_projection(config.shape(encoder.dimension))
        self._optimiser = torch.optim.AdamW(
            self.projection.parameters(), lr=config.learning_rate, weight_decay=_WEIGHT_DECAY, fused=True
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimiser, config.rate_factor)
        _check_config(out, config, encoder.fingerprint)
        self._log = RunLog(out)

    def run(self) -> Path:
        """Trains to the end. Returns the folder with the projection."""
        start, end = self._restore(), self._config.batches
        recent: list[float] = []
        with tqdm(total=end, initial=start, unit="batch", desc=self._config.kind) as bar:
            for first in range(start, end, _BLOCK):
                block = [self._sampler.batch(step) for step in range(first, min(first + _BLOCK, end))]
                self._vectors.read([text for batch in block for text in _texts_of(batch)])
                for step, batch in enumerate(block, start=first):
                    loss = self._train_step(step, batch)
                    recent = [*recent[1 - _SHOWN :], loss]
                    bar.set_postfix(loss=f"{sum(recent) / len(recent):.3f}", refresh=False)
                    bar.update()
                self._save(first + len(block))
        save_projection(self.projection, self._out, fingerprint=self._fingerprint)
        return self._out

    def loss(self, batch: Batch) -> Tensor:
        """InfoNCE of the batch, of vectors projected on each side that has an instruction."""
        queries = self._project(batch.queries, batch.query_instruction)
        documents = self._project(batch.documents, batch.document_instruction)
        allowed = torch.from_numpy(batch.allowed)
        temperature = self._config.temperature
        return stepwise_info_nce(queries[:, None], documents[:, None], temperature=temperature, allowed=allowed)[0]

    def _project(self, texts: Sequence[str], instruction: str) -> Tensor:
        plain = torch.from_numpy(self._vectors.of(texts))
        if not instruction:
            return plain
        return self.projection(plain, torch.from_numpy(self._vectors.of([instruction])[0]))

    def _train_step(self, step: int, batch: Batch) -> float:
        self._optimiser.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.projection.parameters(), _MAX_GRADIENT_NORM)
        if not torch.isfinite(norm):
            raise RuntimeError(
                f"Step {step} ({batch.kind} of {batch.task}; seed {self._config.seed}): the gradient is not finite."
            )
        self._optimiser.step()
        self._schedule.step()
        value = loss.item()
        self._log.add({"step": step, "kind": batch.kind, "task": batch.task, "loss": round(value, 4)})
        return value

    def _save(self, step: int) -> None:
        checkpoint = TrainingState(
            step=step,
            seed=self._config.seed,
            data=self._data,
            processes=1,
            trainable=self.projection.state_dict(),
            optimiser=self._optimiser.state_dict(),
            schedule=self._schedule.state_dict(),
        )
        save_checkpoint(self._out, checkpoint)

    def _restore(self) -> int:
        """The step to go on with."""
        checkpoint = load_checkpoint(self._out, seed=self._config.seed, data=self._data, processes=1)
        if checkpoint is None:
            return 0
        self.projection.load_state_dict(checkpoint.trainable)
        self._optimiser.load_state_dict(dict(checkpoint.optimiser))
        self._schedule.load_state_dict(dict(checkpoint.schedule))
        return checkpoint.step


def _texts_of(batch: Batch) -> list[str]:
    asked = (batch.query_instruction, batch.document_instruction)
    return [*batch.queries, *batch.documents, *filter(None, asked)]


def _check_config(out: Path, config: ProjectionConfig, fingerprint: str) -> None:
    """Writes the run's config down. Raises DataError where the folder holds a run with another one."""
    path = out / CONFIG_FILE
    said = json.loads(json.dumps({**asdict(config), "model": fingerprint}))
    if path.is_file() and (kept := json.loads(path.read_text(encoding="utf-8"))) != said:
        differing = sorted(name for name in said if kept.get(name) != said[name])
        raise DataError(
            f"{out} holds a run with another config; {', '.join(differing)} differ. Give another --out, or the options "
            "that it began with."
        )
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m research.training.hyper_projection",
        description="Train a projection that an instruction's own vector determines (Hyper-CL): stored vectors of "
        "texts become vectors under the instruction without the model. "
        "`python -m research.evaluation --projection FOLDER` measures it. A run that was "
        "stopped goes on where its last checkpoint stands.",
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help=f"folder with labels.*, triplets.* and {ASPECTS_FILE}")
    add("--out", type=Path, required=True, help="folder of the run: projection, checkpoint, log")
    add("--model", default=DEFAULT_MODEL, help="whose vectors are projected (default: %(default)s)")
    add("--dtype", choices=["auto", *DTYPES], help="what its vectors are computed in (default: the model's own)")
    add("--kind", choices=KINDS, default="film", help="default: %(default)s")
    add("--width", type=int, metavar="N", help=f"the rank, or the hidden units of film (default: {WIDTHS})")
    add("--batches", type=int, default=9_000, metavar="N", help="length of the run (default: %(default)s)")
    add("--learning-rate", type=float, default=1e-3, metavar="R", help="default: %(default)s")
    add("--seed", type=int, default=1, help="of weights and batches (default: %(default)s)")
    add("--skip-tasks", nargs="*", default=(), metavar="TASK", help="sources that are held out of training")
    add("--vectors", type=Path, metavar="FOLDER", help="vectors of texts, which runs share (default: OUT/vectors)")
    return parser.parse_args(arguments)


def train(options: argparse.Namespace) -> Path:
    """Raises DataError, EmbedderError or OSError."""
    config = ProjectionConfig(
        kind=options.kind,
        batches=options.batches,
        seed=options.seed,
        width=options.width,
        learning_rate=options.learning_rate,
        skip_tasks=tuple(options.skip_tasks),
    )
    skipped = frozenset(config.skip_tasks)
    with_aspects = (options.data / ASPECTS_FILE).is_file()
    rows = read_training_data(options.data, skip_tasks=skipped, with_aspects=with_aspects)
    data = fingerprint_of(options.data, skip_tasks=skipped, with_aspects=with_aspects)
    encoder = load_encoder(options.model, dtype=options.dtype)
    vectors = PlainVectors(encoder, options.vectors or options.out / "vectors")
    return ProjectionTrainer(config, encoder, rows, vectors, options.out, data=data).run()


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)

    def work() -> str:
        with without_cut_warnings():
            folder = train(options)
        return f"The projection is in {folder}; python -m research.evaluation --projection {folder} measures it."

    stopped = f"The same command goes on from the last checkpoint in {options.out}."
    return run_command(work, errors=(EmbedderError, DataError, OSError), stopped=stopped)


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
