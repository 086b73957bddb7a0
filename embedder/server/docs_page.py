"""An HTML page that lists the embedding server's routes: no scripts, no framing by other sites."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
td { padding: .2rem 1rem .2rem 0; vertical-align: top; }
"""


def add_docs(application: FastAPI) -> None:
    """Adds the page; call it after all other routes are added."""

    @application.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def show_docs() -> HTMLResponse:
        return HTMLResponse(_page(application.openapi()), headers=HEADERS)


def _page(schema: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{method.upper()}</td><td><code>{escape(path)}</code></td>"
        f"<td>{escape(operation.get('description') or operation.get('summary', ''))}</td></tr>"
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    )
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{escape(schema['info'].get('description', ''))}</p><table>{rows}</table>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI).</p></body></html>'
    )
