"""Damages real files of every format and reads them through the child process.

`python tests/unit/reader_fuzz.py --files 2000 --seed 1` prints what came of it. A seed always gives the same files.
`--kinds png jpg tiff webp pdf` damages those alone; the first page of each of these is also drawn.
"""

from __future__ import annotations

import argparse
import gzip
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from bytes_reader import BytesReader
from sample_files import samples, unzipped, zip_of

from app.errors import DocumentError
from app.types.pages import PAGED_TYPES
from ingest.readers import ProcessLimits, ProcessPageRenderer, type_of_suffix

# One child for all, so that the file that ends it is known.
PROCESS_LIMITS = ProcessLimits(wall_s=20, cpu_s=20, memory_bytes=500_000_000, max_documents=10**9)
_LOOK_EVERY = 100
# Numbers at the edges, ends of structures, and what starts a new one.
TOKENS = (
    *(b"\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1", b"-1", b"99999999999999999999"),
    *(
        b"<",
        b"</",
        b"]]>",
        b"<!ENTITY x 'y'>",
        b"&x;",
        b"{",
        b"[" * 2_000,
        b"<a>" * 2_000,
        b'"',
        b"\r",
        b"\xed\xa0\x80",
    ),
    *(
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"%PDF-",
        b"endobj",
        b"stream\n",
        b" 0 R",
        b"\nFrom x\n",
        b"Content-Type: multipart/mixed\n",
    ),
)


@dataclass
class Outcome:
    """How many files were read, refused, or ended their process, and everything that should not have been."""

    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "none")
    drawn: int = 0
    undrawn: int = 0
    child_mb: list[int] = field(default_factory=list)  # of the reader's processes, every so often


def damaged_files(
    count: int, seed: int, kinds: Sequence[str] = (), others: Sequence[Path] = ()
) -> Iterator[tuple[str, bytes]]:
    files = samples() | {
        f"{number} {path.stem.replace('.', '-')}{path.suffix}": path.read_bytes() for number, path in enumerate(others)
    }
    names = sorted(name for name in files if not kinds or name.endswith(tuple(kinds)))
    for number in range(count):
        rng = random.Random(f"{seed}-{number}")
        name = names[number % len(names)]
        other = files[rng.choice(names)]
        yield name, _damage(name, files[name], other, rng)


def fuzz(count: int, seed: int, kinds: Sequence[str] = (), others: Sequence[Path] = ()) -> Outcome:
    outcome = Outcome()
    with (
        BytesReader(process_limits=PROCESS_LIMITS) as reader,
        closing(ProcessPageRenderer(process_limits=PROCESS_LIMITS, max_children=1)) as renderer,
        tempfile.NamedTemporaryFile() as file,
    ):
        for number, (name, data) in enumerate(damaged_files(count, seed, kinds, others)):
            started = time.monotonic()
            label = f"file {number} of seed {seed} ({name})"
            _read_one(reader, name, data, label, outcome)
            if (media_type := type_of_suffix(name)) in PAGED_TYPES and data:
                file.seek(0)
                file.truncate()
                file.write(data)
                file.flush()
                _draw_one(renderer, Path(file.name), media_type, label, outcome)
            if number % _LOOK_EVERY == _LOOK_EVERY // 2:
                outcome.child_mb.append(_megabytes(reader.child_ids))
            outcome.slowest = max(outcome.slowest, (time.monotonic() - started, label))
    return outcome


def _read_one(reader: BytesReader, name: str, data: bytes, label: str, outcome: Outcome) -> None:
    kind = name.partition(".")[2]
    children = reader.child_ids
    try:
        found = reader.read(data, uri=name)
    except DocumentError as error:
        reason = str(error)
        outcome.refused[kind] += 1
        outcome.reasons[" ".join(reason.split()[:4])] += 1
        if len(reason) < 30 or "Traceback" in reason or (not reason.isprintable() and "\n" not in reason):
            outcome.errors.append(f"{label}: no reason that a person can act on: {reason!r}")
        if children and not children & reader.child_ids:
            outcome.ended.append(f"{label}: {reason}")
        return
    outcome.read[kind] += 1
    if "\0" in found.text or not found.text.strip() or not found.title:
        outcome.errors.append(f"{label}: its text cannot be stored")


def _draw_one(renderer: ProcessPageRenderer, path: Path, media_type: str, label: str, outcome: Outcome) -> None:
    try:
        renderer.words(path, media_type=media_type, page=1)
        image = renderer.image(path, media_type=media_type, page=1, width=640)
    except DocumentError as error:
        outcome.undrawn += 1
        if "ended twice" in str(error):
            outcome.ended.append(f"{label}, drawn: {error}")
        return
    outcome.drawn += 1
    if not image.startswith(b"\xff\xd8\xff"):
        outcome.errors.append(f"{label}: its picture is none")


def _megabytes(process_ids: Iterable[int]) -> int:
    return round(sum(psutil.Process(each).memory_info().rss for each in process_ids) / 1e6)


def _damage(name: str, data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Archives mostly inside, since a changed byte outside only breaks a checksum."""
    if data.startswith(b"PK") and rng.random() < 0.7:
        return _damage_zipped(data, other, rng)
    if data.startswith(b"\x1f\x8b") and rng.random() < 0.7:
        return gzip.compress(_changed(gzip.decompress(data), other, rng), mtime=0)
    return _changed(data, other, rng)


def _damage_zipped(data: bytes, other: bytes, rng: random.Random) -> bytes:
    parts = unzipped(data)
    chosen = set(rng.sample(sorted(parts), k=min(len(parts), rng.randint(1, 3))))
    return zip_of({name: _changed(part, other, rng) if name in chosen else part for name, part in parts.items()})


def _changed(data: bytes, other: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(CHANGES)(data, other, rng)
    return data


def _flip_bits(data: bytes, _: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 20) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut_short(data: bytes, _: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    start, end = sorted((rng.randrange(len(other) + 1), rng.randrange(len(other) + 1)))
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[start:end] + data[at + rng.choice((0, end - start)) :]


def _remove(data: bytes, _: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.randint(1, 200) :]


def _repeat(data: bytes, _: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.randint(1, 300)]
    return data[:start] + piece * rng.choice((2, 3, 500)) + data[start:]


def _insert_token(data: bytes, _: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    token = rng.choice(TOKENS)
    return data[:at] + token + data[at + rng.choice((0, len(token))) :]


CHANGES: tuple[Callable[[bytes, bytes, random.Random], bytes], ...] = (
    *(_flip_bits, _flip_bits, _cut_short, _splice, _remove, _repeat, _insert_token, _insert_token),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--kinds", nargs="+", default=[], help="how the names of the files end")
    parser.add_argument(
        "--others", nargs="+", type=Path, default=[], help="further files, as of formats without sample"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}")
    started = time.monotonic()
    outcome = fuzz(options.files, options.seed, options.kinds, options.others)
    for kind in sorted(outcome.read | outcome.refused):
        print(f"{kind:10} {outcome.read[kind]:5} read {outcome.refused[kind]:5} refused with a reason")
    print(f"{'all':10} {outcome.read.total():5} read {outcome.refused.total():5} refused with a reason")
    print("Reasons begin:", *(f"{count:6} {reason} …" for reason, count in outcome.reasons.most_common(12)), sep="\n")
    print(f"Of those with pages {outcome.drawn} were drawn, {outcome.undrawn} refused with a reason.")
    print("MB of the reader's processes, every 100 files:", *outcome.child_mb)
    print("Ended their process:", *(outcome.ended or ["none"]), sep="\n  ")
    print("Errors:", *(outcome.errors or ["none"]), sep="\n  ")
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"{time.monotonic() - started:.0f} s, {own.ru_utime + children.ru_utime:.0f} s of CPU, ", end="")
    print(
        f"largest process {children.ru_maxrss / 1000:.0f} MB, slowest: {outcome.slowest[0]:.1f} s, {outcome.slowest[1]}"
    )
    return 1 if outcome.errors else 0


if __name__ == "__main__":
    raise SystemExit(main())
