"""Builds the web application: API, OpenAI routes, MCP and pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources

from fastapi import FastAPI

from app.access.authorized_services import AuthorizedServices, authorize
from app.access.quotas import UserQuotas
from app.access.source_service import present_allowance
from app.api.hosts import HostGuard
from app.api.main import create_app
from app.documents.fetching import BackgroundFetching
from app.documents.pages import DocumentPages
from app.errors import InputError
from app.maintenance.background_reindex import BackgroundReindexing
from app.search.lenses import STARTERS
from app.services import Services
from app.types.access import OPERATOR, acting_as
from app.types.defaults import SAMPLE_COLLECTION
from app.wiring.about import describe_installation
from app.wiring.access import open_login_methods
from app.wiring.ingestion import open_reindexer, read_limits
from app.wiring.openai import open_openai_routes
from app.wiring.remote import RemoteEmbedder
from app.wiring.sources import url_reader
from ingest.readers import ProcessPageRenderer
from ingest.readers.limits import MEGABYTE
from ui.account_page import account_drawer
from ui.app import AboutInfo, Example, PageParts, build_pages, mount_pages
from ui.contract import ExampleHit, ShownExample
from ui.login_page import login_drawer

_LENSES = {lens.name: lens.query_instruction for lens in STARTERS}
EXAMPLE_QUERY = "Sugar and tourism pay for most of what Fiji imports."  # also the query of the worked example
EXAMPLES = tuple(
    Example(query, _LENSES[lens], SAMPLE_COLLECTION)
    for query, lens in (
        (EXAMPLE_QUERY, "Same place"),
        (EXAMPLE_QUERY, "Same topic"),
        ("How do prices react when demand falls?", "Answers the question"),
    )
)


@contextmanager
def open_web(services: Services) -> Iterator[FastAPI]:
    """The application with API and pages. Its background threads end with the block.

    Pages are mounted last: routes after them would give 404. Waits for an unavailable embedding server, because the
    pages show the properties of its model.
    """
    if isinstance(services.embedder, RemoteEmbedder):
        services.embedder.wait_until_available()
    read_url = url_reader(services.settings).read
    fetching = BackgroundFetching(
        services.catalog,
        services.library,
        read_url=read_url,
        allowance_of=present_allowance(services.catalog, UserQuotas(services.catalog.access, services.settings)),
    )
    reindexing = BackgroundReindexing(
        services.catalog, open_reindexer=lambda is_stopping: open_reindexer(services, is_stopping=is_stopping)
    )
    renderer = ProcessPageRenderer(limits=read_limits(services.settings))
    pages_shown = DocumentPages(services.blobs, renderer, cache_bytes=int(services.settings.page_cache_mb * MEGABYTE))
    authorized = authorize(services, fetching=fetching, reindexing=reindexing, pages=pages_shown)
    with (
        closing(renderer),
        services.integrity.watching(),
        closing(fetching),
        closing(reindexing),
        open_openai_routes(services) as embeddings,
        open_login_methods(services) as login_methods,
    ):
        logins, sign_in = login_methods.logins, login_methods.sign_in
        api = create_app(
            authorized,
            read_url=read_url,
            embeddings=embeddings,
            logins=logins,
            sign_in=sign_in,
            draw_login=login_drawer(sign_in=sign_in.label if sign_in else None) if logins is not None else None,
            draw_account=account_drawer() if logins is not None else None,
        )
        if logins is None:
            api.add_middleware(HostGuard, allowed=services.settings.allowed_host_names)
        if services.settings.mcp:
            _mount_agents(api, authorized)
        with acting_as(OPERATOR):  # the initial contents of the pages
            pages = build_pages(_page_parts(authorized, describe_installation(services), has_logins=logins is not None))
        yield mount_pages(api, pages, language=services.settings.language)


def _page_parts(services: AuthorizedServices, about: AboutInfo, *, has_logins: bool) -> PageParts:
    return PageParts(
        search=services.search,
        answers=services.answers,
        proposals=services.proposals,
        catalog=services.catalog,
        texts=services.library,
        collections=services.library,
        documents=services.library,
        own_searches=services.own_searches,
        sources=services.sources,
        standing=services.standing,
        fetching=services.fetching,
        reindexing=services.reindexing,
        lens_indexes=services.lens_indexes,
        default_steps=services.embedder.info.default_query_steps,
        min_steps=services.embedder.info.min_steps,
        max_steps=services.embedder.info.max_steps,
        about=about,
        examples=EXAMPLES,
        first_example=first_example(),
        judged=services.judged,
        evaluations=services.evaluations,
        tuning=services.tuning,
        checks=services.checks,
        has_logins=has_logins,
    )


def first_example() -> tuple[ShownExample, ...]:
    """The example results of the sample library, written by `make tour`, for a page without documents."""
    shown = json.loads(resources.files("sample").joinpath("worked_example.json").read_text(encoding="utf-8"))
    return tuple(
        ShownExample(shown["query"], view["lens"], [ExampleHit(each["title"], each["value"]) for each in view["hits"]])
        for view in shown["views"]
    )


def _mount_agents(api: FastAPI, services: AuthorizedServices) -> None:
    try:
        from app.wiring.agents import mount_agents
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise InputError("GIRCSE_MCP needs the package mcp: pip install 'gircse-search[mcp]'") from None
    mount_agents(api, services)
