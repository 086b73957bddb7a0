"""Keeps the processes of pytest small, and reports what they took: garbage is collected after growth, and the files of
fixtures are deleted after their tests. With `--most-memory-mb` a run fails in which one process took more.
"""

from __future__ import annotations

import gc
import os
import resource
import shutil
import sys
import threading
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.runtime.memory import release_memory

WANTED_MB = 1_500
_GROWN_MB = 150  # to look through all objects of a large process takes a second
_LOOK_S = 15.0
# What a process of the product keeps as long as it lives: the model that `gircse doctor` asks, and that of OCR.
_LARGE = (("app.commands.checks", "_embedder"), ("ingest.readers.recognition", "_engine"))
# FastAPI's caches of what it found out of functions hold these, and with them the last hundreds of applications.
_OF_CALLABLES = "fastapi.dependencies.models"
_MAX_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes
_STATUS = Path("/proc/self/status")
_OUTPUT = "worker_memory"  # key of what a process of pytest-xdist hands over


@dataclass(slots=True)
class Peak:
    """Of one process: its largest resident memory, and the test during which it grew to that."""

    mb: int = 0
    test: str = "collection"


class WorkerMemory:
    """In each process that runs tests."""

    def __init__(self) -> None:
        self.peak = Peak(_peak_mb())
        self._process = psutil.Process()
        self._released_mb = self._resident_mb()
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        done = yield
        if self._resident_mb() > self._released_mb + _GROWN_MB:
            clear_caches()
            release_memory()
            gc.freeze()  # until the next time: services of tests collect often, and what lasts makes that slow
            self._released_mb = self._resident_mb()
        if (mb := _peak_mb()) > self.peak.mb:
            self.peak = Peak(mb, item.nodeid)
        return done

    def pytest_collection_finish(self) -> None:
        gc.collect()
        gc.freeze()  # what modules hold

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Empties the folders that the fixture made with tmp_path_factory, after its own teardown. The empty folder
        stays, since caches may know its path; those of failed tests stay as they are."""
        if "tmp_path_factory" not in fixturedef.argnames:
            return (yield)
        root: Path = request.getfixturevalue("tmp_path_factory").getbasetemp()
        before, made = set(os.listdir(root)), list[Path]()
        fixturedef.addfinalizer(lambda: self._empty(made, request.node.nodeid))  # the first one is called last
        try:
            return (yield)
        finally:
            made += [root / name for name in set(os.listdir(root)) - before]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_OUTPUT] = asdict(self.peak)

    def _empty(self, folders: list[Path], owner: str) -> None:
        if any(failed.startswith(owner) for failed in self._failed):
            return
        for folder in folders:
            if folder.is_symlink():
                continue
            for path in folder.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _resident_mb(self) -> int:
        return int(self._process.memory_info().rss >> 20)


def clear_caches() -> None:
    for module, cached in _LARGE:
        if module in sys.modules:
            getattr(sys.modules[module], cached).cache_clear()
    if _OF_CALLABLES in sys.modules:
        for each in vars(sys.modules[_OF_CALLABLES]).values():
            if hasattr(each, "cache_clear"):
                each.cache_clear()
    gc.unfreeze()  # what was there when a test started a server; its garbage is collected as before


def _peak_mb() -> int:
    """What getrusage tells of a process begins with the peak of the one that started it; Linux knows its own, too."""
    if _STATUS.exists():
        [line] = [each for each in _STATUS.read_text().splitlines() if each.startswith("VmHWM:")]
        return int(line.split()[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAX_RSS_UNIT >> 20


class RunMemory:
    """In the process that prints: collects the peaks, and looks from time to time at all processes and folders."""

    def __init__(self, config: pytest.Config, own: WorkerMemory | None) -> None:
        self._most_mb: int | None = config.getoption("--most-memory-mb")
        self._own = own
        self._peaks: dict[str, Peak] = {}
        self._together_mb = self._folders_mb = 0
        self._folder: Path | None = None
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look_on, daemon=True)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        # Public only as a fixture, which the process that hands out tests does not have.
        self._folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._looking.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if found := getattr(node, "workeroutput", {}).get(_OUTPUT):
            self._peaks[node.gateway.id] = Peak(**found)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._ended.set()
        self._looking.join()
        if self._own is not None:
            self._peaks["this process"] = self._own.peak
        is_over = self._most_mb is not None and any(peak.mb > self._most_mb for peak in self._peaks.values())
        if is_over and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for name, peak in sorted(self._peaks.items(), key=lambda each: -each[1].mb):
            most_mb = self._most_mb or WANTED_MB
            is_over = peak.mb > most_mb
            over = f"; more than the {most_mb} MB that one may take" if is_over else ""
            terminalreporter.write_line(
                f"Memory of {name}: {peak.mb} MB at most, in {peak.test[:200]}{over}", red=is_over
            )
        terminalreporter.write_line(
            f"All processes together: {self._together_mb} MB at most; folders of tests: {self._folders_mb} MB at most"
        )

    def _look_on(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self._together_mb = max(self._together_mb, _memory_of_all_mb())
            self._folders_mb = max(self._folders_mb, _size_mb(self._folder))


def _memory_of_all_mb() -> int:
    """Of this process and all that it started; what several share is counted once, where the system tells that."""
    total = 0
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        try:
            found = process.memory_full_info()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        total += getattr(found, "pss", found.rss)
    return total >> 20


def _size_mb(folder: Path | None) -> int:
    """Of what is on the disk: files with holes, such as logs laid out in advance, take less than their size."""
    total = 0
    for parent, _, names in os.walk(folder or ""):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total >> 20


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--most-memory-mb", type=int, help="Fail where one process of pytest takes more; 1,500 is what it should."
    )


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    hands_out = not is_worker and bool(getattr(config.option, "tx", None))
    own = None if hands_out else WorkerMemory()
    if own is not None:
        config.pluginmanager.register(own, "worker-memory")
    if not is_worker:
        config.pluginmanager.register(RunMemory(config, own), "run-memory")
