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
# Folders of app/ with their contents, by layer, the lowest first. No module imports from a layer above its own.
LAYERS: tuple[dict[str, str], ...] = (
    {"app.errors": "errors that users see", "app.edge": "the process that serves Qdrant Edge"},
    {
        "app.types": "immutable values shared by several folders",
        "app.settings": "settings from the environment and gircse.toml",
        "app.oidc_settings": "settings of sign-in by an OpenID provider",
        "app.answer_settings": "settings of answers by a language model",
        "app.source_settings": "settings of synced sources and of alerts",
        "app.qdrant_settings": "settings of a Qdrant server or cluster",
    },
    {"app.ports": "protocols of what the core depends on, and of its services"},
    {"app.runtime": "parts that every process uses: logs, metrics, traces, readiness, caches, locks"},
    {"app.search": "answering a query: retrieval, fusion, highlights, lenses"},
    {
        "app.answers": "answers with citations: sentences of documents, or of a language model, then checked",
        "app.catalog": "SQL: implements the ports of the catalog",
        "app.documents": "documents: add, store, show, move, delete",
        "app.evaluation": "search quality: judged queries, measures, comparisons",
        "app.testing": "small implementations of ports for tests",
        "app.openid": "the client of an OpenID provider",
        "app.vectors": "the vector index on Qdrant",
    },
    {
        "app.collections": "lens indexes, saved and monitored searches, synced sources",
        "app.maintenance": "backup, transfer, re-index, checks",
    },
    {"app.migrations": "migrations of the catalog's schema", "app.services": "the parts of a running application"},
    {"app.access": "users, keys, and the authorization of every call"},
    {
        "app.agents": "MCP",
        "app.api": "HTTP: routes, bodies, middleware",
        "app.commands": "the command line, a module for each group of commands",
    },
    {"app.cli": "the entry point of `gircse`", "app.wiring": "the composition root, which builds all services"},
)
# The same for embedder/. Its root has the modules that callers import.
EMBEDDER_LAYERS: tuple[dict[str, str], ...] = (
    {
        "embedder.errors": "the errors of the library",
        "embedder.refinement": "the result of embedding one text, without torch",
        "embedder.refinement_steps": "the words of every step, without torch and numpy",
        "embedder.model_info": "facts about a model for clients, without torch",
        "embedder.lru": "an LRU cache",
        "embedder.vector_cache": "an LRU cache of vectors",
        "embedder.command": "output, exit status and error messages of commands",
    },
    {"embedder.text": "texts and instructions to token ids, soft tokens to words"},
    {"embedder.model": "the model and its forward pass"},
    {"embedder.extensions": "optional parts of a contract: sentence selection, projections, generators"},
    {"embedder.encoder": "embeds texts: vectors and soft tokens"},
    {
        "embedder.checkpoint": "loads an encoder by a model's name",
        "embedder.engine": "the scheduler of one model",
    },
    {
        "embedder.server": "the HTTP server of an engine",
        "embedder.integrations": "LangChain",
        "embedder.sentence_transformers": "a module of sentence-transformers, named by exported folders",
        "embedder.evaluation": "measures a model on local files",
    },
    {"embedder.llamaindex": "LlamaIndex", "embedder.training": "trains GIRCSE"},
)
MAX_ROOT_FILES = 12
# Modules of app/ that ingest/ and ui/ may import: values, protocols, errors, and functions that import only these.
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
# Modules of the embedder that every package may import; they do not import torch. Dataclasses, so that a refinement is
# the same value everywhere; classification by values and splitting into sentences, so that both work the same
# everywhere; limits of requests, and the formats of other APIs, which both servers have; the output of commands.
FREE_OF_EMBEDDER = {
    *("embedder.refinement", "embedder.refinement_steps", "embedder.model_info", "embedder.lru"),
    *("embedder.text.mentions", "embedder.text.relevance", "embedder.text.sentences", "embedder.server.http_guard"),
    *("embedder.server.client_errors", "embedder.server.rerank_shapes", "embedder.server.unknown_paths"),
    *("embedder.server.description", "embedder.server.networks", "embedder.command.standard_output"),
}
# Packages that may break a direction, and why.
ENTRY_POINTS = {"app.wiring": "builds the implementations of the ports"}
# Libraries that only these modules may import.
RESERVED = {
    "qdrant_client": {"app.vectors"},
    "qdrant_edge": {"app.edge"},
    "sqlalchemy": {"app.catalog", "app.migrations"},
    "gradio": {"ui"},
    "joserfc": {"app.openid"},
    "transformers": {"embedder.model.pretrained"},  # two threads must not import it from two places
}
# Functions that import a module by its name. The checks here do not see such imports, so few modules may have them.
IMPORTERS = {"import_module", "__import__", "run_module"}
IMPORTS_BY_NAME = {
    "app.wiring.tracing": "imports OpenTelemetry only if tracing is on",
    "app.cli": "imports only the command that is run",
    "app.commands.wiring": "imports app.wiring late, so that `gircse --help` does not wait for torch",
    "app.wiring.openai": "imports the engine, and torch, only if the model runs in this process",
    "app.wiring.nodes": "imports the model, and torch, only in processes of a cluster that embed",
    "app.wiring.rerankers": "imports sentence-transformers only for a cross-encoder",
    "app.wiring.training": "runs the training, which is a separate program",
    "ingest.readers.document": "imports a reader, and its parser, with the first document of its format",
    "embedder": "imports torch when a name that needs it is used",
    "embedder.model.adapter": "imports PEFT only for adapters that need it",
    "embedder.model.backbone": "imports transformers only for layouts other than BERT",
    "embedder.checkpoint": "imports transformers only for a model that generates text to embed",
    "embedder.text.prompts": "imports transformers only for a model without tokenizer.json",
}
LOCAL_IMPORTS: dict[str, str] = {
    "app.wiring.access: app.openid": "the extra [oidc]",
    "ingest.alerts: apprise": "the extra [alerts]",
    "ingest.recurring.sync_child: ingest.recurring.s3": "the extra [sources]",
    "ingest.recurring.web: feedparser": "the extra [sources]",
    "app.wiring.web: app.wiring.agents": "the extra [mcp]",
    "app.wiring.answer_reader: embedder.extensions.answer_reader": "torch, so that the start does not wait for it",
    "ingest.readers.recognized_pages: ingest.readers.recognition": "the extra [ocr], which takes a second",
    "app.edge.filters: numpy": "a third of the engine's start time, and only filters by a truth value need it",
    "embedder.evaluation.embedders: sentence_transformers": "seconds, and only one compared system needs it",
    "embedder.evaluation.embedders: sentence_transformers.sentence_transformer.modules": "as above",
}
# Programs whose output people read, and those of them that do not call `run_program`, and why.
PROGRAMS = ("embedder", "research", "scripts")
NOT_BY_RUN_PROGRAM = {
    "scripts/measure_shape.py": "it imports the embedder of the checkout that it measures",
    "scripts/pin_images.py": "it runs before anything is installed",
}
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
LONG_DOCSTRINGS = dict.fromkeys(("app.errors", "embedder.errors", "embedder.engine.errors"), "the tree of errors")


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


def layer_of(module: str, layers: Sequence[Mapping[str, str]] = LAYERS) -> int:
    """The number of the module's layer. Raises ValueError, which lists the folders, for a module in none of them."""
    for layer, folders in enumerate(layers):
        if is_within(module, set(folders)):
            return layer
    places = "\n".join(f"  {name}: {what}" for folders in layers for name, what in folders.items())
    package = module.partition(".")[0]
    raise ValueError(f"{module} is in no listed folder of {package}/. Move it to one of them:\n{places}")


def upward_imports(
    imports: Mapping[str, Iterable[str]], layers: Sequence[Mapping[str, str]] = LAYERS, package: str = "app"
) -> list[str]:
    return [
        f"{module} imports {name}, which is above it"
        for module, names in imports.items()
        for name in names
        if is_within(name, {package}) and layer_of(name, layers) > layer_of(module, layers)
    ]


def test_no_import_of_app_runs_up() -> None:
    of_app = {module: imports_of(module) - {"app"} for module in MODULES if module.startswith("app.")}
    assert not upward_imports(of_app)


def test_no_import_of_the_embedder_runs_up() -> None:
    within = {module: imports_of(module) - {"embedder"} for module in MODULES if module.startswith("embedder.")}
    assert not upward_imports(within, EMBEDDER_LAYERS, "embedder")


def test_few_files_stand_at_the_root_of_the_embedder() -> None:
    assert len(list((ROOT / "embedder").glob("*.py"))) <= MAX_ROOT_FILES


def test_the_error_for_a_misplaced_file_lists_the_folders() -> None:
    for misplaced in ("app.helpers", "app.tools.text", "app.searching"):
        with pytest.raises(ValueError, match=r"no listed folder of app/[\s\S]*app.search: answering a query"):
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


def test_every_program_leaves_its_output_to_one_place() -> None:
    programs = {
        path.relative_to(ROOT).as_posix(): text.partition('\nif __name__ == "__main__":\n')[2]
        for folder in PROGRAMS
        for path in (ROOT / folder).rglob("*.py")
        if '\nif __name__ == "__main__":\n' in (text := path.read_text(encoding="utf-8"))
    }
    assert "embedder/server/__main__.py" in programs
    others = {name for name, block in programs.items() if "run_program(" not in block}
    assert others == {name for name in NOT_BY_RUN_PROGRAM if (ROOT / name).exists()}


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
