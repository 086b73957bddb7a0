"""Updates the language files of the pages from the texts in the code: `scripts/make_texts.py`, or `--check`.

Texts are the marked ones of the pages, and the core's messages that appear there, which are not marked.

New texts get an empty translation and unused ones are removed; then translate what `--check` reports.
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
from embedder.command.standard_output import run_program
from ingest.readers.kinds import KINDS
from ui.core_messages import KINDS_FILE
from ui.language import ENGLISH, FOLDER, MARKED, languages, read_catalog
from ui.search_fields import FURTHER_OPTIONS, label_of

ROOT = Path(__file__).resolve().parents[1]
TRANSLATING = {"_", "later"}
MARKED_ELSEWHERE = ("app/wiring/about.py",)
_SCRIPT = re.compile(r"""\btext\((["'])(.+?)\1""")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")

UNSEEN = (
    "child",
    "compound_files",
    "doc_lists",
    "embedded_objects",
    "iwa",
    "mapi",
    "messages",
)  # readers whose messages only other modules see
# Without modules whose messages appear only on the command line, or concern archives, backups, users and keys.
CORE = (
    *(f"app/access/{name}.py" for name in ("authorizer", "logins", "quotas", "sign_in", "throttle")),
    *(f"app/answers/{name}.py" for name in ("checks", "generated", "service")),
    *(f"app/api/{name}.py" for name in ("access", "admission", "bodies", "document_lists", "documents", "evaluations")),
    "app/api/sign_in.py",
    *(f"app/catalog/{name}.py" for name in ("catalog", "engine", "indexes", "jobs", "judgements", "lens_indexes")),
    *(f"app/catalog/{name}.py" for name in ("quotas", "searches", "submissions")),
    *(f"app/collections/{name}.py" for name in ("lens_indexes", "own_searches", "value_tables")),
    *(f"app/documents/{name}.py" for name in ("blob_batch", "blobs", "fetching", "library", "pages")),
    *(f"app/maintenance/{name}.py" for name in ("background_reindex", "held_files", "reindex")),
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
    *("app/access/account_service.py", "app/access/accounts.py", "app/api/account_page.py"),
    "app/wiring/language_model.py",
    *("app/wiring/embedding.py", "ingest/indexer.py", "ingest/urls.py"),
    *(
        path.relative_to(ROOT).as_posix()
        for path in sorted(ROOT.glob("ingest/readers/*.py"))
        if path.stem not in UNSEEN
    ),
)
MAKING_ERRORS = ("_refused",)  # functions that make an error of the reason that they get
FOR_THE_LOG = ("UntrustedSignInError", "ProviderUnavailableError")
LEAST_LETTERS = 8  # in a message, without its placeholders

Text = str | tuple[str, ...]


def find_texts(folder: Path) -> Iterator[tuple[Text, str]]:
    """Every text of the pages in `folder`, with the file that contains it."""
    yield from find_messages(folder.parent)
    yield from ((kind, KINDS_FILE) for kind in KINDS)
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
            given = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if node.func.id in TRANSLATING and given:
                yield given[0]
            if node.func.id == "ngettext":
                yield tuple(given)


def find_messages(root: Path) -> Iterator[tuple[str, str]]:
    """Every message of the core, with the file that contains it."""
    for name in CORE:
        path = root / name
        if path.exists():
            yield from ((text, name) for text in messages_of_python(path.read_text(encoding="utf-8")))


def messages_of_python(code: str) -> Iterator[str]:
    """First arguments of errors and of functions that make them, reasons of notes about what is left out, results of
    functions named `…_reason` and `…_notes`, the texts of variables in these, and all texts in constants named
    `…_REASONS`.
    """
    tree = ast.parse(code)
    constants = _assigned(tree.body)
    for name, value in constants.items():
        if name.endswith("_REASONS"):
            for node in ast.walk(value):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from _messages(node, {})
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        texts = {**constants, **_assigned(list(ast.walk(function)))}
        for node in ast.walk(function):
            message: ast.expr | None = None
            if isinstance(node, ast.Call) and node.args and _makes_an_error(node.func):
                message = node.args[0]
            elif isinstance(node, ast.Call) and _notes_what_is_left_out(node):
                message = node.args[1]
            elif isinstance(node, (ast.Return, ast.Yield)) and function.name.endswith(("_reason", "_notes")):
                message = node.value
            if message is not None:
                is_reason = isinstance(node, ast.Call) and ast.unparse(node.func) in MAKING_ERRORS
                yield from _messages(message, texts, least=1 if is_reason else LEAST_LETTERS)


def _makes_an_error(function: ast.expr) -> bool:
    name = ast.unparse(function)
    if name in FOR_THE_LOG:
        return False
    return name in ("cls", "super().__init__", *MAKING_ERRORS) or name.removesuffix(".of").endswith("Error")


def _notes_what_is_left_out(call: ast.Call) -> bool:
    """Whether it is `….note(place, reason)` or `….skip(place, reason)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("note", "skip") and len(call.args) == 2


def _assigned(nodes: list[ast.stmt] | list[ast.AST]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _messages(expression: ast.expr, texts: Mapping[str, ast.expr], *, least: int = LEAST_LETTERS) -> Iterator[str]:
    if isinstance(expression, ast.IfExp):
        yield from _messages(expression.body, texts, least=least)
        yield from _messages(expression.orelse, texts, least=least)
    elif isinstance(expression, ast.Name) and expression.id in texts:
        yield from _messages(texts[expression.id], {})
    elif isinstance(expression, (ast.Constant, ast.JoinedStr)):
        text = message_of(expression)
        if " " in text and sum(map(str.isalpha, "".join(_literals(expression)))) >= least:
            yield text
        for part in getattr(expression, "values", ()):
            if isinstance(part, ast.FormattedValue):
                inner = part.value.func.value if _is_format(part.value) else part.value
                if isinstance(inner, (ast.Name, ast.IfExp)):
                    yield from _messages(inner, texts)


def _is_format(expression: ast.expr) -> bool:
    """True for `TEXT.format(…)`."""
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and expression.func.attr == "format"
    )


def _literals(expression: ast.expr) -> list[str]:
    parts = expression.values if isinstance(expression, ast.JoinedStr) else [expression]
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def message_of(expression: ast.expr) -> str:
    """The text with named placeholders; those formatted with !r get typographic quotes."""
    if isinstance(expression, ast.Constant):
        return str(expression.value)  # its braces are placeholders for `.format`
    assert isinstance(expression, ast.JoinedStr)
    text, names = "", list[str]()
    for part in expression.values:
        if isinstance(part, ast.Constant):
            text += str(part.value).replace("{", "{{").replace("}", "}}")
        elif isinstance(part, ast.FormattedValue):
            name = _name_of(part.value)
            names.append(name)
            numbered = name if names.count(name) == 1 else f"{name}{names.count(name)}"
            text += f"“{{{numbered}}}”" if part.conversion == ord("r") else f"{{{numbered}}}"
    return text


def _name_of(expression: ast.expr) -> str:
    """The innermost attribute or variable name, which is the most specific."""
    names = [node.attr if isinstance(node, ast.Attribute) else node.id
             for node in ast.walk(expression) if isinstance(node, (ast.Name, ast.Attribute))]  # fmt: skip
    specific = [name for name in names if name not in ("len", "sorted", "map", "min", "str", "type", "join", "self")]
    return specific[0].strip("_").lower() if specific else "value"


def make_catalog(language: str, folder: Path) -> Catalog:
    """The texts of the code with their existing translations; guesses none."""
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
    known = {message.id for message in present if message.id}
    texts = {message.id for message in wanted if message.id}
    do = "run scripts/make_texts.py, then translate it"
    faults = [f"not in {language}.po: {text!r}; {do}" for text in sorted(texts - known, key=str)]
    faults += [f"{language}.po: {text!r} is not in the code; run scripts/make_texts.py" for text in known - texts]
    for message in present:
        if not message.id:
            continue
        originals = message.id if isinstance(message.id, (list, tuple)) else (message.id,)
        strings = message.string if isinstance(message.string, (list, tuple)) else (message.string,)
        if message.fuzzy:
            faults.append(
                f"{language}.po: the translation of {message.id!r} is marked fuzzy; check it and remove the mark"
            )
        if not all(strings):
            faults.append(f"{language}.po: {message.id!r} has no translation; write one")
        elif any(placeholders(string) not in [placeholders(one) for one in originals] for string in strings):
            faults.append(f"{language}.po: the translation of {message.id!r} has other placeholders")
    return faults


def placeholders(text: str) -> list[str]:
    """Unnamed placeholders in their order, named ones sorted."""
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
    run_program(main)
