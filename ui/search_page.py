"""The search tab: a query, what "similar" should mean, the passages, and how the model read the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.errors import EmptyQueryError, InputError
from app.ports import Catalog
from app.refinement_view import group_refinement
from app.search_types import SearchRequest
from ui import render
from ui.contract import Example, Preset, SearchService
from ui.guard import guarded, read_choice, read_text, read_whole_number

MAX_QUERY_CHARS = 10_000
MAX_INSTRUCTION_CHARS = 2_000
MAX_RESULTS = 50
DEFAULT_RESULTS = 10
OWN_WORDS = "Own words"

SearchView = tuple[str, str]
"""HTML of the passages, and of the words that the query was read as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHandlers:
    """The tab without Gradio: plain values in, HTML out."""

    search_service: SearchService
    catalog: Catalog
    presets: Sequence[Preset]
    max_steps: int

    def search(
        self, query: object, instruction: object, steps: object, collection: object, limit: object
    ) -> SearchView:
        text = read_text(query, name="query", max_chars=MAX_QUERY_CHARS)
        if not text:
            raise EmptyQueryError("The query is empty. Write a few words or a sentence, then press Enter.")
        request = SearchRequest(
            query=text,
            collection=self.catalog.collection(read_choice(collection, name="collection")).name,
            instruction=read_text(instruction, name="instruction", max_chars=MAX_INSTRUCTION_CHARS),
            steps=read_whole_number(steps, name="number of steps", minimum=1, maximum=self.max_steps),
            limit=read_whole_number(limit, name="number of results", minimum=1, maximum=MAX_RESULTS),
        )
        result = self.search_service.search(request)
        groups = group_refinement(result.refinement)
        return render.render_results(result), render.render_refinement(groups, result.refinement)

    def search_again(self, query: object, *others: object) -> tuple[Any, ...]:
        """After another choice: the same search, and no complaint while nothing has been asked yet."""
        if not isinstance(query, str) or not query.strip():
            return gr.skip(), gr.skip()
        return self.search(query, *others)

    def instruction_of(self, preset_name: object) -> Any:
        """The preset's instruction; the person's own words stay as they are."""
        if preset_name == OWN_WORDS:
            return gr.skip()
        for preset in self.presets:
            if preset.name == preset_name:
                return preset.instruction
        raise InputError("That preset does not exist. Choose one of the list.")


@dataclass(frozen=True, slots=True)
class _Fields:
    query: gr.Textbox
    submit: gr.Button
    preset: gr.Dropdown
    instruction: gr.Textbox
    steps: gr.Slider
    collection: gr.Dropdown
    limit: gr.Slider

    @property
    def request(self) -> list[gr.components.Component]:
        return [self.query, self.instruction, self.steps, self.collection, self.limit]


def build_search_tab(
    handlers: SearchHandlers,
    *,
    default_steps: int,
    examples: Sequence[Example],
    collections: Sequence[str],
) -> gr.Dropdown:
    """Draws the tab in the current Blocks; returns its collection field, which the page keeps up to date."""
    with gr.Column(elem_classes="ask"):
        fields = _build_fields(handlers, default_steps=default_steps, collections=collections)
        buttons = _build_examples(examples, handlers.presets)
    with gr.Row(elem_classes="answer", equal_height=False):
        with gr.Column(scale=5, min_width=320):
            passages = gr.HTML(render.render_welcome(), elem_id="passages", js_on_load=None)
        with gr.Column(scale=3, min_width=280, elem_classes="reading"):
            reading = gr.HTML("", elem_id="reading", js_on_load=None)
    _connect(handlers, fields, [passages, reading], list(zip(buttons, examples, strict=True)))
    return fields.collection


def _build_fields(handlers: SearchHandlers, *, default_steps: int, collections: Sequence[str]) -> _Fields:
    with gr.Row(elem_classes="ask-row"):
        query = gr.Textbox(
            label="Search for",
            placeholder="A question, a sentence, a whole message …",
            lines=1,
            max_lines=5,
            autofocus=True,
            scale=8,
            elem_id="query",
        )
        submit = gr.Button("Search", variant="primary", scale=0, min_width=112, elem_id="submit")
    with gr.Row(elem_classes="ask-row"):
        first = handlers.presets[0] if handlers.presets else Preset(OWN_WORDS, "")
        preset = gr.Dropdown(
            [each.name for each in handlers.presets] + [OWN_WORDS],
            value=first.name,
            label="Look at",
            scale=2,
            min_width=180,
            filterable=False,
            elem_id="preset",
        )
        instruction = gr.Textbox(
            first.instruction,
            label="Instruction",
            info="Tell it what “similar” should mean. Change it freely.",
            placeholder="No instruction: similar in general",
            lines=1,
            max_lines=4,
            scale=5,
            min_width=280,
            elem_id="instruction",
        )
    return _Fields(query, submit, preset, instruction, *_build_settings(handlers.max_steps, default_steps, collections))


def _build_settings(
    max_steps: int, default_steps: int, collections: Sequence[str]
) -> tuple[gr.Slider, gr.Dropdown, gr.Slider]:
    with gr.Accordion("More settings", open=False, elem_id="settings"), gr.Row(elem_classes="ask-row"):
        collection = gr.Dropdown(
            list(collections),
            value=collections[0] if collections else None,
            label="Collection",
            min_width=180,
            elem_id="collection",
        )
        steps = gr.Slider(
            1,
            max_steps,
            value=default_steps,
            step=1,
            label="Steps of refinement",
            min_width=220,
            buttons=[],
            elem_id="steps-slider",
        )
        limit = gr.Slider(
            1,
            MAX_RESULTS,
            value=DEFAULT_RESULTS,
            step=1,
            label="Number of results",
            min_width=220,
            buttons=[],
            elem_id="limit",
        )
    return steps, collection, limit


def _build_examples(examples: Sequence[Example], presets: Sequence[Preset]) -> list[gr.Button]:
    if not examples:
        return []
    with gr.Row(elem_classes="examples"):
        gr.HTML("<span>Try</span>", js_on_load=None, elem_classes="examples-label")
        return [
            gr.Button(_label(example, presets), size="sm", elem_classes="example", min_width=0) for example in examples
        ]


def _label(example: Example, presets: Sequence[Preset]) -> str:
    """Examples may share a query and differ in the instruction: the label shows both."""
    query = example.query if len(example.query) <= 56 else example.query[:55].rstrip() + "…"
    return f"{query} · {_preset_name(example.instruction, presets)}"


def _preset_name(instruction: str, presets: Sequence[Preset]) -> str:
    return next((preset.name for preset in presets if preset.instruction == instruction), OWN_WORDS)


def _connect(
    handlers: SearchHandlers,
    fields: _Fields,
    views: list[gr.HTML],
    examples: Sequence[tuple[gr.Button, Example]],
) -> None:
    def searching(handler: Any) -> dict[str, Any]:
        return {
            "fn": guarded(handler, outputs=2),
            "inputs": fields.request,
            "outputs": views,
            "api_visibility": "private",
            "show_progress": "minimal",
            "concurrency_limit": 4,
            "concurrency_id": "search",
            "trigger_mode": "always_last",
        }

    gr.on([fields.query.submit, fields.submit.click, fields.instruction.submit], **searching(handlers.search))
    # Typing an instruction of one's own takes the preset's name away, in the browser alone.
    fields.instruction.input(fn=None, js=f"() => [{OWN_WORDS!r}]", outputs=fields.preset)
    fields.preset.input(
        handlers.instruction_of,
        fields.preset,
        fields.instruction,
        api_visibility="private",
        show_progress="hidden",
    ).success(**searching(handlers.search_again))
    gr.on([fields.steps.release, fields.collection.input, fields.limit.release], **searching(handlers.search_again))
    for button, example in examples:
        button.click(
            _fill(example, handlers.presets),
            outputs=[fields.query, fields.instruction, fields.preset],
            api_visibility="private",
            show_progress="hidden",
        ).success(**searching(handlers.search))


def _fill(example: Example, presets: Sequence[Preset]) -> Any:
    name = _preset_name(example.instruction, presets)
    return lambda: (example.query, example.instruction, name)
