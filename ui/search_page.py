"""The search page: a query, what "similar" should mean, the passages, and how the model read the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.types.options import Option
from app.types.search import DEFAULT_MODE
from ui.answer_panel import build_answer_panel, connect_answer_panel
from ui.choice_fields import choice_field, choose_collection
from ui.choices import NO_INSTRUCTION
from ui.chosen_collection import asked_collection, missing_collection, remember_collection
from ui.contract import PageParts
from ui.count_slider import count_slider
from ui.document_view import build_document_view
from ui.handler_inputs import as_handler, event_data, share_or_zero, whole_number_or
from ui.language import _, html, later
from ui.lens_names import OWN_WORDS
from ui.named_fields import NamedFields
from ui.proposal_handlers import ProposalHandlers
from ui.render.welcome import render_lens_note, render_skeleton, render_welcome
from ui.saved_page import build_saving
from ui.search_fields import (
    DEFAULT_RESULTS,
    DUPLICATES,
    EVERY_LESS,
    FURTHER_OPTIONS,
    MAX_RESULTS,
    PARAMETERS,
    TABLES,
    for_script,
    label_of,
)
from ui.search_handlers import SearchHandlers
from ui.skip_link import build_skip_link
from ui.streams import skipping_none

FIRST_LENS = 0  # no lens: without an instruction the base model ranks, which is best for finding answers
LESS = ((later("Near-identical passages"), DUPLICATES), (later("Tables and references"), TABLES))
MODES = ((later("Meaning"), "dense"), (later("Words"), "sparse"), (later("Both"), "hybrid"))

# Hits and words are replaced at every search, so one listener handles the clicks on all of their buttons.
ACT_SCRIPT = "gircse.listen(element, trigger, ['choose', 'judge', 'open', 'example', 'answer'])"
PROPOSE_SCRIPT = """gircse.listen(element, trigger, ['use']);
gircse.afterTyping('#instruction', element, () => trigger('typed', {}))"""
SETTINGS_BUTTON = (
    '<button type="button" data-toggle="search-settings" aria-expanded="false" aria-controls="search-settings">'
    "[[Settings]]</button>"
)

FINISH: dict[str, Any] = {"fn": None, "js": "() => gircse.hideSkeleton()"}
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class _Fields:
    query: gr.Textbox
    submit: gr.Button
    lens: gr.Dropdown
    instruction: gr.Textbox
    values: gr.Textbox
    note: gr.HTML
    proposals: gr.HTML
    steps: gr.Slider
    mode: gr.Radio
    collection: gr.Dropdown
    limit: gr.Slider
    less: gr.CheckboxGroup
    diversity: gr.Slider
    second_look: gr.Checkbox
    lens_name: gr.Textbox
    save_lens: gr.Button
    choices: gr.Textbox
    further: Mapping[str, gr.Checkbox | gr.Textbox]

    @property
    def request(self) -> NamedFields:
        """The fields of a search; `PARAMETERS` has their parameters in the address."""
        own = {name: getattr(self, name) for name in PARAMETERS if name not in self.further}
        return NamedFields({**own, **self.further})


@dataclass(frozen=True, slots=True)
class _Views:
    message: gr.HTML
    passages: gr.HTML
    reading: gr.HTML
    facets: gr.HTML

    @property
    def searched(self) -> list[gr.HTML]:
        return [self.passages, self.reading, self.facets]


def build_search_page(site: gr.Blocks, parts: PageParts) -> None:
    """Draws the page in the current Blocks."""
    handlers = SearchHandlers(
        search_service=parts.search,
        catalog=parts.catalog,
        lens_indexes=parts.lens_indexes,
        own_searches=parts.own_searches,
        max_steps=parts.max_steps,
        examples=parts.examples,
        first_example=parts.first_example,
    )
    with gr.Column(elem_classes="ask"):
        fields = _build_fields(handlers, parts)
    message = gr.HTML("", elem_id="message", js_on_load=None)
    with gr.Row(elem_classes="answer", equal_height=False):
        with gr.Column(elem_classes="found", min_width=0):
            reading = gr.HTML("", elem_id="reading", js_on_load=ACT_SCRIPT)
            answer = build_answer_panel()
            gr.HTML(render_skeleton(), elem_id="skeleton", js_on_load=None)
            passages = gr.HTML(render_welcome(), elem_id="passages", js_on_load=ACT_SCRIPT)
        facets = gr.HTML("", elem_id="facets", js_on_load=ACT_SCRIPT, min_width=0)
    build_document_view(parts, collection=fields.collection, sources=[passages, answer], elem_id="document-view")
    asked = [fields.query, fields.collection, fields.choices]
    connect_answer_panel(answer, parts, passages=passages, asked=asked)
    build_saving(parts, asked=fields.request.inputs, read_request=fields.request.reading(handlers.request))
    views = _Views(message, passages, reading, facets)
    _connect(site, handlers, fields, views, parts)


def _build_fields(handlers: SearchHandlers, parts: PageParts) -> _Fields:
    names = handlers.lens_names()
    with gr.Row(elem_classes="bar"):
        query = gr.Textbox(
            label=_("Search for"),
            placeholder=_("A question, a sentence …"),
            lines=1,
            max_lines=5,
            autofocus=True,
            elem_id="query",
        )
        build_skip_link("passages")
        collection = choice_field([], label=_("Collection"), min_width=0, elem_id="collection")
        lens = choice_field(
            handlers.lens_choices(),
            value=names[FIRST_LENS],
            label=_("Lens"),
            min_width=0,
            filterable=True,
            elem_id="lens",
        )
        submit = gr.Button(_("Search"), variant="primary", min_width=0, elem_id="submit")
        gr.HTML(html(SETTINGS_BUTTON), js_on_load=None, min_width=0, elem_id="settings-button")
    with gr.Row(elem_classes="sense-row"):
        instruction = gr.Textbox(
            handlers.instruction_of(names[FIRST_LENS]),
            label=_("Instruction"),
            placeholder=_("Or say what “similar” should mean"),
            lines=1,
            max_lines=4,
            elem_id="instruction",
        )
        note = gr.HTML(render_lens_note(handlers.note_of(names[FIRST_LENS])), elem_id="lens-note", js_on_load=None)
    proposals = gr.HTML("", elem_id="proposals", js_on_load=PROPOSE_SCRIPT)
    values, *settings = _build_settings(handlers.values_of(names[FIRST_LENS]) or "", parts)
    steps, mode, limit, less, diversity, second_look, further, lens_name, save_lens, choices = settings
    return _Fields(
        query=query,
        submit=submit,
        lens=lens,
        instruction=instruction,
        values=values,
        note=note,
        proposals=proposals,
        steps=steps,
        mode=mode,
        collection=collection,
        limit=limit,
        less=less,
        diversity=diversity,
        second_look=second_look,
        lens_name=lens_name,
        save_lens=save_lens,
        choices=choices,
        further=further,
    )


def _build_settings(lens_values: str, parts: PageParts) -> tuple[Any, ...]:
    with gr.Column(elem_id="search-settings"):
        # The info of a field must not contain another field's label: both fields would get the same accessible name.
        values = gr.Textbox(
            lens_values,
            label=_("Values"),
            info=_("Optional: the values to distinguish. Passages are ranked, counted and filtered by them."),
            placeholder=_("Africa, Asia, Europe …   or   pleased = happy, delighted; angry; neutral"),
            lines=1,
            max_lines=6,
            elem_id="values",
        )
        with gr.Row(elem_classes="ask-row"):
            mode = gr.Radio(
                [(_(label), mode) for label, mode in MODES],
                value=DEFAULT_MODE.value,
                label=_("Find by"),
                min_width=220,
                elem_id="mode",
                elem_classes="modes",
            )
            less = gr.CheckboxGroup(
                [(_(label), kind) for label, kind in LESS],
                value=list(EVERY_LESS),
                label=_("Show less of"),
                min_width=220,
                elem_id="less",
            )
        with gr.Row(elem_classes="ask-row"):
            steps = count_slider(parts.max_steps, parts.default_steps, _("Steps of refinement"), "steps-slider")
            limit = count_slider(MAX_RESULTS, DEFAULT_RESULTS, _("Number of hits"), "limit")
        with gr.Row(elem_classes="ask-row"):
            diversity = gr.Slider(
                0,
                1,
                value=0,
                step=0.1,
                label=_("Variety"),
                info=_("Above 0, the first passages differ more from each other."),
                min_width=220,
                buttons=[],
                elem_id="diversity",
            )
            second_look = gr.Checkbox(
                value=True,
                label=_("Rank the first hits again"),
                info=_("With an instruction: more accurate, but slower."),
                min_width=220,
                elem_id="second-look",
            )
        further = _build_further_options()
        with gr.Row(elem_classes="ask-row", elem_id="save-lens-row"):
            lens_name = gr.Textbox(
                label=_("Save as a lens"), placeholder=_("A name for it"), max_lines=1, elem_id="lens-name"
            )
            save = gr.Button(_("Save lens"), scale=0, min_width=112, elem_id="save-lens")
    choices = gr.Textbox("", visible=False, elem_id="choices")
    return values, steps, mode, limit, less, diversity, second_look, further, lens_name, save, choices


def _build_further_options() -> dict[str, gr.Checkbox | gr.Textbox]:
    """Draws a plain field for each option without a field of its own."""
    found: dict[str, gr.Checkbox | gr.Textbox] = {}
    for name, option in FURTHER_OPTIONS.items():
        shown: dict[str, Any] = {
            "label": _(label_of(name)),
            "info": _(option.description),
            "elem_id": f"option-{name}",
        }
        found[name] = gr.Checkbox(value=option.default, **shown) if option.type is bool else gr.Textbox(**shown)
    return found


def _connect(
    site: gr.Blocks,
    handlers: SearchHandlers,
    fields: _Fields,
    views: _Views,
    parts: PageParts,
) -> None:
    asked = fields.request
    begin_script = asked.script("gircse.beginSearch", for_script(PARAMETERS), passes_on=True)
    again_script = asked.script("gircse.beginSearch", for_script(PARAMETERS), {"isAgain": True}, passes_on=True)

    def searching(handler: Any, script: str = again_script) -> dict[str, Any]:
        return {
            "fn": skipping_none(asked.reading(handler), outputs=3),
            "inputs": asked.inputs,
            "outputs": views.searched,
            "js": script,
            "api_visibility": "private",
            "show_progress": "hidden",
            "concurrency_limit": 4,
            "concurrency_id": "search",
            "trigger_mode": "always_last",
        }

    submits = [fields.query.submit, fields.submit.click, fields.instruction.submit, fields.values.submit]
    gr.on(submits, **searching(handlers.search, begin_script)).then(**FINISH)
    gr.on(
        [
            fields.steps.release,
            fields.mode.input,
            fields.collection.input,
            fields.limit.release,
            fields.less.input,
            fields.diversity.release,
            fields.second_look.input,
            *(each.input if isinstance(each, gr.Checkbox) else each.submit for each in fields.further.values()),
        ],
        **searching(handlers.search_again),
    ).then(**FINISH)
    filled = _connect_lenses(handlers, fields, views, searching)
    _connect_clicks(handlers, fields, views, searching)
    proposing = ProposalHandlers(catalog=parts.catalog, proposals=parts.proposals)
    _connect_proposals(proposing, fields, views, filled, searching(handlers.search_again))

    remember_collection(fields.collection)

    restored = NamedFields({**asked.components, "lens": fields.lens, "note": fields.note, "message": views.message})

    def restore(request: gr.Request) -> tuple[Any, ...]:
        return restored.updates(_restore(handlers, parts, request))

    opening = searching(handlers.search_again, asked.script("gircse.openSearch", for_script(PARAMETERS)))
    site.load(restore, outputs=restored.inputs, **_QUIET).then(**opening).then(**FINISH)


def _connect_lenses(handlers: SearchHandlers, fields: _Fields, views: _Views, searching: Any) -> Any:
    """Connects the lens fields. Returns the event after which they have the values of another lens."""

    def fill_instruction(name: object) -> tuple[Any, ...]:
        instruction, values = handlers.instruction_of(name), handlers.values_of(name)
        filled = (gr.skip() if each is None else each for each in (instruction, values))
        return "", *filled, render_lens_note(handlers.note_of(name))

    def save(name: object, instruction: object, values: object) -> tuple[Any, ...]:
        saved = handlers.save_lens(name, instruction, values)
        return "", gr.Dropdown(choices=handlers.lens_choices(), value=saved), ""

    # Typing an instruction or values clears the lens name in the browser, without a request to the server.
    gr.on(
        [fields.instruction.input, fields.values.input],
        fn=None,
        js=f"() => [{OWN_WORDS!r}, '']",
        outputs=[fields.lens, fields.note],
    )
    filled = fields.lens.input(
        as_handler(fill_instruction, outputs=4, on_error=gr.skip()),
        fields.lens,
        [views.message, fields.instruction, fields.values, fields.note],
        **_QUIET,
    )
    filled.success(**searching(handlers.search_again)).then(**FINISH)
    gr.on(
        [fields.save_lens.click, fields.lens_name.submit],
        fn=as_handler(save, outputs=3, on_error=gr.skip()),
        inputs=[fields.lens_name, fields.instruction, fields.values],
        outputs=[views.message, fields.lens, fields.lens_name],
        **_QUIET,
    )
    return filled


def _connect_clicks(handlers: SearchHandlers, fields: _Fields, views: _Views, searching: Any) -> None:
    def choose(choices: object, event: gr.EventData) -> tuple[Any, ...]:
        data = event_data(event)
        return as_handler(lambda: ("", handlers.choose(choices, data)), outputs=2, on_error=gr.skip())()

    def judge(query: object, instruction: object, collection: object, event: gr.EventData) -> tuple[Any, ...]:
        data = event_data(event)
        return as_handler(lambda: (handlers.judge(query, instruction, collection, data),), outputs=1)()

    for view in views.searched:
        view.choose(choose, fields.choices, [views.message, fields.choices], **_QUIET).success(
            **searching(handlers.search_again)
        ).then(**FINISH)

    def fill_example(event: gr.EventData) -> tuple[Any, ...]:
        data = event_data(event)
        return as_handler(lambda: ("", *handlers.example(data)), outputs=5, on_error=gr.skip())()

    filled = [fields.query, fields.instruction, fields.lens, fields.values]
    views.passages.example(fill_example, None, [views.message, *filled], **_QUIET).success(
        **searching(handlers.search)
    ).then(**FINISH)
    views.passages.judge(judge, [fields.query, fields.instruction, fields.collection], views.message, **_QUIET)


def _connect_proposals(
    handlers: ProposalHandlers,
    fields: _Fields,
    views: _Views,
    filled: Any,
    search_again: dict[str, Any],
) -> None:
    """Connects the proposals of values. `filled`: the event after which the fields have the values of another lens."""
    propose = {
        "fn": as_handler(lambda *asked: (handlers.propose(*asked),), outputs=1),
        "inputs": [fields.instruction, fields.collection, fields.values],
        "outputs": fields.proposals,
        "trigger_mode": "always_last",
        "concurrency_limit": 2,
        "concurrency_id": "proposals",
        **_QUIET,
    }

    def use(event: gr.EventData) -> tuple[Any, ...]:
        data = event_data(event)
        return as_handler(lambda: ("", handlers.use(data)), outputs=2, on_error=gr.skip())()

    fields.proposals.typed(**propose)
    fields.proposals.use(use, None, [views.message, fields.values], **_QUIET).success(**search_again).then(**FINISH)
    fields.collection.input(**propose)
    filled.success(**propose)


def _restore(handlers: SearchHandlers, parts: PageParts, request: gr.Request) -> dict[str, Any]:
    """Field values from the address; invalid ones keep their default."""
    given = dict(request.query_params)
    asked = {name: given[parameter.name] for name, parameter in PARAMETERS.items() if parameter.name in given}
    instruction = str(asked.get("instruction", ""))
    instruction = "" if instruction == NO_INSTRUCTION else instruction
    is_asked = "instruction" in asked
    lens = handlers.lens_of(instruction) if is_asked else handlers.lens_names()[FIRST_LENS]
    values = asked["values"] if "values" in asked else "" if is_asked else handlers.values_of(lens)
    return {
        "query": asked.get("query", gr.skip()),  # the user may have typed one already
        "instruction": instruction if is_asked else handlers.instruction_of(lens),
        "steps": whole_number_or(asked.get("steps"), parts.default_steps, parts.max_steps),
        "mode": asked["mode"] if asked.get("mode") in [mode for _, mode in MODES] else DEFAULT_MODE.value,
        "collection": choose_collection(parts.catalog, asked_collection(request), offers_all=True),
        "limit": whole_number_or(asked.get("limit"), DEFAULT_RESULTS, MAX_RESULTS),
        "choices": asked.get("choices", ""),
        "values": values,
        "less": [each for each in EVERY_LESS if "less" not in asked or each in asked["less"].split()],
        "diversity": share_or_zero(asked.get("diversity")),
        "second_look": asked.get("second_look") != "0",
        **{name: _restored(option, asked.get(name)) for name, option in FURTHER_OPTIONS.items()},
        "lens": gr.Dropdown(
            choices=handlers.lens_choices(), value=OWN_WORDS if values and values != handlers.values_of(lens) else lens
        ),
        "note": render_lens_note(handlers.note_of(lens)),
        "message": missing_collection(parts.catalog, request),
    }


def _restored(option: Option, text: str | None) -> object:
    """The value of an option's plain field, parsed from its text in the address."""
    if option.type is bool:
        return option.default if text is None else text == "1"
    return text or ""
