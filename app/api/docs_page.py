"""The page /docs, rendered from the OpenAPI description without scripts: it loads nothing from other servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from markupsafe import Markup, escape

Schema = Mapping[str, Any]

_METHODS = ("get", "post", "put", "patch", "delete")
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
body { overflow-wrap: anywhere; }
details { border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: 6px; margin: .5rem 0; }
summary { cursor: pointer; padding: .5rem .75rem; } details > div { padding: 0 .75rem .75rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; } pre { overflow: auto; }
.method { display: inline-block; font-weight: 700; min-width: 4.5rem; }
td, th { padding: .2rem .75rem .2rem 0; text-align: left; vertical-align: top; }
th[scope=row] { font-weight: 400; }
"""


def docs_routes(describe: Callable[[], Schema]) -> APIRouter:
    """`describe` returns the OpenAPI description. It is called at the first request, when all routes exist."""
    routes = APIRouter(include_in_schema=False)

    @cache
    def page() -> str:
        return str(_page(describe()))

    @routes.get("/docs", response_class=HTMLResponse)
    def show_docs() -> HTMLResponse:
        return HTMLResponse(page())

    return routes


def _page(schema: Schema) -> Markup:
    title = f"{schema['info']['title']} {schema['info']['version']}"
    by_tag: dict[str, list[Markup]] = {}
    for path, method, operation in _operations(schema):
        by_tag.setdefault(str(operation.get("tags", ["other"])[0]), []).append(_operation(path, method, operation))
    sections = (Markup("<h2>{}</h2>{}").format(tag, Markup("").join(drawn)) for tag, drawn in by_tag.items())
    return Markup(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head><body><main>'
        "<h1>{title}</h1><p>{about}</p><p>For programs: <a href='/openapi.json'>openapi.json</a> (OpenAPI).</p>"
        "{sections}</main></body></html>"
    ).format(
        title=title,
        style=Markup(_STYLE),  # noqa: S704  # our own
        about=schema["info"].get("description", ""),
        sections=Markup("").join(sections),
    )


def _operations(schema: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, methods in schema["paths"].items():
        yield from ((path, method, methods[method]) for method in _METHODS if method in methods)


def _operation(path: str, method: str, operation: Schema) -> Markup:
    parts = [_text(str(operation.get("description", ""))), _parameters(operation), *_bodies(operation)]
    answers = (
        Markup("<tr><th scope='row'><code>{}</code></th><td>{}</td></tr>").format(
            status, _inline(answer.get("description", ""))
        )
        for status, answer in operation.get("responses", {}).items()
    )
    parts.append(
        Markup("<table><tr><th scope='col'>answer</th><th scope='col'>meaning</th></tr>{}</table>").format(
            Markup("").join(answers)
        )
    )
    return Markup(
        '<details id="{id}"><summary><span class="method">{method}</span><code>{path}</code> {summary}</summary>'
        "<div>{parts}</div></details>"
    ).format(
        id=operation.get("operationId", ""),
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        parts=Markup("").join(parts),
    )


def _parameters(operation: Schema) -> Markup:
    rows = [
        Markup("<tr><th scope='row'><code>{}</code></th><td>{}</td><td>{}</td></tr>").format(
            each["name"],
            each["in"] + (", required" if each.get("required") else ""),
            _inline(each.get("description", "")),
        )
        for each in operation.get("parameters", [])
    ]
    return Markup(
        "<table><tr><th scope='col'>parameter</th><th scope='col'>in</th><th scope='col'>meaning</th></tr>{}</table>"
    ).format(Markup("").join(rows)) * bool(rows)


def _bodies(operation: Schema) -> Iterator[Markup]:
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        examples = [body["example"]] if "example" in body else []
        examples += [each["value"] for each in body.get("examples", {}).values() if "value" in each]
        shown = (Markup("<pre>{}</pre>").format(json.dumps(each, indent=2, ensure_ascii=False)) for each in examples)
        yield Markup("<p>Body: <code>{}</code></p>{}").format(kind, Markup("").join(shown))


def _text(text: str) -> Markup:
    paragraphs = (Markup("<p>{}</p>").format(_inline(each)) for each in text.split("\n\n") if each.strip())
    return Markup("").join(paragraphs)


def _inline(text: str) -> Markup:
    """Render text in backquotes as code and escape everything else."""
    parts = re.split(r"`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(each) if n % 2 else escape(each) for n, each in enumerate(parts)
    )
