"""`gircse up`, `serve` and `worker`: the long-running processes."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated, TypeVar

import typer
import uvicorn

from app.access.secret_file import load_admin_secret
from app.commands.announcing_server import AnnouncingServer
from app.commands.checks import check_memory
from app.commands.service import digests
from app.commands.wiring import open_services, wiring
from app.documents.library import sample_rows
from app.errors import ConflictError, DamagedCatalogError, InputError, UnavailableError
from app.runtime.memory import limit_memory
from app.runtime.metrics_server import serving_metrics
from app.runtime.service_socket import open_service_socket
from app.runtime.worker_lock import WorkerLock
from app.services import Services
from app.settings import Settings, load_settings
from embedder.server.http_guard import BoundedProtocol

log = logging.getLogger(__name__)

T = TypeVar("T")

GRACE_S = 5
START_POLL_S = 2.0

Model = Annotated[str | None, typer.Option(help="Overrides GIRCSE_MODEL.")]
Host = Annotated[str | None, typer.Option(help="Overrides GIRCSE_HOST.")]
Port = Annotated[int | None, typer.Option(help="Overrides GIRCSE_PORT. 0: any free port.")]


def up(
    sample: Annotated[bool, typer.Option("--sample", help="First add the sample library.")] = False,
    model: Model = None,
    host: Host = None,
    port: Port = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the web page in a browser.")] = False,
) -> None:
    """Run everything in one process: index, worker, API and web page. Ctrl-C stops it.

    Example: gircse up --sample --open
    """
    settings = load_settings(model=model, host=host, port=port)
    _prepare(settings)
    with listening_socket(settings) as listener, open_services(settings, needs_model=True) as services:
        if sample:
            jobs = services.library.add_sample(sample_rows())
            typer.echo(f"Sample library: {len(jobs)} texts queued." if jobs else "Sample library: already complete.")
        with running_worker(services) as thread:
            checked = replace(services, checks={**services.checks, "worker": thread.is_alive})
            _serve(listener, checked, open_page=open_page)


def serve(model: Model = None, host: Host = None, port: Port = None) -> None:
    """Run the API and the web page without a worker. Ingestion needs a separate `gircse worker`."""
    settings = load_settings(model=model, host=host, port=port)
    _prepare(settings)
    typer.echo("This process ingests no documents: start `gircse worker`, too.")
    with listening_socket(settings) as listener, open_services_when_available(settings) as services:
        _serve(listener, services, open_page=False, is_patient=True)


def worker(model: Model = None) -> None:
    """Run queued ingestion jobs until stopped. Ctrl-C stops after the current step; nothing is lost."""
    settings = load_settings(model=model)
    _prepare(settings)
    with (
        open_services_when_available(settings) as services,
        running_worker(services) as thread,
        _metrics_served(services, is_well=thread.is_alive),
    ):
        typer.echo("Working. Ctrl-C stops.")
        while thread.is_alive():
            thread.join(timeout=1)
    raise ConflictError("The worker stopped unexpectedly. See the log above for the reason.")


def _prepare(settings: Settings) -> None:
    limit_memory()
    found = check_memory(settings)
    if not found.is_well:
        log.warning("Memory: %s. %s", found.detail, found.advice)


@contextmanager
def _metrics_served(services: Services, *, is_well: Callable[[], bool]) -> Iterator[None]:
    """Serve metrics for Prometheus while the block runs, if the settings give a port for them."""
    port = services.settings.worker_metrics_port
    if port is None:
        yield
        return
    with serving_metrics(port, services.metrics, is_well=is_well) as taken:
        log.info("Metrics of the worker: http://127.0.0.1:%d/metrics", taken)
        yield


@contextmanager
def open_services_when_available(settings: Settings) -> Iterator[Services]:
    """Open the services, waiting while the catalog or index is unavailable: orchestrators start in any order."""
    with ExitStack() as opened:
        yield _enter_when_available(opened, lambda: open_services(settings))


def _enter_when_available(opened: ExitStack, open_it: Callable[[], AbstractContextManager[T]]) -> T:
    logged = ""
    while True:
        try:
            return opened.enter_context(open_it())
        except DamagedCatalogError:
            raise
        except UnavailableError as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("Waiting: %s", logged)
            time.sleep(START_POLL_S)


@contextmanager
def running_worker(services: Services) -> Iterator[threading.Thread]:
    """Run a worker in a thread, and scheduled backups (if set) in another; stop both after the block."""
    stop = threading.Event()
    worker_lock = WorkerLock(services.settings.home)
    worker_lock.try_take(timeout_s=1)  # if another process has it, two workers run; job leases make that safe
    thread = threading.Thread(target=wiring("ingestion").run_worker, args=(services, stop), name="worker", daemon=True)
    thread.start()
    backups = None
    if (schedule := wiring("backup").schedule_of(services)) is not None:
        backups = threading.Thread(target=schedule.run, args=(stop,), name="backup", daemon=True)
        backups.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(timeout=GRACE_S)
        if backups is not None:
            backups.join(timeout=GRACE_S)
        worker_lock.release()


@contextmanager
def listening_socket(settings: Settings) -> Iterator[socket.socket]:
    """Bind host and port of the settings. Done before loading the model, to report a port in use at once."""
    if settings.is_open_to_network and not settings.access_control:
        raise InputError(
            f"{settings.host} would open this server, and all documents, to the network without any login. "
            f"Switch access control on: GIRCSE_ACCESS_CONTROL=true GIRCSE_HOST={settings.host} gircse up"
        )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConflictError(
            f"Port {settings.port} is in use, perhaps by another `gircse up`. Choose another with --port (0: any free)."
        ) from None
    # Connections inherit this option. asyncio would set it only on sockets created with an explicit protocol. Without
    # it the second response on a connection waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        yield listener


def _serve(listener: socket.socket, services: Services, *, open_page: bool, is_patient: bool = False) -> None:
    """Run the server until it is stopped. `is_patient` waits for unavailable components instead of raising."""
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if services.settings.access_control:
        place = load_admin_secret(services.settings).place
        typer.echo(f"Access control is on. Log in as admin; the secret is in {place}.")
    # Gradio's default is a fixed folder in /tmp: the first user of a machine owns it and locks out all others.
    os.environ.setdefault("GRADIO_TEMP_DIR", str(services.settings.home / "gradio"))
    with ExitStack() as opened:
        open_web = wiring("web").open_web
        if is_patient:
            web = _enter_when_available(opened, lambda: open_web(services))
        else:
            web = opened.enter_context(open_web(services))
        config = uvicorn.Config(
            web,
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            forwarded_allow_ips=services.settings.trusted_proxies,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
        )
        settings = services.settings
        for_commands = opened.enter_context(
            open_service_socket(settings.home, version=version("gircse-search"), settings=digests(settings))
        )
        server = AnnouncingServer(config, url=url, open_page=open_page, for_commands=for_commands)
        server.run(sockets=[listener])
    if server.interrupted:
        raise KeyboardInterrupt
