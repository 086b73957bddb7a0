"""HTML as a browser reads it: its tags and attributes, its text, and whether any of it could run or fetch."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import strategies as st

HARMLESS_TAGS = {
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "b", "q", "em", "strong", "span", "a", "div", "ul", "ol", "li", "dl",
    "dt", "dd", "article", "section", "mark", "details", "summary", "table", "thead", "tbody", "tr", "th", "td",
    "button", "kbd", "code", "pre", "blockquote", "hr", "br", "figure", "figcaption", "svg", "title", "g", "line",
    "polyline", "circle", "path", "text",
}  # fmt: skip
HARMLESS_ATTRIBUTES = {
    "class", "role", "lang", "dir", "id", "title", "href", "target", "rel", "aria-label", "aria-hidden", "scope",
    "type", "name", "tabindex", "start", "open", "data-walk", "data-event", "data-action", "data-subject", "data-value",
    "data-pair", "popover", "popovertarget", "popovertargetaction", "viewbox", "x", "y", "x1", "x2", "y1", "y2", "cx",
    "cy", "r", "d", "points", "text-anchor", "width", "height",
}  # fmt: skip

HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '" onmouseover="alert(1)',
            "' onfocus='alert(1)' autofocus='",
            "</p></li><img src=x onerror=alert(1)>",
            "javascript:alert(1)",
            "https://a.example/\"><svg onload='alert(1)'>",
            "&lt;script&gt;",
            "{0.__class__} {} %s",
            "\u202eabc\u2066\u200b",
            "\x00\x1b\ud800",
        ]
    ),
)


class Seen(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.texts: list[str] = []
        self.feed(str(html))  # Markup would escape what is added to it
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data
        self.texts.append(data.strip())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [each for _, each in self.tags if name in (each.get("class") or "").split()]


def assert_harmless(html: str) -> None:
    html.encode("utf-8")
    assert "\x00" not in html
    for tag, attributes in Seen(html).tags:
        assert tag in HARMLESS_TAGS
        assert set(attributes) <= HARMLESS_ATTRIBUTES
        assert (attributes.get("href") or "#").startswith(("#", "/", "http://", "https://"))
        assert not (attributes.get("href") or "").startswith("//")
