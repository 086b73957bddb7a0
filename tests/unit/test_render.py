"""HTML of the page: whatever comes from outside stays text, and what a reader needs is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.soft_tokens import group_refinement
from app.types.answers import Answer, AnswerKind, AnswerSentence, Passage
from app.types.documents import (
    MAX_ATTEMPTS,
    MAX_PAUSES,
    ChunkKind,
    Collection,
    Document,
    DocumentState,
    FacetValue,
    Job,
    JobKind,
    JobState,
)
from app.types.search import (
    Exclusion,
    ExclusionEffect,
    Highlight,
    Hit,
    HitChunk,
    HitDocument,
    NearDuplicate,
    SearchResult,
)
from app.types.upkeep import Fetch, FetchState, ReindexState, ReindexStatus
from embedder.refinement_steps import RefinementStep
from embedder.refinement_steps import RefinementToken as Token
from ingest.readers.message_parts import SHOWN_HEADERS
from ui.choices import Choices
from ui.contract import AboutInfo, Example, PageLink
from ui.language import speaking
from ui.render.answer import render_answer
from ui.render.collections import render_settings
from ui.render.documents import (
    DocumentPage,
    render_documents,
    render_new_collection,
    render_offer,
    render_overview,
    render_undo,
)
from ui.render.facets import render_facets
from ui.render.frame import render_footer, render_header
from ui.render.hits import render_choices, render_results
from ui.render.markdown_signs import sign_spans
from ui.render.saved import KeptSearch, render_history, render_saved
from ui.render.snippets import snippet_window
from ui.render.text import render_error, render_note
from ui.render.tokens import render_reading, render_refinement
from ui.render.welcome import LensView, render_welcome

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OUR_TAGS = {
    "header", "h1", "h2", "h3", "p", "b", "q", "span", "a", "div", "ul", "ol", "li", "article", "section", "mark",
    "details", "summary", "meter", "table", "thead", "tbody", "tr", "th", "td", "button", "progress", "nav", "footer",
    "kbd", "small", "i", "dialog", "figure", "figcaption", "svg", "rect", "caption", "dl", "dt", "dd", "code",
    "line", "polyline", "circle", "text", "path", "input"
}  # fmt: skip
OUR_ATTRIBUTES = {
    "class", "role", "dir", "id", "title", "href", "target", "rel", "aria-label", "aria-hidden", "min", "max",
    "value", "scope", "type", "name", "aria-current", "aria-pressed", "data-theme-switch", "data-walk", "data-event",
    "data-action", "data-subject", "data-value", "data-document", "data-chunk", "data-sentence", "data-page",
    "data-grade",
    "open", "viewbox", "popover", "popovertarget", "aria-expanded", "aria-controls", "data-toggle", "data-query",
    "data-copy", "data-format", "data-request", "data-open-keys", "data-close-dialog", "aria-labelledby",
    "data-instruction", "data-language", "data-texts", "lang",
    "x1", "x2", "y1", "y2", "x", "y", "cx", "cy", "r", "points", "text-anchor",
    "data-form", "data-path", "data-keep", "maxlength",
    "data-documents", "data-name", "data-to", "data-every", "data-is-new",
    "preserveaspectratio", "data-confirm", "data-url", "data-collection", "data-offset", "width", "height", "d"
}  # fmt: skip


class Tags(HTMLParser):
    """Reads HTML as a browser would: which tags and attributes exist, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.marked = ""
        self._in_mark = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_mark = self._in_mark or tag == "mark"

    def handle_endtag(self, tag: str) -> None:
        self._in_mark = self._in_mark and tag != "mark"

    def handle_data(self, data: str) -> None:
        self.text += data
        self.marked += data if self._in_mark else ""

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def hit(text: str = "One. Two. Three.", **changes: object) -> Hit:
    document = HitDocument("d1", "A title", "notes/a.txt", {})
    values: dict[str, object] = {
        "rank": 1,
        "score": 0.5,
        "document": document,
        "chunk": HitChunk("c1", text, 0, len(text), None),
        "why": None,
    }
    return Hit(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ("A title › Climate › <b>", '<p class="section" dir="auto">Climate › &lt;b&gt;</p>'),
        ("Climate", '<p class="section" dir="auto">Climate</p>'),
        ("A title", ""),
        ("", ""),
    ],
)
def test_headings_stand_above_a_passage_and_the_title_not_twice(context: str, told: str) -> None:
    html = shown(result(hit(chunk=HitChunk("c1", "Text", 0, 4, None, context))))
    assert told in html
    assert ('class="section"' in html) is bool(told)


def test_a_passage_whose_stored_text_is_damaged_says_so() -> None:
    damaged, sound = (HitChunk("c1", "Text", 0, 4, None, is_damaged=each) for each in (True, False))
    assert "stored text is damaged" in shown(result(hit(chunk=damaged)))
    assert "stored text is damaged" not in shown(result(hit(chunk=sound)))


def test_passages_of_one_document_stand_together() -> None:
    other = HitDocument("d2", "Another", "notes/b.txt", {})
    chunks = [HitChunk(f"c{n}", f"Text {n}.", 0, 7, None) for n in range(4)]
    hits = [hit(rank=n + 1, chunk=chunk) for n, chunk in enumerate(chunks)]
    hits[1] = replace(hits[1], document=other)
    html = shown(result(*hits))
    assert re.findall(r"data-chunk=\"(c\d)\"", html) == ["c0", "c2", "c3", "c1"]
    assert html.count("2 more passages from this document") == 1
    assert html.count("More from this document") == 4
    alone = shown(result(*hits), Choices(filters={"document_id": "d1"}))
    assert re.findall(r"data-chunk=\"(c\d)\"", alone) == ["c0", "c1", "c2", "c3"]
    assert "ore passages from this document" not in alone
    assert "More from this document" not in alone
    assert "<span>document</span> A title <button" in alone


def test_near_identical_passages_can_be_opened() -> None:
    twin = NearDuplicate(HitDocument("d2", "Its <twin>", "notes/b.txt", {}), HitChunk("c2", "Text", 0, 4, None))
    html = shown(result(hit(duplicates=(twin,))))
    assert "1 near-identical passage<" in html
    assert 'data-document="d2" data-chunk="c2">Its &lt;twin&gt;</button>' in html


def test_a_hit_says_where_its_sentence_stands_and_what_it_is() -> None:
    chunk = HitChunk("c1", "One. Two. Three.", 100, 116, 3, kind=ChunkKind.REFERENCES)
    html = shown(result(hit(chunk=chunk, why=Highlight(5, 9, 0.5))))
    assert 'data-sentence="105-109"' in html
    assert "page 3 · references" in html


def result(*hits: Hit, instruction: str = "Find the same.", steps: int = 5) -> SearchResult:
    return SearchResult("query", instruction, steps, "library", hits, (), {"total": 12.3, "embed": 10.0})


def shown(found: SearchResult, chosen: Choices | None = None, **options: object) -> str:
    return render_results(found, chosen or Choices(), **options)  # type: ignore[arg-type]


def document(**changes: object) -> Document:
    made = Document(
        "d1", "library", "a.txt", "A", "text/plain", "0" * 64, 3, {}, DocumentState.READY, None, 2, NOW, NOW
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def job(**changes: object) -> Job:
    made = Job("j1", JobKind.INGEST, "library", "d1", JobState.RUNNING, 1, 0.4, None, None, None, 1, NOW, NOW, None)
    return replace(made, **changes)  # type: ignore[arg-type]


COLLECTION = Collection("library", "f", 4, "", 1, 200, 30, "library--1")


def listed(documents: Sequence[Document], jobs: Sequence[Job] = (), **changes: object) -> str:
    by_document = {each.id: jobs[0] for each in documents if jobs}
    page = DocumentPage("library", documents, by_document, 0, len(documents), 50, is_filtered=False, is_paused=False)
    return render_documents(replace(page, **changes))  # type: ignore[arg-type]


HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '" onmouseover="alert(1)',
            "' onfocus='alert(1)' autofocus='",
            "</p></li><img src=x onerror=alert(1)>",
            "javascript:alert(1)",
            "javascript://a.example/%0Aalert(1)",
            "https://a.example/\"><svg onload='alert(1)'>",
            "&lt;script&gt;",
            "{0.__class__} {} %s",
            "\x00\x1b\ud800",
        ]
    ),
)


def assert_harmless(html: str) -> None:
    html.encode("utf-8")
    assert "\x00" not in html
    assert "<script" not in html.lower()
    for tag, attributes in Tags(html).tags:
        assert tag in OUR_TAGS
        assert set(attributes) <= OUR_ATTRIBUTES
        assert (attributes.get("href") or "#").startswith(("#", "/", "http://", "https://"))


@settings(deadline=None)
@given(HOSTILE)
def test_exclusions_are_shown_with_one_click_to_undo_them(phrase: str) -> None:
    found = result(hit(excluded=phrase or "x"))
    for effect, action in (("rank", "kept"), ("value", "kept"), ("offered", "exclude")):
        told = Exclusion(phrase, ExclusionEffect(effect), is_detected=True)
        html = shown(replace(found, exclusions=(told,)))
        assert_harmless(html)
        assert f'data-action="{action}"' in html
    html = shown(replace(found, exclusions=(Exclusion(phrase, ExclusionEffect.RANK),)), Choices(exclude=("a",)))
    assert html.count('class="chosen"') == 1
    assert 'aria-label="Undo not about a"' in html


@settings(deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE, st.integers(-5, 60), st.integers(-5, 60))
def test_hostile_results_stay_text(text: str, title: str, other: str, start: int, end: int) -> None:
    found = hit(
        text=text,
        document=HitDocument("d", title, other, {other: title, "n": 1.5}),
        why=Highlight(start, end, 0.5),
        duplicates=(NearDuplicate(HitDocument(other, title, text, {}), HitChunk(title, text, 0, 1, None)),),
    )
    hostile = Choices(bias={text: 5.0}, filters={title: other}, like={other: title}, unlike={text: text})
    assert_harmless(shown(result(found, instruction=other), hostile))
    assert_harmless(shown(replace(result(), collection=other)))


@settings(deadline=None)
@given(HOSTILE, st.floats(0, 1))
def test_hostile_tokens_stay_text(token: str, probability: float) -> None:
    steps = [
        RefinementStep(1, (Token(token, probability),)),
        RefinementStep(6, (Token(token, probability),)),
    ]
    assert_harmless(render_refinement(group_refinement(steps), steps))
    assert_harmless(render_refinement(group_refinement(steps), steps, Choices(bias={token: 5.0})))


@settings(deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE)
def test_hostile_documents_errors_and_names_stay_text(title: str, uri: str, error: str) -> None:
    hostile = document(id=uri, title=title, uri=uri, error=error, state=DocumentState.FAILED)
    assert_harmless(listed([hostile], [job(state=JobState.DEAD)], collection=title, total=99))
    assert_harmless(listed([replace(hostile, state=DocumentState.DELETING)]))
    assert_harmless(render_undo(title, [uri, error], action="restore", collection=title, to=error))
    assert_harmless(render_offer(title, uri))
    assert_harmless(render_new_collection(title))
    fetches = [Fetch(uri, FetchState.FAILED, error), Fetch(title, FetchState.FETCHING)]
    kept = replace(COLLECTION, document_instruction=title, fingerprint=uri, is_paused=True)
    assert_harmless(render_overview(kept, dict.fromkeys(DocumentState, 3), fetches))
    status = ReindexStatus("library", ReindexState.FAILED, 1, 2, error, can_roll_back=True)
    assert_harmless(render_settings(kept, status))
    assert_harmless(render_error(error, title=title))
    assert_harmless(render_note(error))
    assert_harmless(render_footer(AboutInfo(model_name=title, version=uri)))


@settings(deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE)
def test_hostile_searches_stay_text(query: str, name: str, details: str) -> None:
    searches = [KeptSearch("id", each, query, "library", details, "/?q=a", NOW) for each in ("", name)]
    assert_harmless(render_saved(searches))
    assert_harmless(render_history(searches, limit=5))


@settings(deadline=None)
@given(HOSTILE, HOSTILE)
def test_hostile_facets_stay_text(key: str, value: str) -> None:
    values = [FacetValue(value, 3)] * 9
    assert_harmless(render_facets({key: values}, {key: value}))


def test_a_chosen_facet_can_be_taken_back_and_the_rest_stays_folded() -> None:
    values = [FacetValue(f"value {number}", 10 - number) for number in range(9)]
    seen = Tags(render_facets({"topic": values}, {"topic": "value 1"}))
    assert [a["data-action"] for a in seen.of("button")[1:]][:3] == ["filter", "drop-filters", "filter"]
    assert seen.of("button")[0]["aria-expanded"] == "true"
    assert Tags(render_facets({"topic": values}, {})).of("button")[0]["aria-expanded"] == "false"
    assert "1 more" in seen.text
    assert render_facets({}, {}) == ""


def test_keys_that_the_readers_write_have_names_that_people_read() -> None:
    found = hit(document=HitDocument("d", "", "scan.pdf", {"recognition_confidence": 0.97, "own_key": "x"}))
    chosen = Choices(filters={"recognition_confidence": "0.97"})
    facets = render_facets({"recognition_confidence": [FacetValue("0.97", 2)]}, chosen.filters)
    for seen in (Tags(render_choices(chosen)), Tags(facets)):
        assert "confidence of recognition" in seen.text
        assert "recognition_confidence" not in seen.text
    assert "confidence" not in Tags(shown(result(found))).text  # only on request
    assert "own_key x" in Tags(shown(result(found))).text


@settings(deadline=None)
@given(HOSTILE)
def test_own_frame_and_examples_are_harmless(text: str) -> None:
    given = Example(text, text, "sample")
    assert_harmless(
        render_header([PageLink("Search", "/"), PageLink("About", "/about")], PageLink("Search", "/"))
        + render_welcome([(given, text)], [LensView(given, text, text, result(hit(text))), LensView(given, text, text)])
    )


def test_best_sentence_is_marked_without_its_blanks() -> None:
    seen = Tags(shown(result(hit("One. Two. Three.", why=Highlight(4, 9, 0.9)))))
    assert seen.marked == "Two."


@pytest.mark.parametrize("why", [None, Highlight(3, 3, 0.1), Highlight(500, 900, 0.1), Highlight(9, 2, 0.1)])
def test_text_without_a_usable_highlight_is_shown_unmarked(why: Highlight | None) -> None:
    seen = Tags(shown(result(hit("One. Two. Three.", why=why))))
    assert seen.of("mark") == []
    assert "One. Two. Three." in seen.text


def test_a_long_passage_is_cut_around_the_marked_sentence_and_can_be_opened() -> None:
    before, best, after = "before " * 200, "The best sentence.", " after" * 200
    html = shown(result(hit(before + best + after, why=Highlight(1400, 1418, 0.9))))
    snippet, whole = html.split("<details")

    assert f"<mark>{best}</mark>" in snippet
    assert len(Tags(snippet).text) < 700
    assert before + f"<mark>{best}</mark>" + after in whole


@settings(deadline=None)
@given(st.text(alphabet="ab \n", max_size=2000), st.integers(0, 2000), st.integers(0, 2000))
def test_the_marked_text_is_what_the_offsets_say(text: str, start: int, end: int) -> None:
    seen = Tags(shown(result(hit(text, why=Highlight(start, end, 0.9)))).split("<details")[0])
    assert seen.marked == text[start:end].strip()


def test_a_hit_shows_rank_score_page_and_metadata() -> None:
    found = hit(
        rank=3,
        score=0.73456,
        document=HitDocument("d", "", "report.pdf", {"year": 1999}),
        chunk=HitChunk("c", "Text", 0, 4, 7),
    )
    text = Tags(shown(result(found))).text
    for expected in ("3", "0.735", "report.pdf", "page 7", "year 1999", "1 passage", "5 steps", "12 ms"):
        assert expected in text


@pytest.mark.parametrize(
    ("uri", "is_link"),
    [
        ("https://example.org/a", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("javascript://a.example/%0Aalert(1)", False),
        ("ftp://a.example/a", False),
        ("file:///etc/passwd", False),
        ("https:nohost", False),
        ("http://[broken", False),
        ("notes/a.txt", False),
    ],
)
def test_only_web_addresses_become_links(uri: str, is_link: bool) -> None:
    seen = Tags(shown(result(hit(document=HitDocument("d", "T", uri, {})))))
    assert [a["href"] for a in seen.of("a") if not str(a["href"]).startswith(("#", "/"))] == ([uri] if is_link else [])


def test_no_hits_say_what_to_do() -> None:
    assert "Add documents" in Tags(shown(result())).text


def test_a_probable_word_is_larger_and_a_stop_word_is_pale() -> None:
    steps = [RefinementStep(1, (Token("the", 0.9), Token("card", 0.4), Token("seek", 0.025)))]
    classes = [a["class"] for a in Tags(render_refinement(group_refinement(steps), steps)).of("li") if a.get("title")]
    assert classes == ["token size-5", "token size-2", "token size-1 is-stop"]


def test_a_later_group_names_what_it_adds_and_what_stays() -> None:
    steps = [
        RefinementStep(1, (Token("card", 0.5),)),
        RefinementStep(6, (Token("card", 0.5), Token("seek", 0.25))),
    ]
    text = Tags(render_refinement(group_refinement(steps), steps)).text
    assert "Step 6 adds" in text
    assert "still: card" in text


def test_words_that_decide_nothing_are_not_said_to() -> None:
    steps = [RefinementStep(1, (Token("river", 0.5),))]
    said = "These words affect the ranking only"
    assert said not in render_refinement(group_refinement(steps), steps)
    assert said in render_refinement(group_refinement(steps), steps, is_ranking=False)


def test_every_step_lists_its_words_with_probabilities() -> None:
    steps = [RefinementStep(1, (Token("card", 0.5),)), RefinementStep(2, (Token("seek", 0.25),))]
    seen = Tags(render_refinement(group_refinement(steps), steps))
    assert len(seen.of("tr")) == 3
    assert "card 0.500" in seen.text
    assert "seek 0.250" in seen.text


def test_no_refinement_draws_nothing() -> None:
    assert render_refinement((), []) == ""
    assert render_reading((), (), Choices()) == ""
    assert "“a &lt;part&gt;”" in render_reading((), (), Choices(), read_text="a <part>")  # of a model without words


@pytest.mark.parametrize(
    ("state", "jobs", "shown"),
    [
        (DocumentState.READY, [], "ready"),
        (DocumentState.QUEUED, [], "waiting"),
        (DocumentState.QUEUED, [job(progress=0.01)], "reading"),
        (DocumentState.QUEUED, [job()], "indexing 40 %"),
        (DocumentState.QUEUED, [job(progress=1.7)], "indexing 100 %"),
        (DocumentState.QUEUED, [job(state=JobState.FAILED)], "waiting for retry"),
        (DocumentState.FAILED, [], "failed"),
        (DocumentState.FAILED, [job(state=JobState.CANCELLED)], "cancelled"),
        (DocumentState.DELETING, [], "being deleted"),
    ],
)
def test_a_document_shows_its_state(state: DocumentState, jobs: list[Job], shown: str) -> None:
    assert shown in Tags(listed([document(state=state)], jobs)).text


@pytest.mark.parametrize(
    ("ended", "can_retry"),
    [
        (job(state=JobState.DEAD, attempts=1), False),  # refused: the file has a password, say
        (job(state=JobState.DEAD, attempts=2), False),  # refused after an attempt that failed for another reason
        (job(state=JobState.DEAD, attempts=MAX_ATTEMPTS), True),
        (job(state=JobState.DEAD, attempts=0, pauses=MAX_PAUSES), True),  # waited for a day
        (job(state=JobState.DEAD, attempts=1, may_succeed=True), True),  # on a less busy machine, say
        (job(state=JobState.CANCELLED), True),
    ],
)
def test_a_failed_document_offers_a_retry_only_if_one_can_succeed(ended: Job, *, can_retry: bool) -> None:
    seen = Tags(listed([document(state=DocumentState.FAILED, error="Some reason.")], [ended]))
    actions = [each.get("data-action") for each in seen.of("button")]
    assert ("retry" in actions, "delete" in actions) == (can_retry, True)


def test_a_list_says_which_page_of_it_is_shown_and_leads_to_the_others() -> None:
    seen = Tags(listed([document()], total=250, first=100))
    assert "101–101 of 250" in seen.text
    assert [each["data-offset"] for each in seen.of("button") if each.get("data-event") == "turn"] == ["50", "101"]
    assert "No documents yet" in Tags(listed([])).text
    assert "No document of this collection matches" in Tags(listed([], is_filtered=True)).text


def test_examples_of_the_sample_library_come_with_a_link_to_add_files() -> None:
    example = Example("ferry", "Same feeling.", "sample")
    assert [each["href"] for each in Tags(render_welcome([(example, "Same feeling")])).of("a")] == ["/documents"]
    assert not Tags(render_welcome()).of("a")


def test_the_overview_adds_up() -> None:
    counts = {state: number for number, state in enumerate(DocumentState, start=1)}
    seen = Tags(render_overview(COLLECTION, counts, []))
    assert sum(float(each["width"] or 0) for each in seen.of("rect")) == pytest.approx(100, abs=0.01)
    assert "Retry all failed" in seen.text
    assert [(each["href"], each["class"]) for each in seen.of("a")] == [("/?collection=library", "plain-button")]
    waiting = {**dict.fromkeys(DocumentState, 0), DocumentState.QUEUED: 3}
    assert not Tags(render_overview(COLLECTION, waiting, [])).of("a")
    assert render_overview(COLLECTION, dict.fromkeys(DocumentState, 0), []) == ""


@pytest.mark.parametrize(
    ("state", "told", "buttons"),
    [
        (ReindexState.NONE, "", []),
        (ReindexState.RUNNING, "Reindexing: 3 of 9 documents", []),
        (ReindexState.HALF_BUILT, "Unfinished new index: 3 of 9", ["go-on", "start-over"]),
        (ReindexState.DONE, "Reindexed: 9 documents. 2 failed", []),
        (ReindexState.FAILED, "failed at 3 of 9 documents: No room.", ["go-on", "start-over"]),
    ],
)
def test_indexing_anew_says_how_far_it_is_and_what_can_be_done(
    state: ReindexState, told: str, buttons: list[str]
) -> None:
    error = "No room." if state is ReindexState.FAILED else None
    seen = Tags(render_settings(COLLECTION, ReindexStatus("library", state, 3, 9, error, unreadable=2)))
    assert told in seen.text
    assert [each["data-action"] for each in seen.of("button")] == ["pause", *buttons]


def test_a_snippet_begins_and_ends_with_sentences() -> None:
    text = " ".join(f"Sentence number {number} says something about the boats." for number in range(40))
    start = text.index("Sentence number 20")
    first, last = snippet_window(text, start, start + 20)
    assert text[first:last].startswith("Sentence")
    assert text[first:last].endswith("boats.")
    assert 0 < start - first <= 150
    assert last - first <= 420
    words = "word " * 200  # no sentence ends: between words
    first, last = snippet_window(words, 400, 404)
    assert (words[first:last].startswith("word"), words[last]) == (True, " ")


MARKDOWN = HitDocument("d1", "The sourdough", "file:///bread.md", {})


def test_signs_of_markdown_are_left_out_of_snippets_and_the_mark_stays_where_it_was() -> None:
    text = "## Care\n\nFeed it **every evening** with `a * b`, see [the notes](notes.md).\n```sh\n# boil **it**\n```\n"
    best = text.index("Feed"), text.index("with") - 1
    seen = Tags(shown(result(hit(text, document=MARKDOWN, why=Highlight(*best, 0.9)))))
    assert seen.marked == "Feed it every evening"
    for kept in ("Care", "see the notes.", "a * b", "# boil **it**"):  # code, too
        assert kept in seen.text, kept
    for sign in ("##", "every evening**", "```", "](", "notes.md)"):
        assert sign not in seen.text, sign
    assert "**every evening**" in Tags(shown(result(hit(text)))).text


@pytest.mark.parametrize(("uri", "sign"), [("file:///trip.zip", ""), ("post/letter.eml", ""), ("notes/a.py", "# ")])
def test_names_of_members_lose_the_sign_that_their_reader_wrote(uri: str, sign: str) -> None:
    text = "# days/one.txt\n\nIt rained. # 5 stays.\n\n# days/two.txt\n\n# Count to five\n\nThe sun."
    seen = Tags(shown(result(hit(text, document=HitDocument("d1", "trip", uri, {})))))
    assert f"{sign}days/one.txt\n\nIt rained. # 5 stays.\n\n{sign}days/two.txt\n\n# Count" in seen.text
    assert ("# days" in seen.text) == bool(sign)


@pytest.mark.parametrize("uri", ["post/keys.eml", "post/keys.emlx", "post/keys.msg", "post/all.mbox", "old.zip"])
@pytest.mark.parametrize("header", SHOWN_HEADERS)
def test_subjects_lose_the_sign_that_their_reader_wrote(uri: str, header: str) -> None:
    text = f"# Keys of the cabin\n\n{header}: something\n\n# Wood\n\nIt is dry."
    seen = Tags(shown(result(hit(text, document=HitDocument("d1", "Post", uri, {}), why=Highlight(0, 19, 0.9)))))
    assert seen.marked == "Keys of the cabin"
    assert "# Wood" in seen.text


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_quoted_sentence_has_no_signs_of_its_format_and_a_written_one_stays(is_sure: bool) -> None:
    text = "# The **starter**\n\nIt sings."
    found = Passage(1, MARKDOWN, HitChunk("c1", text, 0, len(text), None))
    quoted = AnswerSentence("# The **starter**", (1,), start=0, end=17)
    answer = Answer("What?", "What?", "library", AnswerKind.EXTRACT, (found,), nearest=quoted)
    sentences = [quoted, AnswerSentence("It has # 5.", (1,))] if is_sure else []
    seen = Tags(render_answer(answer, sentences, is_whole=True)).text
    assert "The starter1" in seen
    assert "# The" not in seen
    assert ("It has # 5." in seen) is is_sure


@given(st.text(alphabet="ab *_`#[]()>!\n", max_size=60))
def test_signs_are_parts_of_a_text_in_their_order(text: str) -> None:
    at = 0
    for start, end in sign_spans(text):
        assert at <= start <= end <= len(text)
        at = end


def test_a_snippet_does_not_say_its_title_again() -> None:
    text = "# The sourdough\n\nThe starter is fed. It sings."
    seen = Tags(shown(result(hit(text, document=MARKDOWN, why=Highlight(17, 36, 0.9)))))
    assert seen.marked == "The starter is fed."
    assert seen.text.count("The sourdough") == 1
    marked = Tags(shown(result(hit(text, document=MARKDOWN, why=Highlight(0, 15, 0.9)))))
    assert marked.marked == "The sourdough"


def test_moments_are_written_as_people_do() -> None:
    values = [FacetValue("2024-05-01T12:30:00+00:00", 1), FacetValue("2024-02-31T00:00:00", 1)]
    assert render_facets({"date": values}, {}) == ""  # single days narrow nothing down
    drawn = render_facets({"date": values}, {"date": values[0].value})
    assert ">2024-05-01 12:30<" in drawn
    assert 'data-value="2024-05-01T12:30:00+00:00"' in drawn  # as the filter wants it
    assert ">2024-02-31T00:00:00<" in drawn  # there is none
    with speaking("de"):
        assert ">01.05.24, 12:30<" in render_facets({"date": values}, {"date": values[0].value})


def test_truth_values_are_words_of_the_page_and_stay_as_they_are_for_the_filter() -> None:
    values = [FacetValue("true", 2), FacetValue("false", 1), FacetValue("truer", 1)]
    answered = hit(document=HitDocument("d1", "A", "a.txt", {"answered": False, "paid": "true"}))
    with speaking("de"):
        facets = render_facets({"answered": values}, {})
        page = shown(result(answered), Choices(filters={"answered": "false"}))
    assert re.findall(r'data-value="(\w+)".+?<span dir="auto">(\w+)<', facets) == [
        ("true", "Ja"), ("false", "Nein"), ("truer", "truer"),
    ]  # fmt: skip
    assert re.findall(r'data-value="(\w+)".+?</span> (\w+)</button>', page) == [("false", "Nein"), ("true", "Ja")]
    assert "<span>answered</span> Nein <button" in page
    assert ">Yes<" in render_facets({"answered": values}, {})


@pytest.mark.parametrize(
    ("language", "deleting", "restoring", "undoing"),
    [
        ("en", "Delete A day out", "Undo the deletion of A day out", "Undo not about a"),
        ("de", "A day out löschen", "Löschen von A day out rückgängig machen", "nicht über a rückgängig machen"),
    ],
)
def test_buttons_are_named_in_the_word_order_of_the_language(
    language: str, deleting: str, restoring: str, undoing: str
) -> None:
    kept = document(title="A day out")
    with speaking(language):
        drawn = listed([kept, replace(kept, state=DocumentState.DELETING)]) + render_choices(Choices(exclude=("a",)))
    named = [each["aria-label"] for each in Tags(drawn).of("button") if each.get("aria-label")]
    assert named == [deleting, restoring, undoing]


def test_what_further_steps_changed_is_shown_beside_each_passage() -> None:
    first, second, third = (hit(rank=rank, chunk=HitChunk(f"c{rank}", "A text.", 0, 7, None)) for rank in (1, 2, 3))
    before = result(second, replace(third, rank=5), steps=1)
    html = shown(result(first, second, replace(third, rank=3)), before=before)
    moves = re.findall(r'class="move ([\w-]+)" title="([^"]+)"', html)
    assert moves == [
        ("is-new", "Not among the first hits"),
        ("is-up", "Rose by 2 during refinement"),
    ]
    fell = shown(result(replace(second, rank=3)), before=result(second, steps=1))
    assert "Fell by 1 during refinement" in fell
    assert 'class="move' not in shown(result(first, second))
