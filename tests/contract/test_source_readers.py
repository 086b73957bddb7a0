"""Every kind of source against a real server: it adds, changes and deletes, fetches what changed alone, survives kills,
asks nothing private, and tells no password."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from source_origins import (
    NAME,
    PASSWORD,
    Origin,
    git_origin,
    mail_origin,
    s3_origin,
    web_origin,
    write_credentials,
)

from app.collections.recurring_sources import SourceSchedule
from app.types.access import OPERATOR
from app.types.documents import utc_now
from app.types.sources import ItemMark, RecurringSource, SourceOptions
from ingest.addresses import is_public

pytestmark = pytest.mark.xdist_group("source_readers")  # the servers are shared

KINDS = ("sitemap", "git", "imap", "s3")


@pytest.fixture(scope="module")
def s3_server() -> Iterator[tuple[str, int]]:
    moto_server = pytest.importorskip("moto.server")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()
    server.stop()


@pytest.fixture(params=KINDS)
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Origin]:
    folder = tmp_path / "origin"
    folder.mkdir()
    with ExitStack() as opened:
        if request.param == "sitemap":
            yield opened.enter_context(web_origin(folder))
        elif request.param == "git":
            yield opened.enter_context(git_origin(folder))
        elif request.param == "imap":
            yield opened.enter_context(mail_origin(folder))
        else:
            yield opened.enter_context(s3_origin(folder, request.getfixturevalue("s3_server")))


class Rounds:
    """Of one source of this origin, with removal."""

    def __init__(self, toy_services: Any, origin: Origin) -> None:
        self.toy, self.origin = toy_services, origin
        self.catalog = toy_services.services.catalog
        toy_services.services.library.ensure_collection("library")
        self.source: RecurringSource = self.catalog.sources.add(
            "library",
            origin.kind,
            origin.address,
            every=timedelta(hours=1),
            removes=True,
            owner=OPERATOR.name,
            options=origin.options,
        )

    def schedule(self, is_allowed: Any = lambda _: True) -> SourceSchedule:
        services = self.toy.services
        return SourceSchedule(
            catalog=services.catalog,
            library=services.library,
            readers={self.origin.kind: self.origin.reader(is_allowed)},
            allowance_of=lambda _: None,
        )

    def again(self, is_allowed: Any = lambda _: True) -> RecurringSource:
        self.catalog.sources.hurry(self.source.id)
        assert self.schedule(is_allowed).run_once()
        self.toy.work_off()
        return self.catalog.sources.get(self.source.id)  # type: ignore[no-any-return]

    def texts(self) -> list[str]:
        """What can be found now."""
        index = self.catalog.collection("library").active_index
        points = self.toy.services.index.retrieve(index, list(self.toy.services.index.point_ids(index)))
        return sorted(str(each.payload["page_content"]) for each in points)

    def holds(self, *texts: str) -> bool:
        found = self.texts()
        return len(found) == len(texts) and all(any(text in each for each in found) for text in texts)


@pytest.fixture
def rounds(toy_services: Any, origin: Origin) -> Rounds:
    return Rounds(toy_services, origin)


def test_it_adds_changes_and_deletes(rounds: Rounds) -> None:
    origin = rounds.origin
    origin.put("tide", "The tide comes twice a day.")
    origin.put("heron", "A grey heron waits at the river.")
    found = rounds.again()
    assert (found.changed, found.items, found.failed, found.error) == (2, 2, 0, None)
    assert rounds.holds("tide comes", "grey heron")
    assert (rounds.again().changed, rounds.holds("tide comes", "grey heron")) == (0, True)
    origin.put("tide", "The tide has gone out.")
    assert (rounds.again().changed, rounds.holds("gone out", "grey heron")) == (1, True)
    origin.delete("heron")
    found = rounds.again()
    assert (found.removed, found.changed, found.items, rounds.holds("gone out")) == (1, 0, 1, True)


def test_what_a_list_says_is_unchanged_is_not_asked_for(rounds: Rounds) -> None:
    rounds.origin.put("tide", "The tide comes.")
    rounds.origin.put("heron", "A grey heron.")
    rounds.again()
    rounds.origin.put("oven", "The oven is hot.")
    asked: list[str] = []
    reader = rounds.origin.reader(lambda _: True)
    marks = rounds.catalog.sources.marks(rounds.source.id)
    with reader.open(rounds.source, marks, beat=lambda: None) as opened:
        listing = opened.items()
        for address, mark in listing.items.items():
            if mark is None or marks.get(address) != mark:
                asked.append(address)
    if any(mark is None for mark in listing.items.values()):
        assert rounds.again().changed == 1  # only fetching tells
    else:
        assert len(asked) == 1


def test_a_round_that_was_killed_is_taken_up(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tide", "heron", "oven"):
        rounds.origin.put(name, f"Of the {name}.")
    catalog = rounds.catalog

    class KilledError(BaseException):
        pass

    with monkeypatch.context() as patch:
        marked, seen = catalog.sources.mark_item, []

        def die(source: RecurringSource, address: str, mark: ItemMark | None) -> None:
            seen.append(address)
            if len(seen) == 2:  # its document is there, and nothing says so
                raise KilledError
            marked(source, address, mark)

        patch.setattr(catalog.sources, "mark_item", die)
        with pytest.raises(KilledError):
            rounds.schedule().run_once()
    assert not rounds.schedule().run_once()  # its lease goes on
    later = utc_now() + timedelta(minutes=5)
    monkeypatch.setattr(catalog.database, "clock", lambda: later)
    assert rounds.schedule().run_once()
    rounds.toy.work_off()
    found = catalog.sources.get(rounds.source.id)
    assert (found.items, found.failed) == (3, 0)
    assert rounds.holds("the tide", "the heron", "the oven")


def test_nothing_private_is_asked(rounds: Rounds) -> None:
    rounds.origin.put("tide", "The tide comes.")
    found = rounds.again(is_public)
    assert "not on the public internet" in str(found.error)
    assert rounds.texts() == []


def test_passwords_are_told_nobody(rounds: Rounds, caplog: pytest.LogCaptureFixture) -> None:
    if not rounds.origin.options.credentials:
        pytest.skip("It has no credentials.")
    caplog.set_level(logging.DEBUG)
    rounds.origin.put("tide", "The tide comes.")
    assert rounds.again().changed == 1
    if rounds.origin.asks_for_password:
        address = rounds.origin.address
        write_credentials(rounds.origin.folder, address, password=f"{PASSWORD}-wrong")
        rounds.origin.put("oven", "The oven is hot.")
        found = rounds.again()
        assert "credentials" in str(found.error)
        assert found.changed == 0
    write_credentials(rounds.origin.folder, "https://elsewhere.example.org/")
    assert "may not be sent to this address" in str(rounds.again().error)
    (rounds.origin.folder / NAME).unlink()
    assert "GIRCSE_CREDENTIALS_FOLDER" in str(rounds.again().error)
    kept = repr(rounds.catalog.sources.get(rounds.source.id)) + caplog.text
    assert PASSWORD not in kept
    assert rounds.holds("tide comes")  # nothing was removed by rounds that failed


@pytest.mark.parametrize("origin", ["imap"], indirect=True)
def test_mail_folders_are_chosen_and_nothing_becomes_read(rounds: Rounds) -> None:
    origin: Any = rounds.origin
    origin.put("tide", "The tide comes.")
    origin.put("oven", "The oven is hot.", at='"Entw&APw-rfe"')
    origin.put("heron", "A grey heron.", at="Archive")
    origin.options = SourceOptions(("Entwürfe", "Arch*"), credentials=NAME)
    rounds.source = Rounds(rounds.toy, origin).source
    found = rounds.again()
    assert (found.items, found.error, rounds.holds("oven is hot", "grey heron")) == (2, None, True)
    assert any("Entw%C3%BCrfe;UIDVALIDITY=" in each for each in rounds.catalog.sources.marks(rounds.source.id))
    with origin.connected() as connection:
        connection.select("Archive")
        _, flags = connection.fetch("1", "(FLAGS)")
        assert b"Seen" not in flags[0]
        connection.close()
        connection.delete("Archive")  # and it is made anew, with the same number for another message
    del origin.uids["heron"]
    origin.put("moon", "The moon is full.", at="Archive")
    found = rounds.again()
    assert (found.changed, found.removed, rounds.holds("oven is hot", "moon is full")) == (1, 1, True)


@pytest.mark.parametrize("origin", ["imap"], indirect=True)
def test_a_mail_server_without_a_trusted_certificate_gets_no_password(rounds: Rounds) -> None:
    origin: Any = rounds.origin
    origin.put("tide", "The tide comes.")
    trusted, origin.tls = origin.tls, ssl.create_default_context()
    assert "certificate was not accepted" in str(rounds.again().error)
    origin.tls = trusted
    assert rounds.again().changed == 1


@pytest.mark.parametrize("origin", ["s3"], indirect=True)
def test_objects_are_chosen_by_prefix_and_pattern(rounds: Rounds) -> None:
    origin: Any = rounds.origin
    for name in ("docs/tide", "docs/.hidden", "docs/old/heron", "notes/oven", "docs/\u00fc & \u00df"):
        origin.put(name, f"Of {name}.")
    address = f"{origin.address}/docs/"
    rounds.source = rounds.catalog.sources.add(
        "library", origin.kind, address, every=timedelta(hours=1), removes=True, owner=OPERATOR.name,
        options=SourceOptions(("*.txt", "!docs/old/**"), credentials=NAME),
    )  # fmt: skip
    rounds.catalog.sources.delete(rounds.catalog.sources.of_collection("library")[0].id)
    found = rounds.again()
    assert (found.items, found.error) == (3, None)
    assert rounds.holds("Of docs/tide", "Of docs/.hidden", "Of docs/\u00fc & \u00df")
    origin.put("docs/tide", "Of docs/tide.")  # the same, written again
    assert rounds.again().changed == 0


@pytest.mark.parametrize("origin", ["s3"], indirect=True)
def test_a_bucket_that_denies_access_or_is_not_there_says_so(rounds: Rounds, caplog: pytest.LogCaptureFixture) -> None:
    origin: Any = rounds.origin
    origin.put("tide", "The tide comes.")
    moto_core = pytest.importorskip("moto.core")
    when_asked_for_keys = moto_core.set_initial_no_auth_action_count(0)(rounds.again)
    assert "does not know this `user`" in str(when_asked_for_keys().error)
    user, password = origin.add_user()
    for written, told in ((password[::-1], "does not accept the `password`"), (password, "None")):
        write_credentials(origin.folder, origin.address, user=user, password=written)
        caplog.clear()
        error = str(when_asked_for_keys().error)
        assert told in error
        assert written not in error + caplog.text
    assert rounds.holds("The tide comes.")
    rounds.source = rounds.catalog.sources.add(
        "library", rounds.origin.kind, f"{rounds.origin.address}-gone", every=timedelta(hours=1), removes=True,
        owner=OPERATOR.name,
    )  # fmt: skip
    assert "no such bucket" in str(rounds.again().error)
