"""Two answers joined: what both find, who moved where. And how that is drawn, whatever the texts hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seen_html import HOSTILE, Seen, assert_harmless

from app.errors import GircseError, VectorIndexUnavailableError
from app.types.search import Highlight, Hit, HitChunk, HitDocument, SearchMode, SearchRequest, SearchResult
from embedder.refinement_steps import RefinementStep
from embedder.refinement_steps import RefinementToken as Token
from ui.choices import Choices
from ui.comparison import ComparedAnswer, Look, compare, top_words
from ui.contract import Example
from ui.render import moves
from ui.render.comparison import (
    render_comparison,
    render_look,
    render_reading,
    render_summary,
    render_welcome,
    search_address,
)
from ui.theme import ASSETS

REFINEMENT = (
    RefinementStep(1, (Token("the", 0.6), Token("island", 0.3), Token("sea", 0.1)), 0.2),
    RefinementStep(2, (Token("sea", 0.7), Token("boat", 0.2)), 0.0),
)


def hit(rank: int, name: str, **changes: object) -> Hit:
    text = f"The text of {name}. It goes on."
    values = {"title": name, "uri": f"notes/{name}.txt", "text": text, "chunk": name, "start": 0, **changes}
    document = HitDocument(f"d-{name}", str(values["title"]), str(values["uri"]), {})
    start = int(str(values["start"]))
    chunk = HitChunk(str(values["chunk"]), str(values["text"]), start, start + len(str(values["text"])), None)
    return Hit(rank, 1 / rank, document, chunk, Highlight(0, 12, 0.9))


def answer(shown: str, deeper: str = "", *, collection: str = "library") -> ComparedAnswer:
    """One letter for each passage, best first."""
    hits = tuple(hit(rank, name) for rank, name in enumerate(shown, start=1))
    result = SearchResult("query", "", 2, collection, hits, REFINEMENT, {})
    return ComparedAnswer(result, tuple(hit(rank, name) for rank, name in enumerate(deeper, start=1)))


def looks(
    *,
    collections: Sequence[str] = ("library", "library"),
    mode: SearchMode = SearchMode.DENSE,
    text: str = "Look at it.",
) -> list[Look]:
    return [
        Look(name, "A lens", SearchRequest("query", collection, text, 2, mode=mode), Choices(bias={"sea": 5.0}))
        for name, collection in zip("AB", collections, strict=True)
    ]


def test_what_both_find_is_counted_and_placed() -> None:
    found = compare(answer("abcd"), answer("cabx"))
    assert [place.elsewhere for place in found.left] == [2, 3, 1, None]
    assert [place.elsewhere for place in found.right] == [3, 1, 2, None]
    assert (found.shared, found.size) == (3, 4)
    assert not found.is_same


def test_the_furthest_moves_are_named_and_deeper_ranks_count() -> None:
    found = compare(answer("abc", "abcdefgh"), answer("ahd", "ahdcbefg"))
    assert found.shared == 1
    assert found.risen is not None
    assert (found.risen.hit.chunk.id, found.risen.elsewhere, found.risen.hit.rank) == ("h", 8, 2)
    assert found.fallen is not None
    assert (found.fallen.hit.chunk.id, found.fallen.hit.rank, found.fallen.elsewhere) == ("b", 2, 5)


def test_a_deeper_search_in_another_order_never_puts_a_passage_among_those_that_are_shown() -> None:
    found = compare(answer("ab", "cab"), answer("ca"))
    assert [(place.hit.chunk.id, place.elsewhere) for place in found.right] == [("c", 3), ("a", 1)]
    assert found.shared == 1


def test_the_same_answer_twice_has_no_moves() -> None:
    found = compare(answer("abc"), answer("abc"))
    assert found.is_same
    assert found.risen is None
    assert found.fallen is None
    assert compare(answer(""), answer("")).size == 0


def test_passages_of_two_collections_are_the_same_by_source_place_and_text() -> None:
    def one(collection: str, chunk: str, start: int) -> ComparedAnswer:
        found = hit(1, "a", chunk=chunk, start=start)
        return ComparedAnswer(SearchResult("q", "", 1, collection, (found,), (), {}))

    assert compare(one("x", "1", 0), one("y", "2", 0)).shared == 1
    assert compare(one("x", "1", 0), one("y", "2", 9)).shared == 0
    assert compare(one("x", "1", 0), one("x", "2", 0)).shared == 0


@given(st.lists(st.sampled_from("abcdefghij"), unique=True), st.lists(st.sampled_from("abcdefghij"), unique=True))
def test_moves_are_the_same_seen_from_either_side(left: list[str], right: list[str]) -> None:
    found = compare(answer("".join(left)), answer("".join(right)))
    back = compare(answer("".join(right)), answer("".join(left)))
    assert found.shared == back.shared == len(set(left) & set(right))
    assert {(p.hit.rank, p.elsewhere) for p in found.left if p.elsewhere} == {
        (p.elsewhere, p.hit.rank) for p in found.right if p.elsewhere
    }
    assert 0 <= found.shared <= found.size


def test_top_words_are_those_of_substance_by_their_sum() -> None:
    assert top_words(REFINEMENT) == ("sea", "island", "boat")
    assert top_words(REFINEMENT, count=1) == ("sea",)
    assert top_words(()) == ()


def test_the_summary_says_what_is_shared_and_who_moved_most() -> None:
    outcomes = [answer("abcd"), answer("dabx")]
    text = Seen(render_summary(compare(*outcomes), looks(), outcomes)).text
    assert "Both searches found 3 of 4 passages." in text
    assert "Biggest rise: d, from rank 4 to 1." in text
    assert "Biggest drop: a, from rank 1 to 2." in text


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ("ab", "ab", "Both lists have the same passages in the same order."),
        ("ab", "ba", "Both lists have the same passages in a different order."),
        ("ab", "", "Both searches found 0 of 2 passages."),
        ("", "", "Neither search found a passage."),
    ],
)
def test_the_summary_knows_the_ends(left: str, right: str, said: str) -> None:
    outcomes = [answer(left), answer(right)]
    assert said in Seen(render_summary(compare(*outcomes), looks(), outcomes)).text


def test_the_summary_waits_and_keeps_quiet_when_a_side_failed() -> None:
    assert "Running both searches" in render_summary(None, looks(), [answer("a"), None])
    assert render_summary(None, looks(), [answer("a"), GircseError("away")]) == ""


def test_lines_join_the_same_passages_at_the_heights_of_their_rows() -> None:
    drawn = Seen(str(moves.render_moves(compare(answer("abc"), answer("bax")))))
    lines = {each["data-pair"]: each["class"] for each in drawn.of_class("line") if "data-pair" in each}
    assert lines == {"b-1": "line is-up", "b-2": "line is-down"}
    assert len(drawn.of_class("is-lone")) == 2
    paths = [str(each["d"]) for each in drawn.of("path")]
    half, row = moves.ROW // 2, moves.ROW
    assert any(path.startswith(f"M{moves.EDGE},{half + row} C") and f",{half} " in path for path in paths)
    assert drawn.of("svg")[0]["height"] == str(3 * row)
    assert f"grid-auto-rows: {row}px" in (ASSETS / "compare.css").read_text(encoding="utf-8")


def test_moves_are_said_in_signs_and_in_words_on_both_sides() -> None:
    left, right = answer("abcd", "abcdx"), answer("bacx", "bacxd")
    html = str(render_comparison(compare(left, right), looks(), [left, right]))
    assert re.findall(r'aria-hidden="true">([^<]*)</span>', html) == [
        "→ 2", "→ 1", "→ 3", "→ 5", "▲ 1", "▼ 1", "=", "▲ 1",
    ]  # fmt: skip
    seen = Seen(html)
    for said in ("Rank 2 in B", "Rose by 1 against A", "Fell by 1 against A", "Rose by 1, from rank 5 in A"):
        assert said in seen.text


def test_a_passage_that_the_other_side_has_nowhere_is_marked_so() -> None:
    left, right = answer("a", "abc"), answer("x", "xyz")
    text = Seen(str(render_comparison(compare(left, right), looks(), [left, right]))).text
    assert "Not in the top 3 of B" in text
    assert "Not in the top 3 of A" in text


def test_every_passage_opens_a_whole_one_of_its_own() -> None:
    left, right = answer("abc"), answer("cb")
    seen = Seen(str(render_comparison(compare(left, right), looks(), [left, right])))
    targets = {str(each["popovertarget"]) for each in seen.of_class("open")}
    ids = [str(each["id"]) for each in seen.of_class("whole-passage")]
    assert sorted(targets) == sorted(ids)
    assert len(set(ids)) == 5


def test_one_side_may_fail_or_wait_or_be_empty_while_the_other_is_shown() -> None:
    away = VectorIndexUnavailableError("The index is away.")
    for outcome, said in ((away, "The index is away."), (None, "Searching"), (answer(""), "has no matching passages")):
        seen = Seen(str(render_comparison(None, looks(), [answer("ab"), outcome])))
        assert said in seen.text
        assert "The text of a." in seen.text
        assert not seen.of("svg")


def test_a_look_shows_its_own_words_and_those_that_both_have() -> None:
    look = looks()[0]
    seen = Seen(str(render_look(look, answer("a"), ("sea", "boat"), ("sea",))))
    assert len(seen.of_class("is-own")) == 1
    assert len(seen.of_class("is-shared")) == 1
    assert "2 steps · by meaning · library" in seen.text
    by_words = looks(mode=SearchMode.SPARSE)[0]
    assert "by the words of the query only" in Seen(str(render_look(by_words, answer("a"), (), ()))).text


def test_a_look_opens_in_search_with_all_that_it_asks() -> None:
    look = looks(mode=SearchMode.SPARSE)[1]
    address = search_address(look.request, look.chosen)
    assert address == ("/?q=query&i=Look+at+it.&k=2&m=sparse&c=library&x=%7B%22bias%22%3A%7B%22sea%22%3A5.0%7D%7D")
    bare = SearchRequest("query", "library", "", 2)
    assert search_address(bare, Choices()) == "/?q=query&k=2&c=library"


def test_readings_show_both_and_say_when_there_is_none() -> None:
    look = looks()[0]
    seen = Seen(str(render_reading(look, answer("a"))))
    assert "island" in seen.text
    assert seen.of_class("token")
    part = SearchResult("query", "", 2, "library", (), REFINEMENT, {}, read_text="a <part>")
    told = Seen(str(render_reading(look, ComparedAnswer(part))))
    assert told.of_class("read-text")
    assert "“a <part>”" in told.text
    assert not seen.of_class("read-text")
    bare = SearchResult("q", "", 0, "library", (), (), {}, mode=SearchMode.SPARSE)
    assert "not the model" in Seen(str(render_reading(look, ComparedAnswer(bare)))).text
    wordless = Seen(str(render_reading(look, ComparedAnswer(replace(bare, mode=SearchMode.DENSE, read_text="a part")))))
    assert "added no words" in wordless.text
    assert "“a part”" in wordless.text
    assert render_reading(look, None) == ""


def test_examples_that_share_a_query_become_links() -> None:
    asked = ("fish & sea", "place"), ("cows", "topic"), ("fish & sea", "topic")
    examples = [Example(query, instruction, "sample") for query, instruction in asked]
    seen = Seen(render_welcome(examples))
    assert [each["href"] for each in seen.of("a")] == ["/compare?q=fish+%26+sea&i1=place&i2=topic&c1=sample&c2=sample"]
    assert not Seen(render_welcome(())).of("a")


@settings(deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE, st.integers(-5, 60))
def test_hostile_texts_stay_text(text: str, title: str, other: str, start: int) -> None:
    bad = Hit(1, 0.5, HitDocument(other, title, other, {}), HitChunk(other, text, 0, 9, 3), Highlight(start, 9, 0.5))
    steps = (
        RefinementStep(1, (Token(text, 0.5), Token(title, 0.4)), 0.1),
        RefinementStep(2, (Token(other, 1.0),)),
    )
    one = ComparedAnswer(SearchResult(text, other, 2, title, (bad,), steps, {}))
    both = [
        Look("A", title, SearchRequest(text, title, other, 2), Choices(bias={other: 5.0}, like={text: title})),
        Look("B", other, SearchRequest(other, text, title, 2, mode=SearchMode.HYBRID), Choices(filters={text: other})),
    ]
    outcomes = [one, one]
    assert_harmless(str(render_comparison(compare(one, one), both, outcomes)))
    assert_harmless(str(render_comparison(None, both, [GircseError(text), None])))
    assert_harmless(str(render_summary(compare(one, answer("a")), both, outcomes)))
    for look in both:
        assert_harmless(str(render_look(look, one, (text, title), (other,))))
        assert_harmless(str(render_reading(look, one)))
    assert_harmless(str(render_welcome([Example(text, title, other), Example(text, other, title)])))
