"""Users, keys, sessions and the audit log on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from catalog_samples import LIBRARY, Clock, new_document
from patience import PATIENCE_S

from app.access.throttle import MAX_FAILURES_OF_ADDRESS, Throttle
from app.catalog import SqlCatalog
from app.errors import ConflictError, InputError, NotFoundError, QuotaExceededError, ThrottledError, UnknownUserError
from app.types.access import AccountChange, ApiKey, AttemptCount, AuditEntry, Identity, Role, Scope, User, WebSession
from app.types.quotas import Allowance, Quotas, StoredAmount


@pytest.fixture
def anna(catalog: SqlCatalog, clock: Clock) -> User:
    anna = User("anna", Role.EDITOR, clock(), ("team-*", "shared"), "hash of a password")
    catalog.access.add_user(anna)
    return anna


def key_of(user: User, clock: Clock, **changes: object) -> ApiKey:
    return replace(
        ApiKey("k1", user.name, "export", "hash", Role.READER, clock(), ("shared",), scopes=(Scope.ACCESS,)), **changes
    )  # type: ignore[arg-type]


def session_of(user: str, token: str, clock: Clock) -> WebSession:
    end = clock() + timedelta(hours=1)
    return WebSession(
        token, user, "c" * 64, clock(), end, f"id of {token[:9]}", clock(), "10.0.0.1", "Firefox on Linux"
    )


def test_users_come_back_as_they_were_kept(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    bert = User("bert", Role.ADMIN, clock())
    catalog.access.add_user(bert)
    assert catalog.access.users() == [anna, bert]
    change = AccountChange(Role.READER, collections=(), is_disabled=True, quotas=Quotas(documents=3))
    disabled = catalog.access.change_user("anna", change)
    assert (
        disabled
        == replace(anna, role=Role.READER, disabled_at=clock(), collections=(), quotas=Quotas(documents=3))
        == catalog.access.user("anna")
    )
    assert catalog.access.change_user("anna", AccountChange()) == disabled
    enabled = catalog.access.change_user("anna", AccountChange(password_hash="new", is_disabled=False))
    assert enabled == replace(disabled, password_hash="new", disabled_at=None)
    with pytest.raises(ConflictError, match="anna"):
        catalog.access.add_user(anna)
    for ask in (catalog.access.user, catalog.access.delete_user):
        with pytest.raises(UnknownUserError, match="'clara'"):
            ask("clara")
    with pytest.raises(UnknownUserError):
        catalog.access.change_user("clara", AccountChange(Role.READER))


def test_keys_and_sessions_of_a_user_are_limited(
    catalog: SqlCatalog, anna: User, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MAX_KEYS", "MAX_SESSIONS"):
        monkeypatch.setattr(f"app.catalog.access.{limit}", 3)
    access, bert = catalog.access, User("bert", Role.ADMIN, clock())
    access.add_user(bert)
    access.add_key(key_of(bert, clock, id="of bert"))
    access.add_session(session_of("bert", "b" * 64, clock))
    for number in range(12):
        clock.advance(timedelta(seconds=1))
        access.add_key(key_of(anna, clock, id=f"k{number}"))
        if number < 9:
            access.revoke_key(f"k{number}")
        access.add_session(session_of("anna", f"{number:064}", clock))
    assert [key.id for key in access.keys("anna")] == ["k11", "k10", "k9", "k8", "k7", "k6"]
    assert [each.token_hash for each in access.web_sessions("anna")] == [f"{number:064}" for number in (11, 10, 9)]
    with pytest.raises(ConflictError, match=r"anna has 3 API keys.*revoke some"):
        access.add_key(key_of(anna, clock, id="one more"))
    access.revoke_key("k9")
    access.add_key(key_of(anna, clock, id="one more"))
    assert len(access.keys("bert")) == len(access.web_sessions("bert")) == 1


def test_a_time_that_utc_cannot_express_is_invalid_input(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    last = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
    with pytest.raises(InputError, match="cannot hold a value of this request"):
        catalog.access.add_key(key_of(anna, clock, expires_at=last))
    catalog.access.add_key(key_of(anna, clock, expires_at=datetime.max.replace(tzinfo=UTC)))


def test_of_two_changes_at_the_same_time_neither_is_lost(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    """An admin disables and demotes while the user sets a password: both saw the user as it was."""
    catalog.access.add_session(session_of("anna", "t" * 64, clock))
    changes = [
        AccountChange(Role.READER, is_disabled=True),
        *(AccountChange(password_hash=f"hash {number}") for number in range(8)),
        AccountChange(collections=("letters",)),
    ]
    begin = threading.Barrier(len(changes))

    def change(wanted: AccountChange) -> None:
        begin.wait(PATIENCE_S)
        with suppress(UnknownUserError):
            catalog.access.change_user(
                "anna", wanted, only_password=None if wanted.password_hash is None else anna.password_hash
            )

    with ThreadPoolExecutor(len(changes)) as pool:
        list(pool.map(change, changes))
    found = catalog.access.user("anna")
    assert (found.role, found.collections) == (Role.READER, ("letters",))
    assert found.disabled_at is not None
    assert catalog.access.web_sessions("anna") == []  # in the same transaction
    with pytest.raises(UnknownUserError):
        catalog.access.change_user("anna", AccountChange(password_hash="later"), only_password=found.password_hash)
    assert catalog.access.user("anna") == found
    reset = catalog.access.change_user("anna", AccountChange(password_hash="by an admin", is_disabled=False))
    with pytest.raises(UnknownUserError):  # who was checked by the former one
        catalog.access.change_user("anna", AccountChange(password_hash="own"), only_password=found.password_hash)
    assert catalog.access.user("anna") == reset


def test_a_session_that_begins_while_its_user_is_disabled_does_not_outlive_that(
    catalog: SqlCatalog, anna: User, clock: Clock
) -> None:
    begin = threading.Barrier(5)

    def log_in(number: int) -> None:
        begin.wait(PATIENCE_S)
        with suppress(UnknownUserError):
            catalog.access.add_session(session_of("anna", f"{number}" * 64, clock))

    def disable() -> None:
        begin.wait(PATIENCE_S)
        catalog.access.change_user("anna", AccountChange(is_disabled=True))

    with ThreadPoolExecutor(5) as pool:
        for future in [pool.submit(disable), *(pool.submit(log_in, number) for number in range(4))]:
            future.result()
    assert catalog.access.web_sessions("anna") == []
    for name in ("anna", "clara"):
        with pytest.raises(UnknownUserError):
            catalog.access.add_session(session_of(name, "t" * 64, clock))
    catalog.access.change_user("anna", AccountChange(is_disabled=False))
    catalog.access.add_session(session_of("anna", "t" * 64, clock))


def test_keys_and_sessions_go_with_their_user(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    catalog.access.add_key(key_of(anna, clock))
    catalog.access.add_session(session_of("anna", "t" * 64, clock))
    assert catalog.access.key("k1") == key_of(anna, clock)
    assert catalog.access.web_session("t" * 64) is not None
    catalog.access.delete_user("anna")
    assert catalog.access.key("k1") is None
    assert catalog.access.web_session("t" * 64) is None
    with pytest.raises(UnknownUserError):
        catalog.access.add_key(key_of(anna, clock))


def test_keys_are_listed_the_newest_first_and_stay_when_revoked(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    catalog.access.add_key(key_of(anna, clock))
    newer = key_of(anna, clock, id="k2", created_at=clock() + timedelta(seconds=1))
    catalog.access.add_key(newer)
    catalog.access.revoke_key("k1")
    assert catalog.access.keys("anna") == [newer, key_of(anna, clock, revoked_at=clock())]
    assert catalog.access.keys("bert") == []
    with pytest.raises(NotFoundError, match="'k3'"):
        catalog.access.revoke_key("k3")


def test_sessions_that_have_ended_are_forgotten(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    def begin(token: str) -> None:
        catalog.access.add_session(session_of("anna", token, clock))

    begin("first")
    clock.now += timedelta(hours=1)
    begin("second")
    assert catalog.access.web_session("first") is None
    assert catalog.access.web_session("second") is not None
    catalog.access.end_sessions(["second"])
    catalog.access.end_sessions(["second"])
    assert catalog.access.web_session("second") is None


def test_uploads_at_once_pass_no_quota(catalog: SqlCatalog, clock: Clock) -> None:
    for name in ("one", "two"):
        catalog.create_collection(replace(LIBRARY, name=name, active_index=f"{name}--1"))
    allowance = Allowance("anna", max_bytes=50, max_documents=5, contact="the desk")

    def upload(number: int) -> str:
        document = replace(new_document(f"{number}.txt"), byte_count=8, allowance=allowance)
        try:
            catalog.submit(("one", "two")[number % 2], document)
        except QuotaExceededError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(6) as threads:
        stored = list(threads.map(upload, range(12)))
    refused = {each for each in stored if each}
    assert stored.count("") == 5
    assert refused == {"anna may store 5 documents; this one would exceed that. Delete documents, or ask the desk."}
    assert catalog.access.stored_amount("anna") == StoredAmount(bytes=40, documents=5, largest=8)
    assert catalog.access.stored_amount("bert") == StoredAmount(bytes=0, documents=0, largest=0)
    there = stored.index("")
    larger = replace(new_document(f"{there}.txt", content="b"), byte_count=19, allowance=allowance)
    with pytest.raises(QuotaExceededError, match="would make it 51 bytes"):
        catalog.submit(("one", "two")[there % 2], larger)
    catalog.submit(("one", "two")[there % 2], replace(larger, byte_count=18))
    assert catalog.access.stored_amount("anna").bytes == 50


def test_sessions_are_listed_the_last_used_first(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    catalog.access.add_user(User("bert", Role.READER, clock()))
    tokens = {"first": "anna", "second": "anna", "third": "bert"}
    kept = {token: session_of(user, token, clock) for token, user in tokens.items()}
    for session in kept.values():
        catalog.access.add_session(session)
    later = clock() + timedelta(minutes=5)
    catalog.access.use_session("second", later)
    used = replace(kept["second"], used_at=later)
    assert catalog.access.web_sessions("anna") == [used, kept["first"]]
    assert {each.user for each in catalog.access.web_sessions()} == {"anna", "bert"}
    catalog.access.end_sessions(["first", "second"])
    assert catalog.access.web_sessions() == [kept["third"]]


def test_what_was_noted_is_counted_and_listed(catalog: SqlCatalog, clock: Clock) -> None:
    start = clock()
    for number, (actor, action, subject) in enumerate(
        [("anna", "login", "10.0.0.1"), ("bert", "login.failed", "10.0.0.1"), ("bert", "login.failed", "10.0.0.2")]
    ):
        catalog.access.note(AuditEntry(start + timedelta(minutes=number), actor, action, subject, {"n": str(number)}))
    assert [each.subject for each in catalog.access.audit_entries(actions=["login.failed"])] == ["10.0.0.2", "10.0.0.1"]
    assert [each.detail["n"] for each in catalog.access.audit_entries(limit=1, offset=1)] == ["1"]
    assert [each.action for each in catalog.access.audit_entries(actor="anna")] == ["login"]
    assert catalog.access.count_noted("login.failed", since=start) == 2
    assert catalog.access.count_noted("login.failed", since=start, subject="10.0.0.2") == 1
    assert catalog.access.count_noted("login.failed", since=start, actor="anna") == 0
    assert catalog.access.count_noted("login.failed", since=start + timedelta(minutes=1)) == 1


def test_attempts_are_counted_one_by_one_however_many_are_at_once(catalog: SqlCatalog, clock: Clock) -> None:
    start, window = clock(), timedelta(minutes=15)

    def begin(number: int) -> tuple[int, int]:
        counted = catalog.access.begin_attempt(["of name", f"of {number % 2}"], at=start, since=start - window)
        return counted["of name"].failures, counted[f"of {number % 2}"].failures

    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(begin, range(24)))
    assert sorted(name for name, _ in counts) == list(range(1, 25))
    assert sorted(address for _, address in counts) == sorted([*range(1, 13)] * 2)
    assert catalog.access.attempts(["of name", "of 2"], since=start - window) == {"of name": AttemptCount(start, 24)}


def test_attempts_are_taken_back_and_begin_anew_after_their_window(catalog: SqlCatalog, clock: Clock) -> None:
    start, window = clock(), timedelta(minutes=15)

    def begin(*counters: str, at: datetime) -> list[int]:
        return [each.failures for each in catalog.access.begin_attempt(counters, at=at, since=at - window).values()]

    assert begin("a", "b", at=start) == [1, 1]
    catalog.access.forgive_attempt(["a"])
    catalog.access.forgive_attempt(["a", "c"])
    assert begin("a", "b", at=start + window / 2) == [1, 2]
    assert catalog.access.attempts(["b"], since=start) == {}
    assert begin("a", at=start + window) == [1]
    assert catalog.access.attempts(["a"], since=start) == {"a": AttemptCount(start + window, 1)}
    assert catalog.access.attempts(["a", "b"], since=start - window).keys() == {"a"}  # the other one is forgotten


def test_identities_are_one_users_and_go_with_them(catalog: SqlCatalog, anna: User, clock: Clock) -> None:
    work, home = Identity("https://login.example.org", "0815"), Identity("https://other.example.org", "0815")
    bert = User("bert", Role.READER, clock())
    catalog.access.add_user(bert, identity=work)
    assert (catalog.access.user_of(work), catalog.access.user_of(home)) == ("bert", None)
    for name in ("clara", "bert"):  # neither the identity nor the name comes twice, and nothing is left of the attempt
        with pytest.raises(ConflictError):
            catalog.access.add_user(replace(bert, name=name), identity=work)
    assert [each.name for each in catalog.access.users()] == ["anna", "bert"]
    catalog.access.connect_user("anna", home)
    catalog.access.connect_user("anna", home)
    with pytest.raises(ConflictError, match="gircse users disconnect bert"):
        catalog.access.connect_user("anna", work)
    with pytest.raises(UnknownUserError):
        catalog.access.connect_user("clara", replace(work, subject="1"))
    assert catalog.access.identities() == [(home, "anna"), (work, "bert")]
    for name in ("anna", "bert"):
        catalog.access.add_session(session_of(name, name * 16, clock))
    assert catalog.access.disconnect_user("anna") == 1
    assert [each.user for each in catalog.access.web_sessions()] == ["bert"]
    catalog.access.delete_user("bert")
    assert catalog.access.identities() == []


def test_a_clock_that_was_ahead_locks_nobody_out(catalog: SqlCatalog, clock: Clock) -> None:
    throttle = Throttle("login", catalog.access, clock=clock)
    clock.advance(timedelta(days=365))
    for _ in range(MAX_FAILURES_OF_ADDRESS):
        with pytest.raises(ValueError), throttle.attempt("192.0.2.1", name="anna"):  # noqa: PT011 - of this test
            raise ValueError
    with pytest.raises(ThrottledError), throttle.attempt("192.0.2.1", name="anna"):
        pass
    clock.advance(-timedelta(days=365))
    throttle.require_room("192.0.2.1")
    with throttle.attempt("192.0.2.1", name="anna"):
        pass
