"""The services for interfaces, each behind the guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.access.account_service import AccountService
from app.access.accounts import Accounts
from app.access.authorizer import Authorizer
from app.access.guard import Access, behind_guard
from app.access.policy import POLICY
from app.access.quotas import UserQuotas
from app.access.source_service import SourceService
from app.collections.own_searches import RecordedSearches
from app.collections.own_standing import OwnStanding
from app.collections.value_tables import CsvValueTables
from app.documents.pages import DocumentPages
from app.evaluation.judged import Judged
from app.evaluation.weight_tuning import WeightTuner
from app.ports.answers import Answers
from app.ports.catalog import Catalog, IdempotencyRecords
from app.ports.evaluation import Evaluations, JudgedQueries, Tuning
from app.ports.parts import Embedder
from app.ports.services import Documents, Fetching, LensIndexes, Proposals, Reindexing, Search
from app.ports.sources import RecurringSources
from app.ports.standing import StandingSearches
from app.ports.texts import TokenCounter
from app.runtime.metrics import ApplicationCollector, ProcessMetrics
from app.runtime.worker_lock import is_worker_running
from app.services import Services
from app.settings import Settings

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog


class ApplicationMetrics:
    """The metrics of the process, with counts of what the application stores."""

    def __init__(self, services: Services) -> None:
        self._metrics = services.metrics
        self._application = ApplicationCollector(
            catalog=services.catalog,
            index=services.index,
            is_worker_running=lambda: is_worker_running(services.settings.home),
        )

    def render(self) -> bytes:
        return self._metrics.render(self._application)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedServices:
    """The services that interfaces get. `checks`, `metrics`, `embedder` and `token_counter` reveal nothing about
    collections; with access control, `damage` names no collection.
    """

    settings: Settings
    embedder: Embedder
    token_counter: TokenCounter
    checks: Mapping[str, Callable[[], bool]]
    metrics: ProcessMetrics
    catalog: Catalog
    idempotency: IdempotencyRecords
    search: Search
    answers: Answers
    proposals: Proposals
    library: Documents
    pages: DocumentPages
    judged: JudgedQueries
    evaluations: Evaluations
    tuning: Tuning
    accounts: AccountService
    quotas: UserQuotas
    application_metrics: ApplicationMetrics
    damage: Callable[[], Mapping[str, str]]
    fetching: Fetching
    reindexing: Reindexing
    lens_indexes: LensIndexes
    value_tables: CsvValueTables
    own_searches: RecordedSearches
    standing: StandingSearches
    sources: RecurringSources


def authorize(
    services: Services, *, fetching: Fetching, reindexing: Reindexing, pages: DocumentPages
) -> AuthorizedServices:
    """The one place that puts services behind the guard. Vectors and files are accessible only through other
    services.
    """
    access = access_to(services.catalog, services.settings)
    authorizer = access.authorizer

    def owner() -> str:
        return authorizer.require_role().name

    catalog = behind_guard(services.catalog, POLICY["catalog"], access)
    own_searches = RecordedSearches(
        services.catalog.searches,
        owner=owner,
        history_limit=services.settings.search_history,
        reaches=authorizer.reaches,
    )
    standing = OwnStanding(
        services.catalog,
        services.index,
        owner=owner,
        require_access=catalog.collection,
        reaches=authorizer.reaches,
        alerts=services.alerts,
    )
    sources = SourceService(services.catalog, authorizer, services.source_credentials)
    return AuthorizedServices(
        settings=services.settings,
        embedder=services.embedder,
        token_counter=services.token_counter,
        checks=services.checks,
        metrics=services.metrics,
        catalog=catalog,
        idempotency=behind_guard(services.catalog.idempotency, POLICY["idempotency"], access),
        search=behind_guard(services.search, POLICY["search"], access),
        answers=behind_guard(services.answers, POLICY["answers"], access),
        proposals=behind_guard(services.proposals, POLICY["proposals"], access),
        library=behind_guard(services.library, POLICY["library"], access),
        pages=behind_guard(pages, POLICY["pages"], access),
        judged=behind_guard(Judged(services.catalog), POLICY["judged"], access),
        evaluations=behind_guard(services.evaluations, POLICY["evaluations"], access),
        tuning=behind_guard(WeightTuner(services.catalog, services.search), POLICY["tuning"], access),
        accounts=account_service(access, settings=services.settings),
        quotas=access.quotas,
        application_metrics=behind_guard(ApplicationMetrics(services), POLICY["application_metrics"], access),
        damage=partial(_damage, services),
        fetching=behind_guard(fetching, POLICY["fetching"], access),
        reindexing=behind_guard(reindexing, POLICY["reindexing"], access),
        lens_indexes=behind_guard(services.lens_indexes, POLICY["lens_indexes"], access),
        value_tables=behind_guard(services.value_tables, POLICY["value_tables"], access),
        own_searches=behind_guard(own_searches, POLICY["own_searches"], access),
        standing=behind_guard(standing, POLICY["standing"], access),
        sources=behind_guard(sources, POLICY["sources"], access),
    )


def access_to(catalog: SqlCatalog, settings: Settings) -> Access:
    return Access(Authorizer(catalog), catalog, UserQuotas(catalog.access, settings))


def account_service(access: Access, *, settings: Settings) -> AccountService:
    accounts = AccountService(
        Accounts(access.catalog.access),
        access.catalog.access,
        access.authorizer,
        quotas=access.quotas,
        idle=settings.session_idle,
    )
    return behind_guard(accounts, POLICY["accounts"], access)


def _damage(services: Services) -> Mapping[str, str]:
    damage = services.integrity.damage()
    if not damage or not services.settings.access_control:
        return damage
    return {"": f"collections with damaged or missing data: {len(damage)}; `gircse doctor` names them"}
