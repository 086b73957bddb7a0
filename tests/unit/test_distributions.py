"""The distributions: which files each installs, their licences, and one line where a package is missing or hidden."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from embedder import checkpoint
from embedder.checkpoint import model_folder
from embedder.errors import ModelNotFoundError
from embedder.integrations import vector_store
from embedder.model_info import DEFAULT_MODEL, MODEL_PACKAGES

ROOT = Path(__file__).parents[2]
EMBEDDER = ROOT / "embedder"
# In the folder of a package, but not for its users.
OWN_FILES = {"pyproject.toml", "README.md", "LICENSE"}


def pyproject_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


MODEL_FOLDERS = [EMBEDDER / "models" / name for name in MODEL_PACKAGES if (EMBEDDER / "models" / name).is_dir()]
FOLDERS = [ROOT, EMBEDDER, *MODEL_FOLDERS]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}
    )


def assert_one_line(ended: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert all(part in ended.stderr for part in parts), ended.stderr


def test_the_embedder_installs_all_its_packages_and_files_but_models_of_their_own() -> None:
    tool = pyproject_of(EMBEDDER)["tool"]["setuptools"]
    code = {
        ".".join(path.relative_to(ROOT).parent.parts) for path in EMBEDDER.rglob("*.py") if "build" not in path.parts
    }
    assert set(tool["packages"]) == code
    data = {
        path
        for path in EMBEDDER.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and not {"build", "dist"} & set(path.parts)
    }
    installed = {
        path
        for package, patterns in tool["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    left_out = {path.relative_to(EMBEDDER) for path in data - installed}
    expected = {path for path in left_out if {*path.parts[1:2]} & set(MODEL_PACKAGES) or ".egg-info" in str(path)} | {
        Path(name) for name in OWN_FILES
    }
    assert left_out == expected
    assert (EMBEDDER / "models" / DEFAULT_MODEL / "adapter_model.safetensors") in installed


def test_the_application_installs_nothing_of_the_embedder() -> None:
    project = pyproject_of(ROOT)
    found = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert not [pattern for pattern in found if fnmatch("embedder", pattern) or fnmatch("research", pattern)]
    assert project["project"]["dependencies"] == [f"gircse-embedder=={project['project']['version']}"]


@pytest.mark.parametrize("folder", MODEL_FOLDERS, ids=lambda folder: folder.name)
def test_a_model_of_its_own_installs_its_files_and_licence(folder: Path) -> None:
    project, tool = pyproject_of(folder)["project"], pyproject_of(folder)["tool"]["setuptools"]
    module = folder.name.replace("-", "_")
    assert (project["name"], tool["packages"]) == (folder.name, [module])
    installed = {path.name for pattern in tool["package-data"][module] for path in folder.glob(pattern)}
    held = {path.name for path in folder.iterdir() if path.is_file()}
    assert held - installed == {"pyproject.toml", "LICENSE"} & held


def test_every_distribution_has_one_version_and_pins_the_others_to_it() -> None:
    projects = [pyproject_of(folder)["project"] for folder in FOLDERS]
    [version] = {project["version"] for project in projects}
    names = {project["name"] for project in projects}
    for project in projects:
        extras = project.get("optional-dependencies", {})
        needed = [*project.get("dependencies", ()), *(each for extra in extras.values() for each in extra)]
        pins = {each for each in needed if "==" in each and each.partition("==")[0] in names}
        assert {each.partition("==")[2] for each in pins} <= {version}
        for each in needed:
            name, _, asked = each.partition("[")
            if name in names and asked:
                home = next(one for one in projects if one["name"] == name)
                assert set(asked.rstrip("]").split(",")) <= home["optional-dependencies"].keys()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_licence_files_exist_and_the_readme_has_absolute_links(folder: Path) -> None:
    project = pyproject_of(folder)["project"]
    assert all((folder / name).is_file() for name in project["license-files"])
    if "LICENSE" in project["license-files"]:
        assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    readme = project["readme"]
    text = readme["text"] if isinstance(readme, dict) else (folder / readme).read_text("utf-8")
    assert not [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith("https://")]


def test_the_licence_page_has_the_licence_of_every_distribution() -> None:
    page = (ROOT / "docs" / "licences.md").read_text("utf-8")
    for folder in FOLDERS:
        project = pyproject_of(folder)["project"]
        assert f"| {project['name']} | `{project['license']}` |" in page
    gemma = EMBEDDER / "models" / "gircse-270m"
    if gemma.is_dir():
        assert pyproject_of(gemma)["project"]["license"] == "LicenseRef-Gemma-Terms-of-Use"


@pytest.mark.parametrize("model", MODEL_PACKAGES)
def test_a_model_of_its_own_is_found_as_a_package_or_says_what_to_install(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_SHIPPED", tmp_path / "none")
    with pytest.raises(ModelNotFoundError, match=re.escape(f"pip install '{MODEL_PACKAGES[model]}'")):
        model_folder(model)
    package = tmp_path / "site" / model.replace("-", "_")
    package.mkdir(parents=True)
    (package / "gircse.json").write_text("{}")
    monkeypatch.syspath_prepend(package.parent)
    assert model_folder(model) == package


@pytest.mark.parametrize("name", ["app", "ingest", "ui", "sample", "embedder"])
def test_the_command_says_that_another_package_hides_ours(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    ended = run(
        *(sys.executable, "-P", "-c", "from gircse_search import main; main()", "--help"),
        PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}",
    )
    assert_one_line(ended, str(tmp_path / name), f"hides the package {name!r}")


def test_the_command_says_that_a_file_hides_ours(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    ended = run(sys.executable, "-P", "-m", "gircse_search", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert_one_line(ended, str(tmp_path / "app.py"), "hides the package 'app'")


def test_the_command_runs_where_nothing_hides_it() -> None:
    ended = run(sys.executable, "-P", "-m", "gircse_search", "--version")
    assert (ended.returncode, ended.stdout.split()[0]) == (0, "gircse")


def without(package: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the module `program` as if `package` was not installed."""
    code = (
        f"import runpy, sys; sys.modules[{package!r}] = None; sys.argv[1:] = {list(arguments)!r}; "
        f"runpy.run_module({program!r}, run_name='__main__', alter_sys=True)"
    )
    return run(sys.executable, "-P", "-c", code)


@pytest.mark.parametrize(
    ("package", "arguments"),
    [("typer", ("--help",)), ("platformdirs", ("search", "x")), ("uvicorn", ("up",)), ("sqlalchemy", ("jobs", "list"))],
)
def test_a_command_without_its_packages_names_the_extra(package: str, arguments: tuple[str, ...]) -> None:
    assert_one_line(without(package, "gircse_search", *arguments), repr(package), "pip install 'gircse-search[app]'")


def test_ctrl_c_while_the_application_is_imported_prints_nothing(tmp_path: Path) -> None:
    # A process that a script started in the background ignores SIGINT, and so do its children.
    code = (
        "import gircse_search, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "gircse_search.import_module = lambda _: signal.raise_signal(signal.SIGINT); gircse_search.main()"
    )
    ended = run(sys.executable, "-P", "-c", code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("package", "program", "extra"),
    [
        ("uvicorn", "embedder.server", "server"),
        ("accelerate", "embedder.training", "train"),
        ("bm25s", "embedder.evaluation", "eval"),
        ("sentence_transformers", "embedder.sentence_transformers", "sentence-transformers"),
        ("ray", "embedder.server.ray_serve", "ray"),
    ],
)
def test_a_program_of_the_embedder_without_its_packages_names_the_extra(package: str, program: str, extra: str) -> None:
    assert_one_line(without(package, program, "--help"), repr(package), f"pip install 'gircse-embedder[{extra}]'")
    assert extra in pyproject_of(EMBEDDER)["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("llama_index", "embedder.llamaindex", "llamaindex"), ("prometheus_client", "embedder.engine.engine", "server")],
)
def test_an_import_without_its_packages_names_the_extra(package: str, name: str, extra: str) -> None:
    ended = run(sys.executable, "-P", "-c", f"import sys; sys.modules[{package!r}] = None; import {name}")
    assert f"Run `pip install 'gircse-embedder[{extra}]'`" in ended.stderr.splitlines()[-1]


def test_a_catalog_in_postgresql_without_psycopg_names_the_extra() -> None:
    code = "import sys; sys.modules['psycopg'] = None; from gircse_search import main; main()"
    ended = run(
        *(sys.executable, "-P", "-c", code, "jobs", "list"), GIRCSE_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"
    )
    assert_one_line(ended, "pip install 'gircse-search[postgres]'")


def test_the_vector_store_is_opened_by_the_application_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.wiring.langchain import open_vector_store as of_application
    from embedder import open_vector_store

    target = pyproject_of(ROOT)["project"]["entry-points"]["gircse.application"]["open_vector_store"]
    assert target == f"{of_application.__module__}:{of_application.__name__}"
    opened: list[Any] = []

    class Entry:
        def load(self) -> Any:
            return lambda *arguments, **named: opened.append((arguments, named))

    monkeypatch.setattr(vector_store, "entry_points", lambda **_: [Entry()])
    open_vector_store("letters", query_instruction="Identify the feeling.")
    assert opened == [(("letters",), {"query_instruction": "Identify the feeling.", "settings": None})]
    monkeypatch.setattr(vector_store, "entry_points", lambda **_: [])
    with pytest.raises(ImportError, match=r"pip install 'gircse-search\[app\]' langchain-qdrant"):
        open_vector_store("letters")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distributions, built from a copy of the sources. Needs uv and a package index that has setuptools."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    for folder in FOLDERS:
        subprocess.run(
            [sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", str(out), copy / folder.relative_to(ROOT)],
            check=True,
        )
    return out


def test_the_check_of_distributions_asks_for_a_folder() -> None:
    ended = run(sys.executable, str(ROOT / "scripts" / "check_distributions.py"))
    assert (ended.returncode, "the following arguments are required: folder" in ended.stderr) == (2, True)


@pytest.mark.long
@pytest.mark.xdist_group("distributions")
def test_built_distributions_hold_what_they_should(built: Path) -> None:
    checked = run(sys.executable, str(ROOT / "scripts" / "check_distributions.py"), str(built))
    assert checked.returncode == 0, checked.stderr
    twine = [sys.executable, "-m", "uv", "tool", "run", "--quiet", "twine>=6.2,<7", "check", "--strict"]
    described = run(*twine, *map(str, built.glob("gircse_*")))
    assert described.returncode == 0, described.stdout + described.stderr


@pytest.mark.long
@pytest.mark.xdist_group("distributions")
def test_a_project_with_its_own_app_and_ui_works_beside_the_embedder(built: Path, tmp_path: Path) -> None:
    """The wheel alone, in an environment that has the packages it needs but not gircse-search."""
    environment, project = tmp_path / "venv", tmp_path / "project"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = str(environment / "bin" / "python")
    [wheel] = built.glob("gircse_embedder-*.whl")
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--python", python, wheel], check=True
    )
    for name in ("app", "ui"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("OWN = True\n")
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (project / "test_own.py").write_text(
        "from importlib.util import find_spec\n"
        "import app, ui\n"
        "from embedder import GircseEmbeddings\n\n"
        "def test_own():\n"
        "    assert app.OWN and ui.OWN\n"
        "    assert not any(map(find_spec, ('ingest', 'sample', 'gircse_search')))\n"
        "    assert len(GircseEmbeddings().embed_query('It rained.')) == 384\n"
    )
    # Folders in PYTHONPATH give their packages, and none of their .pth files, which would bring gircse-search.
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    ended = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:langsmith_plugin"],
        cwd=project, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": packages},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
