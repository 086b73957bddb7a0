"""Imports Gradio in half of the time: without mcp, pandas and generated stub files.

Install it before the first import of gradio; later it has no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_ABSENT = "mcp"


class LeanGradio(MetaPathFinder):
    """Import hook for four modules.

    `gradio.mcp` imports mcp for a server that the pages do not start (agents use app/agents). `gradio.component_meta`
    writes a stub file for editors beside each component at every start, in every process. `gradio.events` builds a
    docstring for each event of each component. `gradio.caching` imports pandas for cached tables, which no page has:
    here pandas is loaded on first use.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (wrap := _LOADERS.get(fullname)) is None:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = wrap(spec.loader)
        return spec


class _Wrapped(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)


class _WithoutMcp(_Wrapped):
    def exec_module(self, module: ModuleType) -> None:
        if _ABSENT in sys.modules:
            return super().exec_module(module)
        sys.modules[_ABSENT] = None  # type: ignore[assignment]  # makes Python raise ImportError
        try:
            return super().exec_module(module)
        finally:
            del sys.modules[_ABSENT]


class _WithoutStubs(_Wrapped):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.create_or_modify_pyi = lambda *_: None  # type: ignore[attr-defined]


class _WithoutDescriptions(_Wrapped):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.EventListener.set_doc = lambda *_, **__: None


_LOADERS: Mapping[str, Callable[[Loader], Loader]] = {
    "gradio.mcp": _WithoutMcp,
    "gradio.component_meta": _WithoutStubs,
    "gradio.events": _WithoutDescriptions,
    "pandas": LazyLoader,
}


def install() -> None:
    if not any(isinstance(each, LeanGradio) for each in sys.meta_path):
        sys.meta_path.insert(0, LeanGradio())
