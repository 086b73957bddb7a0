"""The services for interfaces, each call authorized."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from app.access.accounts import Accounts
from app.access.authorized_accounts import AuthorizedAccounts
from app.access.authorized_answers import AuthorizedAnswers
from app.access.authorized_catalog import AuthorizedCatalog
from app.access.authorized_library import AuthorizedLibrary, AuthorizedPages
from app.access.authorized_search import AuthorizedSearch
from app.access.authorized_sources import AuthorizedSources
from app.access.authorized_standing import authorized_standing
from app.access.authorizer import Authorizer
from app.access.quotas import UserQuotas
from app.evaluation.background import unknown_run
from app.evaluation.judged import Judged
from app.evaluation.weight_tuning import WeightTuner
from app.ports.answers import Answers
from app.ports.catalog import Catalog
from app.ports.evaluation import Evaluations, JudgedQueries, Tuning
from app.ports.pages import Pages
from app.ports.parts import Embedder
from app.ports.services import Documents, Fetching, LensIndexes, Proposals, Reindexing, Search, ValueTables
from app.ports.sources import RecurringSources
from app.ports.standing import StandingSearches
from app.runtime.metrics import ApplicationCollector, Metrics
from app.runtime.worker_lock import is_worker_running
from app.search.own_searches import OwnSearches
from app.services import Services
from app.settings import Settings
from app.types.access import Role
from app.types.documents import Collection
from app.types.evaluation import (
    Difference,
    EvaluationPlan,
    EvaluationRun,
    ImportReport,
    JudgedQuery,
    JudgementFile,
    JudgementSource,
)
from app.types.lens_indexes import LensIndexStatus
from app.types.proposals import ValueProposal
from app.types.quotas import Allowance
from app.types.upkeep import ContractChange, Fetch, ReindexStatus
from app.types.weights import CollectionWeights, WeightTuning

READER, EDITOR = Role.READER, Role.EDITOR


class AuthorizedProposals:
    def __init__(self, proposals: Proposals, authorizer: Authorizer) -> None:
        self._proposals = proposals
        self._authorizer = authorizer

    def propose(self, instruction: str, collection: str) -> tuple[ValueProposal, ...]:
        with self._authorizer.require_access(READER, collection):
            return self._proposals.propose(instruction, collection)


class AuthorizedFetching:
    def __init__(self, fetching: Fetching, authorizer: Authorizer, quotas: UserQuotas) -> None:
        self._quotas = quotas
        self._fetching = fetching
        self._authorizer = authorizer

    def add(self, collection: str, urls: Sequence[str], *, allowance: Allowance | None = None) -> None:
        with self._authorizer.require_access(EDITOR, collection) as principal:
            self._fetching.add(collection, urls, allowance=self._quotas.allowance(principal))

    def fetches(self, collection: str) -> list[Fetch]:
        with self._authorizer.require_access(READER, collection):
            return self._fetching.fetches(collection)

    def retry(self, collection: str, url: str, *, allowance: Allowance | None = None) -> None:
        with self._authorizer.require_access(EDITOR, collection) as principal:
            self._fetching.retry(collection, url, allowance=self._quotas.allowance(principal))

    def forget(self, collection: str, url: str) -> None:
        with self._authorizer.require_access(EDITOR, collection):
            self._fetching.forget(collection, url)


class AuthorizedReindexing:
    def __init__(self, reindexing: Reindexing, authorizer: Authorizer) -> None:
        self._reindexing = reindexing
        self._authorizer = authorizer

    def start(self, name: str, change: ContractChange, *, restart: bool = False) -> ReindexStatus:
        with self._authorizer.require_access(EDITOR, name):
            self._authorizer.note("collection.reindexed", name)
            return self._reindexing.start(name, change, restart=restart)

    def status(self, name: str) -> ReindexStatus:
        with self._authorizer.require_access(READER, name):
            return self._reindexing.status(name)

    def roll_back(self, name: str) -> Collection:
        with self._authorizer.require_access(EDITOR, name):
            self._authorizer.note("collection.rolled-back", name)
            return self._reindexing.roll_back(name)


class AuthorizedLensIndexes:
    def __init__(self, lens_indexes: LensIndexes, authorizer: Authorizer) -> None:
        self._lens_indexes = lens_indexes
        self._authorizer = authorizer

    def build(self, collection: str, lens: str) -> LensIndexStatus:
        with self._authorizer.require_access(EDITOR, collection):
            self._authorizer.note("lens-index.queued", collection, {"lens": lens})
            return self._lens_indexes.build(collection, lens)

    def status(self, collection: str) -> list[LensIndexStatus]:
        with self._authorizer.require_access(READER, collection):
            return self._lens_indexes.status(collection)

    def delete(self, collection: str, lens: str) -> None:
        with self._authorizer.require_access(EDITOR, collection):
            self._authorizer.note("lens-index.deleted", collection, {"lens": lens})
            self._lens_indexes.delete(collection, lens)


class AuthorizedValueTables:
    def __init__(self, value_tables: ValueTables, authorizer: Authorizer) -> None:
        self._value_tables = value_tables
        self._authorizer = authorizer

    def csv(self, collection: str, lens: str, *, value: str | None = None) -> Iterator[str]:
        with self._authorizer.require_access(READER, collection):
            return self._value_tables.csv(collection, lens, value=value)


class AuthorizedJudged:
    def __init__(self, judged: JudgedQueries, authorizer: Authorizer) -> None:
        self._judged = judged
        self._authorizer = authorizer

    def sources(self, collection: str) -> list[JudgementSource]:
        with self._authorizer.require_access(READER, collection):
            return self._judged.sources(collection)

    def queries(self, collection: str, *, judged_by: Sequence[str] = ()) -> list[JudgedQuery]:
        with self._authorizer.require_access(READER, collection):
            return self._judged.queries(collection, judged_by=judged_by)

    def import_files(
        self,
        collection: str,
        files: Iterable[JudgementFile],
        *,
        name: str | None = None,
        instruction: str | None = None,
    ) -> ImportReport:
        with self._authorizer.require_access(EDITOR, collection):
            return self._judged.import_files(collection, files, name=name, instruction=instruction)

    def forget_import(self, collection: str, judged_by: str) -> int:
        with self._authorizer.require_access(EDITOR, collection):
            return self._judged.forget_import(collection, judged_by)


class AuthorizedTuning:
    def __init__(self, tuner: WeightTuner, authorizer: Authorizer) -> None:
        self._tuner = tuner
        self._authorizer = authorizer

    def weights(self, collection: str) -> CollectionWeights:
        with self._authorizer.require_access(READER, collection):
            return self._tuner.weights(collection)

    def tune(self, collection: str) -> WeightTuning:
        with self._authorizer.require_access(EDITOR, collection) as principal:
            tuning = self._tuner.tune(collection, tuned_by=principal.name)
            if tuning.is_applied:
                self._authorizer.note("weights.tuned", collection)
            return tuning

    def undo(self, collection: str) -> WeightTuning:
        with self._authorizer.require_access(EDITOR, collection):
            undone = self._tuner.undo(collection)
            self._authorizer.note("weights.undone", collection)
            return undone


class AuthorizedMetrics:
    """The metrics of the process, with how much the application holds of everything."""

    def __init__(self, services: Services, authorizer: Authorizer) -> None:
        self._metrics = services.metrics
        self._application = ApplicationCollector(
            catalog=services.catalog,
            index=services.index,
            is_worker_running=lambda: is_worker_running(services.settings.home),
        )
        self._authorizer = authorizer

    def render(self) -> bytes:
        self._authorizer.require_everywhere(READER)
        return self._metrics.render(self._application)


class AuthorizedEvaluations:
    """An evaluation is visible to users who see all of its collections."""

    def __init__(self, evaluations: Evaluations, authorizer: Authorizer) -> None:
        self._evaluations = evaluations
        self._authorizer = authorizer

    def start(self, plan: EvaluationPlan) -> EvaluationRun:
        with self._authorizer.require_access(EDITOR, *_asked(plan)):
            return self._evaluations.start(plan)

    def runs(self) -> list[EvaluationRun]:
        return [run for run in self._evaluations.runs() if self._is_seen(run)]

    def run(self, run_id: str) -> EvaluationRun:
        run = self._evaluations.run(run_id)
        if not self._is_seen(run):
            raise unknown_run(run_id)
        return run

    def cancel(self, run_id: str) -> EvaluationRun:
        self._authorizer.require_role(EDITOR)
        return self._evaluations.cancel(self.run(run_id).id)

    def compare(self, run_id: str, *, baseline: int = 0) -> list[Difference]:
        return self._evaluations.compare(self.run(run_id).id, baseline=baseline)

    def close(self) -> None:
        self._evaluations.close()

    def _is_seen(self, run: EvaluationRun) -> bool:
        principal = self._authorizer.require_role()
        return all(map(principal.covers, _asked(run.plan)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedServices:
    """What interfaces are given. `checks`, `metrics` and `embedder` tell nothing of any collection; `damage`
    names none where there is access control."""

    settings: Settings
    embedder: Embedder
    checks: Mapping[str, Callable[[], bool]]
    metrics: Metrics
    catalog: Catalog
    search: Search
    answers: Answers
    proposals: Proposals
    library: Documents
    pages: Pages
    judged: JudgedQueries
    evaluations: Evaluations
    tuning: Tuning
    accounts: AuthorizedAccounts
    quotas: UserQuotas
    application_metrics: AuthorizedMetrics
    damage: Callable[[], Mapping[str, str]]
    fetching: Fetching
    reindexing: Reindexing
    lens_indexes: LensIndexes
    value_tables: ValueTables
    own_searches: OwnSearches
    standing: StandingSearches
    sources: RecurringSources


def authorize(services: Services, *, fetching: Fetching, reindexing: Reindexing, pages: Pages) -> AuthorizedServices:
    """The one place where guards are built. Vectors and files are reached through searches and documents."""
    authorizer = Authorizer(services.catalog)
    catalog = AuthorizedCatalog(services.catalog, authorizer)
    quotas = UserQuotas(services.catalog, services.settings)
    return AuthorizedServices(
        settings=services.settings,
        embedder=services.embedder,
        checks=services.checks,
        metrics=services.metrics,
        catalog=catalog,
        search=AuthorizedSearch(services.search, authorizer),
        answers=AuthorizedAnswers(services.answers, authorizer),
        proposals=AuthorizedProposals(services.proposals, authorizer),
        library=AuthorizedLibrary(services.library, catalog, authorizer, quotas),
        pages=AuthorizedPages(pages, authorizer),
        judged=AuthorizedJudged(Judged(services.catalog), authorizer),
        evaluations=AuthorizedEvaluations(services.evaluations, authorizer),
        tuning=AuthorizedTuning(WeightTuner(services.catalog, services.search), authorizer),
        accounts=AuthorizedAccounts(
            Accounts(services.catalog),
            services.catalog,
            authorizer,
            quotas=quotas,
            idle=services.settings.session_idle,
        ),
        quotas=quotas,
        application_metrics=AuthorizedMetrics(services, authorizer),
        damage=partial(_damage, services),
        fetching=AuthorizedFetching(fetching, authorizer, quotas),
        reindexing=AuthorizedReindexing(reindexing, authorizer),
        lens_indexes=AuthorizedLensIndexes(services.lens_indexes, authorizer),
        value_tables=AuthorizedValueTables(services.value_tables, authorizer),
        own_searches=OwnSearches(
            services.catalog,
            owner=lambda: authorizer.require_role().name,
            history_limit=services.settings.search_history,
            reaches=authorizer.reaches,
        ),
        standing=authorized_standing(services, authorizer),
        sources=AuthorizedSources(services.catalog, authorizer, services.source_credentials),
    )


def _damage(services: Services) -> Mapping[str, str]:
    found = services.integrity.damage()
    if not found or not services.settings.access_control:
        return found
    return {"": f"{len(found)} collections are damaged; `gircse doctor` names them"}


def _asked(plan: EvaluationPlan) -> tuple[str, ...]:
    return (plan.judged_in, *plan.collections)
