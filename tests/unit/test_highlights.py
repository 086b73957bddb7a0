"""Which sentence explains a hit, and what of it need not be computed again."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.search.aspect_search import bank_wordings
from app.search.highlights import MAX_SENTENCES, Highlighter
from app.testing import ToyEmbedder
from app.types.search import Hit, HitChunk, HitDocument, Leg, LegRank, SearchMode, SearchRequest
from embedder.lru import LRUCache
from embedder.refinement import Refinement

CAT = "The cat sleeps on the sofa. It dreams of mice."
RATES = "The bank raised interest rates. Savers were glad."


class CountingEmbedder(ToyEmbedder):
    """Knows how often a query was embedded."""

    def __init__(self) -> None:
        super().__init__(dimension=4096)
        self.query_count = 0

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        self.query_count += 1
        return super().embed_query(text, instruction=instruction, steps=steps, token_bias=token_bias)


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def counted_application(toy_services_factory: Callable[..., Any], embedder: CountingEmbedder) -> Any:
    application = toy_services_factory(embedder=embedder)
    application.add(CAT)
    application.add(RATES)
    application.embedder.embedded_texts.clear()
    return application


def hit(text: str, *, score: float = 0.5, legs: tuple[LegRank, ...] = ()) -> Hit:
    return Hit(1, score, HitDocument("d", "t", "u", {}), HitChunk("c", text, 0, len(text), None), legs=legs)


def marked(found: Hit) -> str:
    assert found.why is not None
    return found.chunk.text[found.why.start : found.why.end]


def test_highlighting_after_a_search_gives_what_the_search_would_have_given(counted_application: Any) -> None:
    service = counted_application.services.search
    request = SearchRequest("dreams of mice", "library", token_bias={"cat": 1.0})
    later = service.highlight(service.search(request, highlight=False))

    at_once = service.search(request)
    assert later.hits == at_once.hits
    assert marked(later.hits[0]) == "It dreams of mice."
    assert set(later.timings_ms) == {"embed", "index", "explain", "total"}
    assert later.timings_ms["total"] >= later.timings_ms["explain"]


def test_the_query_is_embedded_once(counted_application: Any, embedder: CountingEmbedder) -> None:
    service = counted_application.services.search
    request = SearchRequest("dreams of mice", "library")
    service.highlight(service.search(request, highlight=False))
    service.search(replace(request, limit=1))
    assert embedder.query_count == 2  # as asked, and as the documents are

    for other in ({"steps": 1}, {"instruction": "mice"}, {"token_bias": {"mice": 1.0}}, {"query": "mice"}):
        service.search(replace(request, **other), highlight=False)
    assert embedder.query_count == 6


def test_sentences_are_embedded_once_whatever_the_query(counted_application: Any, embedder: CountingEmbedder) -> None:
    service = counted_application.services.search
    service.search(SearchRequest("dreams of mice", "library"))
    sentences = [text for text in embedder.embedded_texts if text not in bank_wordings()]
    assert len(sentences) == 4
    embedder.embedded_texts.clear()

    answer = service.search(SearchRequest("cat on the sofa", "library"))
    assert marked(answer.hits[0]) == "The cat sleeps on the sofa."
    assert embedder.embedded_texts == []


def test_hits_can_be_explained_in_portions(counted_application: Any) -> None:
    service = counted_application.services.search
    request = SearchRequest("dreams of mice", "library")
    plain = service.search(request, highlight=False)
    first = service.highlight(replace(plain, hits=plain.hits[:1]))
    whole = service.highlight(replace(plain, hits=(*first.hits, *plain.hits[1:])))
    assert whole.hits == service.search(request).hits


def test_a_mark_that_is_there_stays(embedder: CountingEmbedder) -> None:
    highlighter = Highlighter(embedder)
    (first,) = highlighter.highlight(
        [hit(CAT)], vector(embedder, "mice"), document_instruction="", mode=SearchMode.DENSE
    )
    again = highlighter.highlight([first], vector(embedder, "sofa"), document_instruction="", mode=SearchMode.DENSE)
    assert again == (first,)


def test_a_rule_or_a_fence_is_no_sentence(embedder: CountingEmbedder) -> None:
    texts = ("Tuning a ukulele\n================\n\n```\nThe cat sleeps.\n```", "====\n\n----")
    found = Highlighter(embedder).highlight(
        [hit(text) for text in texts], vector(embedder, "mice"), document_instruction="", mode=SearchMode.HYBRID
    )
    assert all(each.why for each in found)
    assert embedder.embedded_texts == ["Tuning a ukulele", "The cat sleeps.", "====", "----"]


def test_a_sentence_is_embedded_again_under_another_instruction(embedder: CountingEmbedder) -> None:
    highlighter = Highlighter(embedder)
    for each in ("", "mice", ""):
        highlighter.highlight([hit(CAT)], vector(embedder, "mice"), document_instruction=each, mode=SearchMode.DENSE)
    assert len(embedder.embedded_texts) == 4


def test_a_chunk_of_one_sentence_has_the_cosine_of_its_dense_leg(embedder: CountingEmbedder) -> None:
    legs = (LegRank(Leg.SPARSE, 1, 7.0), LegRank(Leg.DENSE, 2, 0.25))
    (found,) = Highlighter(embedder).highlight(
        [hit("One sentence alone.", score=0.9, legs=legs)],
        vector(embedder, "sentence"),
        document_instruction="",
        mode=SearchMode.HYBRID,
    )
    assert found.why is not None
    assert found.why.score == 0.25
    assert embedder.embedded_texts == []


def test_hits_past_the_cap_are_marked_by_the_next_call(embedder: CountingEmbedder) -> None:
    count = MAX_SENTENCES // 10
    hits = [hit(" ".join(f"Word{number}x{place} here." for place in range(10))) for number in range(count + 2)]
    highlighter = Highlighter(embedder)
    once = highlighter.highlight(hits, vector(embedder, "here"), document_instruction="", mode=SearchMode.DENSE)
    assert [each.why is not None for each in once] == [True] * count + [False] * 2

    twice = highlighter.highlight(once, vector(embedder, "here"), document_instruction="", mode=SearchMode.DENSE)
    assert all(each.why is not None for each in twice)


def test_a_remembered_sentence_keeps_no_others_of_its_call_in_memory() -> None:
    answers: list[weakref.ref[np.ndarray]] = []

    class ArrayEmbedder(ToyEmbedder):
        def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> Any:
            found = np.asarray(super().embed_documents(texts, instruction=instruction, steps=steps), np.float32)
            answers.append(weakref.ref(found))
            return found

    embedder = ArrayEmbedder(dimension=4096)
    highlighter = Highlighter(embedder)
    for _ in range(2):
        highlighter.highlight([hit(CAT)], vector(embedder, "mice"), document_instruction="", mode=SearchMode.DENSE)
    gc.collect()
    assert [answer() is None for answer in answers] == [True]


def test_hits_are_highlighted_though_their_collection_is_gone_and_the_query_is_not_embedded_again(
    counted_application: Any, embedder: CountingEmbedder
) -> None:
    service = counted_application.services.search
    liked = service.search(SearchRequest("mice", "library")).hits[-1].chunk.id
    request = SearchRequest("dreams", "library", like=(liked,))
    expected, plain = service.search(request).hits, service.search(request, highlight=False)
    asked = embedder.query_count
    counted_application.services.library.delete_collection("library")
    assert service.highlight(plain).hits == tuple(replace(hit, match=None) for hit in expected)
    assert embedder.query_count == asked


def test_many_threads_highlight_the_same_hits_alike(embedder: CountingEmbedder) -> None:
    highlighter = Highlighter(embedder)
    hits = [hit(CAT), hit(RATES)]

    def highlight(query: str) -> tuple[str, ...]:
        found = highlighter.highlight(hits, vector(embedder, query), document_instruction="", mode=SearchMode.DENSE)
        return tuple(marked(each) for each in found)

    queries = ["mice dreams savers glad", "sofa cat bank"] * 20
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(highlight, queries))
    assert set(found[::2]) == {("It dreams of mice.", "Savers were glad.")}
    assert set(found[1::2]) == {("The cat sleeps on the sofa.", "The bank raised interest rates.")}


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 6))))
def test_what_was_used_last_is_remembered(size: int, uses: list[tuple[bool, int]]) -> None:
    recent: LRUCache[int, int] = LRUCache(size)
    order: list[int] = []  # of keys, the one used last at the end
    for number, (is_asked, key) in zip(itertools.count(), uses, strict=False):
        if is_asked:
            assert (recent.get(key) is not None) == (key in order)
            order = [*(each for each in order if each != key), *([key] if key in order else [])]
        else:
            recent.keep({key: number})
            order = [*(each for each in order if each != key), key][-size:]


def vector(embedder: ToyEmbedder, text: str) -> tuple[float, ...]:
    return ToyEmbedder.embed_query(embedder, text).vector
