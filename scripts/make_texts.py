"""Brings the language files of the pages up to date with the texts in the code: `scripts/make_texts.py`, or `--check`.

A new text gets an empty translation, an unused one goes; then translate what `--check` still names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po

from scripts.core_texts import find_messages
from ui.language import ENGLISH, FOLDER, MARKED, languages, read_catalog

ROOT = Path(__file__).resolve().parents[1]
TRANSLATING = {"_", "later"}
MARKED_ELSEWHERE = ("app/wiring/about.py",)
_SCRIPT = re.compile(r"""\btext\((["'])(.+?)\1""")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")

Text = str | tuple[str, ...]


def find_texts(folder: Path) -> Iterator[tuple[Text, str]]:
    """Every text that a person can read on the pages in `folder`, and the file in which it stands."""
    yield from find_messages(folder.parent)
    for path in (folder.parent / name for name in MARKED_ELSEWHERE):
        if path.exists():
            yield from ((text, path.relative_to(folder.parent).as_posix()) for text in texts_of_python(path.read_text(encoding="utf-8")))
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder.parent).as_posix()
        yield from ((text, name) for text in texts_of_python(path.read_text(encoding="utf-8")))
    for path in sorted(folder.rglob("*.js")):
        name = path.relative_to(folder.parent).as_posix()
        yield from ((found[2], name) for found in _SCRIPT.finditer(path.read_text(encoding="utf-8")))


def texts_of_python(code: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from MARKED.findall(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if node.func.id in TRANSLATING and given:
                yield given[0]
            if node.func.id == "ngettext":
                yield tuple(given)


def make_catalog(language: str, folder: Path) -> Catalog:
    """The texts of the code with the translations that are there; nothing is guessed."""
    present = read_catalog(language)
    made = Catalog(
        locale=language.replace("-", "_"),
        project="gircse-search",
        header_comment="",
        fuzzy=False,
        version="ui",
        copyright_holder="",
        msgid_bugs_address="",
        last_translator="",
        language_team="",
        creation_date=present.creation_date,
        revision_date=present.creation_date,
    )
    for text, place in find_texts(folder):
        known = present.get(text[0] if isinstance(text, tuple) else text)
        made.add(text, string=known.string if known is not None else None, locations=[(place, None)])
    return made


def find_faults(language: str, folder: Path) -> list[str]:
    present, wanted = read_catalog(language), make_catalog(language, folder)
    known = {each.id for each in present if each.id}
    texts = {each.id for each in wanted if each.id}
    do = "run scripts/make_texts.py, then translate it"
    faults = [f"not in {language}.po: {text!r}; {do}" for text in sorted(texts - known, key=str)]
    faults += [
        f"{language}.po: {text!r} stands nowhere in the code; run scripts/make_texts.py" for text in known - texts
    ]
    for each in present:
        if not each.id:
            continue
        originals = each.id if isinstance(each.id, (list, tuple)) else (each.id,)
        strings = each.string if isinstance(each.string, (list, tuple)) else (each.string,)
        if not all(strings):
            faults.append(f"{language}.po: {each.id!r} has no translation; write one")
        elif any(placeholders(string) not in [placeholders(one) for one in originals] for string in strings):
            faults.append(f"{language}.po: the translation of {each.id!r} has other placeholders")
    return faults


def placeholders(text: str) -> list[str]:
    """Those without a name are filled in their order, those with one in any."""
    found = _PLACEHOLDER.findall(text)
    return found if "{}" in found else sorted(found)


def main() -> int:
    faults = []
    for language in languages():
        if language == ENGLISH:
            continue
        if "--check" in sys.argv:
            faults += find_faults(language, ROOT / "ui")
            continue
        with_texts = make_catalog(language, ROOT / "ui")
        with (FOLDER / f"{language}.po").open("wb") as file:
            write_po(file, with_texts, width=120, sort_output=True, omit_header=False)
        print(f"wrote ui/languages/{language}.po: {len(with_texts)} texts")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
