"""The training run: warms up the head, then contrastive refinement; checkpoints survive a kill at any moment."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from tqdm.auto import tqdm

from embedder.encoder import Encoder
from embedder.errors import DataError, TextError
from embedder.evaluation.measures import validate_briefly
from embedder.model.backbone import Backbone, locate_model
from embedder.model.context_token import load_context_encoder, with_context
from embedder.model.contract import Contract
from embedder.model.gguf_source import hash_weights
from embedder.model.heads import SoftHead
from embedder.model.refine import PROMPT_POOLINGS, embedding_size
from embedder.text.prompts import TEMPLATES, PromptTokenizer, load_tokenizer
from embedder.training.compute import Compute
from embedder.training.config import TrainConfig, check_config, check_room
from embedder.training.data import fingerprint_of, label_names, read_training_data, sample_texts, training_files
from embedder.training.model import (
    TrainedModel,
    base_of,
    build_student,
    build_teacher,
    learning_rate_factor,
    load_adapter,
    load_parameters,
    parameter_groups,
    parts_of,
    soft_token_pieces,
    trained_parameters,
)
from embedder.training.objective import Objective, Terms
from embedder.training.progress import RecentSteps, RunLog, summarise
from embedder.training.publish import ADAPTER_FOLDER, publish, published_folder
from embedder.training.reconstruction import Reconstruction
from embedder.training.sampling import Batch, BatchSampler
from embedder.training.state import TrainingState, load_checkpoint, load_weights, save_checkpoint
from embedder.training.stopping import stop_requests
from embedder.training.warmup import warm_up_head
from embedder.training.words import WordIndex, empty_pieces

logger = logging.getLogger(__name__)
HEAD_FILE = "head.safetensors"
_WORD_TEXTS = 400_000  # number of texts for telling words from word beginnings
_WEIGHTS = ("*.safetensors", "tokenizer.json")
_MIN_TEXT_TOKENS = 8  # training prompts are short; the longest instructions may take nearly all their tokens


class Trainer:
    """One run in one folder. `run()` starts it or continues from its last checkpoint.

    start_from: folder of an earlier run or a published adapter, whose weights this run starts from (a further stage).
    head_from: a head warmed up by an earlier run with the same data and soft vocabulary.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        data: Path,
        out: Path,
        validation: Path | None = None,
        start_from: Path | None = None,
        head_from: Path | None = None,
    ) -> None:
        torch.manual_seed(config.seed)
        if config.tuning == "head" and start_from is None:
            raise DataError("tuning is 'head': give the run or model with the frozen adapter as --start-from.")
        self._config = config
        self._out = out
        self._validation = validation
        self._start_from = start_from
        self._head_from = head_from
        self._compute = Compute(device=config.device, precision=config.precision)
        self._log = RunLog(out, writes=self._compute.writes)
        self._base = locate_model(config.base)
        skipped = frozenset(config.skip_tasks)
        self._files = training_files(data, skip_tasks=skipped, with_aspects=config.with_aspects)
        self._fingerprint = fingerprint_of(data, skip_tasks=skipped, with_aspects=config.with_aspects)
        self._rows = read_training_data(data, skip_tasks=skipped, with_aspects=config.with_aspects)
        self._sampler = BatchSampler(self._rows, config.mixture, seed=config.seed)
        self._tokenizer = load_tokenizer(self._base)
        self._prompts, self._long_prompts = (
            PromptTokenizer(
                self._tokenizer,
                TEMPLATES[config.template],
                max_length=length,
                max_instruction=length - _MIN_TEXT_TOKENS,
                report_cuts=False,
            )
            for length in (config.train_length, config.long_train_length)
        )
        self._words = self._word_index(start_from)
        self._context = None if config.context_encoder is None else locate_model(config.context_encoder)
        self._model, self._student = self._build_student()
        check_room(config, positions=self._student.max_positions)
        self._objective = self._build_objective()
        self._trained = trained_parameters(self._model)
        self._optimiser = torch.optim.AdamW(parameter_groups(self._model, config), weight_decay=0.01)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimiser, partial(learning_rate_factor, config))

    def _word_index(self, start_from: Path | None) -> WordIndex:
        config = self._config
        sample = [*sample_texts(self._rows, 40_000, seed=config.seed), *label_names(self._rows)]
        spoken = soft_token_pieces(published_folder(start_from)) if start_from is not None else None
        texts = sample_texts(self._rows, _WORD_TEXTS, seed=config.seed) if config.content_words else []
        left_out = empty_pieces(self._tokenizer, texts) if config.content_words else ()
        return WordIndex(self._tokenizer, sample, size=config.soft_vocabulary, left_out=left_out, pieces=spoken)

    def _build_student(self) -> tuple[TrainedModel, Backbone]:
        device, pieces = self._compute.device, self._words.pieces
        if self._context is None:
            model = build_student(self._base, self._config, pieces, device)
            return model, parts_of(base_of(model), self._config)
        encoder = load_context_encoder(self._context, device=str(device), dtype="float32")
        model = build_student(self._base, self._config, pieces, device, context_size=encoder.backbone.hidden_size)
        student = parts_of(base_of(model), self._config)
        return model, with_context(student, encoder, self._tokenizer, self._config.template)

    def _build_objective(self) -> Objective | Reconstruction:
        config, autocast, long_prompts = self._config, self._compute.autocast, self._long_prompts
        if config.objective == "reconstruction":
            return Reconstruction(self._student, self._prompts, long_prompts, config, autocast=autocast)
        teacher = build_teacher(self._base, config, self._compute.device)
        return Objective(self._student, teacher, self._prompts, long_prompts, self._words, config, autocast=autocast)

    def run(self) -> Path:
        """Trains to the end and publishes weights, contract, config and card. Returns their folder.

        Ctrl-C and SIGTERM finish and save the current step, then raise KeyboardInterrupt, or SystemExit with 143.
        """
        end = min(self._config.optimiser_steps, self._config.stop_after or self._config.optimiser_steps)
        self._check_instructions(range(end))
        start = self._begin()
        recent = RecentSteps()
        shown = self._compute.writes
        with (
            tqdm(total=end, initial=start, unit="step", desc=self._config.name, disable=not shown) as bar,
            stop_requests(is_alone=self._compute.processes == 1) as stop,
        ):
            for step in range(start, end):
                recent.add(self._train_step(step))
                bar.set_postfix(recent.postfix(), refresh=False)
                bar.update()
                done = step + 1
                if shown and self._validation and done % self._config.validate_every == 0:
                    self._validate(done, self._validation)
                if shown and (done % self._config.checkpoint_every == 0 or done == end or stop.signal):
                    self._save(done)
                stop.check()
        folder = self._out / ADAPTER_FOLDER
        if shown:
            publish(self._model, self._contract(), self._config, folder, run=self._out, files=self._files)
            logger.info("%s: %s", self._config.name, summarise(self._out))
        self._compute.wait()
        return folder

    def warm_up(self) -> None:
        """Only warms up the head and saves it as HEAD_FILE, for other runs."""
        head = self._student.soft_head
        if head is None:
            raise ValueError(f"{self._config.name}: head is {self._config.head!r}; only a soft_head is warmed up.")
        self._out.mkdir(parents=True, exist_ok=True)
        self._warm_up_head(head)
        save_file(head.state_dict(), self._out / HEAD_FILE)

    def _begin(self) -> int:
        """Returns the step to continue with. Before step 0, loads weights of an earlier stage or a warmed-up head."""
        if self._compute.writes:
            self._out.mkdir(parents=True, exist_ok=True)
            check_config(self._out, self._config)
        self._compute.wait()
        # A checkpoint has only trained weights; reload the frozen ones from the earlier stage.
        has_head = self._start_from is not None and self._load_earlier_stage(self._start_from)
        start = self._restore()
        head = None if has_head or self._config.pooling in PROMPT_POOLINGS else self._student.soft_head
        if start == 0 and head is not None:
            self._prepare_head(head)
        self._compute.share_weights(list(self._trained.values()))
        self._compute.seed_dropout(seed=self._config.seed, step=start)
        return start

    def _check_instructions(self, steps: range) -> None:
        """Checks all instructions of these steps at the start, not hours later when they are drawn. Takes a third of a
        millisecond per batch.

        Raises DataError if an instruction leaves no room for a text.
        """
        checked: set[tuple[str, bool]] = set()
        for step in steps:
            for batch in self._batches_of(step):
                others = (batch.other_instruction,) if self._config.instruction_negative_weight else ()
                instructions = (batch.query_instruction, batch.document_instruction, *others)
                drawn = {(instruction, batch.long) for instruction in instructions}
                for instruction, _ in sorted(drawn - checked):
                    self._check_instruction(instruction, step, batch)
                checked |= drawn

    def _check_instruction(self, instruction: str, step: int, batch: Batch) -> None:
        try:
            (self._long_prompts if batch.long else self._prompts).check_instruction(instruction)
        except TextError as error:
            name = "long_train_length" if batch.long else "train_length"
            raise DataError(
                f"Step {step} ({batch.kind} of {batch.task}; seed {self._config.seed}) will draw {instruction[:60]!r}. "
                f"{error} Or set a greater {name} in the config."
            ) from None

    def _train_step(self, step: int) -> dict:
        """Takes one optimiser step. Returns its row of the log."""
        batches = self._batches_of(step)
        self._optimiser.zero_grad(set_to_none=True)
        terms = self._objective.backward(batches)
        parameters = list(self._trained.values())
        self._compute.average_gradients(parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._config.max_gradient_norm)
        if not torch.isfinite(norm):
            drawn = ", ".join(f"{batch.kind} of {batch.task}" for batch in batches)
            raise RuntimeError(f"Step {step} ({drawn}; seed {self._config.seed}): the gradient is not finite.")
        self._optimiser.step()
        self._schedule.step()
        row = self._row(step, batches, terms)
        self._log.add(row)
        return row

    def _batches_of(self, step: int) -> list[Batch]:
        """The batches of a step; all take the number of steps of the first."""
        count = self._config.batches_per_step
        first = self._compute.batch_index(step) * count
        batches = [self._sampler.batch(place) for place in range(first, first + count)]
        return [replace(batch, steps=batches[0].steps) for batch in batches]

    def _row(self, step: int, batches: Sequence[Batch], terms: Terms) -> dict:
        one = batches[0] if len(batches) == 1 else None
        return {
            "step": step,
            "kind": one.kind if one else "mixed",
            "task": one.task if one else ", ".join(batch.task for batch in batches),
            "texts": self._compute.total(sum(map(self._config.texts_of, batches))),
            "loss": float(terms.total.detach()),
            "stepwise": terms.stepwise,
            "distillation": terms.distillation,
            "grounding": terms.grounding,
            "repetition": terms.repetition,
            "privileged": terms.privileged,
            "instruction_negatives": terms.instruction_negatives,
            "reconstruction": terms.reconstruction,
            # the number of the K-1 transitions that got worse, where the regulariser acts
            "worse": sum(b > a for a, b in zip(terms.stepwise, terms.stepwise[1:], strict=False)),
        }

    def _load_earlier_stage(self, folder: Path) -> bool:
        """Loads the weights of an earlier stage. Returns whether they included its head, if it has one."""
        if isinstance(self._model, PeftModel):
            return load_adapter(self._model, published_folder(folder))
        load_parameters(self._model, load_weights(folder))
        return True

    def _prepare_head(self, head: SoftHead) -> None:
        """Loads the head that an earlier run warmed up, or warms it up."""
        if self._head_from is not None:
            saved = load_file(self._head_from)
            if not torch.equal(saved["pieces"], head.pieces):
                raise DataError(
                    f"{self._head_from} has another soft vocabulary than this run's data. Warm up a new head."
                )
            head.load_state_dict(saved)
        elif self._config.head_warmup_texts and self._compute.writes:  # the other processes copy its weights afterwards
            self._warm_up_head(head)

    def _warm_up_head(self, head: SoftHead) -> None:
        config = self._config
        warm_up_head(
            head,
            self._student,
            self._prompts,
            self._words,
            sample_texts(self._rows, config.head_warmup_texts, seed=config.seed + 1),
            epochs=config.head_warmup_epochs,
            seed=config.seed,
            log=self._log.add,
        )

    def _contract(self) -> Contract:
        config = self._config
        return Contract(
            name=config.name,
            base=config.base,
            base_revision=None,
            base_files=hash_weights(self._base, _WEIGHTS),
            adapter_files={},
            template=config.template,
            attention=config.attention,
            pooling=config.pooling,
            head=config.head,
            temperature=1.0,
            max_length=config.max_length,
            dimension=embedding_size(config.pooling, self._student.hidden_size),
            default_query_steps=config.query_steps,
            default_document_steps=config.document_steps,
            plain_pooling="prompt_mean" if config.plain_documents else None,
            language=config.language,
            similarity=config.similarity,
            context_encoder=config.context_encoder,
            context_files={} if self._context is None else hash_weights(self._context, _WEIGHTS),
        )

    def _validate(self, step: int, folder: Path) -> None:
        scores = validate_briefly(Encoder(self._student, self._tokenizer, self._contract()), folder)
        self._log.add({"step": step, "validation": scores})
        logger.info("Step %d: %s", step, scores)

    def _save(self, step: int) -> None:
        checkpoint = TrainingState(
            step=step,
            seed=self._config.seed,
            data=self._fingerprint,
            processes=self._compute.processes,
            trainable={name: parameter.detach() for name, parameter in self._trained.items()},
            optimiser=self._optimiser.state_dict(),
            schedule=self._schedule.state_dict(),
        )
        save_checkpoint(self._out, checkpoint)

    def _restore(self) -> int:
        """Restores a checkpoint. Returns the step to continue with."""
        checkpoint = load_checkpoint(
            self._out, seed=self._config.seed, data=self._fingerprint, processes=self._compute.processes
        )
        if checkpoint is None:
            return 0
        load_parameters(self._model, checkpoint.trainable)
        self._optimiser.load_state_dict(checkpoint.optimiser)  # type: ignore[arg-type]  # as state_dict() gave it
        self._schedule.load_state_dict(checkpoint.schedule)  # type: ignore[arg-type]
        return checkpoint.step
