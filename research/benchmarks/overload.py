"""What an embedding server does when twice as much is asked as it can answer: `python -m research.benchmarks.overload`.

Measures the latency of a lone client, how many queries a second many clients together get answered, then asks twice as
many for `--seconds`, whether or not answers come. Exit code 1 where what `judge` asks does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from embedder.command.standard_output import run_program
from embedder.evaluation.machine import cpu_name
from embedder.model_info import DEFAULT_MODEL

CLIENTS = (2, 4, 8, 16)
FACTOR = 2.0
TIMEOUT_S = 30.0
MOST_IDLE_S = 5.0  # a server closes what is idle, and might just when it is used again
MOST_P95_FACTOR = 3.0
MOST_RECOVERY_S = 5.0
MOST_GROWTH_MB = 64.0
WAITING = "gircse_embedder_queue_texts{"
_WORDS = [
    "tide",
    "rock",
    "harbour",
    "letter",
    "winter",
    "garden",
    "engine",
    "paper",
    "river",
    "copper",
    "card",
    "price",
]


@dataclass(frozen=True, slots=True)
class Asked:
    status: int  # 0: no answer in time
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    alone: list[float]
    sustained: float  # answers per second
    rate: float  # that were asked in the overload
    overload: list[Asked]
    memory_mb: list[float]
    recovery_s: float
    waiting_after: float

    @property
    def alone_p95(self) -> float:
        return percentile(self.alone, 95)

    @property
    def accepted(self) -> list[float]:
        return [each.seconds for each in self.overload if each.status == 200]

    @property
    def statuses(self) -> Counter[int]:
        return Counter(each.status for each in self.overload)

    @property
    def growth_mb(self) -> float:
        """From the first quarter of the overload to the last."""
        quarter = max(1, len(self.memory_mb) // 4)
        return statistics.mean(self.memory_mb[-quarter:]) - statistics.mean(self.memory_mb[:quarter])


class Client:
    """Asks over connections that are kept open. Leaner than a library, since it shares the machine with the server."""

    def __init__(self, url: str, model: str, *, key: str | None = None) -> None:
        found = re.fullmatch(r"http://([^:/]+):(\d+)", url)
        assert found
        self._address = found.group(1), int(found.group(2))
        self._model = model
        self._key = "" if key is None else f"authorization: Bearer {key}\r\n"
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]] = []
        self._count = 0

    def question(self, text: str) -> tuple[str, object]:
        """Where to ask, and what."""
        return "/v1/embeddings", {"model": self._model, "input": text, "input_type": "query"}

    async def embed(self) -> Asked:
        self._count += 1
        words = " ".join(random.choices(_WORDS, k=random.randint(4, 12)))
        path, body = self.question(f"{words} {self._count}")
        started = time.perf_counter()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status, _ = await self.ask("POST", path, body)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            status = 0
        return Asked(status, time.perf_counter() - started)

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        reader, writer = await self._connection()
        sent = b"" if body is None else json.dumps(body).encode()
        headers = f"host: x\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}"
        head = f"{method} {path} HTTP/1.1\r\n{self._key}{headers}\r\n\r\n"
        try:
            writer.write(head.encode() + sent)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = re.search(r"content-length: (\d+)", answer)
            content = await reader.readexactly(int(length.group(1))) if length else b""
        except BaseException:
            writer.close()
            raise
        if "connection: close" in answer:
            writer.close()
        else:
            self._idle.append((reader, writer, time.monotonic()))
        return int(answer.split()[1]), content

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer, since = self._idle.pop()
            if time.monotonic() - since < MOST_IDLE_S:
                return reader, writer
            writer.close()
        return await asyncio.open_connection(*self._address)

    async def close(self) -> None:
        for _, writer, _ in self._idle:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@dataclass(slots=True)
class Memory:
    process: psutil.Process
    seen_mb: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        while True:
            self.seen_mb.append(self.process.memory_info().rss / 1e6)
            await asyncio.sleep(0.25)


async def measure(client: Client, process: psutil.Process, *, seconds: float, waiting_as: str = WAITING) -> Outcome:
    """waiting_as: how the line of /metrics begins that says how many wait."""
    for _ in range(20):
        await client.embed()  # warms up
    alone = [await client.embed() for _ in range(100 if seconds >= 30 else 40)]
    assert all(each.status == 200 for each in alone), "a lone client was refused"
    sustained = await sustained_rate(client, seconds=max(6.0, seconds / 4))
    await asyncio.sleep(1)
    memory = Memory(process)
    watching = asyncio.create_task(memory.watch())
    overload = await overload_for(client, rate=FACTOR * sustained, seconds=seconds)
    recovery_s = await time_to_recover(
        client, most_s=MOST_P95_FACTOR * percentile([each.seconds for each in alone], 95)
    )
    watching.cancel()
    waiting = await count_waiting(client, waiting_as)
    await client.close()
    return Outcome(
        alone=[each.seconds for each in alone],
        sustained=sustained,
        rate=FACTOR * sustained,
        overload=overload,
        memory_mb=memory.seen_mb,
        recovery_s=recovery_s,
        waiting_after=waiting,
    )


async def sustained_rate(client: Client, *, seconds: float) -> float:
    """Most answers per second, of some numbers of clients that ask one after the other, and pause when refused."""
    return max([await _answered_rate(client, count, seconds=seconds / len(CLIENTS)) for count in CLIENTS])


async def _answered_rate(client: Client, clients: int, *, seconds: float) -> float:
    until = time.perf_counter() + seconds
    answered = 0

    async def ask_on() -> None:
        nonlocal answered
        while time.perf_counter() < until:
            if (await client.embed()).status == 200:
                answered += 1
            else:
                await asyncio.sleep(0.05)

    await asyncio.gather(*(ask_on() for _ in range(clients)))
    return answered / seconds


async def overload_for(client: Client, *, rate: float, seconds: float) -> list[Asked]:
    """Asks at random times, on average `rate` a second, whatever becomes of those before."""
    asked: list[asyncio.Task[Asked]] = []
    due = started = time.perf_counter()
    while due < started + seconds:
        if (pause_s := due - time.perf_counter()) > 0:
            await asyncio.sleep(pause_s)
        asked.append(asyncio.create_task(client.embed()))
        due += random.expovariate(rate)
    return list(await asyncio.gather(*asked))


async def time_to_recover(client: Client, *, most_s: float) -> float:
    """Until ten in a row are answered as quickly as under load they may be."""
    started = time.perf_counter()
    good = 0
    first_good = started
    while good < 10 and time.perf_counter() < started + 60:
        answer = await client.embed()
        if answer.status == 200 and answer.seconds <= most_s:
            first_good = time.perf_counter() - answer.seconds if good == 0 else first_good
            good += 1
        else:
            good = 0
    return first_good - started if good >= 10 else 60.0


async def count_waiting(client: Client, waiting_as: str) -> float:
    _, content = await client.ask("GET", "/metrics")
    lines = content.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(waiting_as))


def judge(outcome: Outcome) -> dict[str, bool]:
    allowed = {200, 429}
    factor = percentile(outcome.accepted, 95) / outcome.alone_p95
    return {
        f"accepted p95 is at most {MOST_P95_FACTOR:g} times the unloaded one ({factor:.2f})": factor <= MOST_P95_FACTOR,
        "every request is answered with 200 or 429": set(outcome.statuses) <= allowed,
        f"memory stays flat ({outcome.growth_mb:+.1f} MB)": outcome.growth_mb <= MOST_GROWTH_MB,
        f"it recovers within {MOST_RECOVERY_S:g} s ({outcome.recovery_s:.2f} s)": outcome.recovery_s <= MOST_RECOVERY_S,
        "nothing waits afterwards": outcome.waiting_after == 0,
    }


def render(outcome: Outcome) -> str:
    def row(what: str, rate: float, seconds: list[float], refused: str) -> str:
        p50, p95, p99 = (percentile(seconds, share) * 1e3 for share in (50, 95, 99))
        return f"| {what} | {rate:.1f} | {p50:.0f} | {p95:.0f} | {p99:.0f} | {refused} |"

    refused = outcome.statuses[429] / len(outcome.overload)
    lines = [
        "| load | queries/s | p50 ms | p95 ms | p99 ms | 429 |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        row("one client", len(outcome.alone) / sum(outcome.alone), outcome.alone, "0 %"),
        row(f"{FACTOR:g} × {outcome.sustained:.1f}, open", outcome.rate, outcome.accepted, f"{refused:.0%}"),
        "",
        f"Statuses {dict(outcome.statuses)}; memory {outcome.memory_mb[0]:.0f} to {outcome.memory_mb[-1]:.0f} MB; "
        f"{cpu_name()}.",
    ]
    return "\n".join(lines)


def percentile(values: list[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share / 100))] if ranked else float("inf")


@contextmanager
def running_server(model: str) -> Iterator[tuple[str, psutil.Process]]:
    command = [sys.executable, "-m", "embedder.server", "--model", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.match(r"Ready: (http://\S+)", process.stdout.readline())
            assert ready, "the server did not start"
            yield ready.group(1), psutil.Process(process.pid)
        finally:
            process.terminate()


def main(show: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of overload; 10 for a quick look")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    options = parser.parse_args()
    with running_server(options.model) as (url, process):
        outcome = asyncio.run(measure(Client(url, options.model), process, seconds=options.seconds))
    report(outcome, show)


def report(outcome: Outcome, show: Callable[[str], None]) -> None:
    """Ends the program where something does not hold."""
    show(render(outcome))
    verdicts = judge(outcome)
    for what, holds in verdicts.items():
        show(f"{'ok  ' if holds else 'FAIL'} {what}")
    if not all(verdicts.values()):
        sys.exit(1)


if __name__ == "__main__":
    run_program(main)
