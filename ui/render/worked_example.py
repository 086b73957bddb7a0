"""One query under two lenses, side by side: what the product does, shown before anybody has asked anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.types.search import Hit, SearchResult
from ui.contract import Example
from ui.render.lens_values import render_value_chip
from ui.render.text import clean, join, name_of, shorten


@dataclass(frozen=True, slots=True)
class LensView:
    """What a search finds through a lens; no `result` while it is being computed."""

    example: Example
    lens: str
    note: str
    result: SearchResult | None = None


def render_worked_example(before: LensView, after: LensView) -> Markup:
    ranks = {hit.chunk.id: hit.rank for hit in before.result.hits} if before.result else {}
    return Markup(
        '<section class="worked-example" aria-label="An example"><h2>One query, two lenses: '
        '<q dir="auto">{}</q></h2><div>{}{}</div></section>'
    ).format(
        shorten(before.example.query, 120), _render_view(before, "Before", None), _render_view(after, "After", ranks)
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
        shorten(view.lens, 60),
        shorten(view.note, 80),
        "" if view.result else "is-waiting",
        join(_render_hit(hit, ranks) for hit in hits) or Markup("<li>…</li><li>…</li><li>…</li>"),
    )


def _render_hit(hit: Hit, ranks: Mapping[str, int] | None) -> Markup:
    before = None if ranks is None else ranks.get(hit.chunk.id)
    move = "" if ranks is None else "not found before" if before is None else f"was {before}"
    return Markup('<li dir="auto"><span>{}</span> {} <small>{}</small></li>').format(
        shorten(name_of(hit.document), 72), render_value_chip(hit.value, is_button=False), move
    )
