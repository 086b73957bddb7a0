"""Standing searches find exactly what a search of that strength would, each new chunk once, and nothing of others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from api_application import authorized

from app.collections.standing import StandingCompletion, StandingPreparation
from app.errors import ConflictError, InputError, NotFoundError, UnknownCollectionError
from app.search.calibration import Scale, off_topic_wordings
from app.search.questions import request_of
from app.search.value_syntax import parse_values
from app.testing import ToyEmbedder, text_source
from app.types.access import OPERATOR, AccountChange, Principal, Role, User, acting_as
from app.types.documents import utc_now
from app.types.search import Match, SearchMode, SearchRequest
from app.types.searches import question_of
from app.types.standing import Strength, Told, Watch

WORDS = ("cat", "dog", "bird", "fish", "tide", "moon", "sea", "ship", "oven", "flour", "yeast", "loan", "bank", "coin")


def a_text(seed: int, *, length: int = 12) -> str:
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(length))


@pytest.fixture(autouse=True)
def as_operator() -> Iterator[None]:
    with acting_as(OPERATOR):
        yield


@pytest.fixture
def standing(toy_services: Any) -> Any:
    return authorized(toy_services.services).standing


@pytest.fixture
def watched(toy_services: Any, standing: Any) -> Callable[..., str]:
    """Saves a search and lets it keep watch; its id."""

    def watch(query: str = "cat", *, strength: Strength = Strength.FAIR, name: str = "", **asked: Any) -> str:
        toy_services.services.library.ensure_collection("library")
        question = question_of(SearchRequest(query, "library", **asked))
        saved = toy_services.services.catalog.searches.save_search(OPERATOR.name, name or query, question)
        return str(standing.watch(saved.id, Watch(strength)).id)

    return watch


def told(standing: Any, search: str) -> list[str]:
    return sorted(each.chunk_id for each in standing.news(search, limit=500))


def found_by_search(toy_services: Any, query: str, strength: Strength) -> list[str]:
    """By the search itself, as pages ask it."""
    result = toy_services.services.search.search(SearchRequest(query, "library", mode=SearchMode.DENSE, limit=100))
    return sorted(hit.chunk.id for hit in result.hits if hit.match and strength.is_reached_by(hit.match))


@pytest.mark.parametrize("strength", Strength)
def test_it_finds_what_a_search_of_that_strength_shows(
    toy_services: Any, standing: Any, watched: Callable[..., str], strength: Strength
) -> None:
    for number in range(40):  # the scale is measured on these
        toy_services.add(a_text(number))
    search = watched("cat dog cat", strength=strength)
    before = found_by_search(toy_services, "cat dog cat", strength)
    for number in range(40, 70):
        toy_services.add(a_text(number))
    new = set(found_by_search(toy_services, "cat dog cat", strength)) - set(before)
    assert told(standing, search) == sorted(new)
    assert (strength is Strength.STRONG) or new


def test_two_workers_that_meet_a_new_search_at_once_ask_with_one_scale(
    toy_services: Any, watched: Callable[..., str]
) -> None:
    for number in range(20):
        toy_services.add(a_text(number))
    watched("cat dog")
    services = toy_services.services
    _, new = services.catalog.standing.in_collection("library")
    for text in ("cat", *off_topic_wordings()[:6]):  # by the first, which measures before it knows the last
        toy_services.add(text)
    [kept] = services.catalog.standing.in_collection("library")[1]
    second = StandingPreparation(services.catalog, services.index, toy_services.embedder)
    [asked] = second.prepare(new, services.catalog.collection("library"), 26)
    assert kept.points == 21
    assert asked.scale == Scale(kept.median, kept.deviation)
    assert services.catalog.standing.in_collection("library")[1] == [kept]


def test_only_what_is_new_in_a_document_is_told_and_each_once(
    toy_services: Any, standing: Any, watched: Callable[..., str]
) -> None:
    search = watched("cat")
    services = toy_services.services

    def submit(text: str) -> None:
        services.library.add_document("library", text_source("text://one", text))
        toy_services.work_off()

    submit("cat sleeps")
    first = told(standing, search)
    assert len(first) == 1
    submit("cat sleeps")
    assert told(standing, search) == first
    assert standing.mark_seen(search) == 1
    submit("cat runs")
    [news] = standing.news(search)
    assert (news.text, news.chunk_id != first[0]) == ("cat runs", True)
    assert [each.text for each in standing.news(search, unseen_only=False)] == ["cat runs"]  # the other is gone


def test_what_was_written_before_a_kill_is_told_after_it(
    toy_services: Any, standing: Any, watched: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The points are in the index then, and nothing is embedded again; only the catalog knows that nobody was told."""
    search = watched("cat")
    services = toy_services.services
    services.library.add_document("library", text_source("text://one", "cat sleeps"))

    class KilledError(BaseException):
        pass

    def die(*_: object, **__: object) -> set[str]:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(services.catalog, "complete_many", die)
        job = services.catalog.claim("victim", lease=timedelta(seconds=30))
        with pytest.raises(KilledError):
            toy_services.pipeline.run(job, heartbeat=lambda _: None)
    assert told(standing, search) == []
    embedded = len(toy_services.embedder.embedded_texts)
    services.catalog.release(job)
    toy_services.work_off()
    assert len(told(standing, search)) == 1
    assert len(toy_services.embedder.embedded_texts) == embedded


def test_a_search_that_begins_while_a_document_is_completed_has_it(
    toy_services: Any, standing: Any, watched: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = watched("dog", name="first")
    catalog = toy_services.services.catalog
    complete, begun = catalog.complete_many, []

    def watch_first(done: Any, *, told: Told | None = None) -> set[str]:
        if not begun:
            begun.append(watched("cat", name="late"))
        return set(complete(done, told=told))

    monkeypatch.setattr(catalog, "complete_many", watch_first)
    toy_services.add("cat dog")
    assert (len(told(standing, first)), len(told(standing, begun[0]))) == (1, 1)


def test_other_collections_are_not_watched(toy_services: Any, standing: Any, watched: Callable[..., str]) -> None:
    search = watched("cat")
    toy_services.add("cat sleeps", collection="other")
    assert told(standing, search) == []


def test_a_user_who_may_not_read_the_collection_is_told_nothing(toy_services: Any) -> None:
    services = toy_services.services
    services.library.ensure_collection("library")
    catalog = services.catalog
    anna = Principal("anna", Role.READER, ("library",))
    catalog.access.add_user(User("anna", Role.READER, utc_now(), ("library",)))
    saved = catalog.searches.save_search("anna", "cats", {"query": "cat", "collection": "library"})
    own = authorized(services).standing
    with acting_as(anna):
        own.watch(saved.id, Watch())
    toy_services.add("cat one")
    with acting_as(anna):
        token = own.find("cats").feed_token
        assert len(own.news("cats")) == 1
    assert len(own.feed(token)[1]) == 1
    catalog.access.change_user("anna", AccountChange(collections=("other",)))
    toy_services.add("cat two")
    assert len(catalog.standing.matches("anna", saved.id)) == 1  # nothing was found for her any more
    with acting_as(Principal("anna", Role.READER, ("other",))), pytest.raises(UnknownCollectionError):
        own.news("cats")
    with pytest.raises(NotFoundError):
        own.feed(token)
    with acting_as(Principal("ben", Role.READER)), pytest.raises(NotFoundError):
        own.news(saved.id)


def test_filters_and_exclusions_hold(toy_services: Any, standing: Any, watched: Callable[..., str]) -> None:
    by_year = watched("cat", name="year", filters={"year": "1999"})
    without = watched("cat", name="without", exclude=("black paws",))
    toy_services.add("cat sleeps", metadata={"year": 1999})
    toy_services.add("cat black paws", metadata={"year": 2001, "tags": "1999"})
    assert [each.text for each in standing.news(by_year)] == ["cat sleeps"]
    assert [each.text for each in standing.news(without)] == ["cat sleeps"]


def test_words_alone_are_watched_for_in_mode_sparse(
    toy_services: Any, standing: Any, watched: Callable[..., str]
) -> None:
    every = watched("grey heron", name="all", strength=Strength.STRONG, mode=SearchMode.SPARSE)
    some = watched("grey heron", name="half", mode=SearchMode.SPARSE)
    toy_services.add("grey heron river")
    toy_services.add("heron")
    toy_services.add("cat")
    assert [each.match for each in standing.news(every)] == [Match.STRONG]
    assert sorted(each.text for each in standing.news(some)) == ["grey heron river", "heron"]


def test_a_value_of_a_lens_is_watched_for(toy_services: Any, standing: Any, watched: Callable[..., str]) -> None:
    values = parse_values(["cat", "dog"])
    search = watched("animal home", instruction="Which animal is it?", values=values, value="dog")
    toy_services.add("cat home animal")
    toy_services.add("dog home animal")
    assert [each.text for each in standing.news(search)] == ["dog home animal"]


def test_under_an_instruction_it_has_a_scale_of_its_own(
    toy_services: Any, standing: Any, watched: Callable[..., str]
) -> None:
    search = watched("cat", instruction="Which animal is it?", strength=Strength.STRONG)
    toy_services.add("cat animal")
    toy_services.add("moon tide")
    assert [each.text for each in standing.news(search)] == ["cat animal"]
    _, [prepared] = toy_services.services.catalog.standing.in_collection("library")
    assert prepared.points >= 1
    assert prepared.vector


def test_off_topic_texts_are_embedded_in_one_batch(
    toy_services: Any, watched: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, the searches of one reader held up everybody's ingestion for minutes."""
    asked: list[str] = []
    embed = ToyEmbedder.embed_query
    monkeypatch.setattr(
        ToyEmbedder, "embed_query", lambda own, text, **more: asked.append(text) or embed(own, text, **more)
    )
    watched("cat", instruction="Which animal is it?")
    toy_services.add("cat animal")
    assert set(asked) == {"cat"}


def test_a_person_watches_a_collection_under_few_instructions(
    toy_services: Any, standing: Any, watched: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new passage is embedded anew under each of them."""
    monkeypatch.setattr("app.collections.standing.MAX_INSTRUCTIONS", 1)
    for number, instruction in enumerate(("Which animal is it?", "Which animal is it?", "Which place is it?", None)):
        watched("cat", name=f"search {number}", instruction=instruction)
    toy_services.add("cat animal")
    errors = {each.name: each.error for each in standing.standing()}
    refused = {name for name, error in errors.items() if error is not None}
    assert refused in ({"search 2"}, {"search 0", "search 1"})
    assert "1 other instructions in this collection, the maximum" in str(errors[refused.pop()])


@pytest.mark.parametrize("strength", Strength)
def test_under_an_instruction_it_grades_as_a_search_does(
    toy_services: Any,
    standing: Any,
    watched: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    strength: Strength,
) -> None:
    bounded = replace(toy_services.embedder.info, match_cosines=(0.5, 0.9))
    monkeypatch.setattr(ToyEmbedder, "info", property(lambda _: bounded))
    asked = {"instruction": "animal", "mode": SearchMode.DENSE}
    search = watched("cat", strength=strength, **asked)
    for text in ("cat", "cat animal", "cat animal animal sofa", "moon tide"):
        toy_services.add(text)
    found = toy_services.services.search.search(SearchRequest("cat", "library", **asked)).hits
    assert {hit.match for hit in found} == set(Match)
    shown = {hit.chunk.text: hit.match for hit in found if strength.is_reached_by(hit.match)}
    assert {each.text: each.match for each in standing.news(search)} == shown


def test_the_scale_is_measured_again_when_the_index_has_doubled(toy_services: Any, watched: Callable[..., str]) -> None:
    watched("cat")
    seen = []
    for number in range(5):
        toy_services.add(a_text(number))
        _, [prepared] = toy_services.services.catalog.standing.in_collection("library")
        seen.append(prepared.points)
    assert seen == [1, 2, 2, 4, 4]


def test_what_cannot_be_asked_says_why(toy_services: Any, standing: Any, watched: Callable[..., str]) -> None:
    catalog = toy_services.services.catalog
    everywhere = catalog.searches.save_search(OPERATOR.name, "everywhere", {"query": "cat", "collection": "*"})
    with pytest.raises(InputError, match="all collections"):
        standing.watch(everywhere.id, Watch())
    with pytest.raises(InputError, match="more like this"):
        watched("cat", name="like", like=("12345678-1234-5678-1234-567812345678",))
    catalog.searches.save_search(OPERATOR.name, "hook", {"query": "cat", "collection": "library"})
    for url in ("ftp://host/x", "no address", "https://host/\n"):
        with pytest.raises(InputError, match="webhook"):
            standing.watch("hook", Watch(webhook=url))
    lens = watched("cat", name="by lens")
    catalog.searches.save_search(OPERATOR.name, "by lens", {"query": "cat", "collection": "library", "lens": "gone"})
    toy_services.add("cat sleeps")
    assert "gone" in str(standing.find(lens).error)


def test_a_search_that_is_saved_anew_is_asked_anew(
    toy_services: Any, standing: Any, watched: Callable[..., str]
) -> None:
    search = watched("cat", name="pets")
    toy_services.services.catalog.searches.save_search(OPERATOR.name, "pets", {"query": "dog", "collection": "library"})
    toy_services.add("dog sleeps")
    toy_services.add("cat sleeps")
    assert [each.text for each in standing.news(search)][-1] == "dog sleeps"
    toy_services.services.catalog.searches.save_search(OPERATOR.name, "pets", {"query": "dog", "collection": "*"})
    assert standing.standing() == []


def test_what_is_deleted_is_told_no_more(toy_services: Any, standing: Any, watched: Callable[..., str]) -> None:
    search = watched("cat")
    document = toy_services.add("cat sleeps")
    assert len(told(standing, search)) == 1
    toy_services.services.library.delete_document(document.id)
    assert told(standing, search) == []
    assert standing.find(search).unseen == 0
    toy_services.services.catalog.searches.delete_saved_search(OPERATOR.name, search)
    toy_services.add("cat again")
    assert standing.standing() == []


def test_few_searches_of_a_person_keep_watch(
    toy_services: Any, watched: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.collections.own_standing.MAX_STANDING_SEARCHES", 1)
    watched("cat")
    watched("cat", strength=Strength.STRONG)  # the same one
    with pytest.raises(ConflictError):
        watched("dog")


def test_without_searches_nothing_is_read_again(toy_services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_services.services.index, "retrieve", lambda *_: pytest.fail("read again"))
    toy_services.add("cat sleeps")
    assert isinstance(toy_services.pipeline.complete, StandingCompletion)


def test_a_kept_request_is_a_request_again(toy_services: Any) -> None:
    request = SearchRequest(
        "cat", "library", instruction="Where?", filters={"a": "b"}, values=parse_values(["x", "y = z"]), value="x",
        exclude=("dog",), mode=SearchMode.DENSE, steps=3, token_bias={"sea": 5.0},
    )  # fmt: skip
    assert request_of(question_of(request), toy_services.services.catalog) == request
