"""Transactions on the catalog's database, for the classes that SqlCatalog is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.catalog.engine import faults_translated, writing


def utc_now() -> datetime:
    return datetime.now(UTC)


class Sessions:
    """`clock` gives the present time in UTC. Fencing tokens keep the ledger right even if two clocks disagree."""

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._writer = writing(engine)
        self._clock = clock

    @contextmanager
    def _session(self, engine: Engine) -> Iterator[Session]:
        with (
            faults_translated(engine),
            Session(engine, expire_on_commit=False, autoflush=False) as session,
            session.begin(),
        ):
            yield session
