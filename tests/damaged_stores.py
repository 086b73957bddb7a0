"""An installation with a toy model on real stores, and what can happen to its files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from api_application import api_of
from click.testing import Result
from fastapi.testclient import TestClient
from sqlalchemy import text
from typer.testing import CliRunner

from app.catalog import connect
from app.cli import app
from app.commands.wiring import open_services
from app.edge import EdgeProcess
from app.settings import Settings
from app.testing import text_source

LIBRARY, OTHER = "library", "other"
ANIMALS = ("owl", "eel", "bat", "fox", "yak", "ant", "hen", "cod")


def text_of(number: int) -> str:
    return f"The {ANIMALS[number % len(ANIMALS)]} number {number} lives in place{number} beside stone{number * 7}."


@dataclass(frozen=True)
class Installation:
    """`settings`: further environment variables."""

    home: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def engine(self) -> EdgeProcess:
        return EdgeProcess(self.edge)

    def start_engine(self) -> None:
        """For all that follows, in place of one for each command."""
        self.engine.start()

    def call(self, *arguments: str, code: int | None = 0) -> Result:
        inherited: dict[str, str | None] = {name: None for name in os.environ if name.startswith("GIRCSE_")}
        own = {"GIRCSE_HOME": str(self.home), "COLUMNS": "4000", **self.settings}
        result = CliRunner().invoke(app, arguments, env={**inherited, **own})
        assert isinstance(result.exception, SystemExit | None), (arguments, result.exception)
        assert code is None or result.exit_code == code, (arguments, result.exit_code, result.output)
        return result

    def load_settings(self) -> Settings:
        names = {name.removeprefix("GIRCSE_").lower(): value for name, value in self.settings.items()}
        return Settings(home=self.home, **names)

    def fill(self, documents: int, folder: Path) -> None:
        """The library from files, and some more in another collection."""
        folder.mkdir()
        for number in range(documents):
            (folder / f"{number:03}.txt").write_text(text_of(number), "utf-8")
        self.call("ingest", str(folder), "-c", LIBRARY)
        with open_services(self.load_settings()) as services:
            services.library.ensure_collection(OTHER)
            for number in range(3):
                services.library.add_document(OTHER, text_source(f"text://{number}", f"Ship {number} sails."))
        self.call("ingest", str(folder / "000.txt"), "-c", OTHER)  # works off what waits, too

    @contextmanager
    def serving(self) -> Iterator[TestClient]:
        """The API in this process, watched over as `gircse up` does it."""
        with (
            open_services(self.load_settings()) as services,
            services.integrity.watching(),
            TestClient(api_of(services), raise_server_exceptions=False) as client,
        ):
            services.integrity.check_indexes()
            services.integrity.check_files()
            yield client

    # What can happen

    @property
    def edge(self) -> Path:
        return self.home / "edge"

    def shard(self, collection: str = LIBRARY) -> Path:
        table = json.loads((self.edge / "collections.json").read_text("utf-8"))
        [entry] = [entry for name, entry in table["collections"].items() if name.startswith(f"{collection}--")]
        return self.edge / "shards" / entry["folder"]

    def segment_file(self, pattern: str) -> Path:
        [found] = self.shard().glob(f"segments/*/{pattern}")
        return found

    def kept_text(self) -> Path:
        return min((self.home / "files").glob("*.txt"))

    def stored_file(self) -> Path:
        return min(path for path in (self.home / "files").iterdir() if len(path.name) == 64)


def overwrite(path: Path, count: int, *, start: int = 0, data: bytes | None = None) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data or bytes(count))


def flip_bit(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    overwrite(path, 0, start=place, data=bytes(data[place : place + 1]))


def alter(path: Path) -> None:
    """Other bytes, as many as before."""
    path.write_bytes(bytes(each ^ 1 for each in path.read_bytes()))


def drop_pages(path: Path) -> None:
    """All pages but the first, as after a disk lost them."""
    overwrite(path, path.stat().st_size - 8192, start=8192)


INDEX_DAMAGE: dict[str, Callable[[Installation], Any]] = {
    "vectors cut": lambda it: os.truncate(it.segment_file("vector_storage/vectors/chunk_0.mmap"), 4096),
    "vectors zeroed": lambda it: overwrite(it.segment_file("vector_storage/vectors/chunk_0.mmap"), 30_000),
    "payloads cut": lambda it: os.truncate(it.segment_file("payload_storage/page_0.dat"), 1000),
    "words zeroed": lambda it: overwrite(it.segment_file("vector_storage-bm25/store/page_0.dat"), 60_000),
    "segment overwritten": lambda it: alter(it.segment_file("segment.json")),
    "an index removed": lambda it: shutil.rmtree(it.shard()),
    "edge/ removed": lambda it: shutil.rmtree(it.edge),
    "the table of indexes cut": lambda it: os.truncate(it.edge / "collections.json", 100),
}
FILE_DAMAGE: dict[str, Callable[[Installation], Any]] = {
    "a stored file deleted": lambda it: it.stored_file().unlink(),
    "a stored file overwritten": lambda it: alter(it.stored_file()),
    "a stored file cut": lambda it: os.truncate(it.stored_file(), 5),
}


def overwrite_table(it: Installation, table: str) -> None:
    """The first page of its file, which the server has not read yet."""
    engine = connect(it.settings["GIRCSE_DATABASE_URL"])
    with engine.connect() as connection:
        folder = connection.scalar(text("SHOW data_directory"))
        place = connection.scalar(text("SELECT pg_relation_filepath(:name)"), {"name": table})
    engine.dispose()
    overwrite(Path(folder) / place, 8192, data=os.urandom(8192))


def drop_table(it: Installation, table: str) -> None:
    engine = connect(it.settings["GIRCSE_DATABASE_URL"])
    with engine.begin() as connection:
        connection.execute(text(f"DROP TABLE {table} CASCADE"))
    engine.dispose()


POSTGRES_DAMAGE: dict[str, Callable[[Installation], Any]] = {
    "a table of the catalog dropped": lambda it: drop_table(it, "document"),
    "a page of the catalog overwritten": lambda it: overwrite_table(it, "document"),
}
SQLITE_DAMAGE: dict[str, Callable[[Installation], Any]] = {
    "pages of the catalog zeroed": lambda it: drop_pages(it.home / "catalog.db"),
    "the header of the catalog destroyed": lambda it: overwrite(it.home / "catalog.db", 100, data=os.urandom(100)),
}
