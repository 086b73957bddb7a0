"""Atom feeds (RFC 4287) with the matches of a standing search. Document text is always escaped plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement, tostring

from app.types.standing import News, StandingSearch

_ATOM = "http://www.w3.org/2005/Atom"
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TITLE = 120


def atom_feed(search: StandingSearch, news: Sequence[News], *, address: str, page: str) -> bytes:
    feed = Element("feed", {"xmlns": _ATOM})
    _add(feed, "id", f"urn:uuid:{search.id}")
    _add(feed, "title", search.name)
    _add(feed, "updated", _moment(news[0].matched_at if news else search.since))
    SubElement(feed, "link", {"rel": "self", "href": address})
    SubElement(feed, "link", {"href": page})
    SubElement(SubElement(feed, "author"), "name").text = "gircse-search"
    for match in news:
        entry = SubElement(feed, "entry")
        # Made of search and chunk, so that a feed reader shows each passage once, however often it polls.
        _add(entry, "id", f"tag:gircse-search,2026:{search.id}/{match.chunk_id}")
        _add(entry, "title", (match.title or match.uri or search.name)[:_TITLE])
        _add(entry, "updated", _moment(match.matched_at))
        SubElement(entry, "link", {"href": match.uri if match.uri.startswith(("http://", "https://")) else page})
        _add(entry, "content", match.text).set("type", "text")
    xml: bytes = tostring(feed, encoding="utf-8", xml_declaration=True)
    return xml


def _add(parent: Element, name: str, text: str) -> Element:
    element = SubElement(parent, name)
    element.text = _NOT_XML.sub("�", text)
    return element


def _moment(at: datetime) -> str:
    return at.isoformat()
