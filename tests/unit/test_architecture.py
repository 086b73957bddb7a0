"""The shape of the application: who may import whom, no cycles, no long files or functions, no hidden imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("architecture")  # every file is parsed once

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "embedder", "ingest", "ui")
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 60

SQL, QDRANT = {"sqlalchemy", "alembic", "psycopg"}, {"qdrant_client", "qdrant_edge"}
# Folders of app/, the lowest floor first: what belongs there, which imports nothing of a floor above its own.
FLOORS: tuple[dict[str, str], ...] = (
    {"app.errors": "every error that a person is shown", "app.edge": "the process that serves Qdrant Edge, by itself"},
    {
        "app.types": "frozen values that cross folder borders",
        "app.settings": "what is set from outside",
        "app.oidc_settings": "of it, sign-in",
        "app.answer_settings": "of it, the language model that words answers",
        "app.source_settings": "of it, sources that come again and alerts",
        "app.qdrant_settings": "of it, a Qdrant server or cluster",
    },
    {"app.ports": "protocols: what the core needs of others, and interfaces of the core"},
    {"app.runtime": "what every process has: logs, metrics, traces, readiness, caches, locks"},
    {"app.search": "how a query is answered, from its vector to highlights and lenses"},
    {
        "app.answers": "answers with citations: sentences of documents, or checked ones of a language model",
        "app.catalog": "SQL: the catalog behind its ports",
        "app.documents": "documents: in, stored, shown, moved, out",
        "app.evaluation": "how good answers are: judged queries, measures, comparisons",
        "app.testing": "doubles of ports, for tests",
        "app.openid": "OpenID providers behind their port",
        "app.vectors": "vector indexes behind their port",
    },
    {
        "app.collections": "lens indexes, saved and monitored searches, synced sources",
        "app.maintenance": "backup, transfer, re-index, checks",
    },
    {"app.migrations": "steps of the catalog's schema", "app.services": "the parts of a running application"},
    {"app.access": "users, keys, and the authorizer before every service"},
    {
        "app.agents": "MCP",
        "app.api": "HTTP: routes, their bodies and answers, middleware",
        "app.commands": "the command line, a module for each group of commands",
    },
    {"app.cli": "the entry point of `gircse`", "app.wiring": "the composition root, where real parts meet ports"},
)
# The same of embedder/, whose root holds what callers import.
EMBEDDER_FLOORS: tuple[dict[str, str], ...] = (
    {
        "embedder.errors": "every error of the library",
        "embedder.refinement": "what a model makes of a text, a frozen value",
        "embedder.refinement_steps": "of it, the words of every step",
        "embedder.model_info": "what callers are told of a model, a frozen value",
        "embedder.lru": "the values that were asked for last",
        "embedder.vector_cache": "the vectors that were computed last",
        "embedder.command": "how commands end",
    },
    {"embedder.text": "from texts and instructions to token ids, and from soft tokens to words"},
    {"embedder.model": "what a model is, and how its weights compute"},
    {"embedder.extensions": "what a contract may add: selection of sentences, projections, generators"},
    {"embedder.encoder": "texts in, vectors and soft tokens out"},
    {
        "embedder.checkpoint": "from a model's name to an encoder",
        "embedder.engine": "one scheduler for all that ask a model",
    },
    {
        "embedder.server": "HTTP around an engine",
        "embedder.integrations": "interfaces of LangChain",
        "embedder.sentence_transformers": "the class that exported folders name",
        "embedder.evaluation": "how good a model is on one's own data",
    },
    {"embedder.llamaindex": "the interface of LlamaIndex", "embedder.training": "how GIRCSE is trained"},
)
MAX_ROOT_FILES = 12
# Modules of app/ that ingest/ and ui/ may import: values, protocols, errors, and functions of nothing but these.
CORE = {"app.types", "app.ports", "app.errors"}
FUNCTIONS = {
    "ingest": {"app.documents.garbage", "app.search.fingerprints"},
    "ui": {
        "app.search.export",
        "app.search.judgements",
        "app.search.lenses",
        "app.search.query_language",
        "app.search.soft_tokens",
        "app.search.stages",
        "app.search.value_syntax",
    },
}

# Folder → what it must never import, by first dotted parts.
FORBIDDEN = {
    "app": {"embedder", "ingest", "ui", "research", "gradio", "torch", "transformers", "peft"},
    "embedder": {"app", "ingest", "ui", "research"} | SQL | QDRANT,
    "ingest": {"embedder", "ui", "research", "gradio", "torch", "transformers"} | SQL | QDRANT,
    "ui": {"embedder", "ingest", "research", "torch", "transformers"} | SQL | QDRANT,
}
# Of the embedder, all may import these, which know no torch: frozen dataclasses, so that a refinement is one value
# everywhere, how texts of the caller's own are read as values, so that they are read alike everywhere, and where their
# sentences end, how much of a request every server reads before it knows whose it is, and the requests, answers and
# errors of others' clients, which both servers have alike.
FREE_OF_EMBEDDER = {
    *("embedder.refinement", "embedder.refinement_steps", "embedder.model_info", "embedder.lru"),
    *("embedder.text.mentions", "embedder.text.relevance", "embedder.text.sentences", "embedder.server.http_guard"),
    *("embedder.server.client_errors", "embedder.server.rerank_shapes", "embedder.server.unknown_paths"),
    "embedder.server.description",
}
# Packages that may break a direction, and why.
ENTRY_POINTS = {"app.wiring": "joins the real parts to the ports"}
# Libraries that only these modules may import.
RESERVED = {
    "qdrant_client": {"app.vectors"},
    "qdrant_edge": {"app.edge"},
    "sqlalchemy": {"app.catalog", "app.migrations"},
    "gradio": {"ui"},
    "joserfc": {"app.openid"},
    "transformers": {"embedder.model.pretrained"},  # two threads must not import it from two places
}
# What imports a module by its name would escape the walk.
IMPORTERS = {"import_module", "__import__", "run_module"}
IMPORTS_BY_NAME = {
    "app.wiring.tracing": "brings in OpenTelemetry where traces are wanted",
    "app.cli": "brings in the one command that is asked for",
    "app.commands.wiring": "opens app.wiring, so that `gircse --help` does not wait for torch",
    "app.wiring.openai": "opens the engine, and torch, only where the model is in this process",
    "app.wiring.nodes": "loads the model, and torch, only in processes of a cluster that embed",
    "app.wiring.rerankers": "brings in sentence-transformers where a cross-encoder re-ranks",
    "app.wiring.training": "runs the training, a program of its own",
    "ingest.readers.document": "loads a reader, and its parser, with the first document of its format",
    "embedder": "brings in torch when a name that needs it is used",
    "embedder.model.adapter": "brings in PEFT for the adapters that need it",
    "embedder.model.backbone": "brings in transformers for every layout but BERT's",
    "embedder.checkpoint": "brings in transformers where a language model writes what texts are embedded with",
    "embedder.text.prompts": "brings in transformers where a model has no tokenizer.json",
}
LOCAL_IMPORTS: dict[str, str] = {
    "app.wiring.access: app.openid": "the extra [oidc]",
    "ingest.alerts: apprise": "the extra [alerts]",
    "ingest.recurring.sync_child: ingest.recurring.s3": "the extra [sources]",
    "ingest.recurring.web: feedparser": "the extra [sources]",
    "app.wiring.web: app.wiring.agents": "the extra [mcp]",
    "app.wiring.answer_reader: embedder.extensions.answer_reader": "torch, which a start does not wait for",
    "ingest.readers.recognized_pages: ingest.readers.recognition": "the extra [ocr], which takes a second",
    "app.edge.filters: numpy": "a third of the time in which the engine starts, for filters by a truth value alone",
    "embedder.evaluation.embedders: sentence_transformers": "seconds, for those who compare other systems",
    "embedder.evaluation.embedders: sentence_transformers.sentence_transformer.modules": "as above",
}
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
LONG_DOCSTRINGS = dict.fromkeys(("app.errors", "embedder.errors", "embedder.engine.errors"), "draws the tree of errors")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files() -> list[Path]:
    return sorted(
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "versions" not in path.relative_to(ROOT).parts
    )


MODULES = {module_name(path): path for path in source_files()}


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def nodes_of(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(module)))


def imported_names(module: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules that `nodes` import; `from a import b` counts as a.b where that is a module."""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield whole if whole in MODULES else base


@cache
def imports_of(module: str) -> frozenset[str]:
    return frozenset(imported_names(module, nodes_of(module)))


@pytest.fixture(scope="module", autouse=True)
def trees_are_given_back() -> Iterator[None]:
    yield
    for each in (tree_of, nodes_of, imports_of):
        each.cache_clear()


def is_within(name: str, parents: set[str]) -> bool:
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)


def test_the_walk_sees_every_folder() -> None:
    assert {name.split(".")[0] for name in MODULES} == set(FOLDERS)
    assert "app.types.documents" in imports_of("app.ports.parts")


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_follow_the_directions(folder: str) -> None:
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        if is_within(module, {folder}) and not is_within(module, set(ENTRY_POINTS))
        for name in imports_of(module)
        if (is_within(name, FORBIDDEN[folder]) and name not in FREE_OF_EMBEDDER)
        or (folder in FUNCTIONS and is_within(name, {"app"}) and not is_within(name, CORE | FUNCTIONS[folder]))
    ]
    assert not wrong


def floor_of(module: str, floors: Sequence[Mapping[str, str]] = FLOORS) -> int:
    """Raises ValueError, which says what belongs where, for what is in none of the folders."""
    for floor, folders in enumerate(floors):
        if is_within(module, set(folders)):
            return floor
    places = "\n".join(f"  {name}: {what}" for folders in floors for name, what in folders.items())
    package = module.partition(".")[0]
    raise ValueError(f"{module} is at no place of {package}/. Move it to where it belongs:\n{places}")


def upward_imports(
    imports: Mapping[str, Iterable[str]], floors: Sequence[Mapping[str, str]] = FLOORS, package: str = "app"
) -> list[str]:
    return [
        f"{module} imports {name}, which is above it"
        for module, names in imports.items()
        for name in names
        if is_within(name, {package}) and floor_of(name, floors) > floor_of(module, floors)
    ]


def test_no_import_of_app_runs_up() -> None:
    of_app = {module: imports_of(module) - {"app"} for module in MODULES if module.startswith("app.")}
    assert not upward_imports(of_app)


def test_no_import_of_the_embedder_runs_up() -> None:
    within = {module: imports_of(module) - {"embedder"} for module in MODULES if module.startswith("embedder.")}
    assert not upward_imports(within, EMBEDDER_FLOORS, "embedder")


def test_few_files_stand_at_the_root_of_the_embedder() -> None:
    assert len(list((ROOT / "embedder").glob("*.py"))) <= MAX_ROOT_FILES


def test_a_file_at_the_wrong_place_is_told_the_right_one() -> None:
    for misplaced in ("app.helpers", "app.tools.text", "app.searching"):
        with pytest.raises(ValueError, match=r"no place of app/[\s\S]*app.search: how a query is answered"):
            upward_imports({misplaced: ["app.errors"]})
    assert upward_imports({"app.search.new": ["app.types.search", "app.ports.parts", "numpy"]}) == []
    assert upward_imports({"app.ports.new": ["app.access.accounts"]}) == [
        "app.ports.new imports app.access.accounts, which is above it"
    ]


def test_imports_by_name_have_one_home() -> None:
    found = {
        module
        for module in MODULES
        for node in nodes_of(module)
        if (isinstance(node, ast.Attribute) and node.attr in IMPORTERS)
        or (isinstance(node, ast.Name) and node.id in IMPORTERS)
    }
    assert found == set(IMPORTS_BY_NAME)


def test_values_of_the_embedder_bring_no_torch() -> None:
    code = f"import sys, {', '.join(FREE_OF_EMBEDDER)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_heavy_libraries_have_one_home() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        for name in imports_of(module)
        for library, homes in RESERVED.items()
        if is_within(name, {library}) and not is_within(module, homes)
    ]
    assert not wrong


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {module: {name for name in imports_of(module) if name in MODULES and name != module} for module in MODULES}
    for module, needed in graph.items():
        # A package whose __init__ lists its public names is not the same as its own parts.
        graph[module] = {name for name in needed if not module.startswith(f"{name}.")}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_no_file_is_too_long() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module for module, lines in lengths.items() if lines > MAX_FILE_LINES} == set(LONG_FILES)


def test_no_function_is_too_long() -> None:
    long = {
        f"{module}.{node.name}"
        for module in MODULES
        for node in nodes_of(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert long == set(LONG_FUNCTIONS)


def test_no_function_imports_in_secret() -> None:
    hidden = {
        f"{module}: {name}"
        for module in MODULES
        for function in nodes_of(module)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for name in imported_names(module, ast.walk(function))
    }
    assert hidden == set(LOCAL_IMPORTS)


def test_a_public_class_name_has_one_definition() -> None:
    homes: dict[str, list[str]] = {}
    for module in MODULES:
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert not {name: modules for name, modules in homes.items() if len(modules) > 1}


def test_every_module_says_briefly_what_it_is_for() -> None:
    docstrings = {module: ast.get_docstring(tree_of(module)) or "" for module in MODULES if tree_of(module).body}
    assert {module for module, text in docstrings.items() if not 1 <= len(text.splitlines()) <= 5} == set(
        LONG_DOCSTRINGS
    )


def test_the_trees_of_the_docs_are_the_real_one() -> None:
    """Every file and folder that they name exists, and no folder of app/ and no package is left out."""
    readme, page = ROOT / "README.md", ROOT / "docs" / "why" / "architecture.md"
    tree = readme.read_text(encoding="utf-8").split("## The tree\n")[1].split("```")[1]
    above, folders = "", set()
    for line in tree.strip().splitlines():
        names = re.findall(r"\b([a-z_]+)/", line)
        above = above if line.startswith(" ") else f"{names[0]}/"
        folders |= {f"{above}{name}" for name in names} if line.startswith(" ") else set(names)
    walked = set(re.findall(r"`((?:app|docs|embedder|ingest|tests|ui)/[\w./-]*)`", page.read_text(encoding="utf-8")))
    missing = {name for name in folders | walked if not (ROOT / name).exists()}
    assert not missing, f"README.md or {page.relative_to(ROOT)} names what does not exist: {sorted(missing)}"
    real = {f"app/{path.parent.name}" for path in (ROOT / "app").glob("*/__init__.py")}
    assert set(FOLDERS) | real <= folders, f"README's tree lacks {sorted((set(FOLDERS) | real) - folders)}"
    assert real <= {name.rstrip("/") for name in walked}, f"{page.name} lacks {sorted(real - walked)}"
