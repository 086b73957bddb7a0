"""The search page without Gradio: untrusted plain values in, HTML out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from app.errors import EmptyQueryError, GircseError, InputError
from app.ports.searches import OwnSearches
from app.ports.services import LensIndexes, Search
from app.search.judgements import MAX_NAME_CHARACTERS, new_judgement, new_lens
from app.search.soft_tokens import group_refinement
from app.search.stages import StageName, search_in_stages
from app.search.value_syntax import join_values
from app.types.metadata_keys import TECHNICAL_KEYS
from app.types.search import ALL_COLLECTIONS, SearchMode, SearchRequest, SearchResult
from app.types.searches import question_of
from ui.choices import Choices, read_choices
from ui.contract import Example, ShownExample
from ui.document_view import read_document
from ui.handler_inputs import read_choice, read_text, read_whole_number
from ui.language import _
from ui.lens_handlers import LensHandlers, chosen_value, read_values
from ui.lens_names import NO_LENS, OWN_WORDS
from ui.render.facets import render_facets
from ui.render.hits import DOCUMENT_FILTER, render_results
from ui.render.lens_values import render_lens_index
from ui.render.text import name_of, render_note
from ui.render.tokens import render_reading
from ui.render.welcome import LensView, render_first_sight, render_welcome
from ui.search_fields import DUPLICATES, EVERY_LESS, FURTHER_OPTIONS, MAX_RESULTS, TABLES

MAX_QUERY_CHARS = 10_000
MAX_INSTRUCTION_CHARS = 2_000
HITS_OF_EXAMPLE = 3
MOST_OF_DOCUMENT = 3  # passages; no limit if the search is restricted to one document

SearchView = tuple[str | None, str | None, str | None]
"""HTML of the passages, of the words that the model generated for the query, and of the filters. None leaves a part
unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHandlers(LensHandlers):
    search_service: Search
    lens_indexes: LensIndexes
    own_searches: OwnSearches
    max_steps: int
    examples: Sequence[Example] = ()
    first_example: Sequence[ShownExample] = ()
    worked_examples: dict[tuple[str, int], list[LensView]] = field(default_factory=dict)  # the last one

    def request(self, values: Mapping[str, object]) -> SearchRequest:
        """The search request for the values of the page's fields, by name. Raises InputError."""
        text = read_text(values["query"], name="query", max_chars=MAX_QUERY_CHARS)
        if not text:
            raise EmptyQueryError(_("The query is empty. Enter a few words or a sentence."))
        chosen = read_choices(values["choices"])
        named = read_values(values.get("values", ""))
        less = read_less(values.get("less", EVERY_LESS))
        return SearchRequest(
            query=text,
            collection=self._read_collection(values["collection"]),
            instruction=read_text(values["instruction"], name="instruction", max_chars=MAX_INSTRUCTION_CHARS),
            steps=read_whole_number(values["steps"], name="number of steps", minimum=1, maximum=self.max_steps),
            limit=read_whole_number(values["limit"], name="number of results", minimum=1, maximum=MAX_RESULTS),
            mode=read_mode(values["mode"]),
            token_bias=chosen.bias,
            filters=chosen.filters,
            like=tuple(chosen.like),
            unlike=tuple(chosen.unlike),
            values=named,
            value=chosen_value(chosen, named),
            exclude=chosen.exclude,
            detect_negation=not chosen.is_as_written(text),
            per_document=None if DOCUMENT_FILTER in chosen.filters else MOST_OF_DOCUMENT,
            prefer_prose=TABLES in less,
            fold_duplicates=DUPLICATES in less,
            diversity=read_share(values.get("diversity", 0)),
            **read_further_options(values),
            rerank=None if read_switch(values.get("second_look", True)) else 0,
        )

    def search(self, values: Mapping[str, object]) -> Iterator[SearchView]:
        """Yields a first ranking after a few steps, then the final one with the rank changes, then highlights.

        The filters come last: counting takes seconds in a collection of 100,000 documents.
        """
        if not values["collection"] and not self.catalog.collections():
            yield render_first_sight(self.first_example), "", ""  # nothing to search yet
            return
        request = self.request(values)
        chosen = read_choices(values["choices"])
        written = join_values([str(each) for each in request.values])
        asked = json.dumps(question_of(request), ensure_ascii=False)
        first: SearchResult | None = None
        for stage in search_in_stages(self.search_service, request, steps=request.steps or 0):
            if stage.name is StageName.FIRST:
                first = stage.result
                yield *_view(first, chosen, written, asked, total_steps=request.steps), None
            else:
                yield *_view(stage.result, chosen, written, asked, before=first), None
        yield None, None, self._beside(request)
        self.own_searches.record(request)

    def _read_collection(self, collection: object) -> str:
        name = read_choice(collection, name="collection")
        return name if name == ALL_COLLECTIONS else self.catalog.collection(name).name

    def _beside(self, request: SearchRequest) -> str:
        """HTML beside the hits of a single collection: the state of its lens index, and filters with counts."""
        if request.collection == ALL_COLLECTIONS:
            return ""
        facets = self.catalog.facets(request.collection, request.filters, without=TECHNICAL_KEYS)
        indexes = self.lens_indexes.status(request.collection) if request.values else []
        own = render_lens_index(indexes, [str(each) for each in request.values])
        return own + render_facets(facets, request.filters)

    def search_again(self, values: Mapping[str, object]) -> Iterator[SearchView]:
        """Repeats the search after a changed choice; without a query, yields the welcome instead of an error."""
        query = values["query"]
        if isinstance(query, str) and query.strip():
            yield from self.search(values)
        else:
            yield from ((welcome, "", "") for welcome in self.welcome(values["collection"]))

    def welcome(self, collection: object) -> Iterator[str]:
        """Yields HTML to show before the first query: examples for this collection. If two examples have the same
        query, their results are shown side by side."""
        if not collection or self._is_empty(collection):
            yield render_first_sight(self.first_example)
            return
        own = [each for each in self.examples if each.collection == collection]
        pair = next((two for two in combinations(own, 2) if two[0].query == two[1].query), ())
        tries = [(each, self.lens_of(each.instruction)) for each in own if each not in pair]
        if not pair:
            yield render_welcome(tries)
            return
        lenses = [self.lens_of(each.instruction) for each in pair]
        waiting = [LensView(each, lens, self.note_of(lens)) for each, lens in zip(pair, lenses, strict=True)]
        try:
            counted = self.catalog.counted_collection(str(collection))
            key = (counted.active_index, counted.chunk_count)
            views = self.worked_examples.get(key)
            if views is None:
                yield render_welcome(tries, waiting)
                views = [replace(each, result=self._search_example(each)) for each in waiting]
                self.worked_examples.clear()
                self.worked_examples[key] = views
        except GircseError:  # the first search says what is wrong
            views = []
        yield render_welcome(tries, [each for each in views if each.result and each.result.hits])

    def _is_empty(self, collection: object) -> bool:
        try:
            return collection != ALL_COLLECTIONS and not self.catalog.counted_collection(str(collection)).document_count
        except GircseError:  # the first search says what is wrong
            return False

    def _search_example(self, view: LensView) -> SearchResult:
        return self.search_service.search(
            SearchRequest(
                query=view.example.query,
                collection=view.example.collection,
                instruction=view.example.instruction,
                values=read_values(self.values_of(view.lens)),
                limit=HITS_OF_EXAMPLE,
            ),
            highlight=False,
        )

    def example(self, data: Mapping[str, object]) -> tuple[str, str, str, str]:
        """Query, instruction, lens name and values of the clicked example."""
        query = read_text(data.get("query"), name="query", max_chars=MAX_QUERY_CHARS)
        instruction = read_text(data.get("instruction"), name="instruction", max_chars=MAX_INSTRUCTION_CHARS)
        lens = self.lens_of(instruction)
        return query, instruction, lens, self.values_of(lens) or ""

    def save_lens(self, name: object, instruction: object, values: object = "") -> str:
        """Saves a lens and returns its name. Raises InputError."""
        words = read_text(instruction, name="instruction", max_chars=MAX_INSTRUCTION_CHARS)
        if not words:
            raise InputError(_("Enter an instruction first. A lens is an instruction with a name."))
        named = [str(each) for each in read_values(values)]
        lens = new_lens(read_text(name, name="name of the lens", max_chars=MAX_NAME_CHARACTERS), words, values=named)
        if lens.name in (NO_LENS, OWN_WORDS):
            raise InputError(_("“{name}” is reserved. Choose another name.").format(name=lens.name))
        self.catalog.save_lens(lens)
        return lens.name

    def judge(self, query: object, instruction: object, collection: object, data: Mapping[str, object]) -> str:
        """Saves the user's judgement: whether a document answers the query under the instruction. With the grade None,
        deletes it. Returns a message."""
        document = read_document(self.catalog, collection, data.get("document"))
        is_taken_back = "grade" in data and data["grade"] is None
        judgement = new_judgement(
            document.id,
            query=read_text(query, name="query", max_chars=MAX_QUERY_CHARS),
            instruction=read_text(instruction, name="instruction", max_chars=MAX_INSTRUCTION_CHARS),
            grade=0 if is_taken_back else read_whole_number(data.get("grade"), name="grade", minimum=0, maximum=3),
        )
        if is_taken_back:
            self.catalog.delete_judgement(judgement)
            return render_note(
                _("Your judgement of “{value}” was removed.").format(value=document.title or document.uri)
            )
        self.catalog.save_judgement(judgement)
        said = (
            _("Saved: “{name}” answers this query. The Evaluate page uses your judgements.")
            if judgement.grade
            else _("Saved: “{name}” does not answer this query. The Evaluate page uses your judgements.")
        )
        return render_note(said.format(name=name_of(document)))


def read_further_options(values: Mapping[str, object]) -> dict[str, Any]:
    """Parses the values of the plain fields by option name; omits empty ones. Raises InputError."""
    given = {name: values.get(name) for name in FURTHER_OPTIONS}
    return {name: FURTHER_OPTIONS[name].read(value) for name, value in given.items() if value not in (None, "")}


def read_less(value: object) -> list[str]:
    """Parses the selected kinds of passages that should appear less (duplicates, tables). Raises InputError."""
    if not isinstance(value, (list, tuple)) or not all(each in EVERY_LESS for each in value):
        raise InputError(_("Unknown option. Reload the page."))
    return list(value)


def read_share(value: object) -> float:
    is_share = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    if not is_share:
        raise InputError(_("The variety must be from 0 to 1, not {value!r}.").format(value=str(value)[:40]))
    return float(value)  # type: ignore[arg-type]


def read_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(_("Invalid value. Reload the page."))
    return value


def read_mode(value: object) -> SearchMode:
    try:
        return SearchMode(str(value))
    except ValueError:
        raise InputError(
            _("Choose {value} as the mode, not {value2!r}.").format(value=", ".join(SearchMode), value2=str(value)[:40])
        ) from None


def _view(
    result: SearchResult,
    chosen: Choices,
    values: str,
    asked: str,
    *,
    before: SearchResult | None = None,
    total_steps: int | None = None,
) -> tuple[str, str]:
    refinement = () if result.unread else result.refinement  # words for an unread language are meaningless
    groups = group_refinement(refinement)
    return (
        render_results(result, chosen, values=values, before=before, total_steps=total_steps, request=asked),
        render_reading(
            groups,
            refinement,
            chosen,
            is_complete=total_steps is None,
            is_ranking=result.is_ranked_by_refinement,
            read_text=result.read_text,
        ),
    )
