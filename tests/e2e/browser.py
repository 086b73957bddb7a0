"""A headless Chromium for the tests of the pages: what each page asked of whom, what it complained of, what fits.

Fixtures of conftest.py hand these out; a test opens pages with `open_page` and they are judged when it ends.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from patience import PATIENCE_S
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

# The headless shell is the same Chromium without a browser's own windows: it takes half the processor time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")
AXE_SCRIPTS = sorted(Path(sys.prefix).glob("axe-core-*/node_modules/axe-core/axe.min.js"))
TIMEOUT_MS = 1_000 * PATIENCE_S
RENDER_MS = 150
POLL_MS = 100  # each frame, as Playwright would, is work that delays what is waited for
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# What a page does is tested at one width, and at the other one with --long.
ON_DESKTOP = pytest.mark.parametrize(
    "size", [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone", marks=pytest.mark.long)]
)
ON_PHONE = pytest.mark.parametrize(
    "size", [pytest.param(DESKTOP, id="desktop", marks=pytest.mark.long), pytest.param(PHONE, id="phone")]
)
# Colours are judged by the theme and the layout by the width: two looks have all of both. By default each page has
# one of them, and --long gives it the other.
_DESKTOP_LIGHT = pytest.param(DESKTOP, False, id="desktop-light")
_PHONE_DARK = pytest.param(PHONE, True, id="phone-dark")
IN_THE_LIGHT = pytest.mark.parametrize(
    ("size", "is_dark"), [_DESKTOP_LIGHT, pytest.param(PHONE, True, id="phone-dark", marks=pytest.mark.long)]
)
IN_THE_DARK = pytest.mark.parametrize(
    ("size", "is_dark"), [pytest.param(DESKTOP, False, id="desktop-light", marks=pytest.mark.long), _PHONE_DARK]
)
# Gradio's complaints where a page is left while an answer is on its way.
_BROKEN_OFF = ("AbortError: signal is aborted", "Connection errored out")

# What sticks out of the screen, or out of the box that should hold it. Gradio's container cuts off whatever is too
# wide, so that the page itself never scrolls sideways: nobody could reach it.
_OVERFLOWS = """() => {
  const found = [];
  const name = (node) => node.nodeName.toLowerCase() + (node.id ? '#' + node.id : '')
    + (typeof node.className === 'string' && node.className ? '.' + node.className.trim().split(/\\s+/).join('.') : '');
  const content = document.querySelector('#content');
  const isHeld = (node) => {
    for (let at = node; at && !at.matches('.gradio-container'); at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.clipPath !== 'none') return true;
      if (at !== node && (style.overflowX !== 'visible' || at.nodeName === 'svg')) return true;
    }
    return false;
  };
  const width = document.documentElement.clientWidth;
  for (const node of document.querySelectorAll('body *')) {
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height || !node.checkVisibility({ visibilityProperty: true }) || box.right < 0) continue;
    if ((box.right > width + 1 || box.left < -1) && !isHeld(node)) {
      found.push(`${name(node)}: ${Math.round(box.left)} to ${Math.round(box.right)} of ${width}`);
    } else if (content.contains(node) && node.clientWidth && node.scrollWidth > node.clientWidth + 4
        && getComputedStyle(node).overflowX === 'visible' && !isHeld(node)) {
      found.push(`${name(node)}: ${node.scrollWidth} in ${node.clientWidth}`);
    }
  }
  for (const node of content.querySelectorAll('.gr-accordion')) {
    const isCut = node.scrollWidth > node.clientWidth && getComputedStyle(node).overflow !== 'visible';
    if (isCut && node.checkVisibility()) found.push(`${name(node)} has a scrollbar`);
  }
  for (const node of content.querySelectorAll('*')) {
    const isOver = getComputedStyle(node).position === 'fixed' && !node.closest('dialog, [popover], .options');
    if (isOver && node.checkVisibility({ visibilityProperty: true })) found.push(`${name(node)} lies over the page`);
  }
  const page = document.scrollingElement.scrollWidth;
  if (page > innerWidth + 1) found.unshift(`the page is ${page} wide on a screen of ${innerWidth}`);
  return found.slice(0, 12);
}"""

# What acts on a click and cannot be reached, or pressed, by keys. Compared passages light up under the mouse alone:
# their ranks say the same.
_UNREACHABLE = """() => [...document.querySelectorAll(`[data-event], [data-toggle], [data-copy], [data-format],
    [data-pick], [data-move], [data-undo], [data-language]:not(header), [data-close-dialog], [data-open-keys],
    [data-theme-switch], [popovertarget], [role=button]`)]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled
    && (!each.matches('button, a[href], input, select, summary, textarea, [role=button]') || each.tabIndex < 0))
  .map((each) => each.outerHTML.slice(0, 160))"""

# What someone who hears the page, or sees one of many tabs, finds their way by: headings, landmarks, labels, a title.
_STRUCTURE = """(name) => {
  const found = [];
  const isShown = (each) => each.checkVisibility({ visibilityProperty: true });
  const shown = (selector) => [...document.querySelectorAll(selector)].filter(isShown);
  const headings = shown('h1, h2, h3, h4, h5, h6');
  const tops = headings.filter((each) => each.matches('h1')).length;
  if (tops !== 1) found.push(`${tops} h1`);
  headings.forEach((each, at) => {
    const level = Number(each.nodeName[1]), before = at ? Number(headings[at - 1].nodeName[1]) : 0;
    if (level > before + 1) found.push(`h${level} after h${before}: ${each.textContent.trim()}`);
  });
  if (shown('main').length !== 1) found.push(`${shown('main').length} main`);
  for (const each of shown('nav')) if (!each.getAttribute('aria-label')) found.push('a nav without a name');
  for (const each of shown('input:not([type=hidden]), select, textarea')) {
    const named = (each.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id));
    const label = [each.ariaLabel, each.title, ...[...each.labels, ...named].map((one) => one?.textContent)];
    if (!label.some((one) => one?.trim())) found.push(`no label: ${each.outerHTML.slice(0, 160)}`);
  }
  const isNamed = document.title.includes(name) && document.title.includes('gircse-search');
  if (!isNamed) found.push(`title: ${document.title}`);
  if (!document.documentElement.lang) found.push('no language');
  return found;
}"""

# Chromium's layout shifts, of each page anew: what nobody caused by a key or a click moves. For add_init_script.
WATCH_SHIFTS = """(() => {
  window.layoutShifts = [];
  const name = (node) => !node ? '?' : node.nodeName.toLowerCase() + (node.id ? '#' + node.id : '')
    + (typeof node.className === 'string' ? '.' + node.className.split(' ').slice(0, 2).join('.') : '');
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) {
      if (!each.hadRecentInput) layoutShifts.push([each.value, each.sources.map((source) => name(source.node))]);
    }
  }).observe({ type: 'layout-shift', buffered: true });
})()"""
MOST_SHIFT = 0.05

# While an answer is on its way Gradio shows the last one faded.
_IS_STILL = """() => !document.querySelector('.generating, .pending, .is-unfinished, .is-searching, .is-opening') &&
  [...document.querySelectorAll('#content .block')].every((each) => {
    for (let at = each; at; at = at.parentElement) if (Number(getComputedStyle(at).opacity) < 1) return false;
    return true;
  })"""


class OpenPage:
    """A page of the service in the browser, and all that is wrong with it so far."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.asked_elsewhere: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self._expected_dialogs = 0
        self._is_leaving = False
        page.on("request", self._watch_request)
        page.on("console", self._watch_console)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("dialog", self._watch_dialog)

    def go(self, path: str = "/") -> Page:
        self._is_leaving = True
        self.page.goto(self.url + path)
        self._is_leaving = False
        self.page.locator(".site-header").wait_for()
        self.page.locator(".site-footer").wait_for()
        return self.page

    def follow(self, link: Locator) -> None:
        """A click on a link to another page."""
        self._is_leaving = True
        with self.page.expect_navigation():
            link.click()
        self._is_leaving = False
        self.page.locator(".site-footer").wait_for()

    @contextmanager
    def loading_again(self) -> Iterator[None]:
        """A step through the history that loads the page again: it breaks off what the old one waits for."""
        self._is_leaving = True
        yield
        self._is_leaving = False

    def close(self) -> None:
        self._is_leaving = True
        self.page.close()

    def accept_next_dialog(self) -> None:
        """The question that the next click asks is answered with yes; any other dialog is a fault."""
        self._expected_dialogs += 1

    def wait_until_still(self) -> None:
        """Until no answer is on its way; one look could fall between two handlers of a chain."""
        for _ in range(2):
            self.page.wait_for_function(_IS_STILL, polling=POLL_MS)
            self.page.wait_for_timeout(RENDER_MS)
        self.page.wait_for_function(_IS_STILL, polling=POLL_MS)

    def search(self, query: str) -> None:
        """Types and sends a query on the search page, until its passages are complete."""
        self.page.get_by_label("Search for").fill(query)
        self.page.get_by_label("Search for").press("Enter")
        expect(self.page.locator("#passages .summary").first).to_be_visible()
        expect(self.page.locator("#passages mark").first).to_be_visible()
        self.wait_until_still()

    def judge_shifts(self) -> None:
        """Nothing may have jumped since the page was opened, where WATCH_SHIFTS was added before."""
        shifts = self.page.evaluate("layoutShifts")
        assert sum(value for value, _ in shifts) < MOST_SHIFT, (self.page.url, shifts)

    def overflows(self) -> list[str]:
        """What is wider than the screen, by selector."""
        return list(self.page.evaluate(_OVERFLOWS))

    def unreachable(self) -> list[str]:
        """What only a mouse can press."""
        return list(self.page.evaluate(_UNREACHABLE))

    def faults(self) -> list[str]:
        return [
            *(f"asked another machine: {each}" for each in self.asked_elsewhere),
            *(f"the console says: {each}" for each in self.complaints),
            *(f"a dialog opened: {each}" for each in self.dialogs),
        ]

    def _watch_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and f"{address.scheme}://{address.netloc}" != self.url:
            self.asked_elsewhere.append(request.url[:200])

    def _watch_console(self, message: ConsoleMessage) -> None:
        is_broken_off = self._is_leaving and any(each in message.text for each in _BROKEN_OFF)
        if message.type == "error" and not is_broken_off:
            self.complaints.append(f"{message.text[:500]} ({message.location.get('url', '')[:200]})")

    def _watch_dialog(self, dialog: Dialog) -> None:
        if self._expected_dialogs:
            self._expected_dialogs -= 1
            dialog.accept()
        else:
            self.dialogs.append(dialog.message[:200])
            dialog.dismiss()


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Its windows share a process: each of its own would compile all of the page's scripts anew."""
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--renderer-process-limit=1"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@contextmanager
def opened_page(
    context: BrowserContext, url: str, *, size: ViewportSize = DESKTOP, is_dark: bool = False
) -> Iterator[OpenPage]:
    """A window without animations and without memory. Raises AssertionError at the end where the page misbehaved."""
    holder = context.pages[0] if context.pages else context.new_page()  # of the process, until the context ends
    holder.goto(f"{url}/healthz")
    holder.evaluate("localStorage.clear()")
    context.clear_cookies()
    page = context.new_page()
    page.set_viewport_size(size)
    page.emulate_media(color_scheme="dark" if is_dark else "light", reduced_motion="reduce")
    page.set_default_timeout(TIMEOUT_MS)
    opened = OpenPage(page, url)
    try:
        yield opened
    finally:
        opened.close()
    assert not opened.faults(), "\n".join(opened.faults())


def structure_faults(page: Page, name: str) -> list[str]:
    """What is wrong with the headings, landmarks, labels and title, which includes `name`."""
    return list(page.evaluate(_STRUCTURE, name))


def violations(page: Page) -> list[str]:
    """What axe-core finds, however grave: rule, what to do, and the first elements."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE_SCRIPTS[-1].read_text(encoding="utf-8"))
    answer: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['impact']} {rule['id']}: {rule['help']}\n" + "\n".join(_describe(node) for node in rule["nodes"][:6])
        for rule in answer["violations"]
    ]


def _describe(node: dict[str, Any]) -> str:
    reason = next((line.strip() for line in reversed(node["failureSummary"].splitlines()) if line.strip()), "")
    return f"    {node['target']}\n        {node['html'][:160]}\n        {reason}"
