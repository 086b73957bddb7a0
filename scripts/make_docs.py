"""Generates docs/reference from the code: commands, settings, REST and Python. `--check` only lists outdated pages."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import typer
from pydantic_core import PydanticUndefined

import embedder
from app.access.authorized_services import authorize
from app.answers.service import AnswerService
from app.api.main import create_app
from app.catalog import SqlCatalog, connect
from app.cli import app as command_line
from app.collections.lens_indexes import QueuedLensIndexes
from app.collections.value_tables import CsvValueTables
from app.documents.blobs import FolderBlobStore
from app.documents.fetching import BackgroundFetching
from app.documents.library import Library
from app.documents.pages import DocumentPages
from app.evaluation.background import evaluations_over
from app.maintenance.background_reindex import BackgroundReindexing
from app.maintenance.integrity import Integrity
from app.search.service import SearchService
from app.search.value_proposals import ValueProposer
from app.services import Services
from app.settings import Settings
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import Source
from app.wiring.openai import ForwardingSource
from app.wiring.remote import RemoteEmbedder
from embedder.command.standard_output import run_program
from embedder.server.openai_routes import openai_routes
from ingest.readers import ProcessPageRenderer, detect

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by scripts/make_docs.py from the code; change the code, then run `make docs`. -->\n\n"
METHODS = ("get", "post", "put", "patch", "delete")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is outdated")
    only_check = parser.parse_args().check
    stale = [name for name, page in pages() if update(REFERENCE / name, NOTE + page, only_check=only_check)]
    if only_check and stale:
        sys.exit(f"Stale in docs/reference: {', '.join(stale)}. Run `make docs` and commit the result.")
    print("docs/reference is up to date." if not stale else f"Wrote {', '.join(stale)}.")


def pages() -> Iterator[tuple[str, str]]:
    yield "cli.md", cli_page()
    yield "settings.md", settings_page()
    yield "rest.md", rest_page(openapi_schema())
    yield "python.md", python_page()


def update(path: Path, page: str, *, only_check: bool) -> bool:
    """Writes the page (unless `only_check`); returns whether the file was outdated."""
    page = re.sub(r"\n{3,}", "\n\n", page)
    is_stale = not path.is_file() or path.read_text(encoding="utf-8") != page
    if is_stale and not only_check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    return is_stale


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([_in_one_line(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _in_one_line(cell: str) -> str:
    """A line break would end the table."""
    return " ".join(cell.split()).replace("|", "\\|")


# Command line


def cli_page() -> str:
    root = typer.main.get_command(command_line)
    parts = [
        "# Command line\n",
        "Exit codes: 0 done, 1 an error (one line on stderr), 2 wrong usage, 130 interrupted, "
        "141 the reader of the output left (`| head`), 143 ended by SIGTERM.\n",
    ]
    parts += [option_table(root, "gircse")]
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        for path, subcommand in with_subcommands(f"gircse {name}", command):
            parts += [f"## `{path}`\n", command_section(subcommand, path)]
    return "\n".join(parts)


def with_subcommands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    children: Mapping[str, Any] = getattr(command, "commands", {})
    if not children and not command.hidden:
        yield path, command
    for name, child in children.items():
        yield from with_subcommands(f"{path} {name}", child)


def command_section(command: Any, path: str) -> str:
    text, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    pieces = command.collect_usage_pieces(command.context_class(command))
    usage = " ".join([path, *(piece.translate({ord("{"): None, ord("}"): None}).upper() for piece in pieces)])
    parts = [text.strip() + "\n", f"```sh\n{usage}\n```\n"]
    parts += [f"Example: `{example.strip()}`\n"] if example else []
    return "\n".join([*parts, option_table(command, path)])


def option_table(command: Any, path: str) -> str:
    context = command.context_class(command, info_name=path)
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [(f"`{name}`", text) for name, text in filter(None, records)]
    return table(("argument or option", "meaning"), rows) if rows else ""


# Settings


def settings_page() -> str:
    rows = [
        (f"`GIRCSE_{name.upper()}`", setting_default(name, field), field.description or "")
        for name, field in sorted(
            Settings.model_fields.items(), key=lambda item: item[0] not in Settings.__annotations__
        )
    ]
    intro = (
        "# Settings\n\n"
        "Settings are environment variables, or keys of a file. They are read once when a command starts. An empty\n"
        "one counts as not set. Invalid values are reported together, each with its reason. Unknown names cause one\n"
        "warning, which suggests the nearest names.\n\n"
        "The file `gircse.toml` holds the same settings, in lower case and without the prefix. It is read in\n"
        "GIRCSE_HOME, never in the working directory, where another person may have put a file. The environment takes\n"
        "precedence over it.\n\n"
        '```toml\nport = 8000\nmodel = "gircse-base"\naccess_control = true\n```\n\n'
    )
    return intro + table(("variable", "default", "meaning"), rows)


def setting_default(name: str, field: Any) -> str:
    if field.default_factory is not None:
        return "the system's folder for user data, then `gircse`"
    return "" if field.default in (None, "", PydanticUndefined) else f"`{field.default}`"


# REST


def openapi_schema() -> dict[str, Any]:
    """The schema of `/openapi.json`, from the real routes over small test components."""
    with tempfile.TemporaryDirectory() as folder:
        engine = connect(f"sqlite:///{folder}/catalog.db")
        catalog, index, blobs, model = (
            SqlCatalog(engine),
            InMemoryVectorIndex(),
            FolderBlobStore(Path(folder)),
            ToyEmbedder(),
        )
        search = SearchService(catalog, index, model)
        services = Services(
            settings=Settings(home=Path(folder)),
            catalog=catalog,
            index=index,
            blobs=blobs,
            embedder=model,
            token_counter=model,
            search=search,
            answers=AnswerService(search, model),
            proposals=ValueProposer(catalog, index, model),
            library=Library(catalog=catalog, index=index, blobs=blobs, embedder=model, detect_format=detect),
            lens_indexes=QueuedLensIndexes(catalog),
            value_tables=CsvValueTables(catalog, index),
            evaluations=evaluations_over(catalog=catalog, index=index, embedder=model),
            integrity=Integrity(catalog, index, blobs),
            checks={},
        )
        reindexing = BackgroundReindexing(catalog, open_reindexer=lambda is_stopping: nullcontext())  # type: ignore[arg-type]
        server = ForwardingSource(RemoteEmbedder("http://127.0.0.1:7861"), services.settings)  # never called
        with closing(BackgroundFetching(catalog, services.library, read_url=_reads_nothing)) as fetching:
            pages = DocumentPages(services.blobs, ProcessPageRenderer(), cache_bytes=0)  # never called
            authorized = authorize(services, fetching=fetching, reindexing=reindexing, pages=pages)
            schema = create_app(authorized, embeddings=openai_routes(server)).openapi()
        engine.dispose()
    return schema


def _reads_nothing(url: str) -> Source:
    raise RuntimeError(f"generating documentation must not fetch {url}")


def rest_page(schema: Mapping[str, Any]) -> str:
    parts = [
        "# REST API\n",
        "Everything is JSON. A running server shows the same at `/docs`, and for machines at `/openapi.json`.",
        "Errors are [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem details: 404 unknown, 409 conflict,",
        "422 input that cannot be used, 503 a part is down. Below `/v1` and `/v2` and at `/rerank` errors have the",
        "format of the clients: OpenAI's `error` object (400 for invalid input), Cohere's `message`, TEI's",
        "`error_type`.\n",
    ]
    for path, operations in schema["paths"].items():
        for method in METHODS:
            if method in operations:
                parts.append(operation_section(method, path, operations[method]))
    parts.append("## Shapes\n")
    for name, shape in sorted(schema["components"]["schemas"].items()):
        if name not in ("HTTPValidationError", "ValidationError"):
            parts.append(shape_section(name, shape))
    return "\n".join(parts)


def operation_section(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"## `{method.upper()} {path}`\n", operation.get("description", operation.get("summary", "")) + "\n"]
    if parameters := operation.get("parameters"):
        rows = [
            (
                f"`{parameter['name']}`",
                parameter["in"],
                type_name(parameter["schema"]),
                parameter.get("description", ""),
            )
            for parameter in parameters
        ]
        parts.append(table(("parameter", "in", "type", "meaning"), rows))
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"Body, `{media_type}`: {body_name(content['schema'])}\n")
    for status, response in sorted(operation["responses"].items()):
        if status.startswith("2"):
            content = response.get("content", {}).get("application/json", {})
            parts.append(f"Answer {status}: {type_name(content['schema']) if content.get('schema') else 'empty'}\n")
    return "\n".join(parts)


def body_name(schema: Mapping[str, Any]) -> str:
    """A link to a shape of the page; of any other body its fields."""
    if options := schema.get("oneOf"):
        return "; or ".join(body_name(option) for option in options)
    if fields := schema.get("properties"):
        return ", ".join(f"`{name}`" for name in fields)
    return type_name(schema)


def shape_section(name: str, shape: Mapping[str, Any]) -> str:
    if "properties" not in shape:
        values = ", ".join(f"`{value}`" for value in shape.get("enum", ()))
        return f"### {name}\n\nOne of {values}.\n"
    required = shape.get("required", ())
    rows = [
        (f"`{field}`", type_name(own), "" if field in required else default_of(own), own.get("description", ""))
        for field, own in shape["properties"].items()
    ]
    return f"### {name}\n\n" + table(("field", "type", "if left out", "meaning"), rows)


def default_of(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return f"`{default}`" if default not in (None, "") else "empty" if default == "" else ""


def type_name(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if options := schema.get("anyOf"):
        return " or ".join(type_name(option) for option in options)
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {type_name(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_name(schema['additionalProperties'])}"
    bounds = [f"{sign} {schema[key]:g}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return " ".join([kind, *bounds])


# Python


def python_page() -> str:
    parts = ["# Python\n", "```python\nfrom embedder import GircseEmbeddings\n```\n"]
    parts.append(class_section(embedder.GircseEmbeddings))
    for name in sorted(embedder.__all__):
        value = getattr(embedder, name)
        if value is embedder.GircseEmbeddings:
            continue
        if inspect.isclass(value):
            parts.append(class_section(value))
        elif inspect.isfunction(value):
            parts.append(f"## `{name}`\n\n{function_section(name, value)}")
        else:
            parts.append(f"## `{name}`\n\n`{value!r}`\n")
    return "\n".join(parts)


def class_section(cls: type) -> str:
    # not the generated one of a dataclass
    written = "" if (cls.__doc__ or "").startswith(f"{cls.__name__}(") else cls.__doc__
    parts = [f"## `{cls.__name__}`\n", as_markdown(written)]
    if issubclass(cls, Exception) and (bases := cls.__mro__[1 : cls.__mro__.index(Exception)]):
        parts.append(f"A kind of {', '.join(f'`{base.__name__}`' for base in bases)}.\n")
    if fields := field_rows(cls):
        parts.append(table(("field", "type", "default", "meaning"), fields))
    for name, member in vars(cls).items():
        if name.startswith("_") or name == "model_post_init":
            continue
        if isinstance(member, property):
            kind = (member.fget.__annotations__ if member.fget else {}).get("return", "")
            parts.append(f"### `{cls.__name__}.{name}`\n\n`{kind}`. {as_markdown(member.__doc__)}".rstrip() + "\n")
        elif inspect.isfunction(member) and member.__module__ == cls.__module__:
            parts.append(f"### `{cls.__name__}.{name}`\n\n{function_section(name, member)}")
    return "\n".join(parts)


def function_section(name: str, function: Any) -> str:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    node.args.args = [argument for argument in node.args.args if argument.arg != "self"]
    node.body, node.decorator_list = [ast.Pass()], []
    shown = ast.unparse(node).partition(":\n")[0]
    return f"```python\n{shown}\n```\n\n{as_markdown(function.__doc__)}".rstrip() + "\n"


def as_markdown(docstring: str | None) -> str:
    """Removes the indentation; turns a reST code block into a fenced one."""
    text, marker, code = inspect.cleandoc(docstring or "").partition(".. code-block:: python\n")
    return f"{text}```python\n{inspect.cleandoc(code)}\n```\n" if marker else text + "\n"


def field_rows(cls: type) -> list[tuple[str, str, str, str]]:
    """Annotated names of the class body with the docstrings below them."""
    body = ast.parse(inspect.getsource(cls).strip()).body[0].body  # type: ignore[attr-defined]
    rows = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name = node.target.id
        if name.startswith("_") or name == "model_config":
            continue
        is_documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        meaning = str(after.value.value) if is_documented else ""
        rows.append((f"`{name}`", f"`{ast.unparse(node.annotation)}`", python_default(node.value), meaning))
    return rows


def python_default(value: ast.expr | None) -> str:
    if isinstance(value, ast.Call):
        value = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    return f"`{ast.unparse(value)}`" if value is not None else ""


if __name__ == "__main__":
    run_program(main)
