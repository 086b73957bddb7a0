"""Collections whose chunks have the vectors of the base model: how they are made, searched and looked at again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from patience import PATIENCE_S

from app.errors import InputError
from app.search.service import RERANK_CANDIDATES
from app.search.stages import StageName, search_in_stages
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.search import Leg, SearchMode, SearchRequest

TEXTS = ("A heron stands in the river.", "The bank raised its rates.", "Boats cross the river at dawn.")


@pytest.fixture
def application(toy_services_factory: Callable[..., Any]) -> Any:
    application = toy_services_factory(embedder=ToyEmbedder(dimension=4096, has_plain_vectors=True))
    for text in TEXTS:
        application.add(text)
    return application


MOVING = "boats " * 5  # the toy counts the words of an instruction, too; so many move the query away from its own


def ask(**more: Any) -> SearchRequest:
    return SearchRequest(**{"query": "the river bank", "collection": "library", "instruction": "boats", **more})


def legs(result: Any) -> set[Leg]:
    return {leg.leg for hit in result.hits for leg in hit.legs}


def test_new_collections_have_them_unless_an_instruction_is_for_documents(application: Any) -> None:
    library = application.services.library
    assert application.services.catalog.collection("library").has_plain_vectors
    assert library.create_collection("read", document_instruction="Name the topic.").document_steps == 2
    assert not library.create_collection("refined", document_steps=3).has_plain_vectors
    with pytest.raises(InputError, match="ignores instructions"):
        library.create_collection("both", document_instruction="Name the topic.", document_steps=0)


def test_a_hybrid_search_asks_the_base_model_as_well(application: Any) -> None:
    search = application.services.search.search
    assert legs(search(ask())) == {Leg.DENSE, Leg.PLAIN, Leg.SPARSE}
    plain = search(ask(mode=SearchMode.DENSE, instruction="", steps=0)).hits
    found = {hit.chunk.id: leg.score for hit in search(ask()).hits for leg in hit.legs if leg.leg is Leg.PLAIN}
    assert found == {hit.chunk.id: pytest.approx(hit.score) for hit in plain}


def test_without_an_instruction_the_base_model_alone_is_asked(application: Any) -> None:
    search = application.services.search.search
    [plain, *_] = search(ask(mode=SearchMode.DENSE, instruction="", steps=0)).hits
    unsteered = search(ask(instruction="", steps=2))
    assert legs(unsteered) == {Leg.DENSE, Leg.SPARSE}
    found = {hit.chunk.id: leg.score for hit in unsteered.hits for leg in hit.legs if leg.leg is Leg.DENSE}
    assert found[plain.chunk.id] == pytest.approx(plain.score)
    assert unsteered.refinement  # what the model makes of the query is shown all the same
    assert not unsteered.is_ranked_by_refinement
    by_word = search(ask(instruction="", token_bias={"boat": 2.0}))
    assert legs(by_word) == legs(unsteered)
    assert not by_word.is_ranked_by_refinement


class LateEmbedder(ToyEmbedder):
    """Generates soft tokens once the index was asked."""

    def __init__(self) -> None:
        super().__init__(dimension=4096, has_plain_vectors=True)
        self.asked = threading.Event()

    def embed_query(self, text: str, *, steps: int | None = None, **more: Any) -> Any:
        assert steps == 0 or self.asked.wait(PATIENCE_S), "The index waits for soft tokens."
        return super().embed_query(text, steps=steps, **more)


class NotedIndex(InMemoryVectorIndex):
    def __init__(self, asked: threading.Event) -> None:
        super().__init__()
        self._asked = asked

    def search_legs(self, *args: Any, **more: Any) -> Any:
        self._asked.set()
        return super().search_legs(*args, **more)


def test_soft_tokens_that_do_not_rank_are_made_while_the_index_is_searched(
    toy_services_factory: Callable[..., Any],
) -> None:
    embedder = LateEmbedder()
    application = toy_services_factory(embedder=embedder, index=NotedIndex(embedder.asked))
    application.add(TEXTS[0])
    found = application.services.search.search(ask(instruction=None))
    assert found.steps == len(found.refinement) == 2


def test_vectors_after_steps_are_not_compared_with_those_of_the_base(application: Any) -> None:
    application.services.library.create_collection("refined", document_steps=3)
    application.add(TEXTS[0], collection="refined")
    assert legs(application.services.search.search(ask(collection="refined"))) == {Leg.DENSE, Leg.SPARSE}


def test_0_steps_follow_no_instruction(application: Any) -> None:
    with pytest.raises(InputError, match="follows no instruction"):
        application.services.search.search(ask(steps=0))


def test_a_hybrid_search_is_reranked_if_its_instruction_changes_what_is_similar(application: Any) -> None:
    def is_reranked(**more: Any) -> set[bool]:
        hits = application.services.search.search(ask(**{"instruction": MOVING, **more})).hits
        return {hit.rerank_score is not None for hit in hits}

    assert is_reranked() == {True}
    for without in ({"rerank": 0}, {"instruction": ""}, {"mode": SearchMode.DENSE}, {"mode": SearchMode.SPARSE}):
        assert is_reranked(**without) == {False}
    assert is_reranked(instruction="boats") == {False}, "it leaves the query where it is"
    assert is_reranked(instruction="boats", rerank=RERANK_CANDIDATES) == {True}
    reranked = [application.services.search.search(ask(instruction=MOVING, rerank=each)).hits for each in (None, 20)]
    assert [hit.chunk.id for hit in reranked[0]] == [hit.chunk.id for hit in reranked[1]]


def test_its_stages_show_the_first_ranking_and_then_the_second(application: Any) -> None:
    def names(**more: Any) -> list[StageName]:
        request = ask(**{"instruction": MOVING, **more})
        return [stage.name for stage in search_in_stages(application.services.search, request, steps=2)]

    assert names() == [StageName.RANKED, StageName.RERANKED, StageName.HIGHLIGHTED]
    assert names(instruction="") == names(rerank=0) == [StageName.RANKED, StageName.HIGHLIGHTED]


def test_stages_search_again_only_to_rerank(application: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    search = application.services.search
    searched: list[SearchRequest] = []
    monkeypatch.setattr(search, "_retrieve", lambda *args, own=search._retrieve: searched.append(args[1]) or own(*args))

    def searches(**more: Any) -> int:
        searched.clear()
        list(search_in_stages(search, ask(**more), steps=2))
        return len(searched)

    assert searches(instruction="boats") == 1, "it leaves the query where it is"
    assert searches(instruction=MOVING) == searches(instruction="boats", rerank=5) == 2


class SilentEmbedder(ToyEmbedder):
    """Reads the instruction, and generates no soft token."""

    def embed_query(self, *args: Any, **more: Any) -> Any:
        return replace(super().embed_query(*args, **more), steps=())


def test_a_model_without_soft_tokens_is_asked_with_the_instruction_and_without(
    toy_services_factory: Callable[..., Any],
) -> None:
    application = toy_services_factory(embedder=SilentEmbedder(dimension=4096, has_plain_vectors=True))
    for text in TEXTS:
        application.add(text)
    search = application.services.search.search
    instructed, bare = search(ask()), search(ask(instruction=""))
    assert legs(instructed) == {Leg.DENSE, Leg.PLAIN, Leg.SPARSE}
    assert Leg.PLAIN not in legs(bare)  # it would say the same again
    assert instructed.refinement == ()
