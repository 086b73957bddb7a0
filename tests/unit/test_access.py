"""Users, keys, sessions and the authorizer, without HTTP."""

from __future__ import annotations

import re
import stat
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st
from locked_catalog import locked
from patience import PATIENCE_S

from app.access import hashing
from app.access.accounts import Accounts, check_collections
from app.access.authorized_services import access_to
from app.access.authorizer import Authorizer
from app.access.browsers import browser_in_words
from app.access.guard import Audit, Rule, behind_guard
from app.access.logins import FAILED, KEY_REFUSED, Logins
from app.access.secret_file import FILE_NAME, load_admin_secret
from app.access.throttle import MAX_FAILURES_OF_ADDRESS, MAX_FAILURES_OF_NAME, MAX_FAILURES_OF_UNKNOWN_ADDRESS, WINDOW
from app.catalog import lock_waits
from app.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    LoginRequiredError,
    ThrottledError,
    UnknownCollectionError,
    UnknownUserError,
)
from app.settings import Settings
from app.types.access import OPERATOR, Principal, Role, User, acting_as, current_principal, matches
from app.types.patience import answering, current_request

SECRET = "gs_a-secret-that-nobody-guesses"
PASSWORD = "correct horse battery"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 5, 4, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(toy_services: Any, clock: Clock) -> Accounts:
    accounts = Accounts(toy_services.services.catalog.access, admin_secret=SECRET, clock=clock)
    accounts.ensure_admin()
    accounts.add_user("anna", role=Role.EDITOR, collections=["team-*", "shared"], password=PASSWORD)
    return accounts


@pytest.fixture
def logins(accounts: Accounts, toy_services: Any, clock: Clock) -> Logins:
    return Logins(accounts, toy_services.services.catalog.access, clock=clock)


def refused(accounts: Accounts, shown: str) -> None:
    with pytest.raises(LoginRequiredError):
        accounts.principal_of_key(shown)


# Who is it?


def test_no_user_can_be_taken_for_the_operator(accounts: Accounts, toy_services: Any, clock: Clock) -> None:
    with pytest.raises(InputError, match="reserved for the server"):
        accounts.add_user("operator", role=Role.READER, password=PASSWORD)
    toy_services.services.catalog.access.add_user(
        User("operator", Role.READER, clock())
    )  # as earlier versions called one
    with pytest.raises(LoginRequiredError):
        accounts.principal_of_user("operator")
    assert not Principal("operator", Role.ADMIN).is_operator


def test_no_decision_compares_with_the_name_of_the_operator() -> None:
    compared = re.compile(r"""[!=]= *(?:OPERATOR\.name|["']operator["'])|\bin \([^)]*OPERATOR\.name""")
    root = Path(__file__).parents[2]
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for folder in ("app", "ingest", "ui")
        for path in sorted((root / folder).rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if compared.search(line)
    ]
    assert found == ["app/types/access.py: return owner == OPERATOR.name"]  # of what is kept with its owner's name


# Keys


def test_a_key_does_what_its_user_may(accounts: Accounts) -> None:
    key, shown = accounts.add_key("anna")
    principal = accounts.principal_of_key(shown)
    assert (principal.name, principal.role, principal.key_id) == ("anna", Role.EDITOR, key.id)
    assert [principal.covers(each) for each in ("team-a", "shared", "teams", "other")] == [True, True, False, False]


def test_a_key_can_be_narrower_than_its_user_and_never_wider(accounts: Accounts) -> None:
    _, shown = accounts.add_key("anna", role=Role.READER, collections=["team-a", "other"])
    principal = accounts.principal_of_key(shown)
    assert principal.role is Role.READER
    assert [principal.covers(each) for each in ("team-a", "team-b", "other")] == [True, False, False]
    with pytest.raises(ForbiddenError, match="anna is editor"):
        accounts.add_key("anna", role=Role.ADMIN)
    accounts.change_user("anna", role=Role.READER, collections=["shared"])
    assert not accounts.principal_of_key(shown).covers("team-a")


def test_a_key_loses_what_its_user_loses(accounts: Accounts) -> None:
    _, shown = accounts.add_key("anna")
    accounts.change_user("anna", role=Role.READER)
    assert accounts.principal_of_key(shown).role is Role.READER


@pytest.mark.parametrize("end", ["revoked", "expired", "user disabled", "user removed"])
def test_a_key_ends_at_once_even_after_it_was_used(accounts: Accounts, clock: Clock, end: str) -> None:
    key, shown = accounts.add_key("anna", expires_at=clock.now + timedelta(days=1))
    accounts.principal_of_key(shown)
    if end == "revoked":
        accounts.ledger.revoke_key(key.id)
    elif end == "expired":
        clock.now += timedelta(days=1)
    elif end == "user disabled":
        accounts.change_user("anna", is_disabled=True)
    else:
        accounts.remove_user("anna")
    refused(accounts, shown)


def test_no_key_of_a_clock_that_was_ahead_lasts_for_long(accounts: Accounts, clock: Clock) -> None:
    right, month = clock.now, timedelta(days=30)
    clock.now = right + month
    _, barely = accounts.add_key("anna", expires_at=clock.now + month)
    clock.now += timedelta(days=1)
    _, far = accounts.add_key("anna", expires_at=clock.now + month)
    _, endless = accounts.add_key("anna")
    clock.now = right
    assert {accounts.principal_of_key(shown).name for shown in (barely, endless)} == {"anna"}
    refused(accounts, far)


def test_a_key_of_a_user_of_the_same_name_who_came_later_is_not_theirs(accounts: Accounts) -> None:
    _, shown = accounts.add_key("anna")
    accounts.remove_user("anna")
    accounts.add_user("anna", role=Role.ADMIN)
    refused(accounts, shown)


def test_only_the_very_key_is_taken(accounts: Accounts) -> None:
    _, shown = accounts.add_key("anna")
    other = shown[:-1] + ("A" if shown[-1] != "A" else "B")
    for wrong in ("", " ", shown[:-1], shown + "x", shown.upper(), other, f" {shown}", "gk_" + "0" * 12 + shown[15:]):
        refused(accounts, wrong)


def test_a_secret_is_kept_nowhere(accounts: Accounts, toy_services: Any) -> None:
    _, shown = accounts.add_key("anna")
    accounts.principal_of_key(shown)
    home = toy_services.services.settings.home
    stored = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"anna" in stored
    for secret in (shown[16:], PASSWORD, SECRET):
        assert secret.encode() not in stored
    assert stored.count(b"$argon2id$") >= 2


def test_a_guess_at_a_password_costs_memory_and_time(password_hasher: PasswordHasher) -> None:
    hasher, costs = hashing.SecretHasher(password_hasher), "$argon2id$v=19$m=65536,t=3,p=1$"
    assert hasher.hash(PASSWORD).startswith(costs)
    assert hasher._absent_hash().startswith(costs)


def test_checking_takes_the_same_work_for_unknown_and_for_wrong_keys(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted instead of timed: one Argon2 check each, with the same costs."""
    _, shown = accounts.add_key("anna")
    checked: list[str] = []
    verify = type(hashing.KEYS._hasher).verify

    def count(hasher: Any, known: str, secret: str) -> bool:
        checked.append(known.rpartition("$")[0].rpartition("$")[0])
        return bool(verify(hasher, known, secret))

    monkeypatch.setattr(type(hashing.KEYS._hasher), "verify", count)
    for wrong in ("gk_" + "0" * 12 + shown[15:], shown[:-3] + "xyz"):
        refused(accounts, wrong)
    assert len(checked) == 2
    assert checked[0] == checked[1]
    checked.clear()
    assert not accounts.check_password("nobody", PASSWORD)
    assert not accounts.check_password("anna", "wrong password")
    assert not accounts.check_password("admin", "wrong password")
    assert len(checked) == 3
    assert len(set(checked)) == 1


def test_the_work_is_spent_once_for_a_right_key(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    _, shown = accounts.add_key("anna")
    accounts.principal_of_key(shown)
    monkeypatch.setattr(hashing.SecretHasher, "matches", lambda *_: pytest.fail("hashed again"))
    accounts.principal_of_key(shown)


def test_the_admin_secret_is_a_key_and_a_password(accounts: Accounts) -> None:
    assert accounts.principal_of_key(SECRET) == Principal("admin", Role.ADMIN)
    assert accounts.check_password("admin", SECRET)
    assert not accounts.check_password("admin", SECRET[:-1])
    assert not Accounts(accounts.ledger).check_password("admin", "")


# Users


def test_admin_stays_as_it_is(accounts: Accounts) -> None:
    for change in (
        lambda: accounts.change_user("admin", role=Role.READER),
        lambda: accounts.change_user("admin", is_disabled=True),
        lambda: accounts.remove_user("admin"),
        lambda: accounts.add_user("admin", role=Role.READER),
    ):
        with pytest.raises(ConflictError, match="admin"):
            change()


@pytest.mark.parametrize("name", ["", "Anna", "anna b", "../anna", "a" * 64, "anna\n", "<b>", "-a"])
def test_strange_names_are_refused(accounts: Accounts, name: str) -> None:
    with pytest.raises(InputError, match="not a valid user name"):
        accounts.add_user(name, role=Role.READER)


def test_weak_passwords_and_taken_names_are_refused(accounts: Accounts) -> None:
    with pytest.raises(InputError, match="10 to 1000 characters, not 5"):
        accounts.add_user("bert", role=Role.READER, password="short")
    with pytest.raises(ConflictError, match="anna"):
        accounts.add_user("anna", role=Role.ADMIN)
    with pytest.raises(UnknownUserError, match="gircse users list"):
        accounts.change_user("bert", role=Role.ADMIN)


@given(st.text(alphabet="ab-_", min_size=1, max_size=6), st.text(alphabet="ab-_*?[]!", min_size=1, max_size=6))
def test_only_stars_stand_for_other_characters(name: str, pattern: str) -> None:
    parts = pattern.split("*")
    expected = name == pattern if len(parts) == 1 else _fits(name, parts)
    assert matches(name, [pattern]) == expected


def _fits(name: str, parts: list[str]) -> bool:
    """Every part in its order, the first at the beginning and the last at the end."""
    if not name.startswith(parts[0]) or len(name) < sum(map(len, parts)):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return name.endswith(parts[-1]) and len(name) - len(parts[-1]) >= at


@pytest.mark.parametrize("pattern", ["", "Team", "a b", "../x", "a?", "[a]", "a" * 64])
def test_patterns_that_no_collection_can_match_are_refused(pattern: str) -> None:
    with pytest.raises(InputError, match="is not a collection name or pattern"):
        check_collections([pattern])


# Sessions


def test_a_session_lasts_until_its_time_is_over(logins: Logins, clock: Clock, toy_services: Any) -> None:
    token = logins.log_in("anna", PASSWORD, address="10.0.0.1")
    (session,) = toy_services.services.catalog.access.web_sessions("anna")
    assert logins.principal_of_session(token) == Principal(
        "anna", Role.EDITOR, ("team-*", "shared"), session_id=session.id
    )
    clock.now += logins.lifetime
    with pytest.raises(LoginRequiredError):
        logins.principal_of_session(token)


def test_a_session_that_is_not_used_ends_sooner(accounts: Accounts, toy_services: Any, clock: Clock) -> None:
    catalog = toy_services.services.catalog
    logins = Logins(accounts, catalog.access, idle=timedelta(hours=2), clock=clock)
    token = logins.log_in("anna", PASSWORD, address="10.0.0.1", browser="Firefox on Linux")
    for _ in range(3):
        clock.now += timedelta(minutes=90)
        logins.principal_of_session(token)
    (session,) = catalog.access.web_sessions("anna")
    assert (session.used_at, session.address, session.browser) == (clock.now, "10.0.0.1", "Firefox on Linux")
    clock.now += timedelta(minutes=90)
    logins.principal_of_session(token, is_use=False)  # as the stream of an open page is looked at
    clock.now += timedelta(minutes=30)
    with pytest.raises(LoginRequiredError):
        logins.principal_of_session(token)


def test_a_session_is_valid_while_its_use_cannot_be_noted(logins: Logins, clock: Clock, toy_services: Any) -> None:
    catalog = toy_services.services.catalog
    token, begin = logins.log_in("anna", PASSWORD, address="10.0.0.1"), clock.now
    clock.now += timedelta(minutes=2)
    with answering(), locked(catalog.database.engine):
        assert logins.principal_of_session(token).name == "anna"
        request = current_request()
        assert request is not None
        assert not request.has_just_failed  # else its own writes would not wait
    assert [each.used_at for each in catalog.access.web_sessions("anna")] == [begin]
    logins.principal_of_session(token)
    assert [each.used_at for each in catalog.access.web_sessions("anna")] == [clock.now]


@pytest.mark.parametrize(("ahead", "goes_on"), [(timedelta(hours=1), True), (timedelta(days=365), False)])
def test_no_session_of_a_clock_that_was_ahead_lasts_for_long(
    accounts: Accounts, toy_services: Any, clock: Clock, ahead: timedelta, goes_on: bool
) -> None:
    catalog = toy_services.services.catalog
    logins = Logins(accounts, catalog.access, idle=timedelta(hours=2), clock=clock)
    right = clock.now
    clock.now = right + ahead
    token = logins.log_in("anna", PASSWORD, address="10.0.0.1")
    clock.now = right
    if not goes_on:
        with pytest.raises(LoginRequiredError):
            logins.principal_of_session(token)
        return
    logins.principal_of_session(token)
    (session,) = catalog.access.web_sessions("anna")
    assert session.used_at == right
    clock.now = right + timedelta(hours=2)
    with pytest.raises(LoginRequiredError):  # unused for two hours by the clock that is right
        logins.principal_of_session(token)


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605 Version/18 Safari/605", "Safari on macOS"),
        ("Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.5.0", "curl"),
        ("<script>alert(1)</script>", "an unknown browser"),
        ("", "an unknown browser"),
    ],
)
def test_browsers_are_named_in_words(user_agent: str, words: str) -> None:
    assert browser_in_words(user_agent) == words


def log_out(logins: Logins, accounts: Accounts, token: str) -> None:
    logins.log_out(token)


def change_password(logins: Logins, accounts: Accounts, token: str) -> None:
    accounts.change_user("anna", password="another good one")


def disable(logins: Logins, accounts: Accounts, token: str) -> None:
    accounts.change_user("anna", is_disabled=True)


def remove_and_add_again(logins: Logins, accounts: Accounts, token: str) -> None:
    accounts.remove_user("anna")
    accounts.add_user("anna", role=Role.EDITOR, password=PASSWORD)


@pytest.mark.parametrize("end", [log_out, change_password, disable, remove_and_add_again])
def test_a_session_ends_with(logins: Logins, accounts: Accounts, end: Callable[[Logins, Accounts, str], None]) -> None:
    token = logins.log_in("anna", PASSWORD, address="10.0.0.1")
    end(logins, accounts, token)
    with pytest.raises(LoginRequiredError):
        logins.principal_of_session(token)


@pytest.mark.parametrize(
    "change", [{"password": "another long one"}, {"is_disabled": True}], ids=["another password", "disabled"]
)
def test_a_login_that_a_change_overtakes_opens_nothing(
    logins: Logins, accounts: Accounts, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = accounts.check_password

    def check_slowly(name: str, password: str) -> bool:
        is_right = check(name, password)
        accounts.change_user("anna", **change)
        return is_right

    monkeypatch.setattr(accounts, "check_password", check_slowly)
    with pytest.raises(LoginRequiredError):
        logins.principal_of_session(logins.log_in("anna", PASSWORD, address="10.0.0.1"))
    accounts.change_user("anna", is_disabled=False)
    assert [each for each in accounts.ledger.web_sessions("anna") if "password" not in change] == []


def test_another_admin_secret_ends_the_sessions_of_admin(logins: Logins, toy_services: Any) -> None:
    token = logins.log_in("admin", SECRET, address="10.0.0.1")
    catalog = toy_services.services.catalog
    after = Logins(Accounts(catalog.access, admin_secret="gs_another-secret-of-the-admin"), catalog.access)
    with pytest.raises(LoginRequiredError):
        after.principal_of_session(token)


def test_guessing_is_stopped_by_address_and_goes_on_after_a_while(
    logins: Logins, clock: Clock, toy_services: Any
) -> None:
    for _ in range(MAX_FAILURES_OF_ADDRESS):
        with pytest.raises(LoginRequiredError):
            logins.log_in("anna", "wrong password", address="10.0.0.1")
    with pytest.raises(ThrottledError) as stopped:
        logins.log_in("anna", PASSWORD, address="10.0.0.1")
    assert stopped.value.retry_after_s > 0
    assert logins.log_in("anna", PASSWORD, address="10.0.0.2")
    noted = toy_services.services.catalog.access.audit_entries(actions=[FAILED], limit=100)
    assert len(noted) == MAX_FAILURES_OF_ADDRESS
    clock.now += WINDOW
    assert logins.log_in("anna", PASSWORD, address="10.0.0.1")


def guess(logins: Logins, name: str, address: str) -> type[Exception]:
    with pytest.raises((LoginRequiredError, ThrottledError)) as refused:
        logins.log_in(name, "wrong password", address=address)
    return refused.type


def test_guessing_from_many_addresses_locks_nobody_out_and_leaves_each_few_attempts(logins: Logins) -> None:
    home, away = "10.0.0.1", "10.0.2.1"
    logins.log_in("anna", PASSWORD, address=home)
    for number in range(MAX_FAILURES_OF_NAME):
        assert guess(logins, "anna", f"10.0.1.{number}") is LoginRequiredError
    assert logins.log_in("anna", PASSWORD, address=away)
    unknown = [guess(logins, "anna", "10.0.3.1") for _ in range(MAX_FAILURES_OF_UNKNOWN_ADDRESS + 1)]
    assert unknown == [LoginRequiredError] * MAX_FAILURES_OF_UNKNOWN_ADDRESS + [ThrottledError]
    known = [guess(logins, "anna", home) for _ in range(MAX_FAILURES_OF_ADDRESS + 1)]
    assert known == [LoginRequiredError] * MAX_FAILURES_OF_ADDRESS + [ThrottledError]
    assert guess(logins, "bert", "10.0.4.1") is LoginRequiredError


def test_a_network_of_ipv6_counts_as_one_address(logins: Logins) -> None:
    for number in range(MAX_FAILURES_OF_ADDRESS):
        assert guess(logins, f"user-{number}", f"2001:db8:1:2:{number:x}::1") is LoginRequiredError
    assert guess(logins, "anna", "2001:db8:1:2::ffff") is ThrottledError
    assert guess(logins, "anna", "2001:db8:1:3::1") is LoginRequiredError
    assert guess(logins, "anna", "::ffff:10.0.0.1") is LoginRequiredError


def at_once(attempts: int, attempt: Callable[[int], object]) -> Counter[type]:
    """What came of so many attempts that begin at the same moment."""
    start = threading.Barrier(attempts)

    def one(number: int) -> type:
        start.wait()
        try:
            return type(attempt(number))
        except (LoginRequiredError, ThrottledError) as error:
            return type(error)

    with ThreadPoolExecutor(attempts) as threads:
        return Counter(threads.map(one, range(attempts)))


@pytest.mark.parametrize("servers", [1, 3])
def test_no_more_wrong_passwords_are_tried_however_many_come_at_once(
    accounts: Accounts, toy_services: Any, clock: Clock, servers: int
) -> None:
    """Several servers share nothing but the catalog."""
    catalog = toy_services.services.catalog
    several = [Logins(accounts, catalog.access, clock=clock) for _ in range(servers)]
    said = at_once(60, lambda n: several[n % servers].log_in("anna", "wrong password", address="10.0.0.1"))
    assert said == {LoginRequiredError: MAX_FAILURES_OF_ADDRESS, ThrottledError: 60 - MAX_FAILURES_OF_ADDRESS}


def test_a_count_that_was_read_before_others_began_passes_no_limit(
    logins: Logins, toy_services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by several servers that look at the same moment: what counts is what the attempt itself has counted."""
    monkeypatch.setattr(toy_services.services.catalog.access, "attempts", lambda counters, *, since, until: {})
    said = [guess(logins, "anna", "10.0.0.1") for _ in range(MAX_FAILURES_OF_ADDRESS + 2)]
    assert said == [LoginRequiredError] * MAX_FAILURES_OF_ADDRESS + [ThrottledError] * 2


def test_right_ones_at_once_are_no_failures(logins: Logins, accounts: Accounts) -> None:
    _, shown = accounts.add_key("anna")
    assert at_once(20, lambda _: logins.log_in("anna", PASSWORD, address="10.0.0.1")) == {str: 20}
    assert at_once(30, lambda _: logins.principal_of_key(shown, address="10.0.0.1")) == {Principal: 30}
    assert guess(logins, "anna", "10.0.0.1") is LoginRequiredError


@pytest.mark.parametrize("many_at_once", [False, True])
def test_wrong_keys_are_stopped_by_address_and_the_secret_with_them(
    logins: Logins, accounts: Accounts, clock: Clock, toy_services: Any, many_at_once: bool
) -> None:
    _, shown = accounts.add_key("anna")
    _, later = accounts.add_key("anna")
    come = partial(logins.principal_of_key, address="10.0.0.1")
    assert come(shown).name == "anna"
    assert come(SECRET).name == "admin"

    def guess_key(number: int) -> object:
        right = SECRET if number % 2 else later
        other = "A" if right[-3] != "A" else "B"  # else one in 140 random keys would be guessed
        return come(f"{right[:-3]}{other}{number:02}")

    if many_at_once:
        said = at_once(60, guess_key)
    else:
        said = Counter[type]()
        for number in range(60):
            said += at_once(1, lambda _, number=number: guess_key(number))  # type: ignore[misc]
    assert said == {LoginRequiredError: MAX_FAILURES_OF_ADDRESS, ThrottledError: 60 - MAX_FAILURES_OF_ADDRESS}
    for right in (SECRET, later):  # neither is looked at
        with pytest.raises(ThrottledError):
            come(right)
    assert come(shown).name == "anna"  # which was right before, and nobody guesses
    assert logins.principal_of_key(SECRET, address="10.0.0.2").name == "admin"
    noted = toy_services.services.catalog.access.audit_entries(actions=[KEY_REFUSED])
    assert [each.subject for each in noted] == ["10.0.0.1"] * MAX_FAILURES_OF_ADDRESS
    clock.now += WINDOW
    assert come(SECRET).name == "admin"


def test_who_is_stopped_costs_neither_hash_nor_write(
    logins: Logins, toy_services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MAX_FAILURES_OF_ADDRESS):
        assert guess(logins, f"user-{number}", "10.0.0.1") is LoginRequiredError
    monkeypatch.setattr(hashing.SecretHasher, "matches", lambda *_: pytest.fail("hashed"))
    monkeypatch.setattr(toy_services.services.catalog.database, "_writer", None)
    assert guess(logins, "anna", "10.0.0.1") is ThrottledError


# The admin secret


def test_the_admin_secret_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", access_control=True)
    made = load_admin_secret(settings)
    path = tmp_path / "home" / FILE_NAME
    assert made.place == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().strip() == made.secret
    assert load_admin_secret(settings) == made
    assert made.secret not in repr(made)
    path.chmod(0o640)
    with pytest.raises(ConflictError, match="chmod 600"):
        load_admin_secret(settings)


def test_a_short_admin_secret_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="31 characters; it needs 32 or more"):
        load_admin_secret(Settings(home=tmp_path, admin_secret="a" * 31))
    assert load_admin_secret(Settings(home=tmp_path, admin_secret="a" * 32)).secret == "a" * 32


# The authorizer


def test_without_anybody_nothing_is_let_through(toy_services: Any) -> None:
    authorizer = Authorizer(toy_services.services.catalog)
    assert current_principal() is None
    with pytest.raises(LoginRequiredError), authorizer.require_access(Role.READER, "library"):
        pass
    with pytest.raises(LoginRequiredError):
        authorizer.visible()


def test_a_collection_of_others_is_as_one_that_is_not_there(toy_services: Any) -> None:
    toy_services.add("A text.", collection="theirs")
    toy_services.add("A text.", collection="mine")
    authorizer = Authorizer(toy_services.services.catalog)
    said = []
    with acting_as(Principal("anna", Role.READER, ("mine*",))):
        for name in ("theirs", "nothing"):
            with pytest.raises(UnknownCollectionError) as unknown, authorizer.require_access(Role.READER, name):
                toy_services.services.catalog.collection(name)
            said.append(str(unknown.value).replace(name, "NAME"))
        with pytest.raises(UnknownCollectionError) as unknown, authorizer.require_access(Role.READER, "mine-too"):
            toy_services.services.catalog.collection("mine-too")
        assert [each.name for each in authorizer.visible()] == ["mine"]
    assert said[0] == said[1]
    assert "theirs" not in str(unknown.value)


@pytest.mark.parametrize("ends", [True, False], ids=["the lock ends", "the lock stays"])
def test_what_was_done_is_answered_though_the_catalog_is_locked_since(
    toy_services: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ends: bool
) -> None:
    catalog = toy_services.services.catalog
    monkeypatch.setattr(lock_waits, "LOCK_S", 0.1)
    monkeypatch.setattr(lock_waits, "BACKGROUND_S", PATIENCE_S if ends else 0.2)
    taken, released = threading.Event(), threading.Event()

    def lock() -> None:
        with locked(catalog.database.engine):
            taken.set()
            released.wait(PATIENCE_S)

    class Keys:
        def add(self, name: str) -> str:
            holder.start()
            taken.wait(PATIENCE_S)
            if ends:
                threading.Timer(0.5, released.set).start()  # later than a request waits
            return "the only copy of a secret"

    holder = threading.Thread(target=lock)
    rules = {"add": Rule(Role.READER, audit=Audit("key.added", "name", after=True))}
    keys = behind_guard(Keys(), rules, access_to(catalog, toy_services.services.settings))
    with acting_as(OPERATOR), answering():
        assert keys.add("anna") == "the only copy of a secret"
    released.set()
    holder.join(PATIENCE_S)
    noted = [(each.action, each.subject) for each in catalog.access.audit_entries()]
    logged = [each.getMessage() for each in caplog.records if "missing in the audit log" in each.getMessage()]
    assert (noted, len(logged)) == ([("key.added", "anna")], 0) if ends else ([], 1)


def test_the_principal_is_forgotten_afterwards() -> None:
    with acting_as(OPERATOR):
        assert current_principal() is OPERATOR
    assert current_principal() is None
