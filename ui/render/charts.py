"""Charts as inline SVG in the page's colours: bars with intervals, differences around zero, a curve over steps.

Lengths are shares of the width, so charts fit phones and desktops. Numbers are shown beside them as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.types.evaluation import Estimate
from ui.language import _, html, number
from ui.render.text import join

SERIES_COLOURS = 6
MOST_BANDS = 3  # more bands would hide one another
_WIDTH, _HEIGHT = 440, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 10, 34


@dataclass(frozen=True, slots=True)
class Series:
    """A line: steps → estimate. A series that does not depend on steps is a horizontal line."""

    name: str
    points: Mapping[int, Estimate]
    level: Estimate | None = None


def scale_end(estimates: Sequence[Estimate]) -> float:
    """A round upper end of the scale above all intervals; measures are 0 to 1."""
    highest = max((each.high for each in estimates), default=0.0)
    return next((end for end in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if highest <= end + 1e-9), 1.0)


def render_bar(estimate: Estimate, *, end: float, is_best: bool = False) -> Markup:
    """Hidden from screen readers, which read the numbers beside it."""
    return Markup(
        '<svg class="bar{best}" aria-hidden="true" width="100%" height="20"><rect class="track" width="100%" '
        'height="20"'
        ' rx="3"/><rect class="value" width="{value}" height="20" rx="3"/><line x1="{low}" x2="{high}" y1="10" '
        'y2="10"/>'
        '<line x1="{low}" x2="{low}" y1="5" y2="15"/><line x1="{high}" x2="{high}" y1="5" y2="15"/></svg>'
    ).format(
        best=" is-best" if is_best else "",
        value=_percent(estimate.value / end),
        low=_percent(estimate.low / end),
        high=_percent(estimate.high / end),
    )


def render_difference(estimate: Estimate, *, reach: float) -> Markup:
    """A dot and its interval on a line from -reach to +reach, with zero in the middle."""

    def place(value: float) -> str:
        return _percent(0.5 + value / reach / 2)

    tone = "" if not estimate.excludes_zero else " is-better" if estimate.value > 0 else " is-worse"
    return Markup(
        '<svg class="difference{tone}" aria-hidden="true" width="100%" height="20"><line class="zero" x1="50%" x2="50%"'
        ' y1="0" y2="20"/><line x1="{low}" x2="{high}" y1="10" y2="10"/><line x1="{low}" x2="{low}" y1="6" y2="14"/>'
        '<line x1="{high}" x2="{high}" y1="6" y2="14"/><circle cx="{value}" cy="10" r="4.5"/></svg>'
    ).format(tone=tone, low=place(estimate.low), high=place(estimate.high), value=place(estimate.value))


def render_curve(series: Sequence[Series], *, title: str) -> Markup:
    """The measure by number of refinement steps: a line per series, intervals as bands."""
    drawn = [point for line in series for point in (*line.points.values(), *([line.level] if line.level else []))]
    steps = sorted({step for line in series for step in line.points})
    low, high = _bounds(drawn)
    place = _Place(steps[0], steps[-1], low, high)
    has_bands = len(series) <= MOST_BANDS
    return html(
        '<figure class="curve-figure"><figcaption>{title}</figcaption><svg viewBox="0 0 {width} {height}" '
        'role="img" aria-label="{title}. [[See the table of all measures for the numbers.]]">{grid}{ticks}<text '
        'class="axis-name" x="{middle}" y="{bottom}" text-anchor="middle">[[Steps of refinement '
        "(K)]]</text>{lines}</svg>{legend}</figure>"
    ).format(
        title=title,
        width=_WIDTH,
        height=_HEIGHT,
        grid=join(_grid_line(value, place) for value in _round_values(low, high)),
        ticks=join(
            Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                place.x(step), _HEIGHT - _BOTTOM + 14, step
            )
            for step in steps
        ),
        middle=(_LEFT + _WIDTH - _RIGHT) / 2,
        bottom=_HEIGHT - 4,
        lines=join(_line(line, number, place, has_band=has_bands) for number, line in enumerate(series)),
        legend=_legend(series),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Maps steps and values to SVG coordinates."""

    first: int
    last: int
    low: float
    high: float

    def x(self, step: int) -> float:
        share = (step - self.first) / max(self.last - self.first, 1)
        return round(_LEFT + 12 + share * (_WIDTH - _LEFT - _RIGHT - 24), 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(_TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM), 1)


def _line(line: Series, order: int, place: _Place, *, has_band: bool) -> Markup:
    colour = order % SERIES_COLOURS + 1
    if line.level is not None:
        return Markup('<line class="level series-{}" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(
            colour, _LEFT, _WIDTH - _RIGHT, y=place.y(line.level.value)
        )
    points = sorted(line.points.items())
    path = " ".join(f"{place.x(step)},{place.y(estimate.value)}" for step, estimate in points)
    around = [(step, estimate.high) for step, estimate in points]
    around += [(step, estimate.low) for step, estimate in reversed(points)]
    band = " ".join(f"{place.x(step)},{place.y(value)}" for step, value in around) if has_band else ""
    marks = join(
        Markup('<circle cx="{x}" cy="{y}" r="3.4"><title>{said}</title></circle>').format(
            x=place.x(step),
            y=place.y(estimate.value),
            said=f"{line.name}, K {step}: {number(estimate.value, 3)} ({interval(estimate)})",
        )
        for step, estimate in points
    )
    return Markup('<g class="series-{}"><polygon points="{}"/><polyline points="{}"/>{}</g>').format(
        colour, band, path, marks
    )


def _legend(series: Sequence[Series]) -> Markup:
    if len(series) == 1:
        return Markup("")
    entries = join(
        Markup(
            '<li><svg width="24" height="10" aria-hidden="true"><line class="series-{}{}" x1="1" x2="23" y1="5" '
            'y2="5"/></svg>'
            "<bdi>{}</bdi></li>"
        ).format(number % SERIES_COLOURS + 1, " level" if line.level is not None else "", line.name)
        for number, line in enumerate(series)
    )
    return Markup('<ul class="legend">{}</ul>').format(entries)


def _grid_line(value: float, place: _Place) -> Markup:
    return Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{y}" y2="{y}"/><text x="{}" y="{text}" text-anchor="end">{said}</text>'
    ).format(_LEFT, _WIDTH - _RIGHT, _LEFT - 5, y=place.y(value), text=place.y(value) + 4, said=number(value, 2))


def _bounds(estimates: Sequence[Estimate]) -> tuple[float, float]:
    low, high = min(each.low for each in estimates), max(each.high for each in estimates)
    margin = max((high - low) * 0.08, 0.01)
    return max(0.0, low - margin), min(1.0, high + margin)


def _round_values(low: float, high: float) -> list[float]:
    step = next((each for each in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / each <= 6), 0.5)
    return [
        round(number * step, 2) for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def interval(estimate: Estimate, sign: str = "") -> str:
    return _("{low} to {high}").format(low=signed(estimate.low, sign), high=signed(estimate.high, sign))


def signed(value: float, sign: str = "") -> str:
    """`sign` is the prefix of non-negative numbers."""
    return f"{sign if value >= 0 else ''}{number(value, 3)}"


def _percent(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"
