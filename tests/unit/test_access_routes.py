"""Every route for everybody: who may do what with collections of their own and of others. A route without an entry in
`ROUTES` fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from typing import Any

import pytest
from access_application import HIDDEN, MARKER, OWN, WHO, AccessApplication, open_access_application
from fastapi import FastAPI
from httpx import Response
from starlette.routing import Mount

from app.access.logins import Logins
from app.api.unrouted import Unrouted
from app.catalog.access_tables import ApiKeyRow
from app.search.judgements import new_judgement, new_lens
from app.testing import ToyEmbedder
from app.types.access import Role, Scope
from app.types.documents import Document, DocumentState, Source
from app.types.standing import Watch

READER, EDITOR, ADMIN = Role.READER, Role.EDITOR, Role.ADMIN
SEES_ALL = ("reader of all", "editor of all", "admin")

BESIDE = "own-beside"

_numbers = count(1)


@dataclass
class Scene:
    """A collection with one document and what hangs on it; `other` is a second collection, which nothing changes."""

    application: AccessApplication
    collection: str
    document: Document
    other: str

    @cached_property
    def user(self) -> str:
        return self.application.accounts.add_user(f"somebody-{next(_numbers)}", role=READER).name

    @cached_property
    def key_id(self) -> str:
        return self.application.accounts.add_key(self.user)[0].id

    @cached_property
    def session_id(self) -> str:
        catalog = self.application.application.services.catalog
        Logins(self.application.accounts, catalog.access).begin_session(self.user, address="10.0.0.1")
        return catalog.access.web_sessions(self.user)[0].id

    @property
    def job(self) -> str:
        return self.application.application.services.catalog.latest_jobs([self.document.id])[self.document.id].id

    def chunk(self) -> str:
        services = self.application.application.services
        index = services.catalog.collection(self.collection).active_index
        return next(services.index.points_of(index, [self.document.id]))[1]


Ask = Callable[[Scene], Mapping[str, Any]]


@dataclass(frozen=True)
class Case:
    """`ask` gives path and arguments of a request about the scene; `role` is the least that may make it.

    `of_collection`: with a collection of others it is answered as if that were not there. `refused_as`: the status
    then. `may_fail`: statuses that are right, too, for an allowed user. `too_low`: what a lesser role is answered.
    """

    role: Role
    ask: Ask
    of_collection: bool = True
    refused_as: int = 404
    may_fail: tuple[int, ...] = ()
    too_low: int = 403


def at(path: str, **options: Any) -> Ask:
    """`{collection}`, `{document}`, `{job}`, `{other}`, `{user}`, `{key}` stand for those of the scene."""

    def fill(value: Any, scene: Scene) -> Any:
        if isinstance(value, str):
            for name, known in (
                ("{collection}", lambda: scene.collection),
                ("{other}", lambda: scene.other),
                ("{document}", lambda: scene.document.id),
                ("{job}", lambda: scene.job),
                ("{chunk}", scene.chunk),
                ("{user}", lambda: scene.user),
                ("{key}", lambda: scene.key_id),
                ("{session}", lambda: scene.session_id),
            ):
                if name in value:
                    value = value.replace(name, known())
            return value
        if isinstance(value, dict):
            return {key: fill(each, scene) for key, each in value.items()}
        return [fill(each, scene) for each in value] if isinstance(value, list) else value

    return lambda scene: {"url": fill(path, scene), **{name: fill(each, scene) for name, each in options.items()}}


RUN = "/api/v1/evaluations/00000000000000000000000000000000"
QUESTION = {"query": MARKER, "collection": "{collection}"}
ASKED = {"question": MARKER, "collection": "{collection}"}

ROUTES: Mapping[tuple[str, str], Case] = {
    ("POST", "/api/v1/search"): Case(READER, at("/api/v1/search", json=QUESTION)),
    ("POST", "/api/v1/answer"): Case(READER, at("/api/v1/answer", json=ASKED)),
    ("GET", "/api/v1/saved-searches"): Case(READER, at("/api/v1/saved-searches"), of_collection=False),
    ("POST", "/api/v1/saved-searches"): Case(
        READER,
        at("/api/v1/saved-searches", json={"name": "mine", "request": {"query": "cat", "collection": "{collection}"}}),
        of_collection=False,
    ),
    ("GET", "/api/v1/saved-searches/{search_id}"): Case(
        READER, at("/api/v1/saved-searches/mine"), of_collection=False, may_fail=(404,)
    ),
    ("PATCH", "/api/v1/saved-searches/{search_id}"): Case(
        READER, at("/api/v1/saved-searches/none", json={"name": "mine"}), of_collection=False, may_fail=(404,)
    ),
    ("DELETE", "/api/v1/saved-searches/{search_id}"): Case(
        READER, at("/api/v1/saved-searches/none"), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/collections/{name}/sources"): Case(READER, at("/api/v1/collections/{collection}/sources")),
    ("POST", "/api/v1/collections/{name}/sources"): Case(
        EDITOR, at("/api/v1/collections/{collection}/sources", json={"kind": "page", "address": "https://example.org"})
    ),
    ("GET", "/api/v1/source-credentials"): Case(EDITOR, at("/api/v1/source-credentials"), of_collection=False),
    ("POST", "/api/v1/sources/{source_id}/run"): Case(
        EDITOR, at("/api/v1/sources/none/run"), of_collection=False, may_fail=(404,)
    ),
    ("DELETE", "/api/v1/sources/{source_id}"): Case(
        EDITOR, at("/api/v1/sources/none"), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/standing-searches"): Case(READER, at("/api/v1/standing-searches"), of_collection=False),
    ("PUT", "/api/v1/saved-searches/{search_id}/watch"): Case(
        READER, at("/api/v1/saved-searches/none/watch", json={}), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/saved-searches/{search_id}/watch"): Case(
        READER, at("/api/v1/saved-searches/none/watch"), of_collection=False, may_fail=(404,)
    ),
    ("DELETE", "/api/v1/saved-searches/{search_id}/watch"): Case(
        READER, at("/api/v1/saved-searches/none/watch"), of_collection=False, may_fail=(404,)
    ),
    ("POST", "/api/v1/saved-searches/{search_id}/watch/feed"): Case(
        READER, at("/api/v1/saved-searches/none/watch/feed"), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/saved-searches/{search_id}/news"): Case(
        READER, at("/api/v1/saved-searches/none/news"), of_collection=False, may_fail=(404,)
    ),
    ("POST", "/api/v1/saved-searches/{search_id}/news/seen"): Case(
        READER, at("/api/v1/saved-searches/none/news/seen", json={}), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/history"): Case(READER, at("/api/v1/history"), of_collection=False),
    ("DELETE", "/api/v1/history"): Case(READER, at("/api/v1/history"), of_collection=False),
    ("DELETE", "/api/v1/history/{search_id}"): Case(
        READER, at("/api/v1/history/none"), of_collection=False, may_fail=(404,)
    ),
    ("POST", "/api/v1/refine"): Case(READER, at("/api/v1/refine", json={"text": "cat"}), of_collection=False),
    ("GET", "/api/v1/facets"): Case(READER, at("/api/v1/facets?collection={collection}")),
    ("GET", "/api/v1/documents"): Case(READER, at("/api/v1/documents?collection={collection}")),
    ("POST", "/api/v1/documents"): Case(
        EDITOR, at("/api/v1/documents", json={"collection": "{collection}", "text": "A new text."})
    ),
    ("GET", "/api/v1/documents/{document_id}"): Case(READER, at("/api/v1/documents/{document}")),
    ("DELETE", "/api/v1/documents/{document_id}"): Case(EDITOR, at("/api/v1/documents/{document}")),
    ("GET", "/api/v1/documents/{document_id}/text"): Case(READER, at("/api/v1/documents/{document}/text")),
    ("GET", "/api/v1/documents/{document_id}/content"): Case(READER, at("/api/v1/documents/{document}/content")),
    # The document is a text, which has no pages; that is told to people who may see it.
    ("GET", "/api/v1/documents/{document_id}/pages/{page}"): Case(
        READER, at("/api/v1/documents/{document}/pages/1"), may_fail=(422,)
    ),
    ("GET", "/api/v1/documents/{document_id}/pages/{page}/image"): Case(
        READER, at("/api/v1/documents/{document}/pages/1/image"), may_fail=(422,)
    ),
    ("POST", "/api/v1/documents/delete"): Case(
        EDITOR, at("/api/v1/documents/delete", json={"document_ids": ["{document}"]})
    ),
    ("POST", "/api/v1/documents/restore"): Case(
        EDITOR, at("/api/v1/documents/restore", json={"document_ids": ["{document}"]}), may_fail=(409,)
    ),
    ("POST", "/api/v1/documents/move"): Case(
        EDITOR, at("/api/v1/documents/move", json={"document_ids": ["{document}"], "collection": "{other}"})
    ),
    ("GET", "/api/v1/collections"): Case(READER, at("/api/v1/collections"), of_collection=False),
    ("POST", "/api/v1/collections"): Case(
        EDITOR, at("/api/v1/collections", json={"name": "{collection}-new"}), refused_as=403
    ),
    ("DELETE", "/api/v1/collections/{name}"): Case(EDITOR, at("/api/v1/collections/{collection}")),
    ("GET", "/api/v1/collections/{name}/reindex"): Case(READER, at("/api/v1/collections/{collection}/reindex")),
    ("POST", "/api/v1/collections/{name}/reindex"): Case(
        EDITOR, at("/api/v1/collections/{collection}/reindex", json={}), may_fail=(409,)
    ),
    ("POST", "/api/v1/collections/{name}/rollback"): Case(
        EDITOR, at("/api/v1/collections/{collection}/rollback"), may_fail=(409,)
    ),
    ("GET", "/api/v1/jobs"): Case(READER, at("/api/v1/jobs?collection={collection}")),
    ("POST", "/api/v1/jobs/pause"): Case(EDITOR, at("/api/v1/jobs/pause?collection={collection}")),
    ("POST", "/api/v1/jobs/resume"): Case(EDITOR, at("/api/v1/jobs/resume?collection={collection}")),
    ("GET", "/api/v1/jobs/{job_id}"): Case(READER, at("/api/v1/jobs/{job}")),
    ("POST", "/api/v1/jobs/{job_id}/retry"): Case(EDITOR, at("/api/v1/jobs/{job}/retry"), may_fail=(409,)),
    ("POST", "/api/v1/jobs/{job_id}/cancel"): Case(EDITOR, at("/api/v1/jobs/{job}/cancel"), may_fail=(409,)),
    ("GET", "/api/v1/lenses"): Case(READER, at("/api/v1/lenses"), of_collection=False),
    ("POST", "/api/v1/lenses"): Case(
        EDITOR, at("/api/v1/lenses", json={"name": "mood", "query_instruction": "Mood."}), of_collection=False
    ),
    ("POST", "/api/v1/lenses/proposals"): Case(
        READER, at("/api/v1/lenses/proposals", json={"instruction": MARKER, "collection": "{collection}"})
    ),
    ("GET", "/api/v1/collections/{name}/lens-indexes"): Case(
        READER, at("/api/v1/collections/{collection}/lens-indexes")
    ),
    ("POST", "/api/v1/collections/{name}/lens-indexes"): Case(
        EDITOR, at("/api/v1/collections/{collection}/lens-indexes", json={"lens": "Same place"})
    ),
    ("DELETE", "/api/v1/collections/{name}/lens-indexes"): Case(
        EDITOR, at("/api/v1/collections/{collection}/lens-indexes?lens=Same+place"), may_fail=(404,)
    ),
    ("GET", "/api/v1/collections/{name}/lens-indexes/table"): Case(
        READER, at("/api/v1/collections/{collection}/lens-indexes/table?lens=Same+place"), may_fail=(404,)
    ),
    ("GET", "/api/v1/lenses/{name:path}"): Case(READER, at("/api/v1/lenses/seen"), of_collection=False),
    ("DELETE", "/api/v1/lenses/{name:path}"): Case(EDITOR, at("/api/v1/lenses/seen"), of_collection=False),
    ("GET", "/api/v1/judgements"): Case(READER, at("/api/v1/judgements?collection={collection}")),
    ("POST", "/api/v1/judgements"): Case(
        EDITOR, at("/api/v1/judgements", json={"document_id": "{document}", "query": "cat", "grade": 2})
    ),
    ("DELETE", "/api/v1/judgements"): Case(
        EDITOR, at("/api/v1/judgements?document_id={document}&query=other"), may_fail=(404,)
    ),
    ("GET", "/api/v1/judgements/sources"): Case(READER, at("/api/v1/judgements/sources?collection={collection}")),
    ("POST", "/api/v1/judgements/import"): Case(
        EDITOR,
        at(
            "/api/v1/judgements/import",
            data={"collection": "{collection}"},
            files={"files": ("a.csv", "query,document,grade\ncat,a.txt,1\n")},
        ),
        may_fail=(422,),
    ),
    ("DELETE", "/api/v1/judgements/import"): Case(
        EDITOR, at("/api/v1/judgements/import?collection={collection}&judged_by=import:a"), may_fail=(404,)
    ),
    ("GET", "/api/v1/collections/{name}/weights"): Case(READER, at("/api/v1/collections/{collection}/weights")),
    ("POST", "/api/v1/collections/{name}/weights"): Case(
        EDITOR, at("/api/v1/collections/{collection}/weights"), may_fail=(409,)
    ),
    ("DELETE", "/api/v1/collections/{name}/weights"): Case(
        EDITOR, at("/api/v1/collections/{collection}/weights"), may_fail=(404,)
    ),
    ("POST", "/api/v1/evaluations"): Case(
        EDITOR,
        at("/api/v1/evaluations", json={"collection": "{other}", "compared_with": ["{collection}"]}),
        may_fail=(409, 422),
    ),
    ("GET", "/api/v1/evaluations"): Case(READER, at("/api/v1/evaluations"), of_collection=False),
    ("GET", "/api/v1/evaluations/{run_id}"): Case(READER, at(RUN), of_collection=False, may_fail=(404,)),
    ("DELETE", "/api/v1/evaluations/{run_id}"): Case(EDITOR, at(RUN), of_collection=False, may_fail=(404,)),
    ("GET", "/api/v1/evaluations/{run_id}/differences"): Case(
        READER, at(f"{RUN}/differences"), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/evaluations/{run_id}/scores.csv"): Case(
        READER, at(f"{RUN}/scores.csv"), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/evaluations/{run_id}/queries.csv"): Case(
        READER, at(f"{RUN}/queries.csv"), of_collection=False, may_fail=(404,)
    ),
    ("GET", "/api/v1/documents/counts"): Case(READER, at("/api/v1/documents/counts?collection={collection}")),
    ("GET", "/api/v1/documents/{document_id}/job"): Case(READER, at("/api/v1/documents/{document}/job")),
    ("GET", "/api/v1/documents/{document_id}/chunks"): Case(READER, at("/api/v1/documents/{document}/chunks")),
    ("GET", "/api/v1/collections/{name}"): Case(READER, at("/api/v1/collections/{collection}")),
    ("GET", "/api/v1/collections/{name}/index"): Case(READER, at("/api/v1/collections/{collection}/index")),
    ("POST", "/api/v1/collections/{name}/optimize"): Case(EDITOR, at("/api/v1/collections/{collection}/optimize")),
    ("GET", "/api/v1/collections/{name}/fetches"): Case(READER, at("/api/v1/collections/{collection}/fetches")),
    ("POST", "/api/v1/collections/{name}/fetches"): Case(
        EDITOR, at("/api/v1/collections/{collection}/fetches", json={"urls": ["http://127.0.0.1:1/"]})
    ),
    ("POST", "/api/v1/collections/{name}/fetches/retry"): Case(
        EDITOR, at("/api/v1/collections/{collection}/fetches/retry", json={"url": "http://a.invalid/"}), may_fail=(404,)
    ),
    ("DELETE", "/api/v1/collections/{name}/fetches"): Case(
        EDITOR, at("/api/v1/collections/{collection}/fetches?url=http://a.invalid/"), may_fail=(404,)
    ),
    ("GET", "/api/v1/jobs/counts"): Case(READER, at("/api/v1/jobs/counts?collection={collection}")),
    ("POST", "/api/v1/jobs/retry"): Case(EDITOR, at("/api/v1/jobs/retry?collection={collection}")),
    ("GET", "/api/v1/jobs/{job_id}/events"): Case(READER, at("/api/v1/jobs/{job}/events")),
    ("POST", "/api/v1/refine/words"): Case(
        READER, at("/api/v1/refine/words", json={"text": "cat"}), of_collection=False
    ),
    ("GET", "/api/v1/model"): Case(READER, at("/api/v1/model"), of_collection=False),
    ("GET", "/api/v1/me"): Case(READER, at("/api/v1/me"), of_collection=False),
    ("POST", "/api/v1/me/password"): Case(
        READER,
        at("/api/v1/me/password", json={"current": "x", "new": "a long new one"}),
        of_collection=False,
        may_fail=(403,),  # keys change no password
    ),
    ("GET", "/api/v1/users"): Case(ADMIN, at("/api/v1/users"), of_collection=False),
    ("POST", "/api/v1/users"): Case(ADMIN, at("/api/v1/users", json={"name": "{user}-b"}), of_collection=False),
    ("GET", "/api/v1/users/{name}"): Case(ADMIN, at("/api/v1/users/{user}"), of_collection=False),
    ("PATCH", "/api/v1/users/{name}"): Case(
        ADMIN, at("/api/v1/users/{user}", json={"role": "admin"}), of_collection=False
    ),
    ("DELETE", "/api/v1/users/{name}"): Case(ADMIN, at("/api/v1/users/{user}"), of_collection=False),
    ("GET", "/api/v1/keys"): Case(READER, at("/api/v1/keys"), of_collection=False),
    ("POST", "/api/v1/keys"): Case(ADMIN, at("/api/v1/keys", json={"user": "{user}"}), of_collection=False),
    ("DELETE", "/api/v1/keys/{key_id}"): Case(ADMIN, at("/api/v1/keys/{key}"), of_collection=False, too_low=404),
    ("GET", "/api/v1/me/usage"): Case(READER, at("/api/v1/me/usage"), of_collection=False),
    ("GET", "/api/v1/users/{name}/identities"): Case(ADMIN, at("/api/v1/users/{user}/identities"), of_collection=False),
    ("POST", "/api/v1/users/{name}/identities"): Case(
        ADMIN,
        at("/api/v1/users/{user}/identities", json={"issuer": "https://login.example.org", "subject": "{user}"}),
        of_collection=False,
    ),
    ("DELETE", "/api/v1/users/{name}/identities"): Case(
        ADMIN, at("/api/v1/users/{user}/identities"), of_collection=False
    ),
    ("GET", "/api/v1/users/{name}/usage"): Case(ADMIN, at("/api/v1/users/{user}/usage"), of_collection=False),
    ("GET", "/api/v1/sessions"): Case(READER, at("/api/v1/sessions"), of_collection=False),
    ("DELETE", "/api/v1/sessions/{session_id}"): Case(
        ADMIN, at("/api/v1/sessions/{session}"), of_collection=False, too_low=404
    ),
    ("DELETE", "/api/v1/sessions"): Case(ADMIN, at("/api/v1/sessions?user={user}"), of_collection=False),
    ("GET", "/account"): Case(READER, at("/account"), of_collection=False),
    ("POST", "/account/password"): Case(
        READER,
        at("/account/password", data={"current": "no", "new": "a", "again": "b"}),
        of_collection=False,
        may_fail=(422,),
    ),
    ("POST", "/account/keys"): Case(ADMIN, at("/account/keys", data={"label": "x"}), of_collection=False),
    ("POST", "/account/keys/revoke"): Case(
        ADMIN, at("/account/keys/revoke", data={"key_id": "{key}"}), of_collection=False, may_fail=(303,), too_low=404
    ),
    ("POST", "/account/sessions/end"): Case(
        ADMIN,
        at("/account/sessions/end", data={"session_id": "{session}"}),
        of_collection=False,
        may_fail=(303,),
        too_low=404,
    ),
    ("POST", "/account/sessions/end-others"): Case(
        ADMIN, at("/account/sessions/end-others"), of_collection=False, may_fail=(303,)
    ),
    ("GET", "/api/v1/audit"): Case(ADMIN, at("/api/v1/audit"), of_collection=False),
    # The embedding server of this application is away, and an agent says first who it is.
    ("POST", "/v1/embeddings"): Case(
        READER, at("/v1/embeddings", json={"model": "toy", "input": "cat"}), of_collection=False, may_fail=(503,)
    ),
    ("POST", "/v1/rerank"): Case(
        READER, at("/v1/rerank", json={"query": "cat", "documents": ["a cat"]}), of_collection=False
    ),
    ("POST", "/v2/rerank"): Case(
        READER, at("/v2/rerank", json={"query": "cat", "documents": ["a cat"]}), of_collection=False
    ),
    ("POST", "/rerank"): Case(READER, at("/rerank", json={"query": "cat", "texts": ["a cat"]}), of_collection=False),
    ("GET", "/v1/models"): Case(READER, at("/v1/models"), of_collection=False, may_fail=(503,)),
    ("GET", "/v1/models/{model:path}"): Case(READER, at("/v1/models/toy"), of_collection=False, may_fail=(503,)),
    ("POST", "/mcp"): Case(READER, at("/mcp", json={}), of_collection=False, may_fail=(400, 406)),
    ("GET", "/mcp"): Case(READER, at("/mcp"), of_collection=False, may_fail=(400, 405, 406)),
    ("DELETE", "/mcp"): Case(READER, at("/mcp"), of_collection=False, may_fail=(400, 405, 406)),
    ("GET", "/metrics"): Case(READER, at("/metrics"), of_collection=False, may_fail=(403,)),  # tested below
    ("GET", "/openapi.json"): Case(READER, at("/openapi.json"), of_collection=False),
    ("GET", "/docs"): Case(READER, at("/docs"), of_collection=False),
}
# Open to everybody: what monitors ask, the way in, and feeds, which their secret addresses open.
PUBLIC = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/feeds/{token}.atom"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("POST", "/logout"),
}


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[AccessApplication]:
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("access"), opened, embedder=ToyEmbedder())
        beside = toy.add("A cat sleeps.", collection=BESIDE)
        toy.services.catalog.save_judgement(new_judgement(beside.id, query="cat", instruction="", grade=1))
        yield opened.enter_context(open_access_application(toy))


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """All but those of Gradio, which is mounted: nothing of it is public but its files, and its handlers are tested
    one by one in test_access_pages.py; nor the routes that answer unknown paths."""
    found, waiting = set(), list(app.routes)
    while waiting:
        route = waiting.pop()
        if type(route).__name__ == "_IncludedRouter":
            waiting += route.original_router.routes
        elif not isinstance(route, (Mount, Unrouted)):
            methods = route.methods or {"GET", "POST", "DELETE"}  # an application of its own, as that of agents
            found |= {(method, route.path) for method in methods - {"HEAD"}}
    return found


def make_scene(application: AccessApplication, name: str) -> Scene:
    toy, catalog = application.application, application.application.services.catalog
    collection = f"{name}-{next(_numbers)}"
    document = toy.add(f"A {MARKER} swims in {collection}.", collection=collection)
    catalog.save_judgement(new_judgement(document.id, query="cat", instruction="", grade=1))
    return Scene(application, collection, document, BESIDE)


def scene_for(
    application: AccessApplication,
    route: tuple[str, str],
    name: str,
    scenes: dict[str, Scene],
    *,
    is_allowed: bool = False,
) -> Scene:
    """A collection of its own for what changes one; all else shares one. Lenses are everybody's."""
    application.application.services.catalog.save_lens(new_lens("seen", "Identify the mood."))
    is_changed = is_allowed and route[0] != "GET"
    if is_changed and ROUTES[route].of_collection:
        return make_scene(application, name)
    if name not in scenes:
        scenes[name] = make_scene(application, name)
    return replace(scenes[name]) if is_changed else scenes[name]  # with a user, a key and a session of its own


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    return {}


def ask(application: AccessApplication, route: tuple[str, str], scene: Scene, who: str | None) -> Any:
    options = dict(ROUTES[route].ask(scene))
    headers = {"accept": "application/json", **application.as_(who)}  # no stream of events that nobody ends
    return application.client.request(route[0], options.pop("url"), headers=headers, **options)


def test_every_route_has_an_entry(application: AccessApplication) -> None:
    found = routes_of(application.app)
    assert found == ROUTES.keys() | PUBLIC


def each_route() -> list[Any]:
    return [pytest.param(route, id=" ".join(route)) for route in sorted(ROUTES)]


# Of the roles that may, and of those that may not, the ones next to the border between them are asked by default.
NEXT_TO_BORDER = {
    READER: ("reader of own",),
    EDITOR: ("reader of own", "editor of own"),
    ADMIN: ("editor of all", "admin"),
}
# Of others an editor is refused all that a reader is, and more; a key that reaches less than its user is another way.
REFUSED = ("editor of own", "editor of all with a key for own")


def each_case(by_default: Callable[[Case], Collection[str]], *, of: Iterable[str] = WHO) -> list[Any]:
    """Routes and who asks for them; what is not asked by default is with --long."""
    return [
        pytest.param(
            route, who, id=f"{' '.join(route)}-{who}", marks=[] if who in by_default(case) else [pytest.mark.long]
        )
        for route, case in sorted(ROUTES.items(), key=lambda entry: entry[0])
        for who in of
    ]


@pytest.mark.parametrize("route", each_route())
def test_nobody_gets_nowhere(application: AccessApplication, route: tuple[str, str], scenes: dict[str, Scene]) -> None:
    scene = scene_for(application, route, HIDDEN, scenes)
    options = dict(ROUTES[route].ask(scene))
    url = options.pop("url")
    client = application.client_at(f"10.0.0.{sorted(ROUTES).index(route)}")  # of which none fails too often
    for headers in (
        {},
        {"authorization": "Bearer gk_000000000000_" + "A" * 43},
        {"authorization": "Basic YWRtaW46YWRtaW4="},
        {"cookie": "gircse_session=" + "A" * 43},
    ):
        answer = client.request(route[0], url, headers=headers, **options)
        assert answer.status_code in ((303, 401) if route[0] == "GET" else (401,)), answer.text
        assert MARKER not in answer.text
        assert scene.collection not in answer.text
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.fixture(scope="module")
def ended(application: AccessApplication) -> Mapping[str, dict[str, str]]:
    """Credentials of admins that were right, and used, before they ended; by the way in which they did."""
    accounts, client = application.accounts, application.client_at("10.1.0.1")
    catalog = application.application.services.catalog
    keys = {}
    for way in ("revoked", "expired", "of-a-disabled-user", "of-a-deleted-user", "session"):
        accounts.add_user(way, role=Role.ADMIN, password=f"a password of {way}")
        keys[way] = accounts.add_key(way, scopes=[Scope.ACCESS])
    credentials = {way: {"authorization": f"Bearer {secret}"} for way, (_, secret) in keys.items() if way != "session"}
    token = Logins(accounts, catalog.access).begin_session("session", address="10.1.0.1")
    credentials["session"] = {"cookie": f"gircse_session={token}"}
    assert {client.get("/api/v1/me", headers=each).status_code for each in credentials.values()} == {200}
    accounts.ledger.revoke_key(keys["revoked"][0].id)
    with catalog.database.writing() as session:
        row = session.get_one(ApiKeyRow, keys["expired"][0].id)
        row.created_at, row.expires_at = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    accounts.change_user("of-a-disabled-user", is_disabled=True)
    accounts.remove_user("of-a-deleted-user")
    accounts.change_user("session", password="another password of session")
    return credentials


@pytest.mark.parametrize("route", each_route())
def test_who_has_lost_all_rights_gets_nowhere(
    application: AccessApplication,
    route: tuple[str, str],
    scenes: dict[str, Scene],
    ended: Mapping[str, dict[str, str]],
) -> None:
    scene = scene_for(application, route, OWN, scenes)
    options = dict(ROUTES[route].ask(scene))
    url = options.pop("url")
    client = application.client_at(f"10.1.1.{sorted(ROUTES).index(route)}")
    for way, headers in ended.items():
        answer = client.request(route[0], url, headers=headers, **options)
        assert answer.status_code in ((303, 401) if route[0] == "GET" else (401,)), (way, answer.text)
        assert MARKER not in answer.text


@pytest.mark.parametrize(("route", "who"), each_case(lambda case: NEXT_TO_BORDER[case.role]))
def test_everybody_does_what_their_role_may_with_their_own(
    application: AccessApplication, route: tuple[str, str], who: str, scenes: dict[str, Scene]
) -> None:
    case = ROUTES[route]
    scene = scene_for(application, route, OWN, scenes, is_allowed=WHO[who][0] >= case.role)
    answer = ask(application, route, scene, who)
    if WHO[who][0] < case.role:
        assert answer.status_code == case.too_low, answer.text
    else:
        assert answer.status_code < 400 or answer.status_code in case.may_fail, answer.text


@pytest.mark.parametrize(
    ("route", "who"), each_case(lambda _: REFUSED, of=[each for each in WHO if each not in SEES_ALL])
)
def test_what_is_of_others_is_not_there(
    application: AccessApplication, route: tuple[str, str], who: str, scenes: dict[str, Scene]
) -> None:
    case, scene = ROUTES[route], scene_for(application, route, HIDDEN, scenes)
    before = state_of(application, scene)
    answer = ask(application, route, scene, who)
    assert MARKER not in answer.text
    assert state_of(application, scene) == before
    if case.of_collection and WHO[who][0] >= case.role:
        assert answer.status_code == case.refused_as, answer.text
        absent = (
            ask(application, route, Scene(application, "hidden-absent", ABSENT, scene.other), who)
            if is_by_name(route)
            else None
        )
        if absent is not None:  # and nothing tells that it is there
            assert said_in(answer, scene.collection, scene.document.id) == said_in(absent, "hidden-absent", ABSENT.id)
    elif answer.status_code != 404:  # which says again what was asked for
        assert scene.collection not in answer.text


@pytest.mark.parametrize(
    ("route", "who"),
    [each for each in each_case(lambda _: ("editor of all",), of=SEES_ALL) if ROUTES[each.values[0]].of_collection],
)
def test_a_user_who_sees_everything_does(
    application: AccessApplication, route: tuple[str, str], who: str, scenes: dict[str, Scene]
) -> None:
    case = ROUTES[route]
    scene = scene_for(application, route, HIDDEN, scenes, is_allowed=WHO[who][0] >= case.role)
    answer = ask(application, route, scene, who)
    if WHO[who][0] < case.role:
        assert answer.status_code == 403, answer.text
    else:
        assert answer.status_code < 400 or answer.status_code in case.may_fail, answer.text


def said_in(answer: Any, collection: str, document_id: str) -> str:
    body = {name: value for name, value in answer.json().items() if name != "request_id"}
    return str(body).replace(collection, "NAME").replace(document_id, "ID")


_NOW = datetime(2026, 1, 1, tzinfo=UTC)
ABSENT = Document(
    "00000000-0000-0000-0000-000000000000",
    "",
    "",
    "",
    "",
    "",
    0,
    {},
    "ready",
    None,
    0,
    _NOW,
    _NOW,  # type: ignore[arg-type]
)


def is_by_name(route: tuple[str, str]) -> bool:
    """Whether the scene of an absent collection can be asked for: jobs have no ids without one."""
    return "{job_id}" not in route[1]


def state_of(application: AccessApplication, scene: Scene) -> Any:
    catalog = application.application.services.catalog
    found = catalog.collection(scene.collection)
    judgements = [each for page in catalog.judgement_pages(scene.collection) for each in page]
    tunings = catalog.weights.tunings(scene.collection)
    return found, catalog.documents(scene.collection), catalog.jobs(collection=scene.collection), judgements, tunings


def test_lists_over_all_collections_need_everything(application: AccessApplication) -> None:
    make_scene(application, HIDDEN)
    for path in ("/api/v1/documents", "/api/v1/jobs", "/api/v1/jobs/counts", "/metrics"):
        assert application.client.get(path, headers=application.as_("reader of own")).status_code == 403
        assert application.client.get(path, headers=application.as_("reader of all")).status_code == 200
    scene = make_scene(application, OWN)
    answer = application.client.get("/api/v1/collections", headers=application.as_("reader of own"))
    names = [each["name"] for each in answer.json()]
    assert scene.collection in names
    assert all(name.startswith(OWN) for name in names)
    assert answer.headers["x-total-count"] == str(len(names))  # and not of those of others


@pytest.mark.parametrize("path", ["/api/v1/users", "/api/v1/keys"])
def test_users_and_keys_are_paged(application: AccessApplication, path: str) -> None:
    whole = application.client.get(path, headers=application.as_("admin"))
    assert whole.headers["x-total-count"] == str(len(whole.json()))
    first, second = (
        application.client.get(f"{path}?limit=1&offset={offset}", headers=application.as_("admin")) for offset in (0, 1)
    )
    assert first.json() + second.json() == whole.json()[:2]
    assert first.headers["x-total-count"] == whole.headers["x-total-count"]
    assert "offset=1" in first.links["next"]["url"]


def test_pausing_everything_pauses_what_may_be_seen(application: AccessApplication) -> None:
    own, hidden = make_scene(application, OWN), make_scene(application, HIDDEN)
    paused = application.client.post("/api/v1/jobs/pause", headers=application.as_("editor of own")).json()[
        "collections"
    ]
    assert own.collection in paused
    catalog = application.application.services.catalog
    assert not catalog.collection(hidden.collection).is_paused
    application.client.post("/api/v1/jobs/resume", headers=application.as_("admin"))


def test_feedback_finds_no_passage_of_others(application: AccessApplication) -> None:
    own, hidden = make_scene(application, OWN), make_scene(application, HIDDEN)
    body = {"query": "cat", "collection": own.collection, "like": [hidden.chunk()]}
    answer = application.client.post("/api/v1/search", json=body, headers=application.as_("reader of own"))
    assert answer.status_code == 422
    assert MARKER not in answer.text


def test_a_judgement_is_its_persons(application: AccessApplication) -> None:
    scene = make_scene(application, OWN)
    body = {"document_id": scene.document.id, "query": "dog", "grade": 3}
    saved = application.client.post("/api/v1/judgements", json=body, headers=application.as_("editor of own"))
    assert saved.json()["judged_by"] == "user-1"
    said = application.client.get(
        f"/api/v1/judgements?collection={scene.collection}", headers=application.as_("reader of own")
    ).json()
    assert {(each["query"], each["judged_by"]) for each in said} == {("cat", "local"), ("dog", "user-1")}
    asked = f"/api/v1/judgements?document_id={scene.document.id}&query=dog"
    assert application.client.delete(asked, headers=application.as_("editor of all")).status_code == 404


def test_keys_are_made_by_people_and_admins_only(application: AccessApplication) -> None:
    answer = application.client.post("/api/v1/keys", json={}, headers=application.as_("editor of own"))
    assert answer.status_code == 403
    client = application.client
    logged_in = client.post("/login", data={"name": "user-1", "password": "password of 1"})
    cookie = {"cookie": logged_in.headers["set-cookie"].partition(";")[0]}
    client.cookies.clear()
    made = client.post("/api/v1/keys", json={"label": "mine"}, headers=cookie)
    assert made.status_code == 201
    assert client.post("/api/v1/keys", json={"role": "admin"}, headers=cookie).status_code == 403
    assert client.post("/api/v1/keys", json={"user": "user-5"}, headers=cookie).status_code == 403
    listed = client.get("/api/v1/keys", headers=cookie).json()
    assert {each["user"] for each in listed} == {"user-1"}
    assert "secret" not in listed[0]
    shown = {"authorization": f"Bearer {made.json()['secret']}"}
    assert client.get("/api/v1/me", headers=shown).json()["name"] == "user-1"
    assert client.delete(f"/api/v1/keys/{made.json()['id']}", headers=cookie).status_code == 204
    assert client.get("/api/v1/me", headers=shown).status_code == 401


def logged_in_as(application: AccessApplication, name: str, password: str, browser: str) -> dict[str, str]:
    answer = application.client.post(
        "/login", data={"name": name, "password": password}, headers={"user-agent": browser}
    )
    application.client.cookies.clear()
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Mobile Safari/604"


def test_people_see_their_sessions_and_end_them(application: AccessApplication) -> None:
    client = application.client
    other = logged_in_as(application, "user-0", "password of 0", SAFARI)
    phone, desk = (logged_in_as(application, "user-2", "password of 2", each) for each in (SAFARI, FIREFOX))
    listed = client.get("/api/v1/sessions", headers=desk).json()
    assert {(each["user"], each["browser"], each["is_current"]) for each in listed} == {
        ("user-2", "Firefox on Linux", True),
        ("user-2", "Safari on iPhone", False),
    }
    page = client.get("/account", headers=desk).text
    assert "Safari on iPhone" in page
    assert page.count('/account/sessions/end"') == 1
    of_phone = next(each["id"] for each in listed if not each["is_current"])
    of_other = client.get("/api/v1/sessions", headers=other).json()[0]["id"]
    assert client.delete(f"/api/v1/sessions/{of_other}", headers=desk).status_code == 404
    assert client.post("/account/sessions/end", data={"session_id": of_other}, headers=desk).status_code == 404
    assert client.delete("/api/v1/sessions?user=user-0", headers=desk).status_code == 403
    assert client.post("/account/sessions/end", data={"session_id": of_phone}, headers=desk).status_code == 303
    assert [client.get("/api/v1/me", headers=each).status_code for each in (phone, desk, other)] == [401, 200, 200]
    phone = logged_in_as(application, "user-2", "password of 2", SAFARI)
    assert client.delete("/api/v1/sessions", headers=phone).json() == {"ended": 1}
    assert [client.get("/api/v1/me", headers=each).status_code for each in (phone, desk)] == [200, 401]


def test_people_make_and_revoke_keys_and_change_their_password_on_their_page(application: AccessApplication) -> None:
    client, new = application.client, "another password of 1"
    person = logged_in_as(application, "user-1", "password of 1", FIREFOX)
    page = client.post("/account/keys", data={"label": "nightly", "role": "reader", "days": "30"}, headers=person).text
    (secret,) = re.findall(r'value="(gk_[^"]+)"', page)
    own = {"authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/me", headers=own).json()["role"] == "reader"
    page = client.get("/account", headers=person).text
    assert "nightly" in page
    assert secret not in page
    beyond = client.post("/account/keys", data={"label": "x", "role": "admin"}, headers=person)
    assert (beyond.status_code, 'role="alert"' in beyond.text) == (403, True)
    key_id = secret.split("_")[1]
    assert client.post("/account/keys/revoke", data={"key_id": key_id}, headers=person).status_code == 303
    assert client.get("/api/v1/me", headers=own).status_code == 401
    assert "nightly" not in client.get("/account", headers=person).text

    def changed(current: str, wanted: str, again: str) -> Response:
        data = {"current": current, "new": wanted, "again": again}
        return client.post("/account/password", data=data, headers=person)

    assert "The two new passwords differ." in changed("password of 1", new, new + "x").text
    assert "The current password is wrong." in changed("wrong", new, new).text
    assert "A password needs 10 to 1000 characters" in changed("password of 1", "short", "short").text
    done = changed("password of 1", new, new)
    assert (done.status_code, done.headers["location"]) == (303, "/login?next=/account&changed=1")
    assert client.get("/api/v1/me", headers=person).status_code == 401
    assert "Your password was changed." in client.get(done.headers["location"]).text
    person = logged_in_as(application, "user-1", new, FIREFOX)
    assert changed(new, "password of 1", "password of 1").status_code == 303


def test_a_wrong_password_leaves_the_name(application: AccessApplication) -> None:
    refused = application.client.post("/login", data={"name": "user-1", "password": "wrong"})
    assert refused.status_code == 401
    assert re.search(r'id="name"[^>]* value="user-1">', refused.text)
    assert re.search(r'id="password"[^>]* autofocus>', refused.text)


def test_admins_see_and_end_the_sessions_of_all(application: AccessApplication) -> None:
    session = logged_in_as(application, "user-0", "password of 0", FIREFOX)
    admin, client = application.as_("admin"), application.client
    found = client.get("/api/v1/sessions?user=user-0", headers=admin).json()
    assert {each["user"] for each in found} == {"user-0"}
    assert client.delete("/api/v1/sessions?user=user-0", headers=admin).json() == {"ended": len(found)}
    assert client.get("/api/v1/me", headers=session).status_code == 401
    assert client.get("/api/v1/sessions", headers=application.as_("reader of all")).json() == []  # a key


def test_saved_and_past_searches_are_their_persons(application: AccessApplication) -> None:
    client, owner, others = application.client, "reader of own", ("admin", "editor of all", "reader of all")
    request = {"query": MARKER, "collection": OWN}
    made = client.post(
        "/api/v1/saved-searches", json={"name": "mine", "request": request}, headers=application.as_(owner)
    )
    catalog = application.application.services.catalog
    name = client.get("/api/v1/me", headers=application.as_(owner)).json()["name"]
    catalog.searches.record_search(name, request, keep=9)
    (past,) = client.get("/api/v1/history", headers=application.as_(owner)).json()
    for who in others:
        headers = application.as_(who)
        saved = f"/api/v1/saved-searches/{made.json()['id']}"
        assert MARKER not in client.get("/api/v1/saved-searches", headers=headers).text
        assert MARKER not in client.get("/api/v1/history", headers=headers).text
        for method, path in (("GET", saved), ("DELETE", saved), ("DELETE", f"/api/v1/history/{past['id']}")):
            assert client.request(method, path, headers=headers).status_code == 404
        assert client.delete("/api/v1/history", headers=headers).status_code == 204
    assert len(client.get("/api/v1/saved-searches", headers=application.as_(owner)).json()) == 1
    assert len(client.get("/api/v1/history", headers=application.as_(owner)).json()) == 1


def test_a_key_hears_of_its_users_searches_of_what_it_covers_alone(application: AccessApplication) -> None:
    """Of a search that keeps watch, the address of its feed opens what the key does not cover."""
    services, client = application.application.services, application.client
    for name in (OWN, HIDDEN):
        services.library.ensure_collection(name)
    headers = application.as_("editor of all with a key for own")
    owner = client.get("/api/v1/me", headers=headers).json()["name"]
    client.delete("/api/v1/history", headers=headers)
    for each in services.catalog.searches.saved_searches(owner):  # of the tests before
        services.catalog.searches.delete_saved_search(owner, each.id)
    hidden = {"query": MARKER, "collection": HIDDEN}
    kept = [
        services.catalog.searches.save_search(owner, f"of {name}", {**hidden, "collection": name})
        for name in (HIDDEN, "*")
    ]
    services.catalog.searches.record_search(owner, hidden, keep=9)
    services.catalog.standing.watch(owner, kept[0].id, Watch())
    [past] = services.catalog.searches.past_searches(owner, limit=9)
    for path in ("saved-searches", "history", "standing-searches"):
        assert client.get(f"/api/v1/{path}", headers=headers).json() == []
    for each in kept:
        saved = f"/api/v1/saved-searches/{each.id}"
        asked = [("GET", saved), ("DELETE", saved), ("PUT", f"{saved}/watch"), ("GET", f"{saved}/watch")]
        asked += [("DELETE", f"{saved}/watch"), ("POST", f"{saved}/watch/feed"), ("GET", f"{saved}/news")]
        for method, path in [*asked, ("DELETE", f"/api/v1/history/{past.id}")]:
            assert client.request(method, path, json={}, headers=headers).status_code == 404, (method, path)
    mine = {"query": "cat", "collection": OWN}
    for name, request, status in (
        ("of hidden", mine, 409),
        ("new", hidden, 403),
        ("new", {**mine, "collection": "*"}, 403),
    ):
        body = {"name": name, "request": request}
        assert client.post("/api/v1/saved-searches", json=body, headers=headers).status_code == status, body
    services.catalog.searches.record_search(owner, mine, keep=9)
    assert client.delete("/api/v1/history", headers=headers).status_code == 204
    assert [each.id for each in services.catalog.searches.past_searches(owner, limit=9)] == [past.id]
    assert {each.id for each in services.catalog.searches.saved_searches(owner)} == {each.id for each in kept}
    made = client.post("/api/v1/saved-searches", json={"name": "mine", "request": mine}, headers=headers).json()
    assert client.put(f"/api/v1/saved-searches/{made['id']}/watch", json={}, headers=headers).json()["name"] == "mine"
    for each in services.catalog.searches.saved_searches(owner):
        services.catalog.searches.delete_saved_search(owner, each.id)


def test_documents_move_only_between_collections_of_ones_own(application: AccessApplication) -> None:
    services, client = application.application.services, application.client
    for name in (OWN, HIDDEN, "own-other"):
        services.library.ensure_collection(name)
    source = Source("moving.txt", "moving.txt", "text/plain", data=b"A text that moves.")
    mine, _ = services.library.add_document(OWN, source)
    theirs, _ = services.library.add_document(HIDDEN, source)
    for who in ("editor of own", "editor of all with a key for own"):
        for document, to in ((mine, HIDDEN), (theirs, OWN)):
            body = {"document_ids": [document.id], "collection": to}
            answer = client.post("/api/v1/documents/move", json=body, headers=application.as_(who))
            assert (answer.status_code, HIDDEN in answer.text) == (404, to == HIDDEN)
    assert {services.catalog.document(each.id).state for each in (mine, theirs)} == {DocumentState.QUEUED}
    body = {"document_ids": [mine.id], "collection": "own-other"}
    assert client.post("/api/v1/documents/move", json=body, headers=application.as_("editor of own")).status_code == 202


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_an_answer_over_all_collections_cites_only_what_its_asker_may_see(
    application: AccessApplication, accept: str
) -> None:
    scene = make_scene(application, HIDDEN)
    own = {**application.as_("reader of own"), "accept": accept}
    body = {"question": scene.collection, "collection": "*"}
    answer = application.client.post("/api/v1/answer", json=body, headers=own)
    assert answer.status_code == 200
    assert '"passages"' in answer.text
    assert f'"{scene.collection}"' not in answer.text.replace(f'"question":"{scene.collection}"', "").replace(
        f'"searched":"{scene.collection}"', ""
    )
    assert scene.document.id not in answer.text
    every = application.client.post("/api/v1/answer", json=body, headers=application.as_("reader of all"))
    assert scene.document.id in every.text
