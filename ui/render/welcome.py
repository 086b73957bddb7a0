"""HTML before the first hits: an example through two lenses, then a skeleton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.types.search import Hit, SearchResult
from ui.contract import DOCUMENTS, PURPOSE, Example, ExampleHit, ShownExample
from ui.language import _, html
from ui.lens_names import shown_lens
from ui.render.lens_values import name_value, render_value_chip
from ui.render.text import clean, join, name_of, shorten


@dataclass(frozen=True, slots=True)
class LensView:
    """Example results through a lens; `result` is None while the search runs."""

    example: Example
    lens: str
    note: str
    result: SearchResult | None = None


def render_welcome(examples: Sequence[tuple[Example, str]] = (), worked: Sequence[LensView] = ()) -> str:
    """`examples` with lens names; a click fills the fields and searches. `worked` are two views or none. Both belong to
    the sample library, so they come with a link for own files."""
    tries = join(
        Markup(
            '<li><button type="button" data-event="example" data-query="{}" data-instruction="{}"><span dir="auto">{}'
            "</span> <small>{}</small></button></li>"
        ).format(
            clean(example.query), clean(example.instruction), shorten(example.query, 90), shorten(shown_lens(lens), 60)
        )
        for example, lens in examples
    )
    has_examples = bool(tries) or len(worked) == 2
    return Markup('<div class="welcome"><p class="lead">{}</p><p>{}</p>{}{}{}</div>').format(
        _(PURPOSE),
        _("Enter a query and press Enter. Then choose another lens and see how the order changes."),
        _render_first_steps() if has_examples else "",
        _render_worked_example(*worked) if len(worked) == 2 else "",
        html('<h2>[[Try]]</h2><ul class="examples">{}</ul>').format(tries) if tries else "",
    )


def render_first_sight(example: Sequence[ShownExample]) -> str:
    """The first page without collections: what to do, and example results."""
    return Markup('<div class="welcome"><p class="lead">{}</p>{}{}</div>').format(
        _(PURPOSE), _render_first_steps(), _render_shown_example(*example) if len(example) == 2 else ""
    )


def _render_first_steps() -> Markup:
    return html(
        '<p class="first-steps"><a class="primary-link" href="{}">[[Add your files]]</a> <span>[[Drop a folder and '
        "search it a minute later.]]</span></p>"
    ).format(DOCUMENTS.path)


def _render_shown_example(before: ShownExample, after: ShownExample) -> Markup:
    ranks = {hit.title: rank for rank, hit in enumerate(before.hits, 1)}
    views = join(
        Markup("<section><h3><span>{}:</span> <b>{}</b></h3><ol>{}</ol></section>").format(
            heading, shown_lens(view.lens), join(_render_shown_hit(hit, known) for hit in view.hits)
        )
        for heading, view, known in ((_("Before"), before, None), (_("After"), after, ranks))
    )
    return html(
        '<section class="worked-example" aria-label="[[An example]]"><h2>[[One query, two lenses:]] <q '
        'dir="auto">{}</q></h2><div>{}</div><p class="hint">[[From the sample library of gircse-search:]] '
        "<code>gircse up --sample</code></p></section>"
    ).format(shorten(before.query, 120), views)


def _render_shown_hit(hit: ExampleHit, ranks: Mapping[str, int] | None) -> Markup:
    value = Markup('<span class="value" dir="auto">{}</span>').format(name_value(hit.value)) if hit.value else ""
    return Markup('<li dir="auto"><span>{}</span> {} <small>{}</small></li>').format(
        shorten(hit.title, 72), value, _moved(None if ranks is None else ranks.get(hit.title), ranks)
    )


def render_skeleton() -> str:
    """Placeholders for hits that are loading."""
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
    """`ranks` are the passages' ranks through the other lens."""
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
    return Markup('<li dir="auto"><span>{}</span> {} <small>{}</small></li>').format(
        shorten(name_of(hit.document), 72),
        render_value_chip(hit.value, is_button=False),
        _moved(None if ranks is None else ranks.get(hit.chunk.id), ranks),
    )


def _moved(before: int | None, ranks: Mapping[str, int] | None) -> str:
    if ranks is None:
        return ""
    return _("not found before") if before is None else _("was {rank}").format(rank=before)
