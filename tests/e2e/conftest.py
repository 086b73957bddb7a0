"""A house with the sample library: the real model, engine, catalog, worker and server, taken in once per test run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from filelock import FileLock
from gircse_program import Gircse, Server

SAMPLE = "sample"


@pytest.fixture
def gircse_factory(tmp_path: Path) -> Callable[..., Gircse]:
    """Installations with an empty home each."""

    def build(name: str = "home", *, settings: Mapping[str, str] | None = None) -> Gircse:
        return Gircse(home=tmp_path / name, settings=settings or {})

    return build


@pytest.fixture(scope="session")
def sample_gircse(tmp_path_factory: pytest.TempPathFactory) -> Gircse:
    """The installation whose home `sample_server` serves; commands find its engine and worker running."""
    own = tmp_path_factory.getbasetemp()
    # pytest-xdist gives every test process a folder of its own inside that of the run.
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "sample-library"
    with FileLock(f"{shared}.lock"):
        if not (shared / "taken-in").exists():
            with Gircse(home=shared / "home", settings={}).serving("--sample") as server:
                server.wait_until_idle(SAMPLE)
            (shared / "taken-in").touch()
    home = tmp_path_factory.mktemp("sample-home")
    shutil.copytree(shared / "home", home, dirs_exist_ok=True)
    return Gircse(home=home, settings={})


@pytest.fixture(scope="session")
def sample_server(sample_gircse: Gircse) -> Iterator[Server]:
    """`gircse up --sample`, once every text of the sample library is searchable."""
    with sample_gircse.serving("--sample") as server:
        server.wait_until_idle(SAMPLE)
        yield server
