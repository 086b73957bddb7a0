"""The search service over real ingestion, with an embedder whose neighbours can be worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.search_schemas import SearchAnswer
from app.commands.terminal import json_of
from app.errors import (
    EmptyQueryError,
    FilterError,
    FingerprintMismatchError,
    GircseError,
    InputError,
    UnknownCollectionError,
)
from app.search.aspect_search import bank_wordings
from app.search.highlights import MAX_SENTENCES
from app.search.service import SearchService
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import Point
from app.types.search import SearchMode, SearchRequest
from embedder.model_info import SHIPPED_MODELS

CAT = "The cat sleeps on the sofa. It dreams of mice."
RATES = "The bank raised interest rates. Savers were glad."


@pytest.fixture
def filled_application(toy_services: Any) -> Any:
    toy_services.add(CAT, metadata={"kind": "animal", "year": 1999})
    toy_services.add(RATES, metadata={"kind": "money", "year": 2001})
    return toy_services


def ask(query: str = "cat on the sofa", **more: Any) -> SearchRequest:
    return SearchRequest(**{"query": query, "collection": "library", "mode": SearchMode.DENSE, **more})


def test_nearest_document_comes_first_with_all_its_facts(filled_application: Any) -> None:
    result = filled_application.services.search.search(ask())
    first = result.hits[0]
    assert [hit.rank for hit in result.hits] == [1, 2]
    assert first.score > result.hits[1].score
    assert first.chunk.text == CAT
    assert (first.chunk.start, first.chunk.end, first.chunk.page) == (0, len(CAT), None)
    assert first.document.uri == "text://0"
    assert first.document.metadata == {"kind": "animal", "year": 1999}
    assert (result.instruction, result.steps) == ("", 2)
    assert len(result.refinement) == 2
    assert set(result.timings_ms) == {"embed", "index", "explain", "total"}


def test_score_is_the_cosine(toy_services_factory: Callable[..., Any]) -> None:
    application = toy_services_factory(embedder=ToyEmbedder(dimension=4096))  # so many axes that no two words share one
    application.add(CAT)
    # Nine different words, of which "the" comes twice.
    assert application.services.search.search(ask("cat")).hits[0].score == pytest.approx(1 / math.sqrt(8 + 2**2))


def test_instruction_changes_the_ranking(filled_application: Any) -> None:
    texts = {
        instruction: filled_application.services.search.search(ask("the", instruction=instruction)).hits[0].chunk.text
        for instruction in ("cat sofa mice", "bank rates savers")
    }
    assert texts == {"cat sofa mice": CAT, "bank rates savers": RATES}


def test_best_sentence_is_highlighted(filled_application: Any) -> None:
    why = filled_application.services.search.search(ask("dreams of mice")).hits[0].why
    assert CAT[why.start : why.end] == "It dreams of mice."


def test_single_sentence_highlights_itself_without_embedding(toy_services: Any) -> None:
    toy_services.add("One sentence alone.")
    toy_services.services.search.search(ask("sentence"))  # embeds what it calibrates with, once
    toy_services.embedder.embedded_texts.clear()
    hit = toy_services.services.search.search(ask("sentence")).hits[0]
    assert (hit.why.start, hit.why.end, hit.why.score) == (0, len("One sentence alone."), hit.score)
    assert toy_services.embedder.embedded_texts == []


def test_explanation_can_be_left_out(filled_application: Any) -> None:
    filled_application.embedder.embedded_texts.clear()
    result = filled_application.services.search.search(ask(), highlight=False)
    assert [hit.why for hit in result.hits] == [None, None]
    assert filled_application.embedder.embedded_texts == []


def test_sentences_to_embed_are_capped(toy_services: Any) -> None:
    for number in range(12):
        toy_services.add(" ".join(f"Word{number}x{i} here." for i in range(14)))
    toy_services.embedder.embedded_texts.clear()
    hits = toy_services.services.search.search(ask("here", limit=100)).hits
    assert len(set(toy_services.embedder.embedded_texts) - set(bank_wordings())) <= MAX_SENTENCES
    assert hits[0].why is not None
    assert hits[-1].why is None


def test_filters_compare_metadata(filled_application: Any) -> None:
    hits = filled_application.services.search.search(ask(filters={"kind": "money"})).hits
    assert [hit.chunk.text for hit in hits] == [RATES]


def test_more_of_a_word_draws_its_passages_nearer_and_less_pushes_them_away(filled_application: Any) -> None:
    def score(**more: Any) -> float:
        hits = filled_application.services.search.search(ask("the", mode=SearchMode.DENSE, **more)).hits
        return next(hit.score for hit in hits if hit.chunk.text == RATES)

    assert score(token_bias={"savers": 8.0}) > score() > score(token_bias={"savers": -8.0})
    by_words = ask("cat", mode=SearchMode.SPARSE, token_bias={"savers": 5.0})
    assert {hit.chunk.text for hit in filled_application.services.search.search(by_words).hits} == {CAT, RATES}


def test_unmanaged_points_are_left_out(filled_application: Any) -> None:
    index: InMemoryVectorIndex = filled_application.index
    vector = list(filled_application.embedder.embed_query("cat").vector)
    unmanaged = Point("00000000-0000-4000-8000-000000000001", vector, {"page_content": "x", "metadata": {"a": 1}})
    index.upsert("library--1", [unmanaged])
    assert len(filled_application.services.search.search(ask("cat")).hits) == 2


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_empty_query_is_refused(filled_application: Any, query: str) -> None:
    with pytest.raises(EmptyQueryError):
        filled_application.services.search.search(ask(query))


def test_unknown_collection_names_the_known_ones(filled_application: Any) -> None:
    with pytest.raises(UnknownCollectionError, match="library"):
        filled_application.services.search.search(ask(collection="other"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"limit": 0}, "1 to 100"),
        ({"limit": 101}, "1 to 100"),
        ({"steps": 0}, "1 to 20"),
        ({"steps": 21}, "1 to 20"),
        ({"query": "a\x00b"}, "NUL"),
        ({"query": "a\ud800b"}, "surrogate"),
        ({"instruction": "a\ud800b"}, "surrogate"),
        ({"token_bias": {"word": 10.1}}, "-10 to 10"),
        ({"token_bias": {"word": math.nan}}, "-10 to 10"),
        ({"token_bias": {" ": 1.0}}, "empty"),
    ],
)
def test_unusable_input_is_told(filled_application: Any, error: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        filled_application.services.search.search(ask(**error))


@pytest.mark.parametrize("filters", [{"": "x"}, {"  ": "x"}, {f"k{i}": "v" for i in range(40)}])
def test_unusable_filters_are_told(filled_application: Any, filters: dict[str, str]) -> None:
    with pytest.raises(FilterError):
        filled_application.services.search.search(ask(filters=filters))


def test_other_model_is_refused_with_what_to_do(filled_application: Any) -> None:
    services = filled_application.services
    other = SearchService(services.catalog, services.index, ToyEmbedder(fingerprint="toy-2"))
    with pytest.raises(FingerprintMismatchError, match="GIRCSE_MODEL"):
        other.search(ask())


def test_a_shipped_model_that_filled_a_collection_is_told_by_name(toy_services_factory: Any) -> None:
    (mini,) = (fingerprint for fingerprint, name in SHIPPED_MODELS.items() if name == "gircse-mini")
    application = toy_services_factory(embedder=ToyEmbedder(fingerprint=mini))
    application.add("A text.")
    services = application.services
    other = SearchService(services.catalog, services.index, ToyEmbedder(fingerprint="toy-2"))
    with pytest.raises(FingerprintMismatchError, match=rf"\({mini}, gircse-mini\)"):
        other.search(ask())


def test_result_has_the_shape_that_programs_rely_on(filled_application: Any) -> None:
    result = json.loads(json_of(SearchAnswer.model_validate(filled_application.services.search.search(ask()))))
    assert list(result) == [
        "query",
        "instruction",
        "steps",
        "collection",
        "hits",
        "refinement",
        "timings_ms",
        "mode",
        "values",
        "notes",
        "match",
        "exclusions",
        "searched",
        "read_text",
    ]
    assert list(result["hits"][0]) == [
        "rank",
        "score",
        "document",
        "chunk",
        "why",
        "legs",
        "value",
        "rerank_score",
        "moved_from",
        "match",
        "excluded",
        "duplicates",
    ]
    assert list(result["hits"][0]["document"]) == ["id", "title", "uri", "metadata", "collection"]
    assert list(result["hits"][0]["chunk"]) == ["id", "text", "start", "end", "page", "context", "kind", "is_damaged"]
    assert list(result["refinement"][0]) == ["step", "tokens", "remaining"]
    assert list(result["refinement"][0]["tokens"][0]) == ["token", "probability"]


@given(text=st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_is_refined_or_refused(text: str) -> None:
    service = SearchService(_Unused(), InMemoryVectorIndex(), ToyEmbedder())  # type: ignore[arg-type]
    try:
        embedding = service.refine(text)
    except GircseError:
        return
    assert math.hypot(*embedding.vector) == pytest.approx(1)


class _Unused:
    """Refining asks no catalog: any use of this one fails."""

    lens_indexes = None


def test_deleting_a_document_leaves_no_point(toy_services_factory: Callable[..., Any]) -> None:
    application = toy_services_factory()
    document = application.add(CAT)
    assert application.index.count("library--1") > 0
    application.services.library.delete_document(document.id)
    application.work_off()
    assert application.index.count("library--1") == 0
    assert application.services.search.search(ask()).hits == ()
