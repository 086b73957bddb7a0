"""The compare page without Gradio: untrusted plain values in, HTML out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.errors import EmptyQueryError, GircseError, InputError
from app.ports.services import Search
from app.search.lenses import lenses_of
from app.types.documents import Lens
from app.types.search import DEFAULT_MODE, SearchMode, SearchRequest
from ui.choices import NO_INSTRUCTION, read_choices
from ui.comparison import ComparedAnswer, Look, compare, top_words
from ui.handler_inputs import read_choice, read_text, read_whole_number
from ui.language import _
from ui.lens_handlers import LensHandlers, chosen_value, read_values
from ui.lens_names import shown_lens
from ui.render.comparison import render_comparison, render_look, render_reading, render_summary
from ui.render.text import clean, render_error
from ui.search_fields import SIDE, SIDE_PARAMETERS, SIDES
from ui.search_handlers import MAX_INSTRUCTION_CHARS, MAX_QUERY_CHARS, read_mode

SHOWN = 10  # passages on each side
DEPTH = 50  # search depth for passages of the other list
LEFT, RIGHT = "A", "B"

CompareView = tuple[str | None, str | None, str | None, str | None, str | None, str | None]
"""HTML, and None for what stays as it is: the summary, both ways of looking, both lists with the moves between them,
and both readings."""
NOTHING: CompareView = ("", "", "", "", "", "")
AS_IT_IS: CompareView = (None,) * 6


class SideFields(NamedTuple):
    """Raw field values of one side."""

    instruction: object
    steps: object
    mode: object
    collection: object
    choices: object
    values: object = ""


@dataclass(frozen=True, slots=True)
class Address:
    """The parsed address of the page. `errors` are messages about invalid values."""

    query: str
    left: SideFields
    right: SideFields
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareHandlers(LensHandlers):
    search_service: Search
    default_steps: int
    max_steps: int

    def compare(self, values: Mapping[str, object]) -> Iterator[CompareView]:
        """`values`: those of the fields, by name. Yields after the left, after both, then with highlights."""
        if not values.keys() >= SIDE_PARAMETERS.keys():
            raise InputError(_("The request is incomplete. Reload the page."))
        sides = (SideFields(**{name: values[name + number] for name in SIDE}) for number in SIDES)
        yield from self._compare(values["query"], *sides)

    def _compare(self, query: object, left: SideFields, right: SideFields) -> Iterator[CompareView]:
        looks = [self._look(LEFT, query, left), self._look(RIGHT, query, right)]
        answers: list[ComparedAnswer | GircseError | None] = [None, None]
        for place, look in enumerate(looks):
            answers[place] = self._find(look.request)
            yield _view(looks, answers)
        answers = [self._highlight(answer) for answer in answers]
        yield _view(looks, answers)

    def compare_again(self, values: Mapping[str, object]) -> Iterator[CompareView]:
        """Repeats the comparison after a changed choice. Does nothing while there is no query."""
        query = values["query"]
        if isinstance(query, str) and query.strip():
            yield from self.compare(values)
        else:
            yield AS_IT_IS

    def compare_address(self, params: Mapping[str, str]) -> Iterator[CompareView]:
        """Runs the comparison of an address. A link with errors shows only the errors."""
        asked = self.read_address(params)
        if asked.errors:
            yield (render_error(" ".join(asked.errors), title=_("This link has errors")), *NOTHING[1:])
        elif not asked.query:
            yield AS_IT_IS
        else:
            yield from self._compare(asked.query, asked.left, asked.right)

    def read_address(self, params: Mapping[str, str]) -> Address:
        """Raises GircseError if the catalog cannot list the collections."""
        names = [each.name for each in self.catalog.collections()]
        wanted = params.get("collection")  # for sides without their own collection
        collection = wanted if wanted in names else next(iter(names), None)
        first_look = SideFields("", self.default_steps, DEFAULT_MODE.value, collection, "")
        left, errors_left = self._read_side(params, "1", LEFT, first_look, names)
        # The right side takes missing values from the left, except the instruction: otherwise both would be equal.
        other = self._other_lens(str(left.instruction))
        second_look = left._replace(
            instruction=other.query_instruction if other else "",
            # Values belong to an instruction: if the address sets the instruction, only its values count.
            values=self.values_of(other.name) if other and "i2" not in params else "",
        )
        right, errors_right = self._read_side(params, "2", RIGHT, second_look, names)
        return Address(clean(params.get("q", "")).strip(), left, right, (*errors_left, *errors_right))

    def _look(self, name: str, query: object, side: SideFields) -> Look:
        text = read_text(query, name="query", max_chars=MAX_QUERY_CHARS)
        if not text:
            raise EmptyQueryError(_("The query is empty. Enter a few words or a sentence."))
        chosen = read_choices(side.choices)
        values = read_values(side.values, side=name)
        request = SearchRequest(
            query=text,
            collection=self._collection(name, side.collection),
            instruction=read_text(side.instruction, name="instruction", side=name, max_chars=MAX_INSTRUCTION_CHARS),
            steps=read_whole_number(side.steps, name="number of steps", side=name, minimum=1, maximum=self.max_steps),
            limit=SHOWN,
            mode=read_mode(side.mode),
            token_bias=chosen.bias,
            filters=chosen.filters,
            like=tuple(chosen.like),
            unlike=tuple(chosen.unlike),
            values=values,
            value=chosen_value(chosen, values),
            exclude=chosen.exclude,
            detect_negation=not chosen.is_as_written(text),
        )
        return Look(name=name, lens=shown_lens(self.lens_of(request.instruction)), request=request, chosen=chosen)

    def _collection(self, name: str, collection: object) -> str:
        if not collection and not self.catalog.collections():
            raise InputError(_("There are no collections yet. Add documents on the Documents page first."))
        return self.catalog.collection(read_choice(collection, name="collection", side=name)).name

    def _find(self, request: SearchRequest) -> ComparedAnswer | GircseError:
        """Returns an error instead of raising it, so that the other side is still shown."""
        try:
            return ComparedAnswer(
                self.search_service.search(request, highlight=False),
                self.search_service.search(replace(request, limit=DEPTH), highlight=False).hits,
            )
        except GircseError as error:
            return error

    def _highlight(self, answer: ComparedAnswer | GircseError | None) -> ComparedAnswer | GircseError | None:
        if not isinstance(answer, ComparedAnswer) or not answer.result.hits:
            return answer
        try:
            return replace(answer, result=self.search_service.highlight(answer.result))
        except GircseError as error:
            return error

    def _other_lens(self, instruction: str) -> Lens | None:
        """The first lens with a different instruction."""
        return next((each for each in lenses_of(self.catalog) if each.query_instruction != instruction), None)

    def _read_side(
        self, params: Mapping[str, str], number: str, name: str, default: SideFields, collections: Sequence[str]
    ) -> tuple[SideFields, list[str]]:
        instruction, steps, mode, collection, choices, values = (params.get(key + number) for key in "ikmcxv")
        errors = []
        if steps is not None and not _is_step(steps, self.max_steps):
            errors.append(
                _("{side}: the number of steps must be from 1 to {most}, not “{value}”.").format(
                    side=name, value=steps[:20], most=self.max_steps
                )
            )
            steps = None
        if mode is not None and mode not in set(SearchMode):
            errors.append(
                _("{side}: the mode must be one of {modes}, not “{value}”.").format(
                    side=name, value=mode[:20], modes=", ".join(SearchMode)
                )
            )
            mode = None
        if collection is not None and collection not in collections:
            said = _("{side}: the collection “{name}” does not exist.").format(name=collection[:80], side=name)
            there = (
                _("Collections: {names}.").format(names=", ".join(collections))
                if collections
                else _("There are no collections yet.")
            )
            errors.append(f"{said} {there}")
            collection = None
        try:
            read_choices(choices)
        except InputError:
            errors.append(_("{side}: the filters in this link are invalid.").format(side=name))
            choices = None
        try:
            read_values(values)
        except InputError as error:
            errors.append(_("{side}: the values are invalid: {error}").format(side=name, error=error))
            values = None
        return SideFields(
            default.instruction if instruction is None else "" if instruction == NO_INSTRUCTION else instruction,
            default.steps if steps is None else int(steps),
            mode or default.mode,
            collection or default.collection,
            default.choices if choices is None else choices,
            default.values if values is None else values,
        ), errors


def _is_step(text: str, most: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= most


def _view(looks: Sequence[Look], answers: Sequence[ComparedAnswer | GircseError | None]) -> CompareView:
    left, right = answers
    comparison = (
        compare(left, right) if isinstance(left, ComparedAnswer) and isinstance(right, ComparedAnswer) else None
    )
    words = [top_words(each.result.refinement) if isinstance(each, ComparedAnswer) else () for each in answers]
    return (
        render_summary(comparison, looks, answers),
        render_look(looks[0], left, words[0], words[1]),
        render_look(looks[1], right, words[1], words[0]),
        render_comparison(comparison, looks, answers),
        render_reading(looks[0], left),
        render_reading(looks[1], right),
    )
