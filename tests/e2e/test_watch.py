"""`gircse watch` as a person runs it: the collection follows the folder, also over a restart, and no empty disk."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gircse_program import GIRCSE, Gircse
from patience import PATIENCE_S, wait_until

from app.catalog import SqlCatalog, connect
from app.types.documents import Document, DocumentState

TINY_MODEL = Path(__file__).parents[1] / "golden" / "reference" / "tiny-qwen2"


class Watching:
    """A running `gircse watch` and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(iter(self.process.stdout.readline, ""))

    def wait_until_said(self, text: str) -> None:
        def is_said() -> bool:
            assert self.process.poll() is None or self._reader.is_alive(), self.said
            return any(text in line for line in self.said)

        wait_until(is_said, told=lambda: self.said)

    def end(self) -> int:
        """The exit code of a process that ends by itself."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code


@pytest.fixture
def gircse(gircse_factory: Callable[..., Gircse]) -> Gircse:
    return gircse_factory(settings={"GIRCSE_MODEL": str(TINY_MODEL)})


@pytest.fixture
def stored(gircse: Gircse) -> Iterator[Callable[[], dict[str, Document]]]:
    """File name → document, for all documents of the library that are searchable."""
    engine = connect(f"sqlite:///{gircse.home / 'catalog.db'}")
    catalog = SqlCatalog(engine)

    def read() -> dict[str, Document]:
        ready = catalog.documents("library", state=DocumentState.READY)
        assert len(catalog.documents("library")) >= len(ready)
        return {Path(document.uri).name: document for document in ready}

    yield read
    engine.dispose()


@contextmanager
def watching(gircse: Gircse, *arguments: str) -> Iterator[Watching]:
    command = [*GIRCSE, "watch", *arguments, "--quiet", "0.3"]
    with subprocess.Popen(
        command, env=gircse.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield Watching(process)
        finally:
            process.kill()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cat.txt").write_text("The cat sleeps on the sofa.", encoding="utf-8")
    (folder / "bank.md").write_text("# Bank\n\nThe bank raised interest rates.", encoding="utf-8")
    return folder


@pytest.mark.long  # half a minute; what a watch does is tested without processes in test_folder_mirror.py
def test_collection_follows_the_folder_also_over_a_restart(
    gircse: Gircse, notes: Path, stored: Callable[[], dict[str, Document]]
) -> None:
    with watching(gircse, str(notes)) as watch:
        watch.wait_until_said("Watching")
        wait_until(lambda: stored().keys() == {"cat.txt", "bank.md"})
        before = stored()

        (notes / "deeper").mkdir()
        (notes / "deeper" / "tide.txt").write_text("The tide comes in twice a day.", encoding="utf-8")
        (notes / "bank.md").write_text("# Bank\n\nThe bank closed.", encoding="utf-8")
        (notes / "cat.txt").rename(notes / "tomcat.txt")
        wait_until(lambda: stored().keys() == {"tomcat.txt", "bank.md", "tide.txt"})
        after = stored()
        assert after["tomcat.txt"].id == before["cat.txt"].id
        assert after["tomcat.txt"].title == "tomcat"
        assert after["bank.md"].content_hash != before["bank.md"].content_hash

        (notes / "tomcat.txt").unlink()
        wait_until(lambda: stored().keys() == {"bank.md", "tide.txt"})
        watch.process.send_signal(signal.SIGINT)
        assert watch.end() == 130
        assert not [line for line in watch.said if "Traceback" in line or "failed" in line]

    # What happens while nobody watches is found at the next start.
    (notes / "bank.md").unlink()
    (notes / "deeper").rename(notes / "shore")
    (notes / "new.txt").write_text("A new note.", encoding="utf-8")
    (notes / "tide.pdf.meta.json").write_text("{}", encoding="utf-8")
    with watching(gircse, str(notes)) as watch:
        wait_until(lambda: stored().keys() == {"tide.txt", "new.txt"})
        assert stored()["tide.txt"].id == after["tide.txt"].id
        assert stored()["tide.txt"].uri == (notes / "shore" / "tide.txt").as_uri()

        # A disk that goes away takes nothing with it.
        notes.rename(notes.with_name("unmounted"))
        assert watch.end() == 1
        assert any("was replaced or unmounted" in line or "cannot be opened" in line for line in watch.said)
    assert stored().keys() == {"tide.txt", "new.txt"}


def test_folder_that_is_empty_or_not_there_deletes_nothing(
    gircse: Gircse, notes: Path, stored: Callable[[], dict[str, Document]]
) -> None:
    gircse.call("ingest", str(notes))
    notes.rename(notes.with_name("unmounted"))
    assert "Is its disk mounted?" in gircse.call("watch", str(notes), code=1).stderr
    notes.mkdir()  # a mount point without its disk
    for command in (["watch", str(notes)], ["ingest", str(notes), "--prune", "--yes"]):
        told = gircse.call(*command, code=1).stderr
        assert "is empty" in told
        assert "2 documents" in told
    assert stored().keys() == {"cat.txt", "bank.md"}
