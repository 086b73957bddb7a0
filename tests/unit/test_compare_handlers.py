"""The compare page's handlers over a real search service, called by the page and with untrusted values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seen_html import Seen

from app.errors import InputError, UnknownLensError, VectorIndexUnavailableError
from app.search.lenses import STARTERS
from app.search.value_syntax import join_values, parse_values
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import ScoredPoint
from app.types.search import SearchRequest
from ui.compare_handlers import AS_IT_IS, NOTHING, CompareHandlers, SideFields
from ui.handler_inputs import as_stream_handler
from ui.lens_names import NO_LENS, OWN_WORDS
from ui.search_fields import SIDES
from ui.search_handlers import MAX_INSTRUCTION_CHARS

FERRY, KETTLE, BOTH = "the ferry is late", "the kettle is broken", "the ferry sells a kettle"
A = ("", 2, "hybrid", "library", "", "")
B = ("kettle kettle kettle", 3, "hybrid", "library", "", "")


def fields(*values: object) -> dict[str, object]:
    """By the names that the page gives them; the last ones may be missing."""
    names = ["query", *(name + side for side in SIDES for name in SideFields._fields)]
    return dict(zip(names, values, strict=False))


class FallibleIndex(InMemoryVectorIndex):
    """Away while it is told to be, for indexes of one collection."""

    away = "nothing"

    def search(self, index: str, *values: Any, **options: Any) -> list[ScoredPoint]:
        if index.startswith(self.away):
            raise VectorIndexUnavailableError("The vector index is away. Start it again.")
        return super().search(index, *values, **options)


@pytest.fixture
def index() -> FallibleIndex:
    return FallibleIndex()


@pytest.fixture
def application(toy_services_factory: Callable[..., Any], index: FallibleIndex) -> Any:
    application = toy_services_factory(index=index)
    for text in (FERRY, KETTLE, BOTH):
        application.add(text)
    application.add(FERRY, collection="other")
    return application


def handlers_of(application: Any) -> CompareHandlers:
    return CompareHandlers(
        search_service=application.services.search,
        catalog=application.services.catalog,
        default_steps=2,
        max_steps=20,
    )


@pytest.fixture
def handlers(application: Any) -> CompareHandlers:
    return handlers_of(application)


def scores_of(html: str) -> list[str]:
    return [piece.split("</span>")[0].rsplit(">", 1)[1] for piece in html.split('class="place-score"')[1:]]


def test_both_sides_are_what_the_search_service_answers(handlers: CompareHandlers, application: Any) -> None:
    bias = json.dumps({"bias": {"ferry": 5}})
    *_, last = handlers.compare(fields("ferry kettle", *A, *B[:4], bias, ""))
    left = application.services.search.search(SearchRequest("ferry kettle", "library", "", 2))
    right = application.services.search.search(
        SearchRequest("ferry kettle", "library", B[0], 3, token_bias={"ferry": 5.0})
    )
    assert scores_of(last[3]) == [f"{hit.score:.3f}" for hit in (*left.hits, *right.hits)]
    for reading, result in ((last[4], left), (last[5], right)):
        shown = Seen(reading).text
        for step in result.refinement:
            for token in step.tokens[:10]:
                assert f"{token.token} {token.probability:.3f}" in shown
    assert last[4] != last[5]
    assert 'data-action="drop-bias"' in last[2]


def test_values_of_one_side_count_and_mark_its_passages_alone(handlers: CompareHandlers, application: Any) -> None:
    chosen = json.dumps({"value": "kettle"})
    *_, last = handlers.compare(fields("ferry kettle", *A[:4], chosen, "", *B[:4], chosen, "ferry, kettle"))
    values = parse_values(["ferry", "kettle"])
    found = application.services.search.search(
        SearchRequest("ferry kettle", "library", B[0], 3, values=values, value="kettle")
    )
    assert scores_of(last[3])[-len(found.hits) :] == [f"{hit.score:.3f}" for hit in found.hits]
    left, right = Seen(last[1]), Seen(last[2])
    assert "by value" not in left.text
    assert f"All {found.values.passages}" in right.text
    assert last[3].count('class="value"') == len(found.hits)


def test_left_comes_first_then_right_then_the_sentences(handlers: CompareHandlers) -> None:
    first, second, last = handlers.compare(fields("ferry", *A, *B))
    assert "Running both searches" in first[0]
    assert "Searching" in first[3]
    assert "<svg" not in first[3]
    assert "passages" in second[0]
    assert "<svg" in second[3]
    assert "<mark>" not in second[3]
    assert "<mark>" in last[3]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("", *A, *B), "query is empty"),
        ((None, *A, *B), "query is empty"),
        ((7, *A, *B), "must be text"),
        (("ferry", "x" * (MAX_INSTRUCTION_CHARS + 1), *A[1:], *B), "instruction A has 2,001"),
        (("ferry", *A, "x" * (MAX_INSTRUCTION_CHARS + 1), *B[1:]), "instruction B has 2,001"),
        (("ferry", "", 0, *A[2:], *B), "steps A must be a whole number from 1 to 20"),
        (("ferry", *A, "", 21, *B[2:]), "steps B"),
        (("ferry", *A, "", 2, "psychic", *B[3:]), "dense, sparse, hybrid"),
        (("ferry", *A, "", 2, "hybrid", "elsewhere", "", ""), "No collection named"),
        (("ferry", "", 2, "hybrid", None, "", "", *B), "Choose a collection A"),
        (("ferry", *A[:4], "{", "", *B), "filters in this address are invalid"),
        (("ferry", *A[:5], "alone", *B), "2 to 200 values, not 1"),
        (("ferry", *A, *B[:5], 7), "values B must be text"),
        (("ferry", *A), "Reload the page"),
    ],
)
def test_bad_input_is_refused_before_any_search(
    handlers: CompareHandlers, values: tuple[object, ...], message: str
) -> None:
    (view,) = as_stream_handler(handlers.compare, outputs=len(NOTHING))(fields(*values))
    assert 'role="alert"' in view[0]
    assert message in view[0]
    assert view[1:] == NOTHING[1:]


def test_a_side_that_fails_leaves_the_other_one_standing(handlers: CompareHandlers, index: FallibleIndex) -> None:
    index.away = "other"
    *_, last = handlers.compare(fields("ferry", *A, "", 2, "hybrid", "other", "", ""))
    text = Seen(last[3]).text
    assert "Search B failed" in text
    assert "The vector index is away. Start it again." in text
    assert FERRY in text
    assert last[0] == ""
    assert last[4]
    assert last[5] == ""


def test_the_same_text_in_two_collections_is_recognised(handlers: CompareHandlers) -> None:
    *_, last = handlers.compare(fields("ferry", *A, "", 2, "hybrid", "other", "", ""))
    assert "Passages from two collections count as the same" in last[0]


def test_nothing_is_said_about_a_choice_before_any_query(handlers: CompareHandlers) -> None:
    assert list(handlers.compare_again(fields("  ", *A, *B))) == [AS_IT_IS]
    assert len(list(handlers.compare_again(fields("ferry", *A, *B)))) == 3


def test_an_address_gives_the_left_no_lens_and_the_right_the_first(handlers: CompareHandlers) -> None:
    asked = handlers.read_address({"q": " ferry "})
    assert asked.query == "ferry"
    assert asked.left == SideFields("", 2, "hybrid", "library", "")
    assert asked.right == asked.left._replace(instruction=STARTERS[0].query_instruction)
    assert handlers.lens_of(asked.left.instruction) == NO_LENS
    assert handlers.lens_of(asked.right.instruction) == STARTERS[0].name


def test_the_right_side_follows_the_left_in_what_it_does_not_say(handlers: CompareHandlers) -> None:
    first, second = STARTERS[0].query_instruction, STARTERS[1].query_instruction
    asked = handlers.read_address({"q": "x", "i1": first, "k1": "7", "m1": "sparse", "c1": "other"})
    assert asked.right == SideFields(second, 7, "sparse", "other", "", join_values(STARTERS[1].values))
    asked = handlers.read_address({"q": "x", "i1": first, "i2": "-", "k1": "7", "k2": "3", "c2": "other"})
    assert asked.right == SideFields("", 3, "hybrid", "other", "")
    assert asked.left.collection == "library"
    asked = handlers.read_address({"q": "x", "i1": first, "v1": "sea, land", "i2": second, "v2": "calm; loud"})
    assert (asked.left.values, asked.right.values) == ("sea, land", "calm; loud")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"c2": "gone"}, "B: the collection “gone” does not exist. Collections: library, other."),
        ({"k1": "99"}, "A: the number of steps must be from 1 to 20, not “99”"),
        ({"k2": "²"}, "B: the number of steps"),
        ({"m1": "psychic"}, "A: the mode must be one of dense, sparse, hybrid, not “psychic”"),
        ({"x2": "{"}, "B: the filters in this link are invalid"),
        ({"v2": "alone"}, "B: the values are invalid"),
    ],
)
def test_an_address_that_cannot_be_followed_says_so_and_asks_nothing(
    handlers: CompareHandlers, params: Mapping[str, str], message: str
) -> None:
    (view,) = handlers.compare_address({"q": "ferry", **params})
    assert message in Seen(view[0]).text
    assert view[1:] == NOTHING[1:]


def test_an_address_without_a_query_changes_nothing_and_one_with_it_compares(handlers: CompareHandlers) -> None:
    assert list(handlers.compare_address({})) == [AS_IT_IS]
    *_, last = handlers.compare_address({"q": "ferry", "c2": "other"})
    assert "<svg" in last[3]


def test_an_empty_installation_says_what_to_do(toy_services_factory: Callable[..., Any]) -> None:
    bare = handlers_of(toy_services_factory("empty"))
    (view,) = as_stream_handler(bare.compare_address, outputs=len(NOTHING))({"q": "ferry"})
    assert "There are no collections yet" in view[0]


def test_lenses_fill_the_instruction_and_own_words_keep_it(handlers: CompareHandlers) -> None:
    assert handlers.instruction_of(NO_LENS) == ""
    assert handlers.instruction_of(OWN_WORDS) is None
    assert handlers.instruction_of("Same place") == "Identify the region of the world the text is about."
    assert handlers.lens_of("What nobody saved.") == OWN_WORDS
    with pytest.raises(UnknownLensError):
        handlers.instruction_of("Elsewhere")
    assert {NO_LENS, OWN_WORDS, "Same place"} <= set(handlers.lens_names())


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.binary())
GOOD = (st.just("ferry"), st.sampled_from(["dense", "sparse", "hybrid"]), st.just("library"), st.integers(1, 20))


@pytest.fixture(scope="module")
def lasting_application(toy_services_class: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with ExitStack() as opened:
        application = toy_services_class(tmp_path_factory.mktemp("application"), opened, embedder=ToyEmbedder())
        application.add(FERRY)
        yield application


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(JUNK, *GOOD), min_size=0, max_size=14))
def test_no_junk_reaches_the_unforeseen(lasting_application: Any, values: list[object]) -> None:
    for view in as_stream_handler(handlers_of(lasting_application).compare, outputs=len(NOTHING))(fields(*values)):
        assert "incident" not in str(view[0])
        "".join(map(str, view)).encode()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from([f"{key}{side}" for key in "qikmcxv" for side in ("", "1", "2")]), st.text()))
def test_no_address_reaches_the_unforeseen(lasting_application: Any, params: dict[str, str]) -> None:
    for view in as_stream_handler(handlers_of(lasting_application).compare_address, outputs=len(NOTHING))(params):
        assert "incident" not in str(view[0])


@given(JUNK, st.dictionaries(st.sampled_from(["action", "subject", "value"]), JUNK))
def test_junk_clicks_are_refused_in_words(text: object, data: dict[str, object]) -> None:
    unused: Any = None
    junked = CompareHandlers(search_service=unused, catalog=unused, default_steps=2, max_steps=20)
    try:
        said = junked.choose(text, data)
    except InputError:
        return
    assert isinstance(said, str)
