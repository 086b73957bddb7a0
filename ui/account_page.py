"""The account page of the current user: plain HTML with forms, without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from app.types.access import Principal, WebSession
from app.types.quotas import QuotaUse
from ui.language import _, current_language, html, later, moment, number
from ui.render.text import clean, join, shown_size
from ui.theme import ASSETS, SANS

_PAGE = (
    '<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>[[Your account]] · gircse-search</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style></head>'
    '<body class="wide"><main><p class="brand"><a href="/">gircse <span>search</span></a></p>'
    "<h1>{name}, {role}</h1>{sessions}{quotas}</main></body></html>"
)
_SESSIONS = (
    "<h2>[[Where you are logged in]]</h2><table><thead><tr><th scope='col'>[[Device]]</th>"
    "<th scope='col'>[[IP address]]</th><th scope='col'>[[Since (UTC)]]</th><th scope='col'>[[Last used]]</th>"
    "<td></td></tr></thead><tbody>{rows}</tbody></table>{others}"
)
_ROW = Markup("<tr><td>{browser}</td><td>{address}</td><td>{since}</td><td>{used}</td><td>{end}</td></tr>")
_END = (
    '<form method="post" action="/account/sessions/end"><input type="hidden" name="session_id" value="{}">'
    '<button type="submit" aria-label="[[Log out {}]]">[[Log out]]</button></form>'
)
_OTHERS = (
    '<form method="post" action="/account/sessions/end-others">'
    '<button type="submit">[[Log out all other sessions]]</button></form>'
)
_QUOTAS = (
    "<h2>[[Your usage]]</h2><table><thead><tr><td></td><th scope='col'>[[Used]]</th>"
    "<th scope='col'>[[Limit]]</th></tr></thead><tbody>{}</tbody></table>"
)
_QUOTA = Markup("<tr><th scope='row'>{}</th><td>{}</td><td>{}</td></tr>")
_NAMES = {
    "bytes": later("Stored"),
    "documents": later("Documents"),
    "requests": later("Requests this minute"),
}
_UNKNOWN = "an unknown browser"  # the core's text
_NONE = "<p>[[You use an API key. Keys have no sessions.]]</p>"


def account_drawer() -> Callable[[Principal, Sequence[WebSession], Sequence[QuotaUse]], str]:
    """Returns a function that renders the page for a principal, their sessions and quotas."""
    css = Markup((ASSETS / "login.css").read_text(encoding="utf-8").replace("SANS", SANS))  # noqa: S704

    def draw(me: Principal, sessions: Sequence[WebSession], quotas: Sequence[QuotaUse]) -> str:
        return html(_PAGE).format(
            language=current_language(),
            css=css,
            name=clean(me.name),
            role=me.role.label,
            sessions=_sessions(sessions, me.session_id),
            quotas=html(_QUOTAS).format(join(map(_quota, quotas))),
        )

    return draw


def _sessions(sessions: Sequence[WebSession], current: str | None) -> Markup:
    if not sessions:
        return html(_NONE)
    rows = join(
        _ROW.format(
            browser=clean(_browser(each.browser)),
            address=clean(each.address or _("unknown")),
            since=moment(each.created_at),
            used=moment(each.used_at),
            end=html("[[this session]]")
            if each.id == current
            else html(_END).format(clean(each.id), clean(_browser(each.browser))),
        )
        for each in sessions
    )
    return html(_SESSIONS).format(rows=rows, others=html(_OTHERS) if len(sessions) > 1 else "")


def _browser(name: str) -> str:
    browser, is_both, system = name.partition(" on ")
    if is_both:
        return _("{browser} on {system}").format(browser=browser, system=system)
    return browser if browser and browser != _UNKNOWN else _("unknown")


def _quota(use: QuotaUse) -> Markup:
    def amount(count: int) -> str:
        return shown_size(count) if use.quota == "bytes" else number(count)

    return _QUOTA.format(
        _(_NAMES[use.quota]), amount(use.used), _("no limit") if use.limit is None else amount(use.limit)
    )
