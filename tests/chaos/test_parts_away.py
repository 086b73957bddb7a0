"""A part is away for a while: jobs wait with a reason, nothing is lost, and all goes on by itself when it is back."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from away_application import AwayApplication
from chaos_proxy import FailingProxy
from patience import wait_until

from app.edge import EdgeProcess
from app.errors import UnavailableError
from app.types.documents import JobState

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.timeout(900),  # for machines that are busy with other things
]

TEXT = "The river carries silt to the delta. Farmers wait for the flood. "


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[FailingProxy]:
    """Before an engine of its own; set `target_port` to where nobody listens, and the engine is unreachable."""
    with EdgeProcess(tmp_path / "engine") as edge, FailingProxy(seed=0) as proxy:
        proxy.target_port = edge.start().port
        yield proxy


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        return closed_soon.getsockname()[1]


def test_jobs_wait_for_an_unreachable_qdrant(
    application_factory: Callable[..., AwayApplication], proxy: FailingProxy, tmp_path: Path
) -> None:
    there, token = proxy.target_port, EdgeProcess(tmp_path / "engine").start().token
    application = application_factory(qdrant_url=f"http://127.0.0.1:{proxy.port}", qdrant_api_key=token)
    with application.worker():
        unwanted = application.add(TEXT, name="unwanted.txt")
        application.assert_all_done(documents=1)
        proxy.target_port = closed_port()
        application.add(TEXT * 20)
        wait_until(lambda: application.job().error is not None)
        waiting = application.job()
        assert (waiting.state, waiting.attempts) == (JobState.QUEUED, 0)
        assert "GIRCSE_QDRANT_URL" in (waiting.error or "")
        application.delete(unwanted)
        wait_until(lambda: application.job().error is not None)
        proxy.target_port = there
        application.assert_all_done(documents=1)


def test_jobs_wait_for_a_missing_model(application_factory: Callable[..., AwayApplication], model: Path) -> None:
    application = application_factory()
    application.add(TEXT * 20)
    elsewhere = model.rename(model.with_name("moved"))
    try:
        with application.worker() as supervisor:
            wait_until(lambda: f"No folder '{model}'" in supervisor.worker_logs())
            assert (application.job().state, application.job().attempts) == (JobState.QUEUED, 0)
            elsewhere.rename(model)
            application.assert_all_done(documents=1)
    finally:
        if elsewhere.exists():
            elsewhere.rename(model)


def test_a_worker_waits_for_a_catalog_that_is_read_only(application_factory: Callable[..., AwayApplication]) -> None:
    application = application_factory()
    application.add(TEXT * 20)
    with read_only(application.home / "catalog.db") as allow_writing, application.worker() as supervisor:
        wait_until(lambda: "readonly database" in supervisor.worker_logs())
        assert "Check that its disk is mounted, writable" in supervisor.worker_logs()
        assert (application.job().state, application.job().attempts) == (JobState.QUEUED, 0)
        allow_writing()
        application.assert_all_done(documents=1)


@contextmanager
def read_only(file: Path) -> Iterator[Callable[[], None]]:
    """Even for root, whom permissions do not stop."""
    if os.geteuid() != 0:
        refuse, allow = ["chmod", "0444"], ["chmod", "0644"]
    elif shutil.which("chattr"):
        refuse, allow = ["chattr", "+i"], ["chattr", "-i"]
    else:
        pytest.skip("root may write to any file, and chattr (package e2fsprogs) is not installed")
    if subprocess.run([*refuse, str(file)], check=False, capture_output=True).returncode:
        pytest.skip(f"this file system cannot make a file immutable for root: {file.parent}")

    def allow_writing() -> None:
        subprocess.run([*allow, str(file)], check=True)

    try:
        yield allow_writing
    finally:
        allow_writing()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"only root may mount a small disk: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize(
    "left_kb",
    [pytest.param(0, id="nothing-left"), pytest.param(150, id="enough-for-the-catalog", marks=pytest.mark.long)],
)
def test_jobs_wait_for_a_full_disk(
    application_factory: Callable[..., AwayApplication], small_disk: Path, left_kb: int
) -> None:
    application = application_factory(small_disk / "home")
    application.add(TEXT, name="small.txt")
    application.add(TEXT * 4_000, name="large.txt")  # more than is left
    fill(small_disk, left_kb)
    with pytest.raises(UnavailableError, match=r"The disk of .* is full"):
        application.add(TEXT * 4_001, name="refused.txt")
    with application.worker() as supervisor:
        wait_until(lambda: "is full. Free some space" in seen(application, supervisor.worker_logs()))
        (small_disk / "ballast").unlink()
        application.assert_all_done(documents=2)


def fill(disk: Path, left_kb: int) -> None:
    with open(disk / "ballast", "wb", buffering=0) as ballast:
        with suppress(OSError):
            while ballast.write(bytes(65536)):
                pass
        ballast.truncate(ballast.tell() - left_kb * 1024)


def seen(application: AwayApplication, log: str) -> str:
    return log + "".join(job.error or "" for job in application.services.catalog.jobs())
