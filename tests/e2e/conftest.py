"""A house with the sample library: the real model, engine, catalog, worker and server, taken in once per test run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from gircse_program import Gircse, Server

SAMPLE = "sample"


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs the sample library runs in one process of pytest-xdist; the others do not wait for it."""
    for item in items:
        if "sample_gircse" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(SAMPLE))


@pytest.fixture
def gircse_factory(tmp_path: Path) -> Callable[..., Gircse]:
    """Installations with an empty home each."""

    def build(name: str = "home", *, settings: Mapping[str, str] | None = None) -> Gircse:
        return Gircse(home=tmp_path / name, settings=settings or {})

    return build


@pytest.fixture(scope="session")
def sample_gircse(tmp_path_factory: pytest.TempPathFactory) -> Gircse:
    """The installation whose home `sample_server` serves; commands find its engine and worker running."""
    return Gircse(home=tmp_path_factory.mktemp("sample-home"), settings={})


@pytest.fixture(scope="session")
def sample_server(sample_gircse: Gircse) -> Iterator[Server]:
    """`gircse up --sample`, once every text of the sample library is searchable."""
    with sample_gircse.serving("--sample") as server:
        server.wait_until_idle(SAMPLE)
        yield server
