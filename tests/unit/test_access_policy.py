"""The table of who may call what is complete, and the guard applies it: the tests go through the table, so that a new
method is tested as soon as it has a rule."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from inspect import Parameter, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from api_application import authorized

from app.access import policy
from app.access.authorized_services import AuthorizedServices, access_to
from app.access.guard import Access, Audit, Rule, Subject, behind_guard
from app.access.policy import POLICY
from app.errors import (
    ConflictError,
    ForbiddenError,
    GircseError,
    InputError,
    LoginRequiredError,
    NotFoundError,
    UnknownCollectionError,
    VectorIndexUnavailableError,
)
from app.evaluation.background import unknown_run
from app.search.judgements import new_judgement, new_lens
from app.types.access import Principal, Role, acting_as
from app.types.answers import AnswerRequest
from app.types.documents import Document
from app.types.evaluation import EvaluationPlan
from app.types.search import ALL_COLLECTIONS, SearchRequest, SearchResult
from app.types.sources import SourceKind

READER, EDITOR, ADMIN = Role.READER, Role.EDITOR, Role.ADMIN
OWN, HIDDEN = "own", "hidden"

# Parts of AuthorizedServices that are no services: they tell of no collection, and change nothing of one.
NO_SERVICES = {"settings", "embedder", "checks", "metrics", "quotas", "damage", "token_counter"}
# Methods that processes of this server use, and interfaces do not.
DENIED: Mapping[str, set[str]] = {"catalog": {"is_alive"}, "evaluations": {"close"}}

RULES = [(service, name, rule) for service, rules in POLICY.items() for name, rule in rules.items()]


def each_rule(wanted: Callable[[Rule], object]) -> list[Any]:
    return [pytest.param(*each, id=f"{each[0]}.{each[1]}") for each in RULES if wanted(each[2])]


@pytest.fixture(scope="module")
def access(lasting_services: Any) -> Access:
    """To a collection of the caller, and one that is hidden from them, each with a document and a source."""
    services = lasting_services.services
    for name in (OWN, HIDDEN):
        lasting_services.add(f"A text of {name}.", collection=name)
        services.catalog.sources.add(
            name, SourceKind.PAGE, f"https://{name}.example", every=timedelta(hours=1), removes=False, owner="anna"
        )
    return access_to(services.catalog, services.settings)


@pytest.fixture(scope="module")
def services(lasting_services: Any) -> AuthorizedServices:
    return authorized(lasting_services.services)


class Unreached:
    """Has the methods of a service; a call of one of them fails the test."""

    def __init__(self, service: object) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **keywords: Any) -> None:
            pytest.fail(f"{name} is called with {args} {keywords}")

        call.__signature__ = signature(getattr(self._service, name))  # type: ignore[attr-defined]
        return call


@dataclass
class Call:
    """A call of a method behind the guard, which must refuse it. Arguments that no rule reads are of no importance."""

    method: Callable[..., Any]
    rule: Rule

    def __call__(self, access: Access, *, is_hidden: bool) -> Any:
        named = {each.argument: VALUES[each.collections](access, is_hidden) for each in self.rule.subjects}
        parameters = signature(self.method).parameters.values()
        needed = {each.name: object() for each in parameters if each.default is Parameter.empty}
        return self.method(**{**needed, **{name: value for name, value in named.items() if name is not None}})


@pytest.fixture
def call_of(services: AuthorizedServices, access: Access) -> Callable[[str, str], Call]:
    def call(service: str, name: str) -> Call:
        rule = POLICY[service][name]
        unreached = Unreached(getattr(services, service))
        return Call(getattr(behind_guard(unreached, {name: rule}, access), name), rule)

    return call


def document_in(access: Access, is_hidden: bool) -> Document:
    (document,) = access.catalog.documents(HIDDEN if is_hidden else OWN)
    return document


def job_in(access: Access, is_hidden: bool) -> str:
    (job,) = access.catalog.jobs(collection=HIDDEN if is_hidden else OWN)
    return job.id


def source_in(access: Access, is_hidden: bool) -> str:
    (source,) = access.catalog.sources.of_collection(HIDDEN if is_hidden else OWN)
    return source.id


def name_of(is_hidden: bool) -> str:
    return HIDDEN if is_hidden else OWN


# For each function that finds collections: a value of its argument in the hidden collection, or in the caller's own.
VALUES: Mapping[Callable[..., Any], Callable[[Access, bool], Any]] = {
    policy.one: lambda access, is_hidden: name_of(is_hidden),
    policy.one_or_all: lambda access, is_hidden: name_of(is_hidden),
    policy.one_or_visible: lambda access, is_hidden: name_of(is_hidden),
    policy.new_name: lambda access, is_hidden: name_of(is_hidden),
    policy.of_document: document_in,
    policy.of_document_id: lambda access, is_hidden: document_in(access, is_hidden).id,
    policy.of_document_ids: lambda access, is_hidden: [document_in(access, is_hidden).id],
    policy.of_job_id: job_in,
    policy.of_source_id: source_in,
    policy.of_judgement: lambda access, is_hidden: new_judgement(
        document_in(access, is_hidden).id, query="q", instruction="", grade=1
    ),
    policy.of_request: lambda access, is_hidden: SearchRequest("q", name_of(is_hidden)),
    policy.of_hits: lambda access, is_hidden: SearchResult("q", "", 1, name_of(is_hidden), (), (), {}),
    policy.of_plan: lambda access, is_hidden: EvaluationPlan(OWN, (OWN, name_of(is_hidden))),
    policy.all_for_reader: lambda access, is_hidden: None,
    policy.all_for_admin: lambda access, is_hidden: None,
}


# Complete


def members(kind: type) -> set[str]:
    """The public methods and properties of a protocol or a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_part_of_the_services_is_behind_the_guard() -> None:
    assert set(get_type_hints(AuthorizedServices)) - NO_SERVICES == set(POLICY)
    assert not NO_SERVICES & set(POLICY)


@pytest.mark.parametrize("service", POLICY)
def test_every_method_that_interfaces_have_has_a_rule(service: str) -> None:
    offered = members(get_type_hints(AuthorizedServices)[service]) - DENIED.get(service, set())
    assert offered <= set(POLICY[service]), "add a rule to app/access/policy.py"


@pytest.mark.parametrize("service", POLICY)
def test_a_method_without_a_rule_is_denied(services: AuthorizedServices, lasting_services: Any, service: str) -> None:
    guard = getattr(services, service)
    real = getattr(lasting_services.services, service, None)
    others = (members(type(real)) if real is not None else set()) | {"_catalog", "_service", "new_method"}
    for name in others - set(POLICY[service]):
        with pytest.raises(AttributeError, match=rf"\.{name} has no rule in app/access/policy.py"):
            getattr(guard, name)
    assert {name for name in dir(guard) if not name.startswith("_")} <= set(POLICY[service])


def test_a_service_without_rules_is_denied_altogether(access: Access) -> None:
    with pytest.raises(AttributeError, match=r"SqlCatalog\.collections has no rule"):
        behind_guard(access.catalog, {}, access).collections()


class Shelf:
    """A service of these tests."""

    label = "of tests"

    def take(self, collection: str, count: int = 1, *, note: str = "") -> str:
        return f"{count} of {collection}{note}"

    def stream(self, collection: str) -> Iterator[str]:
        yield collection
        raise UnknownCollectionError("gone", [OWN, HIDDEN])

    def any(self, *collection: str) -> None: ...


def other_arguments(access: Access, shelf: Shelf, count: int, collection: str) -> None: ...


BAD_RULES: Mapping[str, Mapping[str, Rule]] = {
    "no such method": {"put": Rule(READER)},
    "no method": {"label": Rule(READER)},
    "no such value": {"price": Rule(READER, is_value=True)},
    "no such subject": {"take": Rule(READER, (Subject("name", policy.one),))},
    "a subject of any number": {"any": Rule(READER, (Subject("collection", policy.one),))},
    "no such detail": {"take": Rule(READER, audit=Audit("taken", "collection", ("lens",)))},
    "no such argument": {"take": Rule(READER, give={"allowance": policy.own_allowance})},
    "other arguments": {"take": Rule(READER, instead=other_arguments)},
}


@pytest.mark.parametrize("fault", BAD_RULES)
def test_a_rule_that_does_not_fit_its_service_stops_the_start(access: Access, fault: str) -> None:
    with pytest.raises(TypeError):
        behind_guard(Shelf(), BAD_RULES[fault], access)


# Refused


@pytest.mark.parametrize(("service", "name", "rule"), each_rule(lambda rule: rule.role is not None))
def test_nobody_and_lesser_roles_are_refused(
    call_of: Callable[[str, str], Call], access: Access, service: str, name: str, rule: Rule
) -> None:
    call = call_of(service, name)
    with pytest.raises(LoginRequiredError):
        call(access, is_hidden=False)
    assert rule.role is not None
    for role in range(READER, rule.role):
        with (
            acting_as(Principal("anna", Role(role))),
            pytest.raises(ForbiddenError, match=f"needs the role {rule.role.label}"),
        ):
            call(access, is_hidden=False)


@pytest.mark.parametrize(("service", "name", "rule"), each_rule(lambda rule: rule.scope is not None))
def test_a_key_without_the_scope_is_refused(
    call_of: Callable[[str, str], Call], access: Access, service: str, name: str, rule: Rule
) -> None:
    with acting_as(Principal("anna", ADMIN, key_id="a key")), pytest.raises(ForbiddenError, match="--scope"):
        call_of(service, name)(access, is_hidden=False)


def test_a_lens_is_changed_only_where_the_caller_sees_its_indexes(toy_services: Any) -> None:
    """Lenses are shared, but a hidden collection keeps the values of its index."""
    catalog = toy_services.services.catalog
    editor = Principal("anna", EDITOR, ("own*",))
    limited = authorized(toy_services.services).catalog
    for change in (
        lambda: limited.save_lens(new_lens("animals", "Which?", values=("cat", "fox"))),
        lambda: limited.save_lens(new_lens("animals", "Which?")),
        lambda: limited.delete_lens("animals"),
    ):
        catalog.save_lens(new_lens("animals", "Which?", values=("cat", "dog")))
        before = {}
        for name in (OWN, HIDDEN):
            toy_services.services.library.ensure_collection(name)
            before[name] = catalog.lens_indexes.queue(name, "animals", ("cat", "dog"))
        with acting_as(editor):
            change()
        assert catalog.lens_indexes.of_collection(HIDDEN) == [before[HIDDEN]]
        assert catalog.lens_indexes.of_collection(OWN) != [before[OWN]]


def test_what_anyone_may_call_names_no_collections(access: Access) -> None:
    class Feeds:
        def feed(self, token: str) -> None:
            raise UnknownCollectionError("gone", [OWN, HIDDEN])

    with pytest.raises(NotFoundError, match=r"^The collection 'gone' was deleted meanwhile\.$"):
        behind_guard(Feeds(), {"feed": policy.OPEN}, access).feed("token")


CALLERS = (Principal("anna", ADMIN, ("own*",)), Principal("anna", ADMIN, key_id="a key", key_collections=("own*",)))


@pytest.mark.parametrize("caller", CALLERS, ids=["a user", "a key"])
@pytest.mark.parametrize(("service", "name", "rule"), each_rule(lambda rule: rule.subjects))
def test_a_hidden_collection_is_refused(
    call_of: Callable[[str, str], Call], access: Access, caller: Principal, service: str, name: str, rule: Rule
) -> None:
    with acting_as(caller), pytest.raises((NotFoundError, ForbiddenError)) as refused:
        call_of(service, name)(access, is_hidden=True)
    if isinstance(refused.value, UnknownCollectionError):
        assert HIDDEN not in refused.value.known


# Of rules that find no collections before the call: what a caller who sees `own` alone gets. A new one needs an entry.
COMPUTED: Mapping[Callable[..., Any], Callable[[AuthorizedServices, Access], Any]] = {
    policy.visible_collections: lambda services, access: (
        [each.name for each in services.catalog.collections()] == [OWN]
    ),
    policy.visible_document: lambda services, access: is_missing(
        services.catalog.document, document_in(access, True).id
    ),
    policy.visible_job: lambda services, access: is_missing(services.catalog.job, job_in(access, True)),
    policy.visible_jobs: lambda services, access: (
        list(services.catalog.latest_jobs([document_in(access, hidden).id for hidden in (True, False)]))
        == [document_in(access, False).id]
    ),
    policy.visible_runs: lambda services, access: [each.id for each in runs_of(access).runs()] == ["run-own"],
    policy.visible_run: lambda services, access: is_missing(runs_of(access).run, "run-hidden"),
    policy.cancel_visible: lambda services, access: is_missing(runs_of(access).cancel, "run-hidden"),
    policy.compare_visible: lambda services, access: is_missing(runs_of(access).compare, "run-hidden"),
}


def is_missing(method: Callable[[str], Any], value: str) -> bool:
    """Whether a hidden thing is reported as one that does not exist."""
    with pytest.raises(NotFoundError) as hidden:
        method(value)
    with pytest.raises(NotFoundError) as unknown:
        method("none")
    return str(hidden.value).replace(value, "none") == str(unknown.value)


class FewRuns:
    """Evaluations of own and of hidden collections."""

    def runs(self) -> list[Any]:
        return [SimpleNamespace(id=f"run-{name}", plan=EvaluationPlan(OWN, (name,))) for name in (OWN, HIDDEN)]

    def run(self, run_id: str) -> Any:
        for run in self.runs():
            if run.id == run_id:
                return run
        raise unknown_run(run_id)

    def start(self, plan: EvaluationPlan) -> Any: ...
    def cancel(self, run_id: str) -> Any: ...
    def compare(self, run_id: str, *, baseline: int = 0) -> Any: ...


def runs_of(access: Access) -> FewRuns:
    return behind_guard(FewRuns(), POLICY["evaluations"], access)


def test_every_function_that_computes_is_tested() -> None:
    computing = {rule.instead for _, _, rule in RULES if rule.instead is not None and not rule.subjects}
    assert computing == set(COMPUTED)


@pytest.mark.parametrize("computed", COMPUTED, ids=lambda computed: computed.__name__)
def test_what_is_computed_shows_nothing_hidden(
    services: AuthorizedServices, access: Access, computed: Callable[..., Any]
) -> None:
    with acting_as(Principal("anna", EDITOR, ("own*",))):
        assert COMPUTED[computed](services, access)


@pytest.mark.parametrize("request_of", [SearchRequest, AnswerRequest])
def test_a_search_of_all_collections_is_one_of_the_visible(access: Access, request_of: Any) -> None:
    with acting_as(Principal("anna", READER, ("own*",))):
        given = policy.among_visible(access, request_of("q", ALL_COLLECTIONS, among=frozenset({HIDDEN})))
    assert given.among == {OWN}


# How the guard calls


def shelf_of(access: Access, **rules: Rule) -> Shelf:
    return behind_guard(Shelf(), rules, access)


IN_COLLECTION = policy.IN_COLLECTION


def test_an_argument_is_found_however_it_is_given(access: Access) -> None:
    shelf = shelf_of(access, take=Rule(READER, IN_COLLECTION))
    with acting_as(CALLERS[0]):
        assert shelf.take(OWN) == shelf.take(collection=OWN) == shelf.take(count=1, collection=OWN) == "1 of own"
        for refused in (
            lambda: shelf.take(HIDDEN),
            lambda: shelf.take(collection=HIDDEN),
            lambda: shelf.take(HIDDEN, 2, note=OWN),
        ):
            with pytest.raises(UnknownCollectionError):
                refused()
        takes: Any = shelf.take
        for wrong in (lambda: takes(), lambda: takes(OWN, collection=HIDDEN), lambda: takes(OWN, lens="x")):
            with pytest.raises(TypeError):
                wrong()


def test_an_argument_of_the_guard_replaces_that_of_the_caller(access: Access) -> None:
    shelf = shelf_of(access, take=Rule(READER, give={"note": policy.own_name, "count": lambda access, count: 7}))
    with acting_as(CALLERS[0]):
        assert shelf.take(OWN, 2, note="eve") == shelf.take(OWN, count=3) == shelf.take(OWN) == "7 of ownanna"


def test_a_stream_is_refused_at_the_call_and_hides_to_its_end(access: Access) -> None:
    shelf = shelf_of(access, stream=Rule(READER, IN_COLLECTION))
    with pytest.raises(LoginRequiredError):
        shelf.stream(OWN)
    with acting_as(CALLERS[0]):
        with pytest.raises(UnknownCollectionError):
            shelf.stream(HIDDEN)
        items = shelf.stream(OWN)
    assert next(items) == OWN
    with pytest.raises(UnknownCollectionError) as unknown:
        next(items)
    assert unknown.value.known == [OWN]


def test_an_error_names_no_hidden_collection(access: Access) -> None:
    catalog = behind_guard(access.catalog, POLICY["catalog"], access)
    with acting_as(CALLERS[0]), pytest.raises(UnknownCollectionError) as unknown:
        catalog.collection("own-but-absent")
    assert unknown.value.known == [OWN]


# What is noted


class Notes:
    """A service whose calls see what was noted before them."""

    def __init__(self, access: Access, *, is_applied: bool = True, error: GircseError | None = None) -> None:
        self._access, self.is_applied, self._error = access, is_applied, error

    def change(self, collection: str, lens: str) -> Notes:
        self.noted_before = events(self._access)
        if self._error is not None:
            raise self._error
        return self


def events(access: Access) -> list[tuple[str, str, Mapping[str, str]]]:
    found = access.catalog.access.audit_entries(actions=["tested"], limit=1000)
    return [(each.actor, each.subject, each.detail) for each in found]


BEFORE = Audit("tested", "collection", ("collection", "lens"))
AFTER = Audit("tested", "collection", after=True, applied=lambda result: result.is_applied)


def noted(access: Access, audit: Audit, notes: Notes) -> tuple[int, list[tuple[str, str, Mapping[str, str]]]]:
    """How many entries the call saw that it made, and all that there are after it."""
    before = events(access)
    service = behind_guard(notes, {"change": Rule(EDITOR, IN_COLLECTION, audit=audit)}, access)
    with acting_as(CALLERS[1]), suppress(GircseError):
        service.change(OWN, "a lens")
    after = events(access)
    return len(notes.noted_before) - len(before), after[: len(after) - len(before)]


def test_a_deed_is_noted_before_it_is_done(access: Access) -> None:
    entry = ("anna", OWN, {"key": "a key", "collection": OWN, "lens": "a lens"})
    assert noted(access, BEFORE, Notes(access)) == (1, [entry])
    assert noted(access, BEFORE, Notes(access, error=GircseError("It failed."))) == (1, [entry])


@pytest.mark.parametrize("error", [ConflictError, InputError, NotFoundError, ForbiddenError])
def test_a_deed_that_is_refused_is_no_entry(access: Access, error: type[GircseError]) -> None:
    assert noted(access, BEFORE, Notes(access, error=error("It is refused."))) == (1, [])


def test_a_deed_that_may_be_half_done_stays_an_entry(access: Access) -> None:
    count, entries = noted(access, BEFORE, Notes(access, error=VectorIndexUnavailableError("It is away.")))
    assert (count, len(entries)) == (1, 1)


def test_what_is_noted_afterwards_was_done(access: Access) -> None:
    assert noted(access, AFTER, Notes(access)) == (0, [("anna", OWN, {"key": "a key"})])
    assert noted(access, AFTER, Notes(access, is_applied=False)) == (0, [])
    assert noted(access, AFTER, Notes(access, error=GircseError("It failed."))) == (0, [])


def test_nothing_is_noted_of_what_is_refused(access: Access) -> None:
    before = len(events(access))
    service = behind_guard(Notes(access), {"change": Rule(EDITOR, IN_COLLECTION, audit=BEFORE)}, access)
    with acting_as(CALLERS[0]), pytest.raises(UnknownCollectionError):
        service.change(HIDDEN, "a lens")
    assert len(events(access)) == before


def test_every_event_that_a_service_notes_is_in_the_table() -> None:
    folder = Path(policy.__file__).parent
    found = {
        node.args[0].value
        for file in ("account_service", "policy", "source_service")
        for node in ast.walk(ast.parse((folder / f"{file}.py").read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("noting", "note_refused", "note_done", "note_all_done")
        if isinstance(node.args[0], ast.Constant)
    }
    assert found == {event for _, _, rule in RULES for event in rule.notes}
