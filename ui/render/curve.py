"""A chart of the remaining change of the query vector by step."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.search.soft_tokens import converged_step
from embedder.refinement_steps import RefinementStep
from ui.language import _, html, number
from ui.render.text import join

WIDTH, HEIGHT, LEFT, BOTTOM = 320, 92, 34, 18


def render_curve(steps: Sequence[RefinementStep]) -> Markup:
    """Empty for a single step."""
    if len(steps) < 2:
        return Markup("")
    converged = converged_step(steps) or steps[-1].step
    highest = max(max(step.remaining for step in steps), 1e-6)
    points = [(_x(step.step, steps[-1].step), _y(step.remaining / highest)) for step in steps]
    said = _("The query stopped changing after step {step} of {last}.").format(step=converged, last=steps[-1].step)
    return html(
        '<figure class="curve"><figcaption>{said} <span>[[Remaining change of the query, by '
        'step]]</span></figcaption><svg viewBox="0 0 {width} {height}" role="img" aria-label="{said}"><line '
        'class="axis" x1="{left}" y1="{floor}" x2="{width}" y2="{floor}"/><line class="converged" x1="{at}" y1="4" '
        'x2="{at}" y2="{floor}"/><polyline points="{points}"/>{dots}{ticks}<text x="{tick}" y="10" '
        'text-anchor="end">{highest}</text><text x="{tick}" y="{floor}" text-anchor="end">0</text></svg></figure>'
    ).format(
        said=said,
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        tick=LEFT - 5,
        floor=HEIGHT - BOTTOM,
        at=_x(converged, steps[-1].step),
        highest=number(highest, 2),
        points=" ".join(f"{x},{y}" for x, y in points),
        dots=join(Markup('<circle cx="{}" cy="{}" r="2.2"/>').format(x, y) for x, y in points),
        ticks=join(
            Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                _x(tick, steps[-1].step), HEIGHT - 4, tick
            )
            for tick in _ticks(steps[-1].step)
        ),
    )


def _x(step: int, last: int) -> float:
    return round(LEFT + 6 + (step - 1) / max(last - 1, 1) * (WIDTH - LEFT - 14), 1)


def _y(share: float) -> float:
    return round(6 + (1 - share) * (HEIGHT - BOTTOM - 8), 1)


def _ticks(last: int) -> list[int]:
    return sorted({1, last, *(step for step in (5, 10, 15, 20, 30, 40, 50, 60) if step < last - 1)})
