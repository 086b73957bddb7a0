"""Refinement words grouped as in section 5.2 of the paper, checked against sums made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.soft_tokens import converged_step, group_refinement, is_stop_word
from embedder.refinement_steps import RefinementStep
from embedder.refinement_steps import RefinementToken as Token


def step(number: int, **probabilities: float) -> RefinementStep:
    return RefinementStep(number, tuple(Token(token, probability) for token, probability in probabilities.items()))


def test_probabilities_are_summed_within_groups() -> None:
    groups = group_refinement([step(1, card=0.5, the=0.25), step(5, card=0.25), step(6, card=0.125, seek=0.5)])

    first, second = groups
    assert [(t.token, t.weight) for t in first.tokens] == [("card", 0.75), ("the", 0.25)]
    assert [(t.token, t.weight) for t in second.tokens] == [("seek", 0.5), ("card", 0.125)]


def test_a_later_group_adds_what_no_earlier_group_holds() -> None:
    groups = group_refinement(
        [step(1, card=0.5), step(6, seek=0.5), step(11, card=0.4, seek=0.3, inquiry=0.2), step(20, question=0.1)]
    )

    assert [t.token for t in groups[2].added] == ["inquiry", "question"]
    assert [t.token for t in groups[2].kept] == ["card", "seek"]


def test_spellings_of_one_word_are_one_token() -> None:
    (group,) = group_refinement([step(1, Card=0.5, card=0.25), RefinementStep(2, (Token(" CARD ", 0.25),))])

    assert [(t.token, t.weight) for t in group.tokens] == [("card", 1.0)]


def test_empty_tokens_are_left_out_and_stop_words_are_flagged() -> None:
    tokens = (
        Token("the", 0.5),
        Token("?", 0.25),
        Token("card", 0.125),
        Token("  ", 0.1),
    )
    (group,) = group_refinement([RefinementStep(1, tokens)])

    assert [(t.token, t.is_stop_word) for t in group.tokens] == [("the", True), ("?", True), ("card", False)]


@pytest.mark.parametrize(
    ("count", "ranges"),
    [
        (0, []),
        (3, [(1, 3)]),
        (6, [(1, 5), (6, 6)]),
        (20, [(1, 5), (6, 10), (11, 20)]),
        (24, [(1, 5), (6, 10), (11, 20), (21, 24)]),
    ],
)
def test_groups_end_where_the_steps_end(count: int, ranges: list[tuple[int, int]]) -> None:
    groups = group_refinement([step(number, card=0.5) for number in range(1, count + 1)])

    assert [(group.first_step, group.last_step) for group in groups] == ranges


@pytest.mark.parametrize(("token", "expected"), [("why", True), ("...", True), ("persistent", False), ("卡", False)])
def test_stop_words(token: str, expected: bool) -> None:
    assert is_stop_word(token) is expected


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=8), st.floats(0, 1), max_size=5), max_size=25).map(
        lambda steps: [
            RefinementStep(number, tuple(Token(*item) for item in each.items()))
            for number, each in enumerate(steps, start=1)
        ]
    )
)
def test_no_probability_is_lost_and_no_token_is_new_twice(steps: list[RefinementStep]) -> None:
    groups = group_refinement(steps)

    given_mass = sum(t.probability for each in steps for t in each.tokens if t.token.strip())
    assert sum(t.weight for group in groups for t in group.tokens) == pytest.approx(given_mass)
    added = [token.token for group in groups for token in group.added]
    assert len(added) == len(set(added))


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [
        ([], None),
        ([0.0], 1),
        ([0.5, 0.1, 0.0], 3),
        ([0.5, 0.02, 0.01, 0.0], 2),
        ([0.01, 0.5, 0.01, 0.0], 3),  # near, then away again
        ([0.02, 0.02, 0.0], 1),  # just at the tolerance
    ],
)
def test_a_vector_has_converged_once_it_stays_near_the_final_one(remaining: list[float], expected: int | None) -> None:
    steps = [RefinementStep(number, (), left) for number, left in enumerate(remaining, start=1)]

    assert converged_step(steps, tolerance=0.02) == expected
    assert converged_step(steps[::-1], tolerance=0.02) == expected


@given(st.lists(st.floats(0, 2), min_size=1, max_size=20), st.floats(0, 2), st.floats(0, 2))
def test_a_wider_tolerance_never_converges_later(remaining: list[float], one: float, other: float) -> None:
    steps = [RefinementStep(number, (), left) for number, left in enumerate([*remaining, 0.0], start=1)]

    narrow, wide = converged_step(steps, min(one, other)), converged_step(steps, max(one, other))
    assert narrow is not None
    assert wide is not None
    assert wide <= narrow
