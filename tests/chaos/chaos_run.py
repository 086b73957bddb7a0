"""One seed: a real ingest under kills and network faults, compared with an undisturbed run of the same operations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from chaos_corpus import real_files
from chaos_plan import Delete, Kill, Operation, Plan, Put, Target, make_plan
from chaos_postgres import KillablePostgres
from chaos_processes import KillableQdrant, Supervisor, begin_imports, processes_of
from chaos_proxy import FailingProxy
from chaos_state import State, differences, read_state
from open_jobs import OPEN_STATES, count_open
from qdrant_servers import QdrantServer

from app.errors import UnavailableError, UnknownDocumentError
from app.services import Services
from app.settings import Settings
from app.testing import text_source
from app.types.documents import JobState
from app.wiring.ingestion import run_worker
from app.wiring.services import open_services
from ingest.readers import type_of_suffix

T = TypeVar("T")

COLLECTION = "chaos"
WORKERS = 2
LEASE_S = 3
DTYPE = "float32"  # in bfloat16 a batch of other texts moves single digits of a vector by up to 0.0015
_CHUNK_TOKENS, _CHUNK_OVERLAP, _DOCUMENT_STEPS = 100, 15, 2
_PATIENCE_S = 120  # of a client whose catalog is away
_IDLE_TIMEOUT_S = 600
_POLL_S = 0.1
_MOMENT_S = 0.01
_WORK_TIMEOUT_S = 8


def worker_environment(home: Path, model: str) -> dict[str, str]:
    """Of workers whose leases soon end, where one was killed."""
    return {
        "GIRCSE_HOME": str(home),
        "GIRCSE_MODEL": model,
        "GIRCSE_DTYPE": DTYPE,
        "GIRCSE_LEASE_S": str(LEASE_S),
    }


@dataclass(frozen=True, slots=True)
class ChaosSettings:
    model: str
    catalog: str = "sqlite"  # or "postgres"
    documents: int = 320
    kills: int = 32
    engine: str = "embedded"  # or "server"

    @property
    def targets(self) -> Sequence[Target]:
        """Workers and engine twice as often as the database."""
        common = (Target.WORKER, Target.EDGE)
        return common if self.catalog == "sqlite" else (*common, Target.POSTGRES, *common, Target.BACKEND)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`differences` is empty when the run has passed. `in_flight` counts kills of workers that held a job."""

    seed: int
    settings: ChaosSettings
    differences: tuple[str, ...]
    kills: dict[str, int]
    in_flight: int
    injected: dict[str, int]
    documents: int
    chunks: int
    operations: int
    disturbed_s: float
    seconds: float

    def to_record(self) -> dict[str, Any]:
        return {"passed": not self.differences, **asdict(self)}


def run_seed(seed: int, settings: ChaosSettings, folder: Path, *, server: QdrantServer | None = None) -> Outcome:
    """`folder` is new or empty; what the processes logged is left in it. `server`: that of the disturbed run; the
    undisturbed one has the embedded engine."""
    started = time.monotonic()
    begin_imports()
    files = real_files(settings.documents)
    plan = make_plan(seed, files, kills=settings.kills, targets=settings.targets, workers=WORKERS)
    expected = run_undisturbed(plan, settings, folder / "undisturbed")
    disturbed_at = time.monotonic()
    with ExitStack() as opened:
        postgres = opened.enter_context(KillablePostgres()) if settings.catalog == "postgres" else None
        address = None if server is None else opened.enter_context(server.with_own_names())
        run = DisturbedRun(plan, settings, folder / "disturbed", postgres, server, address)
        found = run.carry_out()
    told = [*run.faults, *(f"the undisturbed run: {fault}" for fault in expected.faults), *differences(expected, found)]
    return Outcome(
        seed=seed,
        settings=settings,
        differences=tuple(told),
        kills={target.value: count for target, count in sorted(run.supervisor.kills.items())},
        in_flight=run.in_flight,
        injected={fault.value: count for fault, count in sorted(run.proxy.injected.items())},
        documents=len(found.documents),
        chunks=found.chunk_count,
        operations=len(plan.operations),
        disturbed_s=round(time.monotonic() - disturbed_at, 1),
        seconds=round(time.monotonic() - started, 1),
    )


def run_undisturbed(plan: Plan, settings: ChaosSettings, home: Path) -> State:
    with open_services(Settings(home=home, model=settings.model, dtype=DTYPE)) as services, _worker_thread(services):
        _create_collection(services)
        Client(services).carry_out_all(plan.operations)
        wait_until_idle(services)
        return read_state(services, COLLECTION)


class DisturbedRun:
    """The same operations while processes are killed and connections break."""

    def __init__(
        self,
        plan: Plan,
        settings: ChaosSettings,
        home: Path,
        postgres: KillablePostgres | None,
        server: QdrantServer | None,
        address: str | None,
    ) -> None:
        """`address`: of `server`, where it has names of this run's own."""
        self._plan = plan
        self._home = home
        self.proxy = FailingProxy(seed=plan.seed)
        environment = worker_environment(home, settings.model)
        if postgres is not None:
            environment["GIRCSE_DATABASE_URL"] = postgres.url
        self._qdrant = None
        if server is not None:
            self.proxy.target_port = urlsplit(address).port or 0
            self._qdrant = KillableQdrant(server, self.proxy)
            environment["GIRCSE_QDRANT_URL"] = f"http://127.0.0.1:{self.proxy.port}"
            environment |= {"GIRCSE_QDRANT_API_KEY": server.api_key} if server.api_key else {}
        self._settings = Settings(**{name.removeprefix("GIRCSE_").lower(): each for name, each in environment.items()})
        home.mkdir(parents=True)
        self.supervisor = Supervisor(
            home,
            environment,
            logs=home,
            workers=WORKERS,
            proxy=None if server else self.proxy,
            postgres=postgres,
            qdrant=self._qdrant,
        )
        self.in_flight = 0
        self.faults: list[str] = []

    def carry_out(self) -> State:
        with ExitStack() as opened:
            if self._qdrant is not None:  # else the proxy is put before the engine when there is one
                opened.enter_context(self.proxy)
                opened.callback(self._qdrant.wait)
            services = opened.enter_context(open_services(self._settings))
            _create_collection(services)
            if self._qdrant is None:
                opened.enter_context(self.proxy)
            opened.enter_context(self.supervisor)
            self._disturb(services)
            wait_until_idle(services)
            self.proxy.is_breaking = False
            if self._qdrant is not None:
                self._qdrant.wait()
            found = read_state(services, COLLECTION)
        self._look_for_remains()
        return found

    def _disturb(self, services: Services) -> None:
        client = Client(services)
        self.proxy.is_breaking = True
        with ThreadPoolExecutor(1) as executor:
            for each in self._plan.rounds:
                handed_in = executor.submit(client.carry_out_all, each.operations)
                self._strike(services, each.kill)  # while they come in
                handed_in.result()

    def _strike(self, services: Services, kill: Kill) -> None:
        """Work that does not come within a few seconds is not waited for: the queue may be empty."""
        is_worker = kill.target is Target.WORKER
        deadline = time.monotonic() + (_WORK_TIMEOUT_S if kill.at_work else 0)
        while time.monotonic() < deadline:
            if _holds_a_job(services, self.supervisor.pid_of(kill.worker) if is_worker else None):
                break
            time.sleep(_MOMENT_S)
        time.sleep(kill.gap_s)
        killed = self.supervisor.kill(kill)
        self.in_flight += is_worker and _holds_a_job(services, killed)

    def _look_for_remains(self) -> None:
        deadline = time.monotonic() + 10
        while (left := processes_of(self._home)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.faults += [f"process {process.pid} is left running" for process in left]
        self.faults += [f"a worker ended by itself with {code}" for code in self.supervisor.unexpected_exits]
        log = self.supervisor.worker_logs()
        self.faults += [line for line in log.splitlines() if "incident" in line]


class Client:
    """Puts and deletes documents as a program would: it tries again while the catalog is away."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._ids: dict[str, str] = {}

    def carry_out_all(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self.carry_out(operation)

    def carry_out(self, operation: Operation) -> None:
        match operation:
            case Put(file):
                document, _ = patiently(
                    lambda: self._services.library.add_document(
                        COLLECTION,
                        text_source(f"corpus://{file.name}", file.data, media_type=type_of_suffix(file.name)),
                    )
                )
                self._ids[file.name] = document.id
            case Delete(name):
                patiently(lambda: self._delete(name))

    def _delete(self, name: str) -> None:
        try:
            self._services.library.delete_document(self._ids[name])
        except UnknownDocumentError:
            return  # an earlier try came through, and only its answer was lost


def patiently(action: Callable[[], T]) -> T:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return action()
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def wait_until_idle(services: Services, *, timeout_s: float = _IDLE_TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while count_open(counts := patiently(services.catalog.job_counts)):
        if time.monotonic() > deadline:
            waiting = [job for state in OPEN_STATES for job in services.catalog.jobs(state=state)]
            raise TimeoutError(f"After {timeout_s} s there are still {counts}, as {waiting[:3]}")
        time.sleep(_POLL_S)


def _holds_a_job(services: Services, pid: int | None) -> bool:
    """Whether the worker of this process does; any worker without one."""
    running = patiently(lambda: services.catalog.jobs(state=JobState.RUNNING))
    return any(pid is None or f"-{pid}-" in (job.lease_owner or "") for job in running)


def _create_collection(services: Services) -> None:
    services.library.create_collection(
        COLLECTION, document_steps=_DOCUMENT_STEPS, chunk_tokens=_CHUNK_TOKENS, chunk_overlap=_CHUNK_OVERLAP
    )


@contextmanager
def _worker_thread(services: Services) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=run_worker, args=(services, stop), name="worker")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
