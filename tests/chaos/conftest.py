"""What the tests of this folder share: a tiny real model, made once, and a home over the real wiring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from away_application import AwayApplication
from chaos_model import tiny_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def application_factory(tmp_path: Path, model: Path) -> Iterator[Callable[..., AwayApplication]]:
    with ExitStack() as opened:

        def build(home: Path | None = None, **settings: object) -> AwayApplication:
            return opened.enter_context(
                AwayApplication(home or tmp_path / "home", logs=tmp_path, model=str(model), **settings)
            )

        yield build
