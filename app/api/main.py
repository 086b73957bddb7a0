"""Puts the HTTP API together. The page is mounted by the caller, last: routes after a mount at `/` answer 404."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from app.api.bodies import BodyGuard, BodyLimits
from app.api.collections import collection_routes
from app.api.cross_site import CrossSiteGuard
from app.api.document_lists import document_list_routes
from app.api.documents import document_routes
from app.api.evaluations import evaluation_routes, judged_query_routes
from app.api.fetches import fetch_routes
from app.api.health import health_routes
from app.api.jobs import job_routes
from app.api.models import model_routes
from app.api.openapi import PROBLEMS, describe, operation_id
from app.api.opinions import judgement_routes, lens_routes
from app.api.problems import add_problem_handlers
from app.api.reading import reading_routes
from app.api.reindexing import reindex_routes
from app.api.safe_headers import SafeHeaders
from app.api.search import search_routes
from app.fetching import Fetching, ReadUrl
from app.judged import Judged
from app.reindexing import Reindexing
from app.services import Services

MAX_BODY_BYTES = 64 * 1024 * 1024


def create_app(
    services: Services,
    *,
    read_url: ReadUrl | None = None,
    fetching: Fetching | None = None,
    reindexing: Reindexing | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> FastAPI:
    """Without `read_url` and `fetching` no addresses are fetched, without `reindexing` nothing is indexed anew."""
    api = FastAPI(
        title="gircse-search",
        version=version("gircse-search"),
        description="Search that follows an instruction, with the refinement tokens of the query.",
        responses=PROBLEMS,
        generate_unique_id_function=operation_id,
    )
    api.add_middleware(BodyGuard, limits=BodyLimits(max_body_bytes))
    api.add_middleware(CrossSiteGuard)
    api.add_middleware(SafeHeaders)
    add_problem_handlers(api)
    model = services.embedder
    api.include_router(
        search_routes(
            services.search, services.catalog, default_steps=model.default_query_steps, max_steps=model.max_steps
        )
    )
    api.include_router(document_list_routes(services.catalog))
    api.include_router(document_routes(services, read_url=read_url))
    api.include_router(reading_routes(services))
    api.include_router(collection_routes(services))
    if fetching is not None:
        api.include_router(fetch_routes(services.catalog, fetching))
    if reindexing is not None:
        api.include_router(reindex_routes(services.catalog, reindexing))
    api.include_router(job_routes(services.catalog))
    api.include_router(lens_routes(services.catalog))
    api.include_router(judged_query_routes(Judged(services.catalog)))
    api.include_router(judgement_routes(services.catalog))
    api.include_router(evaluation_routes(services.evaluations, services.catalog))
    api.include_router(model_routes(services))
    api.include_router(health_routes(services.checks))
    describe(api)
    return api
