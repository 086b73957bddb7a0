"""The about page without Gradio: health checks that run each time the page is opened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.errors import GircseError
from app.ports.catalog import Catalog
from ui.render.about import render_collections, render_health

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutHandlers:
    catalog: Catalog
    checks: Mapping[str, Callable[[], bool]]
    fingerprint: str

    def health(self) -> Iterator[tuple[str]]:
        """Yields after each part's check, because an unreachable part may be slow."""
        answers: dict[str, bool | None] = dict.fromkeys(self.checks)
        yield (render_health(answers),)
        for name, check in self.checks.items():
            answers[name] = _is_well(name, check)
            yield (render_health(answers),)

    def collections(self) -> tuple[str]:
        return (render_collections(self.catalog.collections(), self.fingerprint),)


def _is_well(name: str, check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (GircseError, RuntimeError, OSError):  # torch raises RuntimeError, also when it is out of memory
        logger.exception("The check of %s failed", name)
        return False
