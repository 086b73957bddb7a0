"""Every text of the pages is in every language file, and a request gets the language that it asks for."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from scripts.make_texts import ROOT, find_faults, find_texts, texts_of_python
from ui.language import COOKIE, ENGLISH, _, choose_language, html, languages, moment, ngettext, number, speaking

UI = ROOT / "ui"
IN_ENGLISH_ALONE = {
    "about",
    "charts",
    "comparison",
    "evaluation",
    "judged",
    "moves",
    "weights",
}


@pytest.mark.parametrize("language", [each for each in languages() if each != ENGLISH])
def test_a_language_has_every_text_with_its_placeholders_and_no_other(language: str) -> None:
    faults = find_faults(language, UI)
    assert not faults, "\n".join(faults)


def test_a_new_text_an_unused_one_and_another_placeholder_are_faults(tmp_path: Path) -> None:
    code = 'html("<p>[[A text that nobody translated]]</p>")\n_("A name for it")\n'
    (tmp_path / "page.py").write_text(code)
    faults = "\n".join(find_faults("de", tmp_path))
    assert "not in de.po: 'A text that nobody translated'; run scripts/make_texts.py" in faults
    assert "'Variety' stands nowhere in the code" in faults
    assert "'A name for it'" not in faults


def test_texts_of_python_are_found_where_they_are_shown() -> None:
    code = """_("one")\nlater("two")\nngettext("{count} hit", "{count} hits", 2)"""
    code += """\nX = "<b>[[three]]</b> [[four {}]]"\nf("five")"""
    assert set(texts_of_python(code)) == {"one", "two", ("{count} hit", "{count} hits"), "three", "four {}"}
    assert ("Copied", "ui/assets/page.js") in set(find_texts(UI))


def test_templates_have_no_text_beside_the_marked_ones() -> None:
    found = []
    for path in sorted((UI / "render").glob("*.py")):
        if path.stem not in IN_ENGLISH_ALONE:
            code = "".join(re.findall(r"[\"'](?:[^\"'\\\n])*[\"']", path.read_text(encoding="utf-8")))
            code = re.sub(r"\[\[.+?\]\]", "", code.replace('""', "").replace("''", ""))
            found += [f"{path.name}: {text}" for text in re.findall(r"</?(?:p|h2|h3|summary|th)>([A-Z][a-z ]+)<", code)]
    assert not found, "mark these as [[text]], then run scripts/make_texts.py"


@pytest.mark.parametrize(
    ("headers", "default", "expected"),
    [
        ({}, "auto", "en"),
        ({"accept-language": "de-AT,de;q=0.9,en;q=0.8"}, "auto", "de"),
        ({"accept-language": "en-GB,en;q=0.9,de;q=0.8"}, "auto", "en"),
        ({"accept-language": "fr,zh;q=0.9"}, "auto", "en"),
        ({"accept-language": "de;q=0, en;q=0.1"}, "auto", "en"),
        ({"accept-language": "de"}, "en", "en"),
        ({"accept-language": "en"}, "de", "de"),
        ({"accept-language": "en", "cookie": f"other=1; {COOKIE}=de"}, "en", "de"),
        ({"accept-language": "de", "cookie": f"{COOKIE}=../../etc/passwd"}, "auto", "de"),
        ({"accept-language": ";;;q=x,,*", "cookie": '"'}, "auto", "en"),
    ],
)
def test_the_switch_goes_before_the_default_and_that_before_the_browser(
    headers: dict[str, str], default: str, expected: str
) -> None:
    assert choose_language(headers, default) == expected


def test_texts_numbers_and_dates_follow_the_language() -> None:
    at = datetime(2026, 11, 23, 21, 5)
    shown = (_("Search"), number(1234), number(0.5, 3), moment(at))
    assert shown == ("Search", "1,234", "0.500", "2026-11-23 21:05")
    with speaking("de"):
        assert (_("Search"), number(1234), number(0.5, 3), moment(at)) == ("Suche", "1.234", "0,500", "23.11.26, 21:05")
        assert ngettext("{count} passage", "{count} passages", 1) == "{count} Textstelle"
        assert html("<b>[[Close]]</b> {}").format("<i>") == "<b>Schließen</b> &lt;i&gt;"
    assert _("Search") == "Search"
