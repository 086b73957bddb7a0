"""What a search is measured by and what comes of it: judged queries, variants, estimates. Frozen, plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO, Self

from app.errors import InputError
from app.types.search import DEFAULT_MODE, SearchMode
from embedder.refinement_steps import QUERY_STEPS

IMPORT_PREFIX = "import:"  # of `judged_by`, which keeps what was imported apart from what people said


class Measure(StrEnum):
    """Of the documents found for a query, each at the place of its best chunk; 100 chunks are looked at."""

    NDCG_10 = "ndcg_10"
    RECALL_10 = "recall_10"
    RECALL_100 = "recall_100"
    MRR_10 = "mrr_10"
    JUDGED_10 = "judged_10"  # share of the first ten that is judged: how reliable the other measures are

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
    """Through which instruction the judged queries are seen."""

    JUDGED = "judged"  # the one that each was judged through
    DEFAULT = "default"  # the model's own
    NONE = "none"
    LENS = "lens"


class EvaluationState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JudgementSource:
    """What one person, or one import, has said about a collection."""

    judged_by: str
    query_count: int
    judgement_count: int

    @property
    def is_import(self) -> bool:
        return self.judged_by.startswith(IMPORT_PREFIX)


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """`grades`: document id → 0 (not at all) to 3, the mean of those who judged it, rounded up at the half."""

    query: str
    instruction: str
    grades: Mapping[str, int]

    @property
    def relevant_count(self) -> int:
        return sum(grade > 0 for grade in self.grades.values())


@dataclass(frozen=True, slots=True)
class JudgementFile:
    """`file` is read from where it stands; gzip is unpacked."""

    name: str
    file: BinaryIO


@dataclass(frozen=True, slots=True)
class NamedJudgement:
    """As a file has it: `document` is the name that the file gives the document, whatever that is."""

    query: str
    instruction: str
    document: str
    grade: float


@dataclass(frozen=True, slots=True)
class NamedJudgements:
    """Of one or more files. `unknown_queries`: ids that are judged, but whose text no file told."""

    judgements: tuple[NamedJudgement, ...]
    unknown_queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of an import. Names are cut off after the first few, counts are not."""

    judged_by: str
    query_count: int
    judgement_count: int
    document_count: int
    unmatched_count: int = 0  # documents that the collection does not hold
    unmatched: tuple[str, ...] = ()
    ambiguous_count: int = 0  # names that fit several documents
    ambiguous: tuple[str, ...] = ()
    unknown_query_count: int = 0
    unknown_queries: tuple[str, ...] = ()
    scaled_from: float | None = None  # the highest grade of the files, when it was above 3


@dataclass(frozen=True, slots=True)
class InstructionChoice:
    """`lens`: the name of one, for that policy alone."""

    policy: InstructionPolicy = InstructionPolicy.JUDGED
    lens: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`judged`, `default`, `none` or `lens:NAME`, as `str` gives it. Raises InputError."""
        policy, _, lens = text.partition(":")
        if policy not in InstructionPolicy.__members__.values() or (policy == InstructionPolicy.LENS) != bool(lens):
            raise InputError(f"The instruction is one of judged, default, none and lens:NAME, not {text[:80]!r}.")
        return cls(InstructionPolicy(policy), lens)

    def __str__(self) -> str:
        return f"{self.policy.value}:{self.lens}" if self.lens else self.policy.value


@dataclass(frozen=True, slots=True)
class Variant:
    """One set of settings. In sparse mode neither steps nor instruction make a difference: both are None."""

    collection: str
    mode: SearchMode = DEFAULT_MODE
    steps: int | None = None
    instruction: InstructionChoice | None = None


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Every mode with every K through every instruction in every collection.

    The queries are those judged in `judged_in`; a document of another collection is the same when its uri, or else
    its content, is.
    """

    judged_in: str
    collections: tuple[str, ...]
    modes: tuple[SearchMode, ...] = (DEFAULT_MODE,)
    steps: tuple[int, ...] = (QUERY_STEPS,)
    instructions: tuple[InstructionChoice, ...] = (InstructionChoice(),)
    judged_by: tuple[str, ...] = ()  # empty: all judgements
    max_queries: int | None = None  # a sample of so many, the same each time
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries with its 95 % interval."""

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
    median_ms: float  # of one search, embedding included unless another variant had just made the same vector


@dataclass(frozen=True, slots=True)
class InstructionScores:
    """The same for the queries that were judged through one instruction, in the order of the variants."""

    instruction: str
    query_count: int
    scores: tuple[VariantScores, ...]


@dataclass(frozen=True, slots=True)
class QueryScores:
    """`values[measure][v]`: of the v-th variant."""

    query: str
    instruction: str
    relevant_count: int
    values: Mapping[Measure, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A variant minus the baseline, over the same queries; how many queries it answers better, alike or worse."""

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
    unanswered: Mapping[str, str] = field(default_factory=dict)  # query → why it could not be searched for
    # Collection → how many of the documents judged relevant it does not hold.
    missing_documents: Mapping[str, int] = field(default_factory=dict)
    without_relevant: int = 0  # judged queries left out, since no document was found relevant


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """How far an evaluation is. A cancelled one reports on the queries that it had finished."""

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
