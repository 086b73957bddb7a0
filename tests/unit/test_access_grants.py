"""Nobody gives more than they have: every grantor against every grant of a role and collections, by every route."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from access_application import ADMIN_SECRET, AccessApplication, open_access_application
from typer.testing import CliRunner

from app.access.accounts import Accounts
from app.commands.access import keys, users
from app.commands.wiring import open_catalog
from app.errors import ForbiddenError
from app.testing import ToyEmbedder
from app.types.access import Principal, Role, Scope

READER, EDITOR, ADMIN = Role.READER, Role.EDITOR, Role.ADMIN
# What a pattern reaches is told by these names: every two of the patterns differ in one.
PROBES = ("own", "own-a", "own-b", "owner", "shared", "hidden", "x")
GRANTED: tuple[list[str] | None, ...] = (
    None,
    ["*"],
    ["own*"],
    ["own-*"],
    ["own-a"],
    ["own-a", "hidden"],
    ["*own-a"],
    [],
)
PASSWORD = "a password of tests"


@dataclass(frozen=True)
class Grantor:
    role: Role
    of_user: tuple[str, ...]
    of_key: tuple[str, ...] | None = None  # None: a session
    key_role: Role | None = None
    has_scope: bool = True


GRANTORS: Mapping[str, Grantor] = {
    "admin of all": Grantor(ADMIN, ("*",)),
    "admin of own": Grantor(ADMIN, ("own-*",)),
    "admin of all by a key for own": Grantor(ADMIN, ("*",), ("own-*",)),
    "admin of own by a key for one": Grantor(ADMIN, ("own-*",), ("own-a",)),
    "admin of all by a key without scope": Grantor(ADMIN, ("*",), ("*",), has_scope=False),
    "admin of all by a key of a reader": Grantor(ADMIN, ("*",), ("*",), READER),
    "editor of own": Grantor(EDITOR, ("own-*",)),
    "editor of own by a key for one": Grantor(EDITOR, ("own-*",), ("own-a",)),
    "reader of own by a key without scope": Grantor(READER, ("own-*",), ("own-a",), has_scope=False),
}
LONG = ("admin of own by a key for one", "editor of own by a key for one")

_numbers = count(1)


def each_grantor() -> list[Any]:
    return [pytest.param(each, marks=[pytest.mark.long] if each in LONG else []) for each in GRANTORS]


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[AccessApplication]:
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("grants"), opened, embedder=ToyEmbedder())
        yield opened.enter_context(open_access_application(toy))


def log_in(application: AccessApplication, name: str) -> dict[str, str]:
    answer = application.client.post("/login", data={"name": name, "password": PASSWORD})
    application.client.cookies.clear()
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def come_as(application: AccessApplication, grantor: Grantor) -> tuple[str, dict[str, str]]:
    """The name of a new user like this, and the headers that they send."""
    accounts, name = application.accounts, f"grantor-{next(_numbers)}"
    accounts.add_user(name, role=grantor.role, collections=grantor.of_user, password=PASSWORD)
    if grantor.of_key is None:
        return name, log_in(application, name)
    scopes = [Scope.ACCESS] if grantor.has_scope else []
    _, shown = accounts.add_key(name, role=grantor.key_role, collections=grantor.of_key, scopes=scopes)
    return name, {"authorization": f"Bearer {shown}"}


def reach_of(application: AccessApplication, headers: Mapping[str, str]) -> tuple[Role, frozenset[str]]:
    """What a principal may do, by the application's own word to them."""
    shown = headers.get("authorization", "").removeprefix("Bearer ")
    if shown:
        principal = application.accounts.principal_of_key(shown)
    else:
        told = application.client.get("/api/v1/me", headers=dict(headers)).json()
        principal = application.accounts.principal_of_user(told["name"])
    return principal.role, reached(principal)


def reached(principal: Principal) -> frozenset[str]:
    return frozenset(filter(principal.covers, PROBES))


def is_more(role: Role, names: frozenset[str], limit: tuple[Role, frozenset[str]]) -> bool:
    return role > limit[0] or not names <= limit[1]


@pytest.mark.parametrize("who", each_grantor())
def test_no_key_reaches_further_than_its_maker(application: AccessApplication, who: str) -> None:
    """Even once its user may do everything: who made it has seen its secret."""
    grantor = GRANTORS[who]
    name, headers = come_as(application, grantor)
    limit = reach_of(application, headers)
    made = 0
    for role, collections, owner_is_self in product((None, *Role), GRANTED, (True, False)):
        owner = name
        if not owner_is_self:
            owner = f"grantee-{next(_numbers)}"
            application.accounts.add_user(owner, role=READER, collections=["own-a"])
        body = {"user": owner, "role": role.label if role else None, "collections": collections}
        answer = application.client.post("/api/v1/keys", json=body, headers=headers)
        if answer.status_code != 201:
            assert answer.status_code in (403, 404), answer.text
            continue
        made += 1
        assert grantor.has_scope
        if not owner_is_self:
            application.accounts.change_user(owner, role=ADMIN, collections=["*"])
        principal = application.accounts.principal_of_key(answer.json()["secret"])
        assert not is_more(principal.role, reached(principal), limit), body
        if collections is not None:  # and what is allowed is given as it was asked for
            wanted = Principal("x", READER, tuple(collections))
            assert reached(principal) == reached(wanted) & limit[1]
    assert bool(made) == grantor.has_scope
    if "of all" in who and grantor.of_key is None:
        # The reader cannot be given a key of more than a reader, the admin can.
        assert made == len(GRANTED) * (4 + 2)


@pytest.mark.parametrize("who", each_grantor())
def test_no_user_is_made_or_changed_beyond_the_grantor(application: AccessApplication, who: str) -> None:
    grantor = GRANTORS[who]
    name, headers = come_as(application, grantor)
    limit = reach_of(application, headers)
    may_manage = grantor.has_scope and limit[0] is ADMIN
    done = 0
    for role, collections in product(Role, GRANTED):
        grantee = f"grantee-{next(_numbers)}"
        body = {"name": grantee, "role": role.label, "collections": collections}
        answer = application.client.post("/api/v1/users", json=body, headers=headers)
        if answer.status_code == 201:
            done += 1
            principal = application.accounts.principal_of_user(grantee)
            assert not is_more(principal.role, reached(principal), limit), body
        else:
            assert answer.status_code == 403, answer.text
            application.accounts.add_user(grantee, role=READER, collections=["own-a"])
        for changed in (grantee, name):
            before = application.accounts.ledger.user(changed)
            change = {"role": role.label, "collections": collections}
            answer = application.client.patch(f"/api/v1/users/{changed}", json=change, headers=headers)
            after = application.accounts.ledger.user(changed)
            if answer.status_code == 200:
                principal = application.accounts.principal_of_user(changed)
                assert not is_more(principal.role, reached(principal), limit), change
                application.accounts.change_user(changed, role=before.role, collections=before.collections)
            else:
                assert answer.status_code in (403, 404), answer.text
                assert after == before
    assert bool(done) == may_manage


@pytest.mark.parametrize("who", each_grantor())
def test_a_user_who_may_do_more_is_not_there(application: AccessApplication, who: str) -> None:
    """One who set their password, or let them in again, could come in as them."""
    grantor = GRANTORS[who]
    _, headers = come_as(application, grantor)
    limit = reach_of(application, headers)
    for role, collections in ((ADMIN, ("*",)), (READER, ("*",)), (ADMIN, ("own-a",)), (READER, ("own-a", "hidden"))):
        other = application.accounts.add_user(f"other-{next(_numbers)}", role=role, collections=collections)
        key, _ = application.accounts.add_key(other.name)
        is_beyond = is_more(role, reached(Principal("x", role, collections)), limit)
        may_manage = grantor.has_scope and limit[0] is ADMIN and not is_beyond
        where = f"/api/v1/users/{other.name}"
        client = application.client
        listed = client.get("/api/v1/users", headers=headers)
        assert (listed.status_code == 200) == (limit[0] is ADMIN)
        if listed.status_code == 200:
            assert (other.name in listed.text) != is_beyond
            assert (client.get(where, headers=headers).status_code == 200) != is_beyond
        assert (key.id in client.get("/api/v1/keys", headers=headers).text) == may_manage
        for change in ({"password": "another password"}, {"is_disabled": True}, {"is_disabled": False}):
            answer = client.patch(where, json=change, headers=headers)
            assert (answer.status_code == 200) == may_manage, answer.text
        answers = [client.delete(f"/api/v1/keys/{key.id}", headers=headers), client.delete(where, headers=headers)]
        assert [each.status_code == 204 for each in answers] == [may_manage] * 2
        if not may_manage:
            assert application.accounts.ledger.user(other.name) == other
            assert application.accounts.ledger.key(key.id) == key


def test_a_key_sees_and_revokes_itself_alone(application: AccessApplication) -> None:
    accounts, client = application.accounts, application.client
    accounts.add_user("clara", role=READER, collections=["own*", "shared"], password=PASSWORD)
    other, _ = accounts.add_key("clara", label="of another program")
    key, shown = accounts.add_key("clara", role=READER, collections=["own-a"])
    headers = {"authorization": f"Bearer {shown}"}
    assert [each["id"] for each in client.get("/api/v1/keys", headers=headers).json()] == [key.id]
    assert client.delete(f"/api/v1/keys/{other.id}", headers=headers).status_code == 404
    assert accounts.ledger.key(other.id).revoked_at is None  # type: ignore[union-attr]
    assert client.post("/api/v1/keys", json={}, headers=headers).status_code == 403
    assert client.get("/api/v1/me", headers=headers).json()["scopes"] == []
    assert client.delete(f"/api/v1/keys/{key.id}", headers=headers).status_code == 204
    assert client.get("/api/v1/keys", headers=headers).status_code == 401


def test_a_key_with_the_scope_manages_those_of_its_user_that_do_no_more(application: AccessApplication) -> None:
    accounts, client = application.accounts, application.client
    accounts.add_user("dora", role=EDITOR, collections=["own*"], password=PASSWORD)
    wide, _ = accounts.add_key("dora")
    narrow, _ = accounts.add_key("dora", role=READER, collections=["own-a"])
    ends = datetime.now(UTC) + timedelta(days=2)
    key, shown = accounts.add_key("dora", collections=["own-*"], scopes=[Scope.ACCESS], expires_at=ends)
    headers = {"authorization": f"Bearer {shown}"}
    assert {each["id"] for each in client.get("/api/v1/keys", headers=headers).json()} == {key.id, narrow.id}
    made = client.post("/api/v1/keys", json={"scopes": ["access"]}, headers=headers).json()
    assert (made["role"], made["collections"], made["scopes"]) == ("editor", ["own-*"], ["access"])
    assert datetime.fromisoformat(made["expires_at"]) == ends  # no key outlives the one that made it
    later = {"expires_at": (ends + timedelta(seconds=1)).isoformat()}
    assert client.post("/api/v1/keys", json=later, headers=headers).status_code == 403
    assert client.delete(f"/api/v1/keys/{narrow.id}", headers=headers).status_code == 204
    assert client.delete(f"/api/v1/keys/{wide.id}", headers=headers).status_code == 404
    session = log_in(application, "dora")
    assert client.delete(f"/api/v1/keys/{wide.id}", headers=session).status_code == 204
    assert client.get("/api/v1/audit", headers=headers).status_code == 403


def test_the_log_of_all_collections_needs_all_collections(application: AccessApplication) -> None:
    _, headers = come_as(application, GRANTORS["admin of own"])
    assert application.client.get("/api/v1/audit", headers=headers).status_code == 403
    everything = {"authorization": f"Bearer {ADMIN_SECRET}"}
    assert application.client.get("/api/v1/audit", headers=everything).status_code == 200


def patterns(collections: list[str] | None) -> list[str]:
    """As options of the command line."""
    return [option for each in collections or () for option in ("-c", each)]


def changes_by_command() -> Iterator[tuple[Role | None, list[str] | None, bool]]:
    for role, collections, has_scope in product((None, *Role), GRANTED, (False, True)):
        if collections != []:  # which no option says
            yield role, collections, has_scope


@pytest.mark.parametrize("of_user", ["own-*", pytest.param("*", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("owner", "share"),
    [*((each, 24) for each in Role), *(pytest.param(each, 1, marks=pytest.mark.long) for each in Role)],
)
def test_no_key_of_the_command_line_does_more_than_its_user(
    owner: Role, share: int, of_user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in `share` of the changes. Who may use this command line has the whole home, and makes users as they like."""
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path))
    program = CliRunner()
    assert program.invoke(users, ["add", "anna", "--role", owner.label, "-c", of_user]).exit_code == 0
    limit, made = (owner, reached(Principal("anna", owner, (of_user,)))), list[str]()
    for role, collections, has_scope in [*changes_by_command()][int(owner) % share :: share]:
        options = [
            *(["--role", role.label] if role else []),
            *patterns(collections),
            *(["--scope", "access"] * has_scope),
        ]
        run = program.invoke(keys, ["add", "anna", *options])
        is_beyond = role is not None and role > owner
        assert (run.exit_code == 0) != is_beyond, (options, run.output)
        assert isinstance(run.exception, ForbiddenError) == is_beyond
        if is_beyond:
            continue
        with open_catalog() as catalog:
            made.append(run.stdout.splitlines()[0])
            principal = Accounts(catalog.access).principal_of_key(made[-1])
            assert not is_more(principal.role, reached(principal), limit), options
            assert principal.role == (owner if role is None else role)
            if collections is not None:
                assert reached(principal) == reached(Principal("x", READER, tuple(collections))) & limit[1]
    assert made
    assert program.invoke(users, ["change", "anna", "--role", "reader", "-c", "shared"]).exit_code == 0
    with open_catalog() as catalog:  # what a key was given before counts no more than what its user has now
        for shown in made:
            principal = Accounts(catalog.access).principal_of_key(shown)
            assert not is_more(principal.role, reached(principal), (READER, frozenset({"shared"})))
