"""What stands where hits will be: before the first query, an example through two lenses; then a skeleton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.types.search import Hit, SearchResult
from ui.contract import PURPOSE, Example
from ui.language import _, html
from ui.lens_names import shown_lens
from ui.render.lens_values import render_value_chip
from ui.render.text import clean, join, name_of, shorten


@dataclass(frozen=True, slots=True)
class LensView:
    """What a search finds through a lens; no `result` while it is being computed."""

    example: Example
    lens: str
    note: str
    result: SearchResult | None = None


def render_welcome(examples: Sequence[tuple[Example, str]] = (), worked: Sequence[LensView] = ()) -> str:
    """`examples` with the names of their lenses: each fills the fields and searches. `worked`: two, or none."""
    tries = join(
        Markup(
            '<li><button type="button" data-event="example" data-query="{}" data-instruction="{}"><span dir="auto">{}'
            "</span> <small>{}</small></button></li>"
        ).format(
            clean(example.query), clean(example.instruction), shorten(example.query, 90), shorten(shown_lens(lens), 60)
        )
        for example, lens in examples
    )
    return Markup('<div class="welcome"><p class="lead">{}</p><p>{}</p>{}{}</div>').format(
        _(PURPOSE),
        _(
            "Write a query and press Enter. Then choose another lens and watch the order change: the same words, read "
            "in another sense."
        ),
        _render_worked_example(*worked) if len(worked) == 2 else "",
        html('<h2>[[Try]]</h2><ul class="examples">{}</ul>').format(tries) if tries else "",
    )


def render_skeleton() -> str:
    """Where hits will be."""
    row = Markup("<li><i></i><i></i><i></i><i></i></li>")
    return html(
        '<div class="skeleton" role="status"><span class="sr-only">[[Searching]] …</span><ul>{}</ul></div>'
    ).format(row * 4)


def render_lens_note(note: str) -> str:
    return Markup('<p class="hint" dir="auto">{}</p>').format(shorten(note, 120)) if note else Markup("")


def _render_worked_example(before: LensView, after: LensView) -> Markup:
    ranks = {hit.chunk.id: hit.rank for hit in before.result.hits} if before.result else {}
    return html(
        '<section class="worked-example" aria-label="[[An example]]"><h2>[[One query, two lenses:]] '
        '<q dir="auto">{}</q></h2><div>{}{}</div></section>'
    ).format(
        shorten(before.example.query, 120),
        _render_view(before, _("Before"), None),
        _render_view(after, _("After"), ranks),
    )


def _render_view(view: LensView, heading: str, ranks: Mapping[str, int] | None) -> Markup:
    """`ranks`: of the passages through the other lens."""
    hits: Sequence[Hit] = view.result.hits if view.result else ()
    return Markup(
        '<section><h3><span>{}:</span> <button type="button" data-event="example" data-query="{}" data-instruction="{}"'
        '><span dir="auto">{}</span></button> <small>{}</small></h3><ol class="{}">{}</ol></section>'
    ).format(
        heading,
        clean(view.example.query),
        clean(view.example.instruction),
        shorten(shown_lens(view.lens), 60),
        shorten(shown_lens(view.note), 80),
        "" if view.result else "is-waiting",
        join(_render_hit(hit, ranks) for hit in hits) or Markup("<li>…</li><li>…</li><li>…</li>"),
    )


def _render_hit(hit: Hit, ranks: Mapping[str, int] | None) -> Markup:
    before = None if ranks is None else ranks.get(hit.chunk.id)
    move = "" if ranks is None else _("not found before") if before is None else _("was {rank}").format(rank=before)
    return Markup('<li dir="auto"><span>{}</span> {} <small>{}</small></li>').format(
        shorten(name_of(hit.document), 72), render_value_chip(hit.value, is_button=False), move
    )
