"""Turns a User-Agent header into a readable name of browser and system."""

from __future__ import annotations

import re

# The first match wins, because other browsers also contain “Chrome” and “Safari”.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
_PROGRAM = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")


def browser_in_words(user_agent: str) -> str:
    """Such as “Firefox on Linux”; for a program just its name, such as “curl”."""
    header = user_agent[:1_000]
    browser = next((name for mark, name in _BROWSERS if mark in header), "")
    if not browser:
        program = _PROGRAM.match(header.partition("/")[0].strip())
        return program[0] if program and program[0] != "Mozilla" else "an unknown browser"
    system = next((name for mark, name in _SYSTEMS if mark in header), "")
    return f"{browser} on {system}" if system else browser
