"""Documents, names and words of somebody who wants to run scripts, fetch something, or break the layout."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Sequence

import docx
import openpyxl
from page_application import EMPTY, LETTERS, RECIPES, PageApplication
from reportlab.pdfgen.canvas import Canvas

from app.types.documents import MAX_METADATA_CHARACTERS

HOSTILE = "hostile"
ELSEWHERE = "https://attacker.invalid"

SCRIPTS = (
    "<script>window.attacked='script'</script>",
    "<img src=x onerror=\"window.attacked='error'\">",
    "<svg onload=\"window.attacked='svg'\"><animate onbegin=window.attacked=1 attributeName=x dur=1s /></svg>",
    "<iframe srcdoc=\"<script>parent.attacked='frame'</script>\"></iframe>",
    "<details open ontoggle=\"window.attacked='toggle'\"><summary>x</summary></details>",
    "<input autofocus onfocus=\"window.attacked='focus'\">",
    '" onmouseover="window.attacked=\'mouse\'" autofocus onfocus="window.attacked=\'attribute\'" x="',
    "' onfocus='window.attacked=1' autofocus '",
    "</textarea></title></style></script><script>window.attacked='closed'</script>",
    "</p></li></ol></article></section></main></div></dialog><h1>Broken out</h1><!--",
    "<math><mtext><table><mglyph><style><img src onerror=window.attacked='mutation'></style></mglyph></table></math>",
    "${window.attacked='template'} {{window.attacked='braces'}} {value} {0} %s #{1+1} <%= 1 %> `${1}`",
    "<form action=javascript:window.attacked=1><button>Search</button></form>",
)
LINKS = (
    "javascript:window.attacked='link'",
    "JaVaScRiPt:window.attacked=1//https://example.org",
    "java\tscript:window.attacked=1",
    "data:text/html,<script>window.attacked='data'</script>",
    "[Read more](javascript:window.attacked='markdown') ![picture](https://attacker.invalid/markdown.png)",
    "<a href=\"javascript:window.attacked='anchor'\">Read more</a>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "//attacker.invalid/path",
    "https://attacker.invalid/\"><img src=x onerror=window.attacked='quoted'>",
)
FETCHES = (
    f"<img src={ELSEWHERE}/a.png srcset='{ELSEWHERE}/b.png 2x'><video poster={ELSEWHERE}/c.png src={ELSEWHERE}/d.mp4>",
    f"<link rel=stylesheet href={ELSEWHERE}/e.css><link rel=preload as=image href={ELSEWHERE}/f.png>",
    f"<style>@import url({ELSEWHERE}/g.css); * {{ display: none; background: url({ELSEWHERE}/h.png) }}</style>",
    f"<base href={ELSEWHERE}/><meta http-equiv=refresh content='0;url={ELSEWHERE}/'>",
    f"<object data='{ELSEWHERE}/i'></object><embed src='{ELSEWHERE}/j'><iframe src='{ELSEWHERE}/k'></iframe>",
    f"<svg><image href={ELSEWHERE}/l.png /><use href={ELSEWHERE}/m.svg#x /></svg>",
    f"}} * {{ background: url({ELSEWHERE}/n.png) }} /* expression(window.attacked=1)",
    f"<p style='position:fixed;inset:0;z-index:9999;background:url({ELSEWHERE}/o.png)'>You have been logged out</p>",
)
LAYOUT = (
    "\u202eright to left without an end \u2066isolated \u2067and back",
    "zero\u200bwidth\u200cjoined\u200dnothing\ufeff\u2060here\u00ad\u034f",
    "\u0301\u0300" * 400 + "marks on marks",
    "\ufdfd" * 60 + "\U00012031" * 40 + "\u4e00" * 120,
    "\u0633\u0644\u0627\u0645 \u05e9\u05dc\u05d5\u05dd 123 abc \u0633",
    "tab\ttab\r\nline\u2028separator\u2029paragraph\x0bvertical\x1b[31mred\x07",
    "\N{FAMILY}\U0001f468\u200d\U0001f469\u200d\U0001f467" * 40,
)
ATTACKS: Sequence[str] = (*SCRIPTS, *LINKS, *FETCHES, *LAYOUT)
LONG_WORD = "W" * 50_000
LONG_VALUE = LONG_WORD[: MAX_METADATA_CHARACTERS - 1_000]
MAX_TITLE, MAX_LENS_NAME = 1000, 80

FILE_NAMES = (
    "<img src=x onerror=window.attacked='name'>.txt",
    '"><svg onload=window.attacked=1>.md',
    "\u202etxt.exe\u202c.csv",
    "..%2f..%2fetc%2fpasswd.txt",
    "javascript:window.attacked=1.txt",
    "W" * 200 + ".txt",
    "${window.attacked=1}{{1}}.json",
)


def take_in(application: PageApplication, *, is_whole: bool) -> None:
    """Documents with hostile texts, titles, metadata and names, read by the real worker; lenses with such names, too.

    Unless `is_whole`, every fifth attack has a document of its own; files hold all of them in either case.
    """
    application.server.ask("/api/v1/collections", {"name": HOSTILE})
    attacks = list(enumerate(ATTACKS))[:: 1 if is_whole else 5]
    for number, attack in attacks:
        text = f"An angry letter about the ferry. {attack} The ferry was late again, and nobody told us anything."
        title, metadata = attack[:MAX_TITLE], {attack[:200]: attack, "year": 2020 + number}
        application.add_text(HOSTILE, title, text, metadata, uri=attack if number % 2 else f"{attack}#{number}")
    word = LONG_WORD if is_whole else LONG_WORD[:5000]
    application.add_text(HOSTILE, word[:MAX_TITLE], f"{word} ferry {word}", {word[:200]: LONG_VALUE})
    application.add_text(HOSTILE, "", f"{word}. The ferry.", {"word": LONG_VALUE}, uri=f"https://{LONG_WORD[:1900]}/")
    for name in FILE_NAMES if is_whole else FILE_NAMES[:3]:
        text = f"The ferry. {' '.join(ATTACKS)}"
        content = json.dumps(dict.fromkeys(ATTACKS, "A ferry.")) if name.endswith(".json") else text
        application.add_file(HOSTILE, name, content.encode(), _media_type(name))
    body = " ".join(SCRIPTS)
    for name, content, media_type in (
        ("page.html", f"<title>{SCRIPTS[0]}</title><p>A ferry.</p>{body}".encode(), "text/html"),
        ("page.pdf", _pdf(), "application/pdf"),
        ("letter.docx", _docx(), "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("table.xlsx", _xlsx(), "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("picture.svg", f"<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPTS[0]}</svg>".encode(), "image/svg+xml"),
        (f"{SCRIPTS[1]}.pdf", b"%PDF-1.7 broken " + body.encode(), "application/pdf"),
    ):
        application.add_file(HOSTILE, name, content, media_type)
    for number, attack in attacks:
        name = _one_line(attack)[: MAX_LENS_NAME - 4]
        application.server.ask(
            "/api/v1/lenses", {"name": f"{name} {number}", "query_instruction": attack, "note": attack}
        )
    application.wait_until_read(HOSTILE, LETTERS, RECIPES, EMPTY)


def _one_line(text: str) -> str:
    """A lens has no control characters in its name; what is left of an attack is still one."""
    return "".join(each for each in text if not unicodedata.category(each).startswith(("C", "Z")) or each == " ")


def _media_type(name: str) -> str:
    return {"md": "text/markdown", "csv": "text/csv", "json": "application/json"}.get(
        name.rpartition(".")[2], "text/plain"
    )


def _pdf() -> bytes:
    written = io.BytesIO()
    canvas = Canvas(written, invariant=True)
    canvas.setTitle(SCRIPTS[0] + LONG_WORD[:5000])
    canvas.setAuthor(SCRIPTS[1])
    for attack in (*SCRIPTS, *LINKS):
        canvas.drawString(20, 720, f"The ferry. {attack}")
        canvas.linkURL("javascript:window.attacked=1", (0, 0, 500, 800))
        canvas.showPage()
    canvas.save()
    return written.getvalue()


def _docx() -> bytes:
    document = docx.Document()
    document.core_properties.title = SCRIPTS[0]
    document.core_properties.author = SCRIPTS[1]
    document.add_heading(SCRIPTS[2])
    for attack in (*SCRIPTS, *LINKS, *FETCHES):
        document.add_paragraph(f"The ferry. {attack}")
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def _xlsx() -> bytes:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    assert sheet is not None
    sheet.title = "ferry"
    for attack in (*SCRIPTS, *LINKS, *FETCHES):
        sheet.append(["The ferry", attack, '=HYPERLINK("javascript:window.attacked=1")'])
    written = io.BytesIO()
    workbook.save(written)
    return written.getvalue()
