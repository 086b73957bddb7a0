"""Lines between two lists with equal row height; each connects the two ranks of a passage."""

from __future__ import annotations

from markupsafe import Markup

from ui.comparison import ComparedHit, Comparison, is_shown
from ui.language import _
from ui.render.text import join

ROW, WIDTH, EDGE = 104, 96, 8  # pixels; ROW equals the row height in compare.css
STUB = 20


def render_moves(comparison: Comparison) -> Markup:
    """Not by colour only: solid lines rise, dashed ones fall, thin ones keep their rank; stubs leave the list."""
    lines = [
        *(_render_stub(place, x=EDGE, towards=EDGE + STUB) for place in comparison.left
          if not is_shown(place, comparison.right)),
        *(_render_stub(place, x=WIDTH - EDGE, towards=WIDTH - EDGE - STUB) for place in comparison.right
          if not is_shown(place, comparison.left)),
        *(_render_line(place) for place in comparison.right if is_shown(place, comparison.left)),
    ]  # fmt: skip
    said = _(
        "Lines connect the {count} passages in both lists. From A to B, solid lines rise, dashed lines fall, and "
        "thin lines keep their rank."
    ).format(count=comparison.shared)
    return Markup(
        '<div class="moves"><svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="{said}"><title>{said}</title>{lines}</svg></div>'
    ).format(width=WIDTH, height=comparison.size * ROW, said=said, lines=join(lines))


def _render_line(place: ComparedHit) -> Markup:
    left, right = place.elsewhere or place.hit.rank, place.hit.rank
    kind = "is-up" if left > right else "is-down" if left < right else "is-same"
    start, end = _y(left), _y(right)
    middle, tip = WIDTH // 2, WIDTH - EDGE
    return Markup(
        '<g class="line {kind}" data-pair="b-{rank}"><path d="M{edge},{start} C{middle},{start} {middle},{end} '
        '{neck},{end}"/><circle cx="{edge}" cy="{start}" r="3.5"/>'
        '<path class="tip" d="M{tip},{end} l-9,-5 v10 z"/></g>'
    ).format(kind=kind, rank=right, edge=EDGE, start=start, end=end, middle=middle, neck=tip - 8, tip=tip)


def _render_stub(place: ComparedHit, *, x: int, towards: int) -> Markup:
    y = _y(place.hit.rank)
    inward = 1 if towards > x else -1
    return Markup('<g class="line is-lone"><path d="M{},{} H{}"/><circle cx="{}" cy="{}" r="4"/></g>').format(
        x, y, towards - 4 * inward, towards, y
    )


def _y(rank: int) -> int:
    return (rank - 1) * ROW + ROW // 2
