"""The page of one's own account: plain HTML with forms, without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from markupsafe import Markup

from app.types.access import Principal, WebSession
from app.types.quotas import QuotaUse, in_bytes
from ui.render.text import clean, join
from ui.theme import ASSETS, SANS

_PAGE = Markup(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Your account · gircse-search</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style></head>'
    '<body class="wide"><main><p class="brand"><a href="/">gircse <span>search</span></a></p>'
    "<h1>{name}, {role}</h1>{sessions}{quotas}</main></body></html>"
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
_QUOTAS = Markup(
    "<h2>How much you use</h2><table><thead><tr><th></th><th>Used</th><th>You may</th></tr></thead>"
    "<tbody>{}</tbody></table>"
)
_QUOTA = Markup("<tr><td>{}</td><td>{}</td><td>{}</td></tr>")
_NAMES = {"bytes": "Stored", "documents": "Documents", "requests": "Requests in this minute"}
_NONE = Markup("<p>A key asks, which has no sessions.</p>")


def account_drawer() -> Callable[[Principal, Sequence[WebSession], Sequence[QuotaUse]], str]:
    """A function of who asks and of their sessions, which draws the page."""
    css = Markup((ASSETS / "login.css").read_text(encoding="utf-8").replace("SANS", SANS))  # noqa: S704

    def draw(me: Principal, sessions: Sequence[WebSession], quotas: Sequence[QuotaUse]) -> str:
        return _PAGE.format(
            css=css,
            name=clean(me.name),
            role=me.role.label,
            sessions=_sessions(sessions, me.session_id),
            quotas=_QUOTAS.format(join(map(_quota, quotas))),
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


def _quota(use: QuotaUse) -> Markup:
    def amount(count: int) -> str:
        return in_bytes(count) if use.quota == "bytes" else f"{count:,}"

    return _QUOTA.format(_NAMES[use.quota], amount(use.used), "any" if use.limit is None else amount(use.limit))


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
