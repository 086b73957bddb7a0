"""What frames every page: header with the way to the other pages, footer."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ui.contract import AboutInfo, PageLink
from ui.render.text import clean, join

# Who is logged in, the page's script asks: this is drawn once for all users.
_ACCOUNT = Markup(
    '<form class="account" method="post" action="/logout"><a href="/account" data-account title="Your account"></a>'
    '<button type="submit" class="plain-button">Log out</button></form>'
)

_SHORTCUTS = (
    (("/",), "to the query"),
    (("j", "↓"), "next passage, or next row of a list"),
    (("k", "↑"), "the one before"),
    (("o", "Enter"), "open it in its document"),
    (("Tab",), "to the actions of a passage, and all else that can be pressed"),
    (("?",), "these keys"),
    (("Esc",), "close what is open"),
)
_KEYS = Markup(
    '<dialog class="document-view keys" id="keys" aria-labelledby="keys-title"><header><h2 id="keys-title">Keys</h2>'
    '<button type="button" class="plain-button" data-close-dialog>Close</button></header><dl>{}</dl></dialog>'
).format(
    join(
        Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(
            Markup(" ").join(Markup("<kbd>{}</kbd>").format(key) for key in keys), meaning
        )
        for keys, meaning in _SHORTCUTS
    )
)


def render_header(pages: Sequence[PageLink], current: PageLink, *, has_logins: bool = False) -> str:
    links = join(
        Markup('<a href="{}"{}>{}</a>').format(
            page.path, Markup(' aria-current="page"') if page == current else "", page.name
        )
        for page in pages
    )
    return Markup(
        '<header class="site-header"><a class="skip" href="#content">Skip to the content</a>'
        '<a class="brand" href="/">gircse <span>search</span></a><nav aria-label="Pages">{}</nav>{}'
        '<button type="button" class="theme-switch" data-theme-switch aria-label="Dark colours" aria-pressed="false">'
        '<span aria-hidden="true">◐</span></button></header>'
    ).format(links, _ACCOUNT if has_logins else "")


def render_footer(about: AboutInfo) -> str:
    return Markup(
        '<footer class="site-footer"><p>Model <b>{}</b> · gircse-search {} · runs on this machine alone</p>'
        '<p><button type="button" class="plain-button" data-open-keys><kbd>?</kbd> Keys</button></p></footer>{}'
    ).format(clean(about.model_name), clean(about.version), _KEYS)
