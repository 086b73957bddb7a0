"""Finds the messages of the core that people meet on the pages, for the language files: `scripts/make_texts.py`.

Those that the command line alone shows, and those about archives, backups, users and keys, are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

FILES = (
    *(f"app/access/{name}.py" for name in ("authorized_library", "authorizer", "logins", "quotas", "throttle")),
    *(f"app/api/{name}.py" for name in ("access", "admission", "bodies", "document_lists", "documents", "evaluations")),
    *(f"app/catalog/{name}.py" for name in ("catalog", "engine", "indexes", "jobs", "judgements", "lens_indexes")),
    *(f"app/catalog/{name}.py" for name in ("quotas", "searches", "submissions")),
    *(f"app/collections/{name}.py" for name in ("background_reindex", "blobs", "fetching", "held_files")),
    *(f"app/collections/{name}.py" for name in ("lens_indexes", "library", "reindex", "value_tables")),
    *(f"app/evaluation/{name}.py" for name in ("background", "evaluate", "judged", "qrels", "weight_tuning")),
    *(f"app/search/{name}.py" for name in ("filters", "fingerprints", "joined_collections", "judgements", "lenses")),
    *(f"app/search/{name}.py" for name in ("own_searches", "request_checks", "retrieval", "service")),
    *(f"app/search/{name}.py" for name in ("value_proposals", "value_syntax")),
    *("app/errors.py", "app/types/documents.py", "app/vectors/errors.py", "app/wiring/remote.py"),
    *("app/wiring/embedding.py", "ingest/pipeline.py", "ingest/urls.py"),
    *(f"ingest/readers/{name}.py" for name in ("books", "bundles", "document", "errors", "html", "limits", "mail")),
    *(f"ingest/readers/{name}.py" for name in ("media_types", "members", "package", "pdf", "process", "records")),
    *(f"ingest/readers/{name}.py" for name in ("slides", "tables", "text", "xml")),
)
LEAST_LETTERS = 8  # of a message beside what is filled in

Texts = Mapping[str, ast.expr]
"""What stands behind a name."""


def find_messages(root: Path) -> Iterator[tuple[str, str]]:
    """With the file in which each stands."""
    for name in FILES:
        path = root / name
        if path.exists():
            yield from ((text, name) for text in messages_of_python(path.read_text(encoding="utf-8")))


def messages_of_python(code: str) -> Iterator[str]:
    """First arguments of errors, what functions named `…_reason` give, and the parts of both that have a name."""
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
            elif isinstance(node, ast.Return) and function.name.endswith("_reason"):
                found = node.value
            if found is not None:
                yield from _messages(found, texts)


def _makes_an_error(function: ast.expr) -> bool:
    name = ast.unparse(function)
    return name in ("cls", "super().__init__") or name.removesuffix(".of").endswith("Error")


def _assigned(nodes: list[ast.stmt] | list[ast.AST]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _messages(expression: ast.expr, texts: Texts) -> Iterator[str]:
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
