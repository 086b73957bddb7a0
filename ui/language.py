"""The language of the pages. Texts in the code are English; `ui/languages/` has translations. A context variable holds
the language of the current request."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from io import BytesIO
from pathlib import Path

from babel.core import Locale, negotiate_locale
from babel.dates import format_datetime
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal, format_percent
from markupsafe import Markup, escape
from starlette.requests import cookie_parser

FOLDER = Path(__file__).parent / "languages"
COOKIE = "gircse-language"
ENGLISH, AUTOMATIC = "en", "auto"
MAX_HEADER_CHARS = 1_000
MARKED = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)
"""Where a text stands in a template of HTML."""

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


def languages() -> list[str]:
    """English and every language that has a file."""
    return sorted({ENGLISH, *(each.stem for each in FOLDER.glob("*.po"))})


def name_of_language(language: str) -> str:
    """The name of the language in the language itself."""
    return (Locale.parse(language, sep="-").get_display_name(language.replace("-", "_")) or language).capitalize()


def current_language() -> str:
    return _language.get()


@contextmanager
def speaking(language: str) -> Iterator[None]:
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def choose_language(headers: Mapping[str, str], default: str = AUTOMATIC) -> str:
    """The language of a request: from the language switch, else the default, else the browser, else English."""
    offered = languages()
    chosen = cookie_parser(headers.get("cookie", "")).get(COOKIE)
    if chosen in offered:
        return chosen
    if default in offered:
        return default
    wanted = _accepted(headers.get("accept-language", "")[:MAX_HEADER_CHARS])
    return negotiate_locale(wanted, offered, sep="-") or ENGLISH


def _accepted(header: str) -> list[str]:
    """Language tags of an Accept-Language header, most preferred first."""
    found = re.findall(r"([A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*)\s*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*(?:,|$)", header)
    ordered = sorted(found, key=lambda each: -float(each[1] or 1))
    return [tag for tag, quality in ordered if float(quality or 1) > 0]


def read_catalog(language: str) -> Catalog:
    with (FOLDER / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language.replace("-", "_"))


@cache
def script_texts(language: str) -> dict[str, str]:
    """Translations of the texts in page scripts, by English text."""
    if language == ENGLISH:
        return {}
    found = (each for each in read_catalog(language) if any(path.endswith(".js") for path, _line in each.locations))
    return {str(each.id): str(each.string) for each in found}


@cache
def _translations(language: str) -> gettext.NullTranslations:
    if language == ENGLISH:
        return gettext.NullTranslations()
    compiled = BytesIO()
    write_mo(compiled, read_catalog(language))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)


def _(text: str) -> str:
    """Translates a text. Call it with a literal: scripts/make_texts.py collects literals for the language files."""
    return (
        _translations(_language.get()).gettext(text) if text else ""
    )  # gettext translates the empty text to the file header


def ngettext(one: str, many: str, count: int) -> str:
    return _translations(_language.get()).ngettext(one, many, count)


def later(text: str) -> str:
    """Marks a constant's text for translation; call `_` when displaying it."""
    return text


def html(template: str) -> Markup:
    """Translates the texts in double brackets. All visible words of a template must be in such brackets."""
    return Markup(MARKED.sub(lambda found: str(escape(_(found[1]))), template))  # noqa: S704


def number(value: float, digits: int | None = None) -> str:
    """Formats a number for the language. `digits` fixes the decimal places; by default all are shown."""
    form = None if digits is None else "0." + "0" * digits
    return format_decimal(value, form, locale=_language.get().replace("-", "_"))


def percent(share: float) -> str:
    return format_percent(
        share, "#,##0%" if _language.get() == ENGLISH else None, locale=_language.get().replace("-", "_")
    )


def moment(at: datetime) -> str:
    if _language.get() == ENGLISH:
        return f"{at:%Y-%m-%d %H:%M}"
    return format_datetime(at, "short", locale=_language.get().replace("-", "_"))
