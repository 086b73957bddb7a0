"""The account page of the current user: plain HTML with forms, without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from app.types.access import MIN_PASSWORD_CHARACTERS, ApiKey, Principal, Role, WebSession
from app.types.account_view import KEY_DAYS, AccountView
from app.types.quotas import QuotaUse
from ui.core_messages import translate_message
from ui.language import _, current_language, html, later, moment, ngettext, number
from ui.render.text import clean, join, shown_size
from ui.theme import ASSETS, SANS

_PAGE = (
    '<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>[[Your account]] · gircse-search</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style></head>'
    '<body class="wide"><main><p class="brand"><a href="/">gircse <span>search</span></a></p>'
    "<h1>{name}, {role}</h1>{error}<p>{rights} {collections}</p>{new_key}{password}{keys}{sessions}{quotas}"
    '<p class="hint"><a href="/">[[Back to the search]]</a></p></main></body></html>'
)
_ERROR = Markup('<p class="error" role="alert">{}</p>')
_CHANGE = (
    '<h2>[[Password]]</h2><form method="post" action="/account/password" class="fields"><input type="hidden" '
    'name="username" autocomplete="username" value="{name}"><div><label for="current">[[Current password]]</label>'
    '<input id="current" name="current" type="password" autocomplete="current-password" required maxlength="1000">'
    "</div><div>"
    '<label for="new">[[New password, at least {least} characters]]</label><input id="new" name="new" type="password" '
    'autocomplete="new-password" required minlength="{least}" maxlength="1000"></div><div><label for="again">'
    '[[New password again]]</label><input id="again" name="again" type="password" autocomplete="new-password" required '
    'minlength="{least}" maxlength="1000"></div><button type="submit">[[Change password]]</button></form>'
    '<p class="hint">[[This logs you out everywhere. API keys keep working.]]</p>'
)
_KEYS = (
    "<h2>[[API keys]]</h2><p class='hint'>[[Programs send a key instead of a password: {header}.]]</p>{list}"
    '<form method="post" action="/account/keys" class="fields"><div><label for="label">[[What the key is for]]</label>'
    '<input id="label" name="label" maxlength="80" autocomplete="off" required></div><div><label for="role">[[Role]]'
    '</label><select id="role" name="role">{roles}</select></div><div><label for="days">[[Valid for]]</label><select '
    'id="days" name="days">{days}</select></div><button type="submit">[[Create key]]</button></form>'
)
_KEY_TABLE = (
    "<table><thead><tr><th scope='col'>[[Key]]</th><th scope='col'>[[Role]]</th><th scope='col'>[[Created (UTC)]]</th>"
    "<th scope='col'>[[Expires (UTC)]]</th><td></td></tr></thead><tbody>{}</tbody></table>"
)
_KEY_ROW = (
    '<tr><th scope="row">{label} <code>{id}</code></th><td data-name="[[Role]]">{role}</td><td '
    'data-name="[[Created (UTC)]]">{created}</td><td data-name="[[Expires (UTC)]]">{expires}</td><td>'
    '<form method="post" action="/account/keys/revoke"><input type="hidden" name="key_id" value="{id}"><button '
    'type="submit" aria-label="[[Revoke {label}]]">[[Revoke]]</button></form></td></tr>'
)
_NEW_KEY = (
    '<div class="note" role="status"><label for="new-key">[[Your new key. Copy it now: it cannot be shown again.]]'
    '</label><input id="new-key" readonly value="{}" autofocus></div>'
)
_SESSIONS = (
    "<h2>[[Where you are logged in]]</h2><table><thead><tr><th scope='col'>[[Device]]</th>"
    "<th scope='col'>[[IP address]]</th><th scope='col'>[[Since (UTC)]]</th><th scope='col'>[[Last used]]</th>"
    "<td></td></tr></thead><tbody>{rows}</tbody></table>{others}"
)
_ROW = (
    '<tr><th scope="row">{browser}</th><td data-name="[[IP address]]">{address}</td><td data-name="[[Since (UTC)]]">'
    '{since}</td><td data-name="[[Last used]]">{used}</td><td>{end}</td></tr>'
)
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
_QUOTA = "<tr><th scope='row'>{}</th><td data-name='[[Used]]'>{}</td><td data-name='[[Limit]]'>{}</td></tr>"
_NAMES = {
    "bytes": later("Stored"),
    "documents": later("Documents"),
    "requests": later("Requests this minute"),
}
_ROLES = {Role.READER: later("reader"), Role.EDITOR: later("editor"), Role.ADMIN: later("admin")}
_RIGHTS = {
    Role.READER: later("You may search and read. An admin of this server can change your role."),
    Role.EDITOR: later("You may search, and add, change and delete documents and collections."),
    Role.ADMIN: later("You may do everything, and manage users on the command line: gircse users."),
}
_UNKNOWN = "an unknown browser"  # the core's text
_NONE = "<p>[[You use an API key. Keys have no sessions.]]</p>"


def account_drawer() -> Callable[[AccountView], str]:
    """Returns a function that renders the page."""
    css = Markup((ASSETS / "login.css").read_text(encoding="utf-8").replace("SANS", SANS))  # noqa: S704

    def draw(view: AccountView) -> str:
        me = view.me
        return html(_PAGE).format(
            language=current_language(),
            css=css,
            name=clean(me.name),
            role=_(_ROLES[me.role]),
            error=_ERROR.format(clean(translate_message(view.error))) if view.error else "",
            rights=_(_RIGHTS[me.role]),
            collections=_collections(me),
            new_key=html(_NEW_KEY).format(clean(view.new_key)) if view.new_key else "",
            password=html(_CHANGE).format(name=clean(me.name), least=MIN_PASSWORD_CHARACTERS)
            if view.has_password
            else "",
            keys="" if me.key_id else _keys(me, view.keys),
            sessions=_sessions(view.sessions, me.session_id),
            quotas=html(_QUOTAS).format(join(map(_quota, view.quotas))),
        )

    return draw


def _collections(me: Principal) -> Markup:
    if me.sees_everything:
        return html("[[All collections are open to you.]]")
    names = me.key_collections if "*" in me.collections else me.collections
    return html("[[Your collections: {}.]]").format(Markup(", ").join(map(clean, names)) or _("none"))


def _keys(me: Principal, keys: Sequence[ApiKey]) -> Markup:
    rows = join(
        html(_KEY_ROW).format(
            label=clean(key.label),
            id=clean(key.id),
            role=_(_ROLES[key.role]),
            created=moment(key.created_at),
            expires=moment(key.expires_at) if key.expires_at else _("never"),
        )
        for key in keys
    )
    return html(_KEYS).format(
        header=Markup("<code>Authorization: Bearer …</code>"),
        list=html(_KEY_TABLE).format(rows) if keys else "",
        roles=join(_option(role.label, _(_ROLES[role])) for role in Role if role <= me.role),
        days=join(
            _option(str(days), ngettext("{count} day", "{count} days", days).format(count=days)) for days in KEY_DAYS
        ),
    )


def _option(value: str, name: str) -> Markup:
    return Markup('<option value="{}">{}</option>').format(value, name)


def _sessions(sessions: Sequence[WebSession], current: str | None) -> Markup:
    if not sessions:
        return html(_NONE)
    rows = join(
        html(_ROW).format(
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

    return html(_QUOTA).format(
        _(_NAMES[use.quota]), amount(use.used), _("no limit") if use.limit is None else amount(use.limit)
    )
