"""The steps of the scenario. Each adds a row to the table; StackError is a step that failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import httpx
from compose_stack import ComposeStack, StackError, wait_until
from stack_load import LIMIT_S, Load, load, search_fault
from stack_page import search_by_page

COLLECTION = "sample"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in files("sample").joinpath("library.jsonl").read_text("utf-8").splitlines()
]
PLANTED: list[dict[str, Any]] = json.loads(files("sample").joinpath("planted.json").read_text("utf-8"))
LENS = {
    "name": "Region of the stack test",
    "query_instruction": PLANTED[0]["views"][0]["instruction"],
    "values": ["Africa", "Europe", "Middle East", "Oceania"],
}
KILLED_S = 5
PAUSED_S = 40
_WARM_UP_S = 2
_AFTER_S = 6


@dataclass
class Row:
    """A line of the table. `asked` is None where the step ran no load."""

    profile: str
    what: str
    seconds: float = 0
    asked: Load | None = None
    said: str = ""
    failures: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        asked = self.asked
        loads = ["–"] * 5
        if asked is not None:
            loads = [str(len(asked.searches)), str(len(asked.failed)), str(len(asked.late))]
            loads += [f"{asked.slowest_s:.1f}", f"{len(asked.accepted)}, {asked.refused_documents}"]
        result = "; ".join(self.failures) if self.failures else "passed"
        said = "; ".join(each for each in (self.said, asked.faults() if asked else "") if each)
        return [self.profile, self.what, f"{self.seconds:.0f}", *loads, result, said]


class Steps:
    """The steps on one stack."""

    def __init__(self, stack: ComposeStack, rows: list[Row], report: Callable[[Row], None]) -> None:
        self.stack = stack
        self._rows = rows
        self._report = report
        self._queries = [row["title"] for row in ROWS]

    @contextmanager
    def step(self, what: str) -> Iterator[Row]:
        """Times it and turns a failure into one of the row."""
        row = Row(self.stack.profiles, what)
        begun = time.monotonic()
        try:
            yield row
        except (StackError, httpx.HTTPError, KeyError, IndexError, ValueError) as error:
            row.failures.append(f"{type(error).__name__}: {error}".splitlines()[0][:300])
        row.seconds = time.monotonic() - begun
        self._rows.append(row)
        self._report(row)

    def up(self) -> None:
        with self.step("`docker compose up`, until all are healthy") as row:
            self.stack.up()
            row.said = ", ".join(self.stack.services())

    def take_sample_in(self, count: int = len(ROWS)) -> None:
        with self.step(f"sample library, {count} texts") as row, self.stack.client() as client:
            _need(client.post("/api/v1/collections", json={"name": COLLECTION}))
            for each in ROWS[:count]:
                body = {"text": each["text"], "title": each["title"], "metadata": each["metadata"]}
                posted = {**body, "uri": f"sample://{each['id']}", "collection": COLLECTION}
                _need(client.post("/api/v1/documents", json=posted))
            self.wait_done()
            row.said = f"{self.counts()['total']} documents"

    def search_by_rest(self) -> None:
        """Half of the first five documents have the value that the instruction asks for."""
        with self.step("search by REST, with two instructions") as row, self.stack.client() as client:
            for view in PLANTED[0]["views"]:
                question = {"query": PLANTED[0]["query"], "instruction": view["instruction"], "collection": COLLECTION}
                hits = _need(client.post("/api/v1/search", json={**question, "limit": 20})).json()["hits"]
                documents = {hit["document"]["uri"]: hit["document"]["metadata"] for hit in hits}
                labels = [metadata.get(view["aspect"]) for metadata in list(documents.values())[:5]]
                if labels.count(view["label"]) < 3:
                    raise StackError(f"{view['label']}: the first five have {labels}")
                row.said += f"{view['label']}: {labels.count(view['label'])} of 5. "

    def search_by_page(self) -> None:
        with self.step("log in and search by the page") as row:
            row.said = search_by_page(
                self.stack.url, self.stack.secret("admin_secret"), PLANTED[0]["query"], COLLECTION
            )

    def index_lens(self) -> None:
        """An index of a lens is made, used and deleted. A deletion of a document ends after it, too."""
        what = "index of a lens made, searched, deleted; then a document deleted"
        with self.step(what) as row, self.stack.client() as client:
            _need(client.post("/api/v1/lenses", json=LENS))
            address = f"/api/v1/collections/{COLLECTION}/lens-indexes"
            _need(client.post(address, json={"lens": LENS["name"]}))
            took = wait_until(
                lambda: [each["state"] for each in _need(client.get(address)).json()] == ["ready"],
                what="the index of the lens", limit_s=600,
            )  # fmt: skip
            _need(client.post("/api/v1/search", json={"query": "sea", "lens": LENS["name"], "collection": COLLECTION}))
            _need(client.delete(address, params={"lens": LENS["name"]}))
            document = _need(client.get("/api/v1/documents", params={"collection": COLLECTION, "limit": 1})).json()[0][
                "id"
            ]
            _need(client.delete(f"/api/v1/documents/{document}"))
            gone = wait_until(
                lambda: client.get(f"/api/v1/documents/{document}").status_code == 404,
                what="a document deleted after the index of a lens", limit_s=120,
            )  # fmt: skip
            row.said = f"index ready after {took:.0f} s, the document gone after {gone:.0f} s"

    def quiet_load(self) -> None:
        """The load alone, to compare with."""
        with self.step("load, nothing away") as row:
            with self._load("quiet") as asked:
                row.asked = asked
                time.sleep(20)
            self._judge(row, asked, may_fail=False)

    def fault(self, service: str, kind: str, *, may_fail: bool, must_answer: bool) -> None:
        """`kind` is killed, paused or cut_off. See `_judge`."""
        away_s = KILLED_S if kind == "killed" else PAUSED_S
        apply: Callable[[str], AbstractContextManager[None]] = getattr(self.stack, kind)
        with self.step(f"`{service}` {kind.replace('_', ' ')} for {away_s} s") as row:
            with self._load(f"{service} {kind}") as asked:
                row.asked = asked
                time.sleep(_WARM_UP_S)
                asked.fault_at = time.monotonic()
                with apply(service):
                    time.sleep(away_s)
                asked.back_at = time.monotonic()
                self.stack.wait_healthy(service)
                time.sleep(_AFTER_S)
            self._judge(row, asked, may_fail=may_fail, must_answer=must_answer)
            ended = "start" if kind == "killed" else "return"
            if asked.failing_s > 0:
                row.said = f"last failed search {asked.failing_s:.1f} s after its {ended}"

    def rolling_restart(self) -> None:
        for service in self.stack.services():
            with self.step(f"`docker compose restart {service}`") as row:
                with self._load(f"{service} restart") as asked:
                    row.asked = asked
                    time.sleep(_WARM_UP_S)
                    asked.fault_at = time.monotonic()
                    self.stack.compose("restart", service)
                    self.stack.wait_healthy(service)
                    time.sleep(_AFTER_S)
                self._judge(row, asked, may_fail=True, must_answer=service != "web")

    def scale_workers(self) -> None:
        with self.step("`--scale worker=3`, then 1") as row:
            self.stack.up(scale="worker=3")
            with self._load("three workers") as asked:
                row.asked = asked
                time.sleep(20)
            self._judge(row, asked, may_fail=False)
            self.stack.up(scale="worker=1")

    def back_up_and_restore(self) -> None:
        backup = self.stack.folder / "backup"
        backup.mkdir(mode=0o777)
        backup.chmod(0o777)  # whatever the umask: the container writes as a user of its own
        run = ("run", "--rm", "--no-TTY", "--volume", f"{backup}:/backup", "worker", "gircse")
        file = "/backup/gircse.tar.zst"
        before = self.counts()
        with self.step("`gircse backup` while it serves") as row:
            self.stack.compose(*run, "backup", file)
            row.said = f"{(backup / 'gircse.tar.zst').stat().st_size / 1e6:.1f} MB"
        with self.step("`docker compose down --volumes`") as row:
            self.stack.down(volumes=True)
            if left := self.stack.remains():
                raise StackError(f"still there: {left}")
        with self.step("`gircse restore` into empty volumes, then `up`") as row:
            parts = [each for each in self.stack.services() if each not in ("web", "worker")]
            self.stack.up(*parts)
            self.stack.compose(*run, "restore", file, timeout_s=1800)
            self.stack.up()
            self.wait_done()
            after = self.counts()
            if after != before:
                raise StackError(f"documents before: {before}; after: {after}")
            row.said = f"{after['total']} documents"

    def upgrade(self, before: str) -> None:
        """From empty volumes: the image `before` takes 100 texts in, then this one serves them."""
        with self.step("upgrade from the image before") as row:
            present = self.stack.images
            if not before:
                row.said = "left out: GIRCSE_IMAGE_BEFORE names no image"
                return
            self.stack.down(volumes=True)
            self.stack.images = replace(present, gircse=before)
            try:
                self.stack.up()
            finally:
                self.stack.images = present
        self.take_sample_in(100)
        with self.step("`up` with this image over that data") as row:
            self.stack.up()
            with self.stack.client() as client:
                if fault := search_fault(client, {"query": ROWS[0]["text"], "collection": COLLECTION}):
                    raise StackError(f"a search after the upgrade: {fault}")
            row.said = f"{self.counts()['total']} documents"

    def down(self) -> None:
        with self.step("`docker compose down --volumes`: nothing is left"):
            self.stack.down(volumes=True)
            if left := self.stack.remains():
                raise StackError(f"still there: {left}")

    def counts(self) -> dict[str, Any]:
        with self.stack.client() as client:
            found = _need(client.get("/api/v1/documents/counts", params={"collection": COLLECTION})).json()
        assert isinstance(found, dict)
        return found

    def wait_done(self, limit_s: float = 600) -> None:
        """Until no document waits; StackError if one failed."""
        wait_until(lambda: self.counts()["states"]["queued"] == 0, what="all documents ingested", limit_s=limit_s)
        if failed := self.counts()["states"]["failed"]:
            raise StackError(f"{failed} documents failed")

    def _load(self, label: str) -> AbstractContextManager[Load]:
        return load(self.stack.client, self._queries, collection=COLLECTION, label=f"{self.stack.profiles} {label}")

    def _judge(self, row: Row, asked: Load, *, may_fail: bool, must_answer: bool = True) -> None:
        """`may_fail`: searches may fail for as long as the part is away; otherwise for the first LIMIT_S only.
        `must_answer`: every request ends within LIMIT_S. What was accepted must become searchable."""
        if not may_fail and asked.late:
            row.failures.append(f"{len(asked.late)} searches failed later than {LIMIT_S:.0f} s after the fault")
        if must_answer and asked.overlong:
            row.failures.append(f"{len(asked.overlong)} searches took longer than {LIMIT_S:.0f} s")
        if not any(not each.fault for each in asked.searches[-4:]):
            row.failures.append("the last searches failed")
        self.wait_done()
        with self.stack.client() as client:
            states = [_need(client.get(f"/api/v1/documents/{document}")).json()["state"] for document in asked.accepted]
        if lost := [state for state in states if state != "ready"]:
            row.failures.append(f"{len(lost)} of {len(states)} accepted documents are not searchable")


def _need(answer: httpx.Response) -> httpx.Response:
    """The answer, or StackError with what the server said."""
    if not answer.is_success:
        raise StackError(f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text[:300]}")
    return answer
