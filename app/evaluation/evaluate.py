"""Measures search on judged queries: runs every query in every variant and scores rankings of documents.

Knows neither threads nor the storage of judgements. `app.evaluation.background` runs it in a thread.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from app.errors import InputError, NotFoundError
from app.evaluation.judged import Judged
from app.evaluation.scoring import grades_in, resample, score_ranking, variant_labels
from app.search.lenses import find_lens
from app.search.service import SearchService
from app.types.evaluation import (
    EvaluationPlan,
    EvaluationReport,
    InstructionChoice,
    InstructionPolicy,
    InstructionScores,
    JudgedQuery,
    Measure,
    QueryScores,
    Variant,
    VariantScores,
)
from app.types.search import SearchMode, SearchRequest

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

DEPTH = 100  # chunks per search
MAX_VARIANTS = 24
MAX_SEARCHES = 200_000


@dataclass(frozen=True, slots=True)
class PreparedEvaluation:
    """A validated plan with its variants and queries. `counterparts`: collection → judged document → the same document
    in that collection."""

    plan: EvaluationPlan
    variants: tuple[Variant, ...]
    queries: tuple[JudgedQuery, ...]
    lenses: Mapping[str, str]  # name → instruction
    counterparts: Mapping[str, Mapping[str, str]]
    missing_documents: Mapping[str, int]
    without_relevant: int

    @property
    def search_count(self) -> int:
        return len(self.queries) * len(self.variants)


@dataclass(slots=True)
class _Measured:
    queries: list[JudgedQuery] = field(default_factory=list)
    scores: list[list[dict[Measure, float]]] = field(default_factory=list)  # [query][variant]
    times_ms: list[list[float]] = field(default_factory=list)
    unanswered: dict[str, str] = field(default_factory=dict)


class Evaluator:
    """Measures search quality by judged queries. max_steps: returns the model's limit. Called only when a plan is
    checked, since it may load the model."""

    def __init__(self, *, catalog: SqlCatalog, search: SearchService, max_steps: Callable[[], int]) -> None:
        self._catalog = catalog
        self._search = search
        self._judged = Judged(catalog)
        self._max_steps = max_steps

    def prepare(self, plan: EvaluationPlan) -> PreparedEvaluation:
        """Validates a plan and loads its queries.

        Raises InputError if the plan is invalid, NotFoundError if no judged query has a relevant document.
        """
        variants = self._variants_of(plan)
        names = [choice.lens for choice in plan.instructions if choice.lens]
        lenses = {name: find_lens(self._catalog, name).query_instruction for name in names}
        judged = self._judged.queries(plan.judged_in, judged_by=plan.judged_by)
        usable = [query for query in judged if query.relevant_count]
        if not usable:
            raise NotFoundError(
                f"The collection {plan.judged_in!r} has no judged query with a relevant document. Give thumbs on the "
                "search page, or import judgements: `gircse judgements import PATH`."
            )
        queries = sorted(usable, key=_place_in_sample)[: plan.max_queries]
        if len(queries) * len(variants) > MAX_SEARCHES:
            raise InputError(
                f"{len(queries):,} queries in {len(variants)} variants are more than {MAX_SEARCHES:,} searches. "
                "Take a sample of the queries."
            )
        counterparts, missing = self._counterparts(plan, queries)
        left_out = len(judged) - len(usable)
        return PreparedEvaluation(plan, variants, tuple(queries), lenses, counterparts, missing, left_out)

    def measure(self, prepared: PreparedEvaluation, *, goes_on: Callable[[], bool]) -> EvaluationReport | None:
        """Runs all searches. Calls `goes_on` after each; if it returns False, reports on the finished queries only
        (None without any). Lists queries that raise InputError in the report; raises InputError if all do."""
        measured = _Measured()
        for query in prepared.queries:
            rows: list[tuple[dict[Measure, float], float]] = []
            stopped = False
            for variant in prepared.variants:
                try:
                    rows.append(self._measure_one(query, variant, prepared))
                except InputError as error:  # about this query, for instance too long for the model
                    measured.unanswered[query.query] = str(error)
                stopped = not goes_on()
                if stopped:
                    break
            if len(rows) == len(prepared.variants):
                measured.queries.append(query)
                measured.scores.append([scores for scores, _ in rows])
                measured.times_ms.append([ms for _, ms in rows])
            if stopped:
                break
        if measured.queries:
            return _report(prepared, measured)
        if measured.unanswered:
            query_text, reason = next(iter(measured.unanswered.items()))
            raise InputError(f"None of the queries could be used. For instance {query_text[:60]!r}: {reason}")
        return None

    def _measure_one(
        self, query: JudgedQuery, variant: Variant, prepared: PreparedEvaluation
    ) -> tuple[dict[Measure, float], float]:
        request = SearchRequest(
            query=query.query,
            collection=variant.collection,
            instruction=_instruction_for(query, variant.instruction, prepared.lenses),
            steps=variant.steps,
            limit=DEPTH,
            mode=variant.mode,
        )
        started = perf_counter()
        result = self._search.search(request, highlight=False)
        spent_ms = (perf_counter() - started) * 1000
        documents = list(dict.fromkeys(hit.document.id for hit in result.hits))
        return score_ranking(documents, grades_in(query, prepared.counterparts[variant.collection])), spent_ms

    def _variants_of(self, plan: EvaluationPlan) -> tuple[Variant, ...]:
        if not (plan.collections and plan.modes):
            raise InputError("Choose at least one collection and one mode.")
        if plan.max_queries is not None and plan.max_queries < 1:
            raise InputError(f"A sample has at least one query, not {plan.max_queries}.")
        for choice in plan.instructions:
            if (choice.policy is InstructionPolicy.LENS) != bool(choice.lens):
                raise InputError(f"The instruction {choice} is invalid: only the policy lens needs the name of a lens.")
        if set(plan.modes) != {SearchMode.SPARSE}:
            most = self._max_steps()
            if not plan.steps or not plan.instructions:
                raise InputError("Choose at least one number of steps and one instruction.")
            for steps in plan.steps:
                if not 1 <= steps <= most:
                    raise InputError(f"steps must be 1 to {most}, not {steps}.")
        grid = itertools.product(plan.collections, plan.modes, plan.instructions, sorted(plan.steps))
        variants = tuple(dict.fromkeys(_variant(*settings) for settings in grid))
        variants += tuple(  # if sparse is the only mode, steps and instructions may be empty
            Variant(collection, SearchMode.SPARSE) for collection in plan.collections if not variants
        )
        if len(variants) > MAX_VARIANTS:
            raise InputError(f"{len(variants)} variants are too many; choose at most {MAX_VARIANTS}.")
        return variants

    def _counterparts(
        self, plan: EvaluationPlan, queries: Sequence[JudgedQuery]
    ) -> tuple[dict[str, Mapping[str, str]], dict[str, int]]:
        """For each collection the counterparts of the judged documents, and how many relevant ones have none."""
        documents = sorted({document for query in queries for document in query.grades})
        relevant = {document for query in queries for document, grade in query.grades.items() if grade}
        counterparts: dict[str, Mapping[str, str]] = {}
        missing: dict[str, int] = {}
        for name in dict.fromkeys(plan.collections):
            known = self._catalog.collection(name).name
            counterparts[known] = {} if known == plan.judged_in else self._catalog.counterparts(documents, known)
            if known != plan.judged_in and (lacking := len(relevant - counterparts[known].keys())):
                missing[known] = lacking
                if lacking == len(relevant):
                    raise InputError(
                        f"None of the documents judged in {plan.judged_in!r} is in {known!r}, by uri or by content."
                    )
        return counterparts, missing


def _variant(collection: str, mode: SearchMode, instruction: InstructionChoice, steps: int) -> Variant:
    return Variant(collection, mode) if mode is SearchMode.SPARSE else Variant(collection, mode, steps, instruction)


def _instruction_for(query: JudgedQuery, choice: InstructionChoice | None, lenses: Mapping[str, str]) -> str | None:
    if choice is None or choice.policy is InstructionPolicy.DEFAULT:
        return None
    if choice.policy is InstructionPolicy.LENS:
        return lenses[choice.lens]
    return query.instruction if choice.policy is InstructionPolicy.JUDGED else ""


def _place_in_sample(query: JudgedQuery) -> str:
    """A sort key that is independent of the queries' content, so that the first queries are a random sample."""
    return hashlib.sha1(f"{query.query}\0{query.instruction}".encode(), usedforsecurity=False).hexdigest()


def _report(prepared: PreparedEvaluation, measured: _Measured) -> EvaluationReport:
    variants, seed = prepared.variants, prepared.plan.seed
    labels = variant_labels(variants)
    everything = range(len(measured.queries))
    by_instruction: dict[str, list[int]] = {}
    for place, query in enumerate(measured.queries):
        by_instruction.setdefault(query.instruction, []).append(place)
    return EvaluationReport(
        scores=_scores(variants, labels, measured, everything, seed),
        by_instruction=tuple(
            InstructionScores(instruction, len(places), _scores(variants, labels, measured, places, seed))
            for instruction, places in sorted(by_instruction.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
        queries=tuple(
            QueryScores(
                query.query,
                query.instruction,
                query.relevant_count,
                {measure: tuple(scores[measure] for scores in measured.scores[place]) for measure in Measure},
            )
            for place, query in enumerate(measured.queries)
        ),
        unanswered=measured.unanswered,
        missing_documents=prepared.missing_documents,
        without_relevant=prepared.without_relevant,
    )


def _scores(
    variants: Sequence[Variant], labels: Sequence[str], measured: _Measured, places: Sequence[int], seed: int
) -> tuple[VariantScores, ...]:
    replicates = {
        measure: resample([[scores[measure] for scores in measured.scores[place]] for place in places], seed=seed)
        for measure in Measure
    }
    return tuple(
        VariantScores(
            variant=variant,
            label=labels[number],
            estimates={measure: replicates[measure].estimate(number) for measure in Measure},
            median_ms=median(measured.times_ms[place][number] for place in places),
        )
        for number, variant in enumerate(variants)
    )
