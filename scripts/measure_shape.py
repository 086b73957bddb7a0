"""Measures the complexity of the code: `scripts/measure_shape.py`, or `--source` for another checkout.

Static figures come from the syntax trees of the packages in a wheel. With `--trips` it also starts a service in a fresh
folder and counts our files and functions that run during an embedding, a search and an upload, in all threads of the
process; parser processes are not counted.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

PACKAGES = ("app", "embedder", "ingest", "ui")
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.comprehension, ast.match_case)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module of a package, `name` with dots."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def imported(self) -> frozenset[str]:
        """Names with their modules, of `from … import …`."""
        froms = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        return frozenset(f"{node.module}.{alias.name}" for node in froms for alias in node.names)

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


def modules_of(source: Path) -> list[Module]:
    """The tracked Python files of the packages in the checkout `source`."""
    listed = subprocess.run(
        ["git", "ls-files", *(f"{package}/*.py" for package in PACKAGES)],
        cwd=source,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return [
        Module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), source / path) for path in listed
    ]


def methods_of(node: ast.ClassDef) -> dict[str, Function]:
    return {item.name: item for item in node.body if isinstance(item, Function) and not item.name.startswith("_")}


def is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def repeated_names(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Maps each public class name with several definitions to their modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.classes:
            if not node.name.startswith("_"):
                places[node.name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def lonely_protocols(modules: list[Module]) -> tuple[list[str], list[str], int]:
    """Protocols whose methods at most one class has (including its bases); those of them whose class is in the folder
    of the protocol and of all modules that import it; and the number of all protocols."""
    classes = {(module.name, node.name): node for module in modules for node in module.classes}
    by_name: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for (_, name), node in classes.items():
        by_name[name].append(node)

    def all_methods(node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> set[str]:
        methods = set(methods_of(node)) | {
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }
        for base in node.bases:
            name = ast.unparse(base).split("[")[0].split(".")[-1]
            if name not in seen and len(by_name[name]) == 1:
                methods |= all_methods(by_name[name][0], seen | {node.name})
        return methods

    real = {place: node for place, node in classes.items() if not is_protocol(node) and place[0] != "app.testing"}
    protocols = [(module, node) for (module, _), node in classes.items() if is_protocol(node)]
    lonely, inner = [], []
    for module, protocol in protocols:
        wanted = {name for name in all_methods(protocol) if name != "__call__"}
        homes = [home for (home, _), node in real.items() if wanted <= all_methods(node)]
        if not wanted or len(homes) > 1:
            continue
        lonely.append(f"{module}.{protocol.name}")
        importing = [each.name for each in modules if f"{module}.{protocol.name}" in each.imported]
        users = {_folder(name) for name in (module, *importing)}
        if homes and users <= {_folder(homes[0])}:
            inner.append(f"{module}.{protocol.name}")
    return sorted(lonely), sorted(inner), len(protocols)


def _folder(module: str) -> str:
    """Imports have directions between the folders of app/ and embedder/, and between the packages."""
    package, _, rest = module.partition(".")
    return f"{package}.{rest.partition('.')[0]}" if package in ("app", "embedder") else package


def forwarding_methods(modules: Iterable[Module]) -> list[str]:
    """Methods that only call the method of the same name of a component with the same arguments."""
    found = []
    for module in modules:
        for node in module.classes:
            for name, method in methods_of(node).items():
                body = [item for item in method.body if not _is_docstring(item)]
                call = getattr(body[0], "value", None) if len(body) == 1 else None
                call = call.value if isinstance(call, ast.Await) else call
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr == name
                    and ast.unparse(call.func.value).startswith("self._")
                    and _arguments(call) <= {argument.arg for argument in _parameters(method)}
                ):
                    found.append(f"{module.name}.{node.name}.{name}")
    return sorted(found)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _parameters(method: Function) -> list[ast.arg]:
    named = method.args
    return [*named.args, *named.kwonlyargs, *(rest for rest in (named.vararg, named.kwarg) if rest)]


def _arguments(call: ast.Call) -> set[str]:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return {ast.unparse(value.value if isinstance(value, ast.Starred) else value) for value in values}


def complexity(function: Function) -> int:
    """McCabe complexity: 1 plus 1 per branch, as in PyCQA's mccabe; nested functions are counted separately."""
    total, waiting = 1, list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        total += isinstance(node, BRANCHES)
        waiting += ast.iter_child_nodes(node)
    return total


def layers(modules: list[Module], package: str) -> tuple[int, list[str]]:
    """Length of the longest import chain among the folders of `package` (each file at its root counts as one), and
    the cycles.
    """
    members = [module for module in modules if module.name == package or module.name.startswith(f"{package}.")]
    names = {module.name for module in members}

    def room(name: str) -> str:
        parts = name.split(".")
        is_folder = any(other.startswith(f"{'.'.join(parts[:2])}.") for other in names)
        return ".".join(parts[:2]) if len(parts) > 2 or is_folder else name

    arrows: dict[str, set[str]] = defaultdict(set)
    for module in members:
        for target in _imports(module, names):
            if room(target) != room(module.name):
                arrows[room(module.name)].add(room(target))
    depth: dict[str, int] = {}
    cycles: list[str] = []

    def depth_of(name: str, path: tuple[str, ...] = ()) -> int:
        if name in path:
            cycles.append(" → ".join((*path[path.index(name) :], name)))
            return 0
        if name not in depth:
            below = [depth_of(other, (*path, name)) for other in sorted(arrows[name])]
            depth[name] = 1 + max(below, default=0)
        return depth[name]

    return max((depth_of(name) for name in sorted({room(name) for name in names})), default=0), cycles


def _imports(module: Module, names: set[str]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                for name in (f"{node.module}.{alias.name}", node.module):
                    if name in names:
                        yield name
                        break
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)


def measure_statically(source: Path) -> dict[str, Any]:
    modules = modules_of(source)
    lonely, inner, protocols = lonely_protocols(modules)
    numbers = [complexity(function) for module in modules for function in module.functions]
    lengths = {package: [0, 0] for package in PACKAGES}
    for module in modules:
        count = lengths[module.name.split(".")[0]]
        count[0] += 1
        count[1] += module.text.count("\n")
    high, cycles = layers(modules, "embedder")
    return {
        "files": len(modules),
        "lines": sum(lines for _, lines in lengths.values()),
        **{f"lines of {package}": lines for package, (_, lines) in lengths.items()},
        "public class names with several definitions": repeated_names(modules),
        "protocols": protocols,
        "protocols with one implementation": lonely,
        "of those, in the folder of all their users": inner,
        "forwarding methods": forwarding_methods(modules),
        "files at the root of embedder/": len(list((source / "embedder").glob("*.py"))),
        "layers of embedder/": high,
        "cycles of embedder/": cycles,
        "mean complexity": round(sum(numbers) / len(numbers), 2),
        "median lines of a function": _median_length(modules),
    }


def _median_length(modules: Iterable[Module]) -> int:
    lengths = sorted(
        (function.end_lineno or 0) - function.lineno + 1 for module in modules for function in module.functions
    )
    return lengths[len(lengths) // 2]


class Tracer:
    """Counts calls of the packages' functions in every thread started after it, while `counted` is active."""

    def __init__(self, source: Path) -> None:
        self._roots = tuple(f"{source / package}/" for package in PACKAGES)
        self.functions: Counter[tuple[str, str, int]] = Counter()
        self._depths: dict[int, int] = defaultdict(int)
        self._is_counting = False
        self.depth = 0
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.functions.clear()
        self._depths.clear()
        self.depth, self._is_counting = 0, True
        yield
        self._is_counting = False

    def _note(self, frame: Any, event: str, _: object) -> None:
        if not self._is_counting:
            return
        code = frame.f_code
        if event not in {"call", "return"} or not code.co_filename.startswith(self._roots) or code.co_name[0] == "<":
            return
        thread = threading.get_ident()
        self._depths[thread] += 1 if event == "call" else -1
        if event == "call":
            self.functions[code.co_filename, code.co_qualname, code.co_firstlineno] += 1
            self.depth = max(self.depth, self._depths[thread])

    def close(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def figures(self) -> dict[str, int]:
        files = {file for file, _, _ in self.functions}
        return {"files": len(files), "functions": len(self.functions), "depth": self.depth}


def measure_trips(source: Path, *, is_verbose: bool) -> dict[str, Any]:
    """Figures of the second call of each kind, because the first one also loads modules and models."""
    with closing(Tracer(source)) as tracer:
        return _trips(source, tracer, is_verbose=is_verbose)


def _trips(source: Path, tracer: Tracer, *, is_verbose: bool) -> dict[str, Any]:
    sys.path.insert(0, str(source))
    from fastapi.testclient import TestClient

    from app.settings import Settings
    from app.wiring.ingestion import run_worker
    from app.wiring.services import open_services
    from app.wiring.web import open_web
    from embedder import GircseEmbeddings

    trips = {}
    embeddings = GircseEmbeddings(model="gircse-mini")

    def twice(name: str, act: Callable[[int], object]) -> None:
        act(0)
        with tracer.counted():
            act(1)
        trips[name] = tracer.figures
        if is_verbose:
            for file, function, _ in sorted(tracer.functions):
                print(f"{name}\t{Path(file).relative_to(source)}\t{function}", file=sys.stderr)

    twice("embed_query", lambda turn: embeddings.embed_query(f"a cat on {turn + 2} sofas"))
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home), model="gircse-mini")
        with (
            open_services(settings) as services,
            open_web(services) as web,
            TestClient(web, "http://127.0.0.1") as client,
        ):
            client.post("/api/v1/collections", json={"name": "notes"}).raise_for_status()

            def upload(turn: int) -> None:
                note = {
                    "file": (
                        f"note-{turn}.md",
                        f"# Note {turn}\n\nThe cat sleeps on the sofa.".encode(),
                        "text/markdown",
                    )
                }
                sent = client.post("/api/v1/documents", files=note, data={"collection": "notes"})
                sent.raise_for_status()
                stop, found = threading.Event(), sent.json()["document"]["id"]
                worker = threading.Thread(target=run_worker, args=(services, stop))
                worker.start()
                while client.get(f"/api/v1/documents/{found}").json()["state"] not in {"ready", "failed"}:
                    time.sleep(0.05)
                stop.set()
                worker.join()

            def search(turn: int) -> None:
                body = {"query": f"where do {turn + 2} cats sleep?", "collection": "notes"}
                client.post("/api/v1/search", json=body).raise_for_status()

            twice("upload to point", upload)
            twice("default search", search)
    return trips


def shown(figures: Mapping[str, Any], *, is_verbose: bool) -> str:
    """A Markdown table, with lists as their lengths unless `is_verbose`."""
    rows = ["| figure | value |", "| --- | --- |"]
    for name, value in figures.items():
        if isinstance(value, dict) and name.startswith("trip"):
            value = ", ".join(f"{count} {what}" for what, count in value.items())
        elif isinstance(value, list | dict):
            value = f"{len(value)}: {json.dumps(value)}" if is_verbose else len(value)
        rows.append(f"| {name} | {value} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--source", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout to measure"
    )
    parser.add_argument("--trips", action="store_true", help="start a service and count files and functions per call")
    parser.add_argument("--verbose", action="store_true", help="list everything that is counted")
    options = parser.parse_args()
    source = options.source.resolve()
    figures = measure_statically(source)
    if options.trips:
        trips = measure_trips(source, is_verbose=options.verbose)
        figures |= {f"trip of {name}": counted for name, counted in trips.items()}
    print(shown(figures, is_verbose=options.verbose))


if __name__ == "__main__":
    main()
