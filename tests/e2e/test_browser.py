"""The judges of browser.py themselves: a page that does what no page may do is found out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browser import OpenPage, opened_page, violations
from page_application import PageApplication
from playwright.sync_api import BrowserContext

Open = Callable[..., OpenPage]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (
            "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.2:9/a.png'}))",
            "asked another machine",
        ),
        ("console.error('broken')", "the console says: broken"),
        ("setTimeout(() => { throw new Error('thrown') })", "uncaught: thrown"),
        ("setTimeout(() => alert('hello'))", "a dialog opened: hello"),
    ],
)
def test_what_no_page_may_do_fails_the_test(
    window: BrowserContext, page_application: PageApplication, script: str, error: str
) -> None:
    def misbehave() -> None:
        with opened_page(window, page_application.url) as opened:
            opened.page.goto(f"{opened.url}/healthz")
            opened.page.evaluate(script)
            opened.page.wait_for_timeout(300)

    with pytest.raises(AssertionError, match=error):
        misbehave()


def test_what_sticks_out_is_named(open_page: Open) -> None:
    opened = open_page()
    assert opened.overflows() == []
    opened.page.evaluate("document.querySelector('#content').innerHTML = '<p id=wide style=width:5000px>.</p>'")
    assert any(each.startswith("p#wide") for each in opened.overflows())
    opened.page.evaluate("document.querySelector('#wide').outerHTML = '<div id=box style=width:20px>unbreakable</div>'")
    assert [each for each in opened.overflows() if each.startswith("div#box")]
    opened.page.evaluate("document.body.style.width = '5000px'")
    assert opened.overflows()[0].startswith("the page is 5")


def test_what_only_a_mouse_can_press_is_named(open_page: Open) -> None:
    opened = open_page()
    assert opened.unreachable() == []
    for found in ("<span data-event=open>a</span>", "<button tabindex=-1 data-copy=x>b</button>"):
        opened.page.evaluate("html => document.querySelector('#content').insertAdjacentHTML('beforeend', html)", found)
    assert len(opened.unreachable()) == 2


def test_axe_judges_what_is_there_now(open_page: Open, axe: Callable[[OpenPage], None]) -> None:
    opened = open_page()
    axe(opened)
    opened.page.evaluate("document.querySelector('.site-header').insertAdjacentHTML('beforeend', '<button></button>')")
    with pytest.raises(AssertionError, match="critical button-name"):
        axe(opened)
    assert violations(opened.page)
