"""The compare page: one query, two searches side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.errors import GircseError
from app.types.search import DEFAULT_MODE
from ui.chosen_collection import asked_collection
from ui.compare_handlers import LEFT, NOTHING, RIGHT, CompareHandlers
from ui.contract import PageParts
from ui.count_slider import count_slider
from ui.handler_inputs import as_handler, event_data
from ui.language import _
from ui.lens_names import OWN_WORDS
from ui.named_fields import NamedFields
from ui.render.comparison import render_welcome
from ui.search_fields import SIDE, SIDE_PARAMETERS, SIDES, for_script
from ui.search_page import ACT_SCRIPT, MODES
from ui.skip_link import build_skip_link
from ui.streams import skipping_none

# Highlights a passage together with its lines and its counterpart.
PAIR_SCRIPT = "gircse.lightPairs(element)"

_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class _Side:
    lens: gr.Dropdown
    instruction: gr.Textbox
    values: gr.Textbox
    steps: gr.Slider
    mode: gr.Radio
    collection: gr.Dropdown
    choices: gr.Textbox


@dataclass(frozen=True, slots=True)
class _Fields:
    query: gr.Textbox
    submit: gr.Button
    swap: gr.Button
    left: _Side
    right: _Side

    @property
    def request(self) -> NamedFields:
        return self._named(SIDE)

    @property
    def all(self) -> NamedFields:
        return self._named(("lens", *SIDE))

    def _named(self, names: Sequence[str]) -> NamedFields:
        sides = zip(SIDES, (self.left, self.right), strict=True)
        return NamedFields(
            {"query": self.query, **{name + number: getattr(side, name) for number, side in sides for name in names}}
        )


@dataclass(frozen=True, slots=True)
class _Views:
    message: gr.HTML  # about a click; outside the results, which would overwrite it
    summary: gr.HTML
    looks: tuple[gr.HTML, gr.HTML]
    lists: gr.HTML
    readings: tuple[gr.HTML, gr.HTML]

    @property
    def all(self) -> list[gr.components.Component]:
        return [self.summary, *self.looks, self.lists, *self.readings]


def build_compare_page(site: gr.Blocks, parts: PageParts) -> None:
    """Draws the page in the current Blocks."""
    handlers = CompareHandlers(
        search_service=parts.search,
        catalog=parts.catalog,
        default_steps=parts.default_steps,
        max_steps=parts.max_steps,
    )
    with gr.Column(elem_classes="ask"):
        fields = _build_fields(handlers, parts)
    message = gr.HTML("", elem_id="message", js_on_load=None)
    summary = gr.HTML(render_welcome(parts.examples), elem_id="summary", js_on_load=None)
    with gr.Row(elem_classes="looks", equal_height=True):
        looks = _build_html("look-a", ACT_SCRIPT), _build_html("look-b", ACT_SCRIPT)
    lists = _build_html("comparison", PAIR_SCRIPT)
    with gr.Row(elem_classes="side-readings", equal_height=False):
        readings = _build_html("reading-a", ACT_SCRIPT), _build_html("reading-b", ACT_SCRIPT)
    _connect(site, handlers, fields, _Views(message, summary, looks, lists, readings))


def _build_html(elem_id: str, script: str) -> gr.HTML:
    return gr.HTML("", elem_id=elem_id, js_on_load=script, min_width=280)


def _build_fields(handlers: CompareHandlers, parts: PageParts) -> _Fields:
    with gr.Row(elem_classes="ask-row"):
        query = gr.Textbox(
            label=_("Compare searches for"),
            placeholder=_("A question, a sentence …"),
            lines=1,
            max_lines=5,
            autofocus=True,
            scale=8,
            elem_id="query",
        )
        build_skip_link("comparison")
        submit = gr.Button(_("Compare"), variant="primary", scale=0, min_width=136, elem_id="submit")
    lenses = handlers.lens_choices()
    with gr.Row(elem_classes="ask-row sides"):
        left_words = _build_words(LEFT, lenses)
        swap = gr.Button(_("Swap"), scale=0, min_width=76, elem_id="swap")
        right_words = _build_words(RIGHT, lenses)
    settings = gr.Accordion(_("Steps, mode and collection per side"), open=False, elem_id="settings")
    with settings, gr.Row(elem_classes="ask-row sides"):
        left = _Side(*left_words, *_build_settings(LEFT, parts))
        right = _Side(*right_words, *_build_settings(RIGHT, parts))
    return _Fields(query, submit, swap, left, right)


def _build_words(name: str, lenses: list[tuple[str, str]]) -> tuple[gr.Dropdown, gr.Textbox, gr.Textbox]:
    with gr.Column(elem_classes=f"side-fields is-{name.lower()}", min_width=260):
        lens = gr.Dropdown(
            lenses, value=lenses[0][1], label=f"{_('Lens')} {name}", filterable=True, elem_id=f"lens-{name.lower()}"
        )
        instruction = gr.Textbox(
            label=f"{_('Instruction')} {name}",
            placeholder=_("No instruction: general similarity"),
            lines=1,
            max_lines=4,
            elem_id=f"instruction-{name.lower()}",
        )
        values = gr.Textbox(
            label=f"{_('Values')} {name}",
            placeholder=_("Values to distinguish: Africa, Asia, Europe …"),
            lines=1,
            max_lines=4,
            elem_id=f"values-{name.lower()}",
        )
    return lens, instruction, values


def _build_settings(name: str, parts: PageParts) -> tuple[Any, ...]:
    letter = name.lower()
    with gr.Column(elem_classes=f"side-fields is-{letter}", min_width=260):
        label = f"{_('Steps of refinement')} {name}"
        steps = count_slider(parts.max_steps, parts.default_steps, label, f"steps-{letter}")
        mode = gr.Radio(
            [(_(label), mode) for label, mode in MODES],
            value=DEFAULT_MODE.value,
            label=f"{_('Find by')}, {name}",
            elem_id=f"mode-{letter}",
            elem_classes="modes",
        )
        collection = gr.Dropdown([], label=f"{_('Collection')} {name}", elem_id=f"collection-{letter}")
        choices = gr.Textbox("", visible=False, elem_id=f"choices-{letter}")
    return steps, mode, collection, choices


def _connect(site: gr.Blocks, handlers: CompareHandlers, fields: _Fields, views: _Views) -> None:
    asked, every = fields.request, fields.all
    begin_script = asked.script("gircse.beginSearch", for_script(SIDE_PARAMETERS), passes_on=True)

    def comparing(handler: Any) -> dict[str, Any]:
        return {
            "fn": skipping_none(asked.reading(handler), outputs=len(NOTHING)),
            "inputs": asked.inputs,
            "outputs": views.all,
            "js": begin_script,
            "api_visibility": "private",
            "show_progress": "minimal",
            "concurrency_limit": 4,
            "concurrency_id": "search",
            "trigger_mode": "always_last",
        }

    gr.on(
        [
            fields.query.submit,
            fields.submit.click,
            fields.left.instruction.submit,
            fields.right.instruction.submit,
            fields.left.values.submit,
            fields.right.values.submit,
        ],
        **comparing(handlers.compare),
    )
    settings = [
        event
        for side in (fields.left, fields.right)
        for event in (side.steps.release, side.mode.input, side.collection.input)
    ]
    gr.on(settings, **comparing(handlers.compare_again))
    swap_script = every.script("gircse.swapSides")
    fields.swap.click(fn=None, js=swap_script, inputs=every.inputs, outputs=every.inputs).then(
        **comparing(handlers.compare_again)
    )
    for side in (fields.left, fields.right):
        _connect_lens(handlers, side, views, comparing)
    for side, shown in zip((fields.left, fields.right), zip(views.looks, views.readings, strict=True), strict=True):
        _connect_clicks(handlers, side, shown, views, comparing)
    _connect_opening(site, handlers, fields, views)


def _connect_opening(site: gr.Blocks, handlers: CompareHandlers, fields: _Fields, views: _Views) -> None:
    every = fields.all

    def restore(request: gr.Request) -> tuple[Any, ...]:
        try:
            return every.updates(_restore(handlers, _parameters(request)))
        except GircseError:  # the other handler of this event reports the error
            return tuple(gr.skip() for _ in every.inputs)

    def follow(request: gr.Request) -> Any:
        yield from skipping_none(handlers.compare_address, outputs=len(NOTHING))(_parameters(request))

    site.load(restore, outputs=every.inputs, **_QUIET).then(
        follow,
        outputs=views.all,
        api_visibility="private",
        show_progress="minimal",
        concurrency_limit=4,
        concurrency_id="search",
    )


def _connect_lens(handlers: CompareHandlers, side: _Side, views: _Views, comparing: Any) -> None:
    def fill(name: object) -> tuple[Any, ...]:
        filled = handlers.instruction_of(name), handlers.values_of(name)
        return "", *(gr.skip() if each is None else each for each in filled)

    # Typing an instruction clears the lens name, without a request to the server.
    gr.on([side.instruction.input, side.values.input], fn=None, js=f"() => [{OWN_WORDS!r}]", outputs=side.lens)
    side.lens.input(
        as_handler(fill, outputs=3, on_error=gr.skip()),
        side.lens,
        [views.message, side.instruction, side.values],
        **_QUIET,
    ).success(**comparing(handlers.compare_again))


def _connect_clicks(
    handlers: CompareHandlers,
    side: _Side,
    shown: tuple[gr.HTML, gr.HTML],
    views: _Views,
    comparing: Any,
) -> None:
    def choose(choices: object, event: gr.EventData) -> tuple[Any, ...]:
        data = event_data(event)
        return as_handler(lambda: ("", handlers.choose(choices, data)), outputs=2, on_error=gr.skip())()

    for view in shown:
        view.choose(choose, side.choices, [views.message, side.choices], **_QUIET).success(
            **comparing(handlers.compare_again)
        )


def _parameters(request: gr.Request) -> dict[str, str]:
    return {**dict(request.query_params), "collection": asked_collection(request) or ""}


def _restore(handlers: CompareHandlers, params: dict[str, str]) -> dict[str, Any]:
    """Field values from the address; invalid ones keep their default."""
    asked = handlers.read_address(params)
    lenses, collections = handlers.lens_choices(), [each.name for each in handlers.catalog.collections()]
    values: dict[str, Any] = {"query": asked.query or gr.skip()}  # the user may have typed one already
    for number, side in zip(SIDES, (asked.left, asked.right), strict=True):
        chosen = None if side.collection is None else str(side.collection)
        own = side._asdict() | {
            "lens": gr.Dropdown(choices=lenses, value=handlers.lens_of(side.instruction)),
            "collection": gr.Dropdown(choices=collections, value=chosen),
        }
        values |= {name + number: value for name, value in own.items()}
    return values
