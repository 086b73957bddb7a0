"""Judged queries, evaluation plans and their results (immutable)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO, Self

from app.errors import InputError
from app.types.search import DEFAULT_MODE, SearchMode
from embedder.refinement_steps import QUERY_STEPS

IMPORT_PREFIX = "import:"  # of `judged_by`: distinguishes imports from users


class Measure(StrEnum):
    """Measures of a ranking of documents, each at the rank of its best chunk, from the first 100 chunks."""

    NDCG_10 = "ndcg_10"
    RECALL_10 = "recall_10"
    RECALL_100 = "recall_100"
    MRR_10 = "mrr_10"
    JUDGED_10 = "judged_10"  # share of judged documents in the first ten: how reliable the other measures are

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    Measure.NDCG_10: "nDCG@10",
    Measure.RECALL_10: "Recall@10",
    Measure.RECALL_100: "Recall@100",
    Measure.MRR_10: "MRR@10",
    Measure.JUDGED_10: "Judged@10",
}


class InstructionPolicy(StrEnum):
    """Which instruction an evaluation uses for the judged queries."""

    JUDGED = "judged"  # the instruction under which each query was judged
    DEFAULT = "default"  # the model's default
    NONE = "none"
    LENS = "lens"


class EvaluationState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JudgementSource:
    """Counts of the judgements by one person or import in a collection."""

    judged_by: str
    query_count: int
    judgement_count: int

    @property
    def is_import(self) -> bool:
        return self.judged_by.startswith(IMPORT_PREFIX)


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query with its judged documents. `grades`: document id → 0 (not relevant) to 3, the mean over all judges,
    halves rounded up."""

    query: str
    instruction: str
    grades: Mapping[str, int]

    @property
    def relevant_count(self) -> int:
        return sum(grade > 0 for grade in self.grades.values())


@dataclass(frozen=True, slots=True)
class JudgementFile:
    """A file of judgements, read from the current position of `file`. It may be compressed by gzip."""

    name: str
    file: BinaryIO


@dataclass(frozen=True, slots=True)
class NamedJudgement:
    """A judgement in a file. `document` is whatever the file uses to name the document: an id or a URI."""

    query: str
    instruction: str
    document: str
    grade: float


@dataclass(frozen=True, slots=True)
class NamedJudgements:
    """The judgements of one or more files. `unknown_queries`: ids of judged queries whose text is in no file."""

    judgements: tuple[NamedJudgement, ...]
    unknown_queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Result of an import. Counts are complete; lists of names have only the first few."""

    judged_by: str
    query_count: int
    judgement_count: int
    document_count: int
    unmatched_count: int = 0  # documents missing from the collection
    unmatched: tuple[str, ...] = ()
    ambiguous_count: int = 0  # names that match several documents
    ambiguous: tuple[str, ...] = ()
    unknown_query_count: int = 0
    unknown_queries: tuple[str, ...] = ()
    scaled_from: float | None = None  # the highest grade in the files, if above 3


@dataclass(frozen=True, slots=True)
class InstructionChoice:
    """A policy; `lens` is the lens's name for the policy LENS, else empty."""

    policy: InstructionPolicy = InstructionPolicy.JUDGED
    lens: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses `judged`, `default`, `none` or `lens:NAME`; inverse of `str`. Raises InputError."""
        policy, _, lens = text.partition(":")
        if policy not in InstructionPolicy.__members__.values() or (policy == InstructionPolicy.LENS) != bool(lens):
            raise InputError(f"The instruction is one of judged, default, none and lens:NAME, not {text[:80]!r}.")
        return cls(InstructionPolicy(policy), lens)

    def __str__(self) -> str:
        return f"{self.policy.value}:{self.lens}" if self.lens else self.policy.value


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of settings. In sparse mode steps and instruction have no effect and are None."""

    collection: str
    mode: SearchMode = DEFAULT_MODE
    steps: int | None = None
    instruction: InstructionChoice | None = None


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to evaluate: all combinations of collections, modes, steps and instructions.

    Uses the queries judged in `judged_in`. A document of another collection is the same if its uri is equal, or else
    its content.
    """

    judged_in: str
    collections: tuple[str, ...]
    modes: tuple[SearchMode, ...] = (DEFAULT_MODE,)
    steps: tuple[int, ...] = (QUERY_STEPS,)
    instructions: tuple[InstructionChoice, ...] = (InstructionChoice(),)
    judged_by: tuple[str, ...] = ()  # empty: all judgements
    max_queries: int | None = None  # size of a random sample, the same each time; None: all
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class VariantScores:
    variant: Variant
    label: str
    estimates: Mapping[Measure, Estimate]
    median_ms: float  # per search, with embedding, unless another variant had just cached the same vector


@dataclass(frozen=True, slots=True)
class InstructionScores:
    """Scores over the queries judged under one instruction, in the order of the variants."""

    instruction: str
    query_count: int
    scores: tuple[VariantScores, ...]


@dataclass(frozen=True, slots=True)
class QueryScores:
    """Scores of one query. `values[measure][v]` belongs to the v-th variant."""

    query: str
    instruction: str
    relevant_count: int
    values: Mapping[Measure, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A variant minus the baseline over the same queries, with the numbers of better, equal and worse queries."""

    label: str
    measure: Measure
    estimate: Estimate
    better: int
    equal: int
    worse: int


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    scores: tuple[VariantScores, ...]
    by_instruction: tuple[InstructionScores, ...]
    queries: tuple[QueryScores, ...]
    unanswered: Mapping[str, str] = field(default_factory=dict)  # query → why its search was refused
    # Collection → number of documents judged relevant that are missing there.
    missing_documents: Mapping[str, int] = field(default_factory=dict)
    without_relevant: int = 0  # judged queries left out because no document was judged relevant


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """State of an evaluation. The report of a cancelled one covers the finished queries."""

    id: str
    plan: EvaluationPlan
    state: EvaluationState
    started_at: datetime
    query_count: int = 0
    done: int = 0  # of `total` searches
    total: int = 0
    remaining_s: float | None = None
    elapsed_s: float = 0.0
    error: str | None = None
    report: EvaluationReport | None = None
