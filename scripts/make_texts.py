"""Brings the language files of the pages up to date with the texts in the code: `scripts/make_texts.py`, or `--check`.

Texts are those of the pages, which are marked, and the messages of the core that people meet there, which are not.

A new text gets an empty translation, an unused one goes; then translate what `--check` still names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po

from app.search.lenses import STARTERS
from app.search.query_language import ENGLISH as READ_LANGUAGE
from app.search.query_language import LANGUAGES
from ui.language import ENGLISH, FOLDER, MARKED, languages, read_catalog
from ui.search_fields import FURTHER_OPTIONS, label_of

ROOT = Path(__file__).resolve().parents[1]
TRANSLATING = {"_", "later"}
MARKED_ELSEWHERE = ("app/wiring/about.py",)
_SCRIPT = re.compile(r"""\btext\((["'])(.+?)\1""")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")

# Those that the command line alone shows, and those about archives, backups, users and keys, are left out.
CORE = (
    *(f"app/access/{name}.py" for name in ("authorizer", "logins", "quotas", "sign_in", "throttle")),
    *(f"app/answers/{name}.py" for name in ("checks", "generated", "service")),
    *(f"app/api/{name}.py" for name in ("access", "admission", "bodies", "document_lists", "documents", "evaluations")),
    "app/api/sign_in.py",
    *(f"app/catalog/{name}.py" for name in ("catalog", "engine", "indexes", "jobs", "judgements", "lens_indexes")),
    *(f"app/catalog/{name}.py" for name in ("quotas", "searches", "submissions")),
    *(f"app/collections/{name}.py" for name in ("background_reindex", "blob_batch", "blobs", "fetching", "held_files")),
    "app/collections/own_searches.py",
    *(f"app/collections/{name}.py" for name in ("lens_indexes", "library", "pages", "reindex", "value_tables")),
    *(f"app/evaluation/{name}.py" for name in ("background", "evaluate", "judged", "qrels", "weight_tuning")),
    *(f"app/search/{name}.py" for name in ("filters", "fingerprints", "joined_collections", "judgements", "lenses")),
    *(f"app/search/{name}.py" for name in ("request_checks", "retrieval", "service")),
    *(f"app/search/{name}.py" for name in ("value_proposals", "value_syntax")),
    *(
        f"app/{name}.py"
        for name in ("access/policy", "access/source_service", "catalog/recurring_sources", "types/source_addresses")
    ),
    *(f"app/collections/{name}.py" for name in ("credentials_folder", "recurring_sources")),
    *(
        f"ingest/recurring/{name}.py"
        for name in ("git", "git_program", "hosts", "imap", "s3", "selection", "syncs", "web")
    ),
    *(
        "app/errors.py",
        "app/types/documents.py",
        "app/types/left_out.py",
        "app/vectors/errors.py",
        "app/wiring/remote.py",
    ),
    "app/wiring/language_model.py",
    *("app/wiring/embedding.py", "ingest/indexer.py", "ingest/urls.py"),
    *(f"ingest/readers/{name}.py" for name in ("books", "bundles", "document", "errors", "html", "limits", "mail")),
    *(f"ingest/readers/{name}.py" for name in ("content_types", "members", "package", "pdf", "process", "records")),
    *(f"ingest/readers/{name}.py" for name in ("notebooks", "text", "xml")),
    *(f"ingest/readers/{name}.py" for name in ("child_process", "children", "page_views", "pdf_pages")),
    *(f"ingest/readers/{name}.py" for name in ("pictures", "recognition", "recognized_pages", "slides", "tables")),
)
FOR_THE_LOG = ("UntrustedSignInError", "ProviderUnavailableError")
LEAST_LETTERS = 8  # of a message beside what is filled in

Text = str | tuple[str, ...]


def find_texts(folder: Path) -> Iterator[tuple[Text, str]]:
    """Every text that a person can read on the pages in `folder`, and the file in which it stands."""
    yield from find_messages(folder.parent)
    yield from ((name, "app/search/query_language.py") for name in (*LANGUAGES, READ_LANGUAGE))
    for name, option in FURTHER_OPTIONS.items():  # the page draws a plain field for each
        yield from ((text, "app/types/search.py") for text in (label_of(name), option.description))
    yield from ((text, "app/search/lenses.py") for lens in STARTERS for text in (lens.name, lens.note))
    for path in (folder.parent / name for name in MARKED_ELSEWHERE):
        if path.exists():
            yield from (
                (text, path.relative_to(folder.parent).as_posix())
                for text in texts_of_python(path.read_text(encoding="utf-8"))
            )
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


def find_messages(root: Path) -> Iterator[tuple[str, str]]:
    """With the file in which each stands."""
    for name in CORE:
        path = root / name
        if path.exists():
            yield from ((text, name) for text in messages_of_python(path.read_text(encoding="utf-8")))


def messages_of_python(code: str) -> Iterator[str]:
    """First arguments of errors, what functions named `…_reason` and `…_notes` give, and the parts of all that have a
    name."""
    tree = ast.parse(code)
    constants = _assigned(tree.body)
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        texts = {**constants, **_assigned(list(ast.walk(function)))}
        for node in ast.walk(function):
            found: ast.expr | None = None
            if isinstance(node, ast.Call) and node.args and _makes_an_error(node.func):
                found = node.args[0]
            elif isinstance(node, (ast.Return, ast.Yield)) and function.name.endswith(("_reason", "_notes")):
                found = node.value
            if found is not None:
                yield from _messages(found, texts)


def _makes_an_error(function: ast.expr) -> bool:
    name = ast.unparse(function)
    if name in FOR_THE_LOG:
        return False
    return name in ("cls", "super().__init__") or name.removesuffix(".of").endswith("Error")


def _assigned(nodes: list[ast.stmt] | list[ast.AST]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _messages(expression: ast.expr, texts: Mapping[str, ast.expr]) -> Iterator[str]:
    if isinstance(expression, ast.IfExp):
        yield from _messages(expression.body, texts)
        yield from _messages(expression.orelse, texts)
    elif isinstance(expression, ast.Name) and expression.id in texts:
        yield from _messages(texts[expression.id], {})
    elif isinstance(expression, (ast.Constant, ast.JoinedStr)):
        text = message_of(expression)
        if " " in text and sum(map(str.isalpha, "".join(_literals(expression)))) >= LEAST_LETTERS:
            yield text
        for part in getattr(expression, "values", ()):
            if isinstance(part, ast.FormattedValue):
                inner = part.value.func.value if _is_format(part.value) else part.value
                if isinstance(inner, (ast.Name, ast.IfExp)):
                    yield from _messages(inner, texts)


def _is_format(expression: ast.expr) -> bool:
    """Whether it is `TEXT.format(…)`."""
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and expression.func.attr == "format"
    )


def _literals(expression: ast.expr) -> list[str]:
    parts = expression.values if isinstance(expression, ast.JoinedStr) else [expression]
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def message_of(expression: ast.expr) -> str:
    """Its text with a name for each value that is filled in; those that !r puts into quotes are in typographic ones."""
    if isinstance(expression, ast.Constant):
        return str(expression.value)  # where `.format` fills it in, its braces are values, too
    assert isinstance(expression, ast.JoinedStr)
    said, names = "", list[str]()
    for part in expression.values:
        if isinstance(part, ast.Constant):
            said += str(part.value).replace("{", "{{").replace("}", "}}")
        elif isinstance(part, ast.FormattedValue):
            name = _name_of(part.value)
            names.append(name)
            numbered = name if names.count(name) == 1 else f"{name}{names.count(name)}"
            said += f"“{{{numbered}}}”" if part.conversion == ord("r") else f"{{{numbered}}}"
    return said


def _name_of(expression: ast.expr) -> str:
    """The last name that stands in it, which tells the most."""
    names = [node.attr if isinstance(node, ast.Attribute) else node.id
             for node in ast.walk(expression) if isinstance(node, (ast.Name, ast.Attribute))]  # fmt: skip
    told = [name for name in names if name not in ("len", "sorted", "map", "min", "str", "type", "join", "self")]
    return told[0].strip("_").lower() if told else "value"


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
        if each.fuzzy:
            faults.append(
                f"{language}.po: the translation of {each.id!r} is marked fuzzy; look at it and take the mark away"
            )
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
