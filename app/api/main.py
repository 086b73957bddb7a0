"""Assembles the HTTP API. The caller mounts the web page last: routes after a mount at `/` would give 404."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version

from fastapi import APIRouter, FastAPI

from app.access.authorized_services import AuthorizedServices
from app.access.logins import Logins
from app.access.sign_in import SignIn
from app.api.access import AccessControl
from app.api.account_page import DrawAccount, account_page_routes
from app.api.accounts import account_routes
from app.api.admission import Admission
from app.api.answers import answer_routes
from app.api.bodies import BodyGuard, BodyLimits
from app.api.collections import collection_routes
from app.api.cross_site import CrossSiteGuard
from app.api.docs_page import docs_routes
from app.api.document_batches import document_batch_routes
from app.api.document_lists import document_list_routes
from app.api.documents import document_routes
from app.api.evaluations import evaluation_routes, judged_query_routes
from app.api.fetches import fetch_routes
from app.api.framing import FramingGuard
from app.api.health import health_routes
from app.api.hosts import own_address
from app.api.jobs import job_routes
from app.api.judgements import judgement_routes, lens_routes
from app.api.lens_indexes import lens_index_routes
from app.api.login import login_routes
from app.api.metrics import metrics_routes
from app.api.models import model_routes
from app.api.openapi import PROBLEMS, TAGS, describe
from app.api.pages import page_routes
from app.api.problems import add_problem_handlers
from app.api.proposals import proposal_routes
from app.api.quotas import QuotaGuard
from app.api.reading import reading_routes
from app.api.reindexing import reindex_routes
from app.api.rerank import rerank_routes
from app.api.safe_headers import SafeHeaders
from app.api.search import search_routes
from app.api.searches import saved_search_routes
from app.api.sign_in import sign_in_routes
from app.api.sources import source_routes
from app.api.standing import feed_routes, standing_routes
from app.api.telemetry import RequestTelemetry
from app.api.unrouted import Unrouted
from app.api.weights import weight_routes
from app.documents.fetching import ReadUrl
from app.types.account_view import DrawLogin
from embedder.server.description import LICENSE, SERVERS, operation_id

MAX_BODY_BYTES = 64 * 1024 * 1024


def create_app(
    services: AuthorizedServices,
    *,
    read_url: ReadUrl | None = None,
    logins: Logins | None = None,
    sign_in: SignIn | None = None,
    draw_login: DrawLogin | None = None,
    draw_account: DrawAccount | None = None,
    embeddings: APIRouter | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> FastAPI:
    """Build the FastAPI application. Anything that the caller mounts into it must use authorized services.

    Without `read_url` posting a `url` is an error; without `logins` access control is off. `embeddings`: OpenAI routes.
    """
    api = FastAPI(
        title="gircse-search",
        version=version("gircse-search"),
        description="Semantic search that follows an instruction and shows the refinement tokens of the query.",
        openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        license_info=LICENSE,
        servers=SERVERS,
        responses=PROBLEMS,
        generate_unique_id_function=operation_id,
        docs_url=None,  # FastAPI's own pages load scripts from other servers
        redoc_url=None,
    )
    _add_middleware(api, services, logins=logins, max_body_bytes=max_body_bytes)
    add_problem_handlers(api)
    _add_search_and_documents(api, services, read_url)
    api.include_router(fetch_routes(services.catalog, services.fetching))
    api.include_router(source_routes(services.sources))
    api.include_router(reindex_routes(services.catalog, services.reindexing))
    api.include_router(job_routes(services.catalog))
    api.include_router(lens_routes(services.catalog))
    api.include_router(proposal_routes(services.proposals))
    api.include_router(lens_index_routes(services.lens_indexes, services.value_tables))
    api.include_router(judged_query_routes(services.judged))
    api.include_router(judgement_routes(services.catalog))
    api.include_router(weight_routes(services.tuning))
    api.include_router(evaluation_routes(services.evaluations, services.idempotency))
    api.include_router(model_routes(services))
    if embeddings is not None:
        api.include_router(embeddings)
    api.include_router(account_routes(services.accounts, access_control=logins is not None))
    if logins is not None and draw_login is not None:
        api.include_router(login_routes(logins, draw=draw_login))
        if sign_in is not None:
            api.include_router(sign_in_routes(sign_in, logins, draw=draw_login))
    if draw_account is not None:
        api.include_router(account_page_routes(services.accounts, draw=draw_account))
    api.include_router(health_routes(services.checks, services.damage))
    api.include_router(metrics_routes(services.application_metrics))
    api.include_router(docs_routes(lambda: api.openapi()))
    api.router.routes.append(Unrouted(api))
    describe(api, has_logins=logins is not None)
    return api


def _add_middleware(api: FastAPI, services: AuthorizedServices, *, logins: Logins | None, max_body_bytes: int) -> None:
    api.add_middleware(BodyGuard, limits=BodyLimits(max_body_bytes))
    api.add_middleware(QuotaGuard, quotas=services.quotas)
    api.add_middleware(AccessControl, logins=logins)
    api.add_middleware(CrossSiteGuard)
    api.add_middleware(Admission, settings=services.settings, metrics=services.metrics)
    api.add_middleware(SafeHeaders)
    api.add_middleware(FramingGuard)
    api.add_middleware(RequestTelemetry, metrics=services.metrics)  # outermost, to count what the others reject


def _add_search_and_documents(api: FastAPI, services: AuthorizedServices, read_url: ReadUrl | None) -> None:
    model = services.embedder.info
    api.include_router(
        search_routes(
            services.search, services.catalog, default_steps=model.default_query_steps, max_steps=model.max_steps
        )
    )
    api.include_router(answer_routes(services.answers))
    api.include_router(saved_search_routes(services.own_searches))
    settings = services.settings
    address_of = partial(own_address, public_url=settings.public_url, allowed=settings.allowed_host_names)
    api.include_router(standing_routes(services.standing, address_of=address_of))
    api.include_router(feed_routes(services.standing, address_of=address_of))
    api.include_router(rerank_routes(services.search, services.token_counter, model=model.name))
    api.include_router(document_list_routes(services.catalog))
    api.include_router(document_batch_routes(services))
    api.include_router(document_routes(services, read_url=read_url))
    api.include_router(reading_routes(services))
    api.include_router(page_routes(services))
    api.include_router(collection_routes(services))
