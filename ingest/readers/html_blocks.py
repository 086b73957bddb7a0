"""The text of an HTML tree as a browser shows it: one block per paragraph, list item, heading, table row and
listing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import lxml.html
from lxml import etree
from lxml.html import HtmlElement

from app.types.texts import NAVIGATION
from ingest.readers.formulas import linear_mathml
from ingest.readers.html_lists import ItemNumbers
from ingest.readers.html_tables import data_table, table_rows
from ingest.readers.parts import Block
from ingest.readers.text import raised

INVISIBLE = {
    *("script", "style", "template", "noscript", "head", "iframe", "object", "embed", "canvas", "audio", "video"),
    *("datalist", "rp", "rt", "annotation", "annotation-xml", "param", "source", "track", "noframes"),
}
BLOCKS = {
    *(
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
    ),
    *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
    *("hgroup", "hr", "html", "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option", "p"),
    *("plaintext", "pre", "search", "section", "summary", "table", "tbody", "td", "textarea", "tfoot", "th", "thead"),
    *("tr", "ul", "xmp", "text", "foreignobject"),
}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PREFORMATTED = {"pre", "listing", "plaintext", "xmp", "textarea"}
_CONTROLS = {"button", "input", "select", "textarea", "label", "meter", "output", "progress"}
# Elements around the content of a page; inside an article they belong to it.
_AROUND = {"nav", "footer"}
_AROUND_ROLES = {"navigation", "contentinfo", "menubar", "menu"}
_WITHIN = {"article", "blockquote", "section"}
_SHOWN_VALUES = {"text", "search", "tel", "url", "email", "number", "date", "time", "month", "week", "datetime-local"}
_LABELS = {"submit": "Submit", "reset": "Reset", "button": ""}
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)
_INVISIBLE_STYLE = re.compile(r"^(?!.*display\s*:\s*none).*visibility\s*:\s*(?:hidden|collapse)", re.I | re.DOTALL)
_VISIBLE_STYLE = re.compile(r"visibility\s*:\s*visible", re.IGNORECASE)
_MOST_SHOWN_WITHIN = 8
_BLOCK_STYLE = re.compile(r"display\s*:\s*(?:block|flex|grid|list-item|table)\b", re.IGNORECASE)
_PRE_STYLE = re.compile(r"white-space\s*:\s*(?:pre|break-spaces)", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\n\r\f\xa0]+")
_LINE_ENDS = re.compile(r" *\n *")
_WORD = re.compile(r"\w")
_FILE_NAME = re.compile(r"\S+\.(?:png|jpe?g|gif|svg|webp|bmp)", re.IGNORECASE)
_IN_RUBY = ("rb", "rp", "rt", "rtc")
_QUOTES = tuple('"“”„«»')
_FORMULA_CLASS = re.compile(r"MathJax(?!_Preview)|mjx", re.IGNORECASE)
_LEVELS_AROUND = 6  # above a picture, where a figure or link may repeat its text
_MOST_INSIDE = 50  # elements: a figure or link with more holds more than the text of its picture
_MOST_AROUND = 0.8  # share of a page's characters: if menus have more, the page has no other content


def blocks_of(root: HtmlElement) -> list[Block]:
    """The blocks in page order. Menus and footers of the page have the level NAVIGATION."""
    blocks = list(_Walk(root).blocks())
    around = sum(len(block.text) for block in blocks if block.level == NAVIGATION)
    if around > _MOST_AROUND * sum(len(block.text) for block in blocks):
        return [Block(block.text) if block.level == NAVIGATION else block for block in blocks]
    return blocks


def lines_of(element: HtmlElement) -> list[str]:
    """The text blocks in `element`, for example in a table cell."""
    return [block.text for block in _Walk(element).blocks()]


class _Walk:
    """Walks a tree once, without recursion: pages may be nested thousands of levels deep."""

    def __init__(self, root: HtmlElement, depth: int = 0) -> None:
        """`depth`: number of hidden elements around it that hold shown ones."""
        self._root = root
        self._depth = depth
        self._texts: list[str] = []
        self._around: HtmlElement | None = None  # the menu or footer that contains the current element
        self._listing: HtmlElement | None = None
        self._heading: tuple[HtmlElement, int] | None = None
        self._numbers = ItemNumbers()
        self._number = ""  # of the list item whose text has not begun
        self._is_text = False  # whether the heading holds more than pictures
        self._texts_around: dict[HtmlElement, str] = {}  # of figures and links that hold pictures
        self._readings: list[str] = []  # of the signs in the current paragraph (ruby)

    def blocks(self) -> Iterator[Block]:
        walk = etree.iterwalk(self._root, events=("start", "end"))
        for event, element in walk:
            if not isinstance(element.tag, str):
                continue
            if event == "start":
                is_hidden = element is not self._root and _is_hidden(element)
                if is_hidden or (element is not self._root and _is_invisible(element)):
                    yield from self._shown_within(element) if is_hidden else self._instead(element)
                    walk.skip_subtree()
                    continue
                yield from self._enter(element)
                if element.tag == "table" and element is not self._root and (rows := self._rows(element)) is not None:
                    yield from rows
                    walk.skip_subtree()
                elif element.tag == "math" and element is not self._root:
                    self._texts.append(linear_mathml(element))
                    walk.skip_subtree()
                elif element.tag == "select":
                    self._add_chosen(element)
                    walk.skip_subtree()
            else:
                yield from self._leave(element)
                if element is not self._root:
                    self._add(element.tail)
        yield from self._flush()

    def _shown_within(self, hidden: HtmlElement) -> Iterator[Block]:
        """The blocks of elements that are shown although `hidden` is not: visibility, unlike display, may be undone."""
        if self._depth < _MOST_SHOWN_WITHIN and _INVISIBLE_STYLE.search(hidden.get("style", "")):
            walk = etree.iterwalk(hidden, events=("start",))
            for _, element in walk:
                style = element.get("style", "")
                if _VISIBLE_STYLE.search(style) and not _HIDDEN_STYLE.search(style):
                    yield from self._flush()
                    yield from _Walk(element, self._depth + 1).blocks()
                    walk.skip_subtree()
                elif element is not hidden and _is_hidden(element) and not _INVISIBLE_STYLE.search(style):
                    walk.skip_subtree()

    def _instead(self, element: HtmlElement) -> Iterator[Block]:
        """The content that an invisible element has in another form: a frame's own page, a formula, a reading."""
        if element.tag == "iframe" and (page := element.get("srcdoc", "").strip()):
            yield from self._flush()
            with suppress(etree.ParserError):  # without elements
                yield from blocks_of(_page_in_frame(page))
        elif element.tag == "script" and element.get("type", "").lower().startswith("math/tex"):
            if not _is_shown_formula(element.getprevious()):
                self._add(f" {element.text or ''} ")
        elif element.tag in ("rt", "rp"):  # without end tags they contain each other
            texts = (
                rt.text if any(inner.tag in _IN_RUBY for inner in rt) else rt.text_content()
                for rt in element.iter("rt")
            )
            for sign in element.iter("rb"):
                self._add(sign.text)
            self._readings += ("".join(text.split()) for text in texts if text)

    def _rows(self, table: HtmlElement) -> list[Block] | None:
        """The blocks of a data table. None for a layout table and inside a menu, where all blocks are joined."""
        grid = None if self._around is not None else data_table(table)
        if grid is None:
            return None
        captions = [Block(text) for caption in table.iterfind("caption") for text in lines_of(caption)]
        return captions + list(table_rows(grid, lines_of))

    def _enter(self, element: HtmlElement) -> Iterator[Block]:
        tag = element.tag
        if _is_block(element):
            yield from self._break(element)
        if self._around is None and _is_around(element):
            self._around = element
        if self._listing is None and (tag in _PREFORMATTED or _PRE_STYLE.search(element.get("style", ""))):
            self._listing = element
        if self._heading is None and (level := _heading_level(element)):
            self._heading = element, level
            self._is_text = any(text.strip() for text in element.itertext())
        if tag == "li":
            is_line = self._listing not in (None, element)  # of program text
            self._number = "" if is_line or self._around is not None else self._numbers.before(element)
        if tag == "br":
            self._texts.append("\n")
        elif tag == "q" and not _has_quotes(element):
            self._add("“")
        elif tag == "img":
            self._add_alternative(element)
        elif tag in _CONTROLS:
            self._texts.append(" ")
            self._texts.append(_shown_value(element))
        if tag not in ("select", "br", "math"):
            is_raised = tag == "sup" and not len(element)
            self._add(raised(element.text or "") if is_raised else element.text)

    def _leave(self, element: HtmlElement) -> Iterator[Block]:
        if element is self._around:
            yield from self._flush()
            self._around = None
        elif _is_block(element):
            yield from self._break(element)
        elif element.tag in _CONTROLS:
            self._texts.append(" ")
        elif element.tag == "q" and not _has_quotes(element):
            self._add("”")
        if element.tag == "li":
            self._number = ""
        if element is self._listing:
            self._listing = None
        if self._heading and element is self._heading[0]:
            self._heading = None

    def _break(self, element: HtmlElement) -> Iterator[Block]:
        """Ends a paragraph. Inside a menu, heading or listing it ends only the line."""
        is_inside = any(outer is not None and outer is not element for outer in (self._around, self._listing))
        if is_inside or (self._heading and self._heading[0] is not element):
            if self._texts and not self._texts[-1].endswith("\n"):
                self._texts.append("\n")
        else:
            yield from self._flush()

    def _add(self, text: str | None) -> None:
        if text:
            text = text.replace("\xad", "")
            if self._number and (begin := text.lstrip()):
                if not re.match(rf"{re.escape(self._number[:-1])}[.):](?:\s|$)", begin):  # it has numbers of its own
                    self._texts.append(f"{self._number} ")
                self._number = ""
            self._texts.append(text if self._listing is not None else _SPACES.sub(" ", text))

    def _add_alternative(self, picture: HtmlElement) -> None:
        """The text of a picture, unless it is a file name, or the page has it beside the picture.

        A heading without words holds a logo, which names the site rather than the page.
        """
        text = " ".join(picture.get("alt", "").split())
        if not text or _FILE_NAME.fullmatch(text) or (self._heading and not self._is_text):
            return
        around = (above for above in islice(picture.iterancestors(), _LEVELS_AROUND) if above.tag in ("figure", "a"))
        if all(self._text_around(element) != text for element in around):
            self._add(f" {text} ")

    def _text_around(self, element: HtmlElement) -> str:
        if element not in self._texts_around:
            is_small = sum(1 for _ in islice(element.iter(), _MOST_INSIDE + 1)) <= _MOST_INSIDE
            self._texts_around[element] = " ".join("".join(element.itertext()).split()) if is_small else ""
        return self._texts_around[element]

    def _add_chosen(self, select: HtmlElement) -> None:
        options = list(select.iter("option"))
        chosen = [option for option in options if option.get("selected") is not None] or options
        self._texts.append(", ".join(filter(None, (" ".join(option.text_content().split()) for option in chosen))))
        self._texts.append(" ")

    def _flush(self) -> Iterator[Block]:
        raw, self._texts = "".join(self._texts), []
        if self._listing is not None and self._around is None:
            text = "\n".join(line.rstrip() for line in raw.strip("\n").split("\n"))
        else:
            text = _LINE_ENDS.sub("\n", re.sub(" {2,}", " ", raw)).strip()
        readings, self._readings = " ".join(self._readings), []
        if not text.strip():
            return
        if self._around is not None:
            yield Block(re.sub("\n+", "\n", text), NAVIGATION)
        elif self._heading is not None:
            yield Block(" ".join(text.split()), self._heading[1])
        elif self._listing is not None:
            yield Block(text)
        else:
            yield from map(Block, filter(_WORD_OR_SIGN.search, re.split("\n{2,}", text)))
        if readings:
            yield Block(readings)


_WORD_OR_SIGN = re.compile(r"\S")


def _is_invisible(element: HtmlElement) -> bool:
    """Whether a browser shows no content of such an element. Of a component (shadow root) it shows the template."""
    is_component = element.tag == "template" and "shadowrootmode" in element.attrib
    return element.tag in INVISIBLE and not is_component


def _page_in_frame(page: str) -> HtmlElement:
    """As bytes: lxml refuses text that declares an encoding."""
    parser = lxml.html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    return lxml.html.document_fromstring(page.encode("utf-8"), parser=parser)


def _is_shown_formula(element: HtmlElement | None) -> bool:
    """Whether MathJax wrote it, before the source of the formula, and with signs rather than as a drawing."""
    if element is None or not any(map(_FORMULA_CLASS.match, element.get("class", "").split())):
        return False
    return any(text.strip() for text in element.itertext())


def _has_quotes(element: HtmlElement) -> bool:
    """Whether its text begins with a quote mark, perhaps in an element of its own."""
    first = element[0].text if len(element) and not (element.text or "").strip() else element.text
    return (first or "").lstrip().startswith(_QUOTES)


def _is_block(element: HtmlElement) -> bool:
    return element.tag in BLOCKS or bool(_BLOCK_STYLE.search(element.get("style", "")))


def _is_hidden(element: HtmlElement) -> bool:
    attributes = element.attrib
    if not attributes:
        return element.tag == "dialog"
    if "note" in attributes.get("epub:type", ""):  # books show notes when their reference is pressed
        return False
    return (
        ("hidden" in attributes and attributes["hidden"] != "until-found")
        or (element.tag == "input" and attributes.get("type", "").lower() == "hidden")
        or (element.tag == "dialog" and "open" not in attributes)
        or bool(_HIDDEN_STYLE.search(attributes.get("style", "")))
    )


def _is_around(element: HtmlElement) -> bool:
    if element.tag not in _AROUND and element.get("role", "") not in _AROUND_ROLES:
        return False
    return element.tag == "nav" or not any(above.tag in _WITHIN for above in element.iterancestors())


def _heading_level(element: HtmlElement) -> int:
    if level := _HEADINGS.get(element.tag):
        return level
    if element.get("role", "") == "heading":
        level_text = element.get("aria-level", "2")
        return min(max(int(level_text), 1), 6) if level_text.isdecimal() else 2
    return 0


def _shown_value(element: HtmlElement) -> str:
    """The text that a form control shows besides its content: its value, label or check mark."""
    if element.tag != "input":
        return ""
    kind = element.get("type", "text").lower()
    if kind in ("checkbox", "radio"):
        return "☑ " if element.get("checked") is not None else "☐ "
    if kind in _LABELS:
        return element.get("value", _LABELS[kind])
    if kind in _SHOWN_VALUES or kind not in ("password", "file", "image", "color", "range", "hidden"):
        return element.get("value") or element.get("placeholder", "")
    return ""
