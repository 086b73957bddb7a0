"""The file format of exported collections and backups: a tar that ends with a manifest of SHA-256 sums.

Members are read one after another and never extracted to a path from the archive. Their names follow a fixed pattern.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import zstandard

from app.errors import ArchiveError, InputError

CONTRACT_MEMBER, LENSES_MEMBER, MANIFEST_MEMBER = "collection.json", "lenses.jsonl", "manifest.json"
ZSTD, GZIP = ".tar.zst", ".tar.gz"
MAX_EXPANSION = 250  # limit of the compression ratio; texts and vectors reach 20 at best
_FREE_EXPANSION_BYTES = 200_000_000  # allowed in addition, since small archives may be very repetitive
MAX_ROWS_BYTES = 512_000_000  # limit of a member that is read as a whole
_BLOCK = 1 << 20
_DAMAGE = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


@dataclass(frozen=True, slots=True)
class ArchiveFormat:
    """A kind of archive. `member` matches its member names; `made_by` is the command that writes it."""

    name: str
    version: int
    member: re.Pattern[str]
    made_by: str


COLLECTION = ArchiveFormat(
    "gircse collection",
    1,
    re.compile(
        r"collection\.json|manifest\.json|lenses\.jsonl|judgements/\d{6,9}\.jsonl|files/[0-9a-f]{64}|(texts|layouts)/[0-9a-f]{64}"
        r"|documents/\d{6,9}\.jsonl|chunks/\d{6,9}\.jsonl|vectors/\d{6,9}\.npy"
    ),
    "gircse export",
)


@dataclass(frozen=True, slots=True)
class Member:
    """One file in the archive. `parts` can be read only once, and only before the next member is requested."""

    name: str
    byte_count: int
    parts: Iterable[bytes]

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    def read(self) -> bytes:
        if self.byte_count > MAX_ROWS_BYTES:
            raise ArchiveError(
                f"{self.name} claims {self.byte_count} bytes; at most {MAX_ROWS_BYTES} are read at once."
            )
        return b"".join(self.parts)


class ArchiveWriter:
    """Writes to a temporary file and renames it to `path` at the end: a failed export leaves no partial archive."""

    def __init__(self, path: Path, form: ArchiveFormat = COLLECTION) -> None:
        self._path = path
        self._form = form
        self._draft = path.with_name(f".{path.name}.part")
        self._sums: dict[str, list[object]] = {}
        self._file: IO[bytes] = open(self._draft, "wb")  # noqa: SIM115 - closed by __exit__
        try:
            self._packed = _packing(path, self._file)
        except InputError:
            self._discard()
            raise
        self._tar = tarfile.open(fileobj=self._packed, mode="w|")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            with suppress(OSError, ValueError):  # otherwise the garbage collector would close it and log an error
                self._tar.close()
            self._discard()

    def _finish(self) -> None:
        manifest = {"format": self._form.name, "version": self._form.version, "members": self._sums}
        self._add(MANIFEST_MEMBER, io.BytesIO(json.dumps(manifest, indent=0).encode()))
        self._tar.close()
        self._packed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._draft.replace(self._path)

    def add(self, name: str, data: bytes) -> None:
        self._sums[name] = [hashlib.sha256(data).hexdigest(), len(data)]
        self._add(name, io.BytesIO(data))

    def add_file(self, name: str, path: Path, *, content_hash: str | None = None) -> bool:
        """Add a file. If its SHA-256 is not `content_hash`, add nothing and return False."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if content_hash not in (None, digest):
                return False
            self._sums[name] = [digest, file.tell()]
            file.seek(0)
            self._add(name, file)
        return True

    def add_parts(self, name: str, parts: Iterable[bytes]) -> None:
        """Add a member from parts. If the iterator raises, as for a wrong checksum at its end, nothing is added."""
        with tempfile.TemporaryFile(dir=self._draft.parent) as spooled:
            digest = hashlib.sha256()
            for part in parts:
                digest.update(part)
                spooled.write(part)
            self._sums[name] = [digest.hexdigest(), spooled.tell()]
            self._add(name, spooled)

    def _add(self, name: str, content: IO[bytes]) -> None:
        member = tarfile.TarInfo(name)
        member.size = content.seek(0, io.SEEK_END)
        content.seek(0)
        self._tar.addfile(member, content)

    def _discard(self) -> None:
        """Remove the temporary file."""
        with suppress(OSError):  # from flushing unwritten data
            self._file.close()
        self._draft.unlink(missing_ok=True)


def read_members(
    path: Path, form: ArchiveFormat = COLLECTION, *, on_progress: Callable[[int], None] = lambda position: None
) -> Generator[Member, None, None]:
    """Yield the members in file order. Raises ArchiveError. `on_progress` receives the position in the compressed
    file."""
    with path.open("rb") as file, _damage_translated(path):
        packed = path.stat().st_size
        plain = _CappedReader(_unpacking(path, file), _FREE_EXPANSION_BYTES + MAX_EXPANSION * packed)
        seen: set[str] = set()
        with tarfile.open(fileobj=plain, mode="r|") as tar:
            for info in tar:
                if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.issparse() or info.name in seen:
                    raise ArchiveError(f"{path} holds {info.name!r} twice, or as something else than a plain file.")
                if not form.member.fullmatch(info.name):
                    raise ArchiveError(f"{path} holds {info.name!r}, which `{form.made_by}` does not write.")
                seen.add(info.name)
                content = tar.extractfile(info)
                assert content is not None
                yield Member(info.name, info.size, _blocks(path, content, lambda: on_progress(file.tell())))


def verify(
    path: Path, form: ArchiveFormat = COLLECTION, *, on_progress: Callable[[int], None] = lambda position: None
) -> dict[str, tuple[str, int]]:
    """Read the whole archive and return (SHA-256, length) by member. Raises ArchiveError unless the manifest agrees."""
    found: dict[str, tuple[str, int]] = {}
    manifest: bytes | None = None
    for member in read_members(path, form, on_progress=on_progress):
        if manifest is not None:
            raise ArchiveError(f"{path} has data after its manifest.")
        if member.name == MANIFEST_MEMBER:
            manifest = member.read()
            continue
        digest, count = hashlib.sha256(), 0
        for block in member.parts:
            digest.update(block)
            count += len(block)
        found[member.name] = (digest.hexdigest(), count)
    if manifest is None:
        raise ArchiveError(f"{path} has no manifest: its export was interrupted, or it is not an archive of gircse.")
    listed = _listed(path, manifest, form)
    for name in sorted({*listed, *found}):
        if listed.get(name) != found.get(name):
            what = "is missing" if name not in found else "is not listed" if name not in listed else "was altered"
            raise ArchiveError(f"{name} in {path} {what}. Take another copy of the archive; nothing was changed here.")
    return found


def _listed(path: Path, manifest: bytes, form: ArchiveFormat) -> dict[str, tuple[str, int]]:
    try:
        content = json.loads(manifest)
        kind, version = content["format"], content["version"]
        listed = {str(name): (str(digest), int(count)) for name, (digest, count) in content["members"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArchiveError(f"The manifest of {path} cannot be read: {error}.") from error
    if (kind, version) != (form.name, form.version):
        raise ArchiveError(
            f"{path} is of format {kind!r}, version {version!r}; this release reads {form.name!r}, version "
            f"{form.version}."
        )
    return listed


def _blocks(path: Path, content: IO[bytes], on_progress: Callable[[], None]) -> Iterator[bytes]:
    while True:
        with _damage_translated(path):
            block = content.read(_BLOCK)
        if not block:
            return
        yield block
        on_progress()


def _packing(path: Path, file: IO[bytes]) -> IO[bytes]:
    if path.name.endswith(ZSTD):
        return zstandard.ZstdCompressor(level=6, write_checksum=True).stream_writer(file, closefd=False)
    if path.name.endswith(GZIP):
        return gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)  # type: ignore[return-value]
    raise InputError(f"{path.name!r} is not a name for an archive. Use *{ZSTD} or *{GZIP}.")


def _unpacking(path: Path, file: IO[bytes]) -> IO[bytes]:
    start = file.read(4)
    file.seek(0)
    if start == zstandard.FRAME_HEADER:
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=False)
    if start[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=file, mode="rb")  # type: ignore[return-value]
    raise ArchiveError(f"{path} is neither a {ZSTD} nor a {GZIP} archive.")


class _CappedReader(io.RawIOBase):
    """A reader that raises ArchiveError once more than `most` bytes were unpacked, to stop zip bombs."""

    def __init__(self, source: IO[bytes], most: int) -> None:
        self._source = source
        self._left = most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError("The archive unpacks to far more than a collection can: it may be a zip bomb.")
        return data


@contextmanager
def _damage_translated(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ArchiveError(f"{path} is damaged: {error}. Take another copy of it; nothing was changed here.") from error
