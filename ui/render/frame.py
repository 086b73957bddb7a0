"""Header with navigation, and footer, of every page."""

from __future__ import annotations

import json
from collections.abc import Sequence

from markupsafe import Markup

from ui.contract import AboutInfo, PageLink
from ui.language import _, current_language, html, languages, later, name_of_language, script_texts
from ui.render.text import clean, join

# Rendered once for all users; a script fills in who is logged in.
_ACCOUNT = (
    '<form class="account" method="post" action="/logout"><a href="/account" data-account title="[[Your account]]"></a>'
    '<button type="submit" class="plain-button">[[Log out]]</button></form>'
)

SHORTCUTS = (
    (("/",), later("go to the query")),
    (("j", "↓"), later("next passage or list row")),
    (("k", "↑"), later("previous passage or list row")),
    (("o", later("Enter")), later("open the passage in its document")),
    ((later("Enter"),), later("in a query or instruction: search")),
    ((later("Tab"),), later("go to the next button or link")),
    (("n", "p"), later("in a document: next or previous hit")),
    (("+", "−", "0"), later("on a page: zoom in, zoom out, fit to width")),
    (("←", "→"), later("on a page: previous or next page")),
    (("t",), later("on a page: switch between page and text")),
    (("?",), later("show these keys")),
    ((later("Esc"),), later("leave a field, or close the open window")),
)
_KEYS = (
    '<dialog class="document-view keys" id="keys" aria-labelledby="keys-title"><header><h2 '
    'id="keys-title">[[Keys]]</h2><button type="button" class="plain-button" '
    "data-close-dialog>[[Close]]</button></header><dl>{}</dl></dialog>"
)


def render_keys(keys: Sequence[str]) -> Markup:
    return Markup(" ").join(Markup("<kbd>{}</kbd>").format(_(key)) for key in keys)


def _render_shortcuts() -> Markup:
    return html(_KEYS).format(
        join(
            Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(render_keys(keys), _(meaning))
            for keys, meaning in SHORTCUTS
        )
    )


def render_header(
    pages: Sequence[PageLink], current: PageLink, *, has_logins: bool = False, has_title: bool = False
) -> str:
    """`has_title`: the page shows a heading of its own; the others get one for screen readers."""
    links = join(
        Markup('<a href="{}"{}>{}</a>').format(
            page.path, Markup(' aria-current="page"') if page == current else "", _(page.name)
        )
        for page in pages
    )
    return html(
        '<header class="site-header" data-page="{page}" data-language="{language}" data-texts="{texts}">'
        '<a class="skip" href="#content">[[Skip to content]]</a><a '
        'class="brand" href="/">gircse <span>search</span></a><nav '
        'aria-label="[[Pages]]">{links}</nav>{account}<button type="button" class="theme-switch" '
        'data-theme-switch aria-label="[[Dark colours]]" aria-pressed="false"><span '
        'aria-hidden="true">◐</span></button></header>{title}'
    ).format(
        title="" if has_title else Markup('<h1 class="sr-only">{}</h1>').format(_(current.name)),
        page=_(current.name),
        links=links,
        account=html(_ACCOUNT) if has_logins else "",
        language=current_language(),
        texts=json.dumps(script_texts(current_language()), ensure_ascii=False),
    )


def render_footer(about: AboutInfo) -> str:
    return html(
        '<footer class="site-footer"><p>[[Model]] <b>{}</b> · gircse-search {} · [[runs only on this '
        'machine]]</p><p><button type="button" class="plain-button" data-open-keys><kbd>?</kbd> '
        "[[Keys]]</button></p>{}</footer>{}"
    ).format(clean(about.model_name), clean(about.version), _render_languages(), _render_shortcuts())


def _render_languages() -> Markup:
    """Each language by its own name."""
    return html('<p class="languages" role="group" aria-label="[[Language]]">{}</p>').format(
        join(
            Markup('<button type="button" class="plain-button" data-language="{0}" lang="{0}" {1}>{2}</button>').format(
                each,
                Markup('aria-current="true"') if each == current_language() else "",
                name_of_language(each),
            )
            for each in languages()
        )
    )
