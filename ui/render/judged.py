"""HTML of the evaluate page: judgements by judge."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.types.evaluation import JudgementSource
from ui.contract import DOCUMENTS, SEARCH
from ui.language import _, html, ngettext, number
from ui.render.text import clean, join, shorten


def render_sources(sources: Sequence[JudgementSource]) -> str:
    if not sources:
        return html(
            '<div class="empty"><h2>[[This collection has no judgements yet]]</h2><p class="for-editors">[[To evaluate '
            "a search, first judge which documents answer a query. Judge hits with the thumbs on the]] <a "
            'href="{}">[[search '
            "page]]</a>[[, or import judgements below.]]</p></div>"
        ).format(SEARCH.path)
    return Markup('<ul class="sources">{}</ul>').format(join(map(_render_source, sources)))


def render_no_collection() -> str:
    return html(
        '<div class="empty"><h2>[[There is no collection yet]]</h2><p>[[Add documents first, then judge which of '
        'them answer your queries:]] <a href="{}">[[Documents]]</a></p></div>'
    ).format(DOCUMENTS.path)


def _render_source(source: JudgementSource) -> Markup:
    name = source.judged_by.partition(":")[2] if source.is_import else source.judged_by
    remove = (
        html(
            '<button type="button" class="plain-button is-danger" data-event="forget" data-source="{by}" '
            'data-confirm="[[Remove the imported judgements “{name}”?]]" aria-label="[[Remove the import '
            '{name}]]">[[Remove]]</button>'
        ).format(by=clean(source.judged_by), name=shorten(name, 80))
        if source.is_import
        else ""
    )
    return Markup("<li><span><b dir=auto>{}</b> <small>{}</small></span><span>{} · {}</span>{}</li>").format(
        shorten(name, 80),
        _("imported") if source.is_import else _("thumbs"),
        counted_queries(source.query_count),
        counted_judgements(source.judgement_count),
        remove,
    )


def counted_queries(count: int) -> str:
    return ngettext("{count} query", "{count} queries", count).format(count=number(count))


def counted_judgements(count: int) -> str:
    return ngettext("{count} judgement", "{count} judgements", count).format(count=number(count))
