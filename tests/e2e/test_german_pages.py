"""No text of the English pages is left on the German ones: what both show word for word is a name, or of a document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from browser import OpenPage
from gircse_program import Server
from page_application import EMPTY, LETTERS, PDF_PAGES, PDF_TITLE, TEXTS, PageApplication
from playwright.sync_api import Browser, expect

from app.search.lenses import STARTERS
from app.wiring import web

QUERY, JUDGED_QUERY = "I am angry about the ferry", "angry ferry"
EXAMPLES = [each.query for each in web.EXAMPLES]
PAGES = {  # each with what is there once it is complete
    f"/?q={QUERY}&c={LETTERS}&i={STARTERS[4].query_instruction}&v={'; '.join(STARTERS[4].values)}": "#passages mark",
    f"/?q=%20&c={LETTERS}": ".site-footer",
    f"/?c={LETTERS}": ".welcome",
    f"/compare?q={QUERY}&c1={LETTERS}&c2={LETTERS}&i1=-": "#comparison mark",
    "/compare": ".welcome",
    "/compare?q=x&c1=gone&k2=99": "[role=alert]",
    f"/documents?c={LETTERS}": "table.documents",
    "/saved": "#search-history li",
    f"/evaluate?c={LETTERS}": "#evaluate-report table",
    "/about": ".part.is-works",
}
# All that a person reads or hears, also in what is closed; but not the words of the model, addresses, commands, and
# what says that it is in another language.
_TEXTS = """() => {
  const found = new Set(), attributes = ['aria-label', 'title', 'placeholder', 'alt', 'data-confirm'];
  const add = (text) => { if (text?.trim()) found.add(text.trim().replace(/\\s+/g, ' ')); };
  const elsewhere = 'script, style, code, [lang=en]:not(html), .token, .thought, .every-step td, .hit-source';
  const isElsewhere = (node) => node.closest(elsewhere);
  for (const root of document.querySelectorAll('.site-header, #content, .site-footer')) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (!isElsewhere(walker.currentNode.parentElement)) add(walker.currentNode.data);
    for (const node of root.querySelectorAll('*:not(input[type=checkbox])')) { /* Gradio names those by their values */
      if (isElsewhere(node)) continue;
      attributes.forEach((name) => add(node.getAttribute(name)));
      if (node.matches('input[role=listbox]')) add(node.value);
    }
  }
  return [...found];
}"""
SAME_IN_GERMAN = {
    "the same word": ("Name", "Filter", "Export", "Index", "in", "ms", "Tab", "Esc"),
    "a name": ("gircse", "search", "gircse-search", "gircse-small", "Deutsch", "local"),
    "a part's name": ("Python", "torch", "transformers", "qdrant-client", "gradio"),
    "a measure": ("nDCG@10", "Recall@10", "Recall@100", "MRR@10", "Judged@10"),
    "a format": ("CSV", "JSON", "Markdown"),
}
"""By the reason."""
OF_A_DOCUMENT = [
    *(
        text
        for texts in TEXTS.values()
        for title, (body, metadata) in texts.items()
        for text in (title, body, *metadata)
    ),
    *(str(value) for texts in TEXTS.values() for _, metadata in texts.values() for value in metadata.values()),
    *(PDF_TITLE, *PDF_PAGES, *TEXTS, EMPTY, "harbour.pdf created modified pages"),
]
"""And names of collections and metadata."""
SENT_TO_THE_MODEL = [
    QUERY,
    JUDGED_QUERY,
    *EXAMPLES,
    *(text for lens in STARTERS for text in (lens.query_instruction, *lens.values)),
]
"""Queries, instructions and values are in the language of the documents."""


def test_no_english_text_is_left_on_a_german_page(chromium: Browser, page_application: PageApplication) -> None:
    server = page_application.server
    for document in server.ask(f"/api/v1/documents?collection={LETTERS}").body[:3]:
        judgement = {"document_id": document["id"], "query": JUDGED_QUERY, "instruction": "", "grade": 2}
        assert server.ask("/api/v1/judgements", judgement).status == 200
    evaluation = {"collection": LETTERS, "modes": ["dense", "hybrid"], "steps": [1, 2]}
    run = server.ask("/api/v1/evaluations", evaluation).body["id"]
    shown = {language: texts_of_pages(chromium, page_application, language, run) for language in ("en", "de")}
    known = " ".join([*OF_A_DOCUMENT, *SENT_TO_THE_MODEL, of_other_tests(server)]).lower()
    left = {
        text: page
        for page, texts in shown["de"].items()
        for text in texts & shown["en"][page]
        if re.search(r"(?<![\w+])[^\W\d_]{2}", text) and not is_allowed(text, known)
    }
    assert not left, "translate these, or say in SAME_IN_GERMAN why they are the same:\n" + "\n".join(
        f"{page}: {text}" for text, page in left.items()
    )


def of_other_tests(server: Server) -> str:
    """Lenses, searches and collections that they made."""
    own = {each.name for each in STARTERS}
    kept = [server.ask(f"/api/v1/{name}").body for name in ("saved-searches", "history", "collections")]
    kept.append([each for each in server.ask("/api/v1/lenses").body if each["name"] not in own])
    return json.dumps(kept, ensure_ascii=False)


def is_allowed(text: str, known: str) -> bool:
    is_same = any(re.sub(r"^[\d,.]+ | [\d,.]+$", "", text) in texts for texts in SAME_IN_GERMAN.values())
    return is_same or text.strip("… ").lower() in known


def texts_of_pages(chromium: Browser, application: PageApplication, language: str, run: str) -> Mapping[str, set[str]]:
    with chromium.new_context(locale=language) as context:
        opened = OpenPage(context.new_page(), application.url)
        found = {}
        for path, complete in PAGES.items():
            page = opened.go(f"{path}&run={run}" if path.startswith("/evaluate") else path)
            expect(page.locator(complete).first).to_be_attached()
            opened.wait_until_still()
            found[path] = set(page.evaluate(_TEXTS))
        return found
