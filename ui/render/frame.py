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
        "<p><kbd>/</kbd> query · <kbd>↑</kbd> <kbd>↓</kbd> hits · <kbd>Enter</kbd> open</p></footer>"
    ).format(clean(about.model_name), clean(about.version))
