"""p-MRR by hand, and equal to the field's own code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.evaluation.pmrr import p_mrr, p_mrr_by_query, rank_change


def ranking(*documents: str) -> dict[str, float]:
    """Scores that rank the documents in this order."""
    return {document: 1.0 / place for place, document in enumerate(documents, start=1)}


@pytest.mark.parametrize(
    ("original", "changed", "expected"),
    [(3, 3, 0.0), (1, 2, 0.5), (1, 4, 0.75), (2, 1, -0.5), (4, 1, -0.75), (10, 100, 0.9)],
)
def test_a_fall_counts_as_much_as_the_opposite_rise(original: int, changed: int, expected: float) -> None:
    assert rank_change(original, changed) == pytest.approx(expected)


def test_documents_are_averaged_within_queries_first() -> None:
    original = {"q1": ranking("a", "b", "c", "d"), "q2": ranking("a", "b")}
    changed = {"q1": ranking("b", "c", "d", "a"), "q2": ranking("b", "a")}
    made_irrelevant = {"q1": ["a", "b"], "q2": ["b"], "q3": []}
    by_query = p_mrr_by_query(original | {"q3": {}}, changed | {"q3": {}}, made_irrelevant)
    # q1: a falls from 1 to 4 (0.75), b rises from 2 to 1 (-0.5); q2: b rises from 2 to 1.
    assert by_query == pytest.approx({"q1": 0.125, "q2": -0.5})
    assert p_mrr(original | {"q3": {}}, changed | {"q3": {}}, made_irrelevant) == pytest.approx(-0.1875)


def test_a_document_that_left_the_ranking_counts_as_the_next_one() -> None:
    assert p_mrr({"q": ranking("a", "b")}, {"q": ranking("b", "c", "d")}, {"q": ["a"]}) == pytest.approx(1 - 1 / 4)


def test_equal_scores_do_not_depend_on_the_order_of_the_run() -> None:
    tied, reversed_run = {"a": 1.0, "b": 1.0, "c": 0.5}, {"c": 0.5, "b": 1.0, "a": 1.0}
    assert p_mrr({"q": tied}, {"q": reversed_run}, {"q": ["a"]}) == 0.0


def test_a_query_that_was_not_ranked_is_named() -> None:
    with pytest.raises(ValueError, match="changed run has no ranking for query 'q'"):
        p_mrr({"q": ranking("a")}, {}, {"q": ["a"]})
    with pytest.raises(ValueError, match="No query"):
        p_mrr({"q": ranking("a")}, {"q": ranking("a")}, {"q": []})
    with pytest.raises(ValueError, match="count from 1"):
        rank_change(0, 1)


# Few distinct scores, so that ties are common.
runs = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1)
cases = st.lists(st.tuples(runs, runs, st.lists(st.sampled_from("abcdefg"), min_size=1, unique=True)), min_size=1)


@pytest.fixture(scope="module")
def metrics():
    return pytest.importorskip("mteb._evaluators.retrieval_metrics", reason="needs mteb, which is no extra")


@given(cases)
def test_equals_the_field_s_own_code(metrics, queries: list[tuple[dict, dict, list[str]]]) -> None:
    names = [f"q{number}" for number in range(len(queries))]
    original = dict(zip(names, (query[0] for query in queries), strict=True))
    changed = dict(zip(names, (query[1] for query in queries), strict=True))
    made_irrelevant = dict(zip(names, (query[2] for query in queries), strict=True))
    theirs = metrics.calculate_pmrr(
        {f"{name}-og": run for name, run in original.items()},
        {f"{name}-changed": run for name, run in changed.items()},
        made_irrelevant,
    )
    assert p_mrr(original, changed, made_irrelevant) == pytest.approx(theirs, abs=1e-6)
