"""The page of one's own account: plain HTML with forms, without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from markupsafe import Markup

from app.types.access import Principal, WebSession
from ui.render.text import clean, join
from ui.theme import ASSETS, SANS

_PAGE = Markup(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Your account · gircse-search</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style></head>'
    '<body class="wide"><main><p class="brand"><a href="/">gircse <span>search</span></a></p>'
    "<h1>{name}, {role}</h1>{sessions}</main></body></html>"
)
_SESSIONS = Markup(
    "<h2>Where you are logged in</h2><table><thead><tr><th>With</th><th>From</th><th>Since (UTC)</th>"
    "<th>Last used</th><th></th></tr></thead><tbody>{rows}</tbody></table>{others}"
)
_ROW = Markup("<tr><td>{browser}</td><td>{address}</td><td>{since}</td><td>{used}</td><td>{end}</td></tr>")
_END = Markup(
    '<form method="post" action="/account/sessions/end"><input type="hidden" name="session_id" value="{}">'
    '<button type="submit" aria-label="Log out {}">Log out</button></form>'
)
_OTHERS = Markup(
    '<form method="post" action="/account/sessions/end-others">'
    '<button type="submit">Log out everywhere but here</button></form>'
)
_NONE = Markup("<p>A key asks, which has no sessions.</p>")


def account_drawer() -> Callable[[Principal, Sequence[WebSession]], str]:
    """A function of who asks and of their sessions, which draws the page."""
    css = Markup((ASSETS / "login.css").read_text(encoding="utf-8").replace("SANS", SANS))  # noqa: S704

    def draw(me: Principal, sessions: Sequence[WebSession]) -> str:
        return _PAGE.format(
            css=css, name=clean(me.name), role=me.role.label, sessions=_sessions(sessions, me.session_id)
        )

    return draw


def _sessions(sessions: Sequence[WebSession], current: str | None) -> Markup:
    if not sessions:
        return _NONE
    rows = join(
        _ROW.format(
            browser=clean(each.browser or "not known"),
            address=clean(each.address or "not known"),
            since=_minute(each.created_at),
            used=_minute(each.used_at),
            end=Markup("here") if each.id == current else _END.format(clean(each.id), clean(each.browser)),
        )
        for each in sessions
    )
    return _SESSIONS.format(rows=rows, others=_OTHERS if len(sessions) > 1 else "")


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
