"""The login page: plain HTML, because other assets require a login."""

from __future__ import annotations

from urllib.parse import quote

from markupsafe import Markup

from app.types.account_view import DrawLogin
from ui.core_messages import translate_message
from ui.language import current_language, html
from ui.render.text import clean
from ui.theme import ASSETS, SANS

_PAGE = (
    '<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>[[Log in]] · gircse-search</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style></head>'
    '<body class="login"><main><p class="brand">gircse <span>search</span></p><h1>[[Log in]]</h1>{changed}{error}'
    "{sign_in}"
    '<form method="post" action="/login"><input type="hidden" name="next" value="{next}">'
    '<label for="name">[[Name]]</label><input id="name" name="name" autocomplete="username" autocapitalize="none" '
    'spellcheck="false" required maxlength="100" value="{name}"{focus_name}>'
    '<label for="password">[[Password]]</label><input id="password" name="password" type="password" '
    'autocomplete="current-password" required maxlength="1000"{focus_password}><button type="submit">'
    "[[Log in]]</button></form>"
    '<p class="hint">[[First login: {admin}. The password is in the file that the server names at startup.]]'
    "</p></main></body></html>"
)
# A link: the page's form-action policy would block a form that redirects to the provider.
_SIGN_IN = (
    '<a class="button" href="/login/openid?next={next}">[[Sign in with {label}]]</a>'
    '<p class="or" aria-hidden="true">[[or]]</p>'
)
_CHANGED = '<p class="note" role="status">[[Your password was changed. Log in with the new one.]]</p>'
_FOCUS = Markup(" autofocus")
_ERROR = Markup('<p class="error" role="alert">{}</p>')


def login_drawer(*, sign_in: str | None = None) -> DrawLogin:
    """Returns a function that renders the page. `sign_in` is the label of the external sign-in provider, if any."""
    css = Markup((ASSETS / "login.css").read_text(encoding="utf-8").replace("SANS", SANS))  # noqa: S704

    def draw(next_path: str, error: str, *, name: str = "", is_changed: bool = False) -> str:
        said = _ERROR.format(clean(translate_message(error))) if error else ""
        by = ""
        if sign_in:
            by = html(_SIGN_IN).format(label=clean(sign_in), next=quote(next_path, safe=""))
        return html(_PAGE).format(
            language=current_language(),
            css=css,
            error=said,
            sign_in=by,
            next=clean(next_path),
            changed=html(_CHANGED) if is_changed else "",
            name=clean(name),
            focus_name="" if name else _FOCUS,
            focus_password=_FOCUS if name else "",
            admin=Markup("<b>admin</b>"),
        )

    return draw
