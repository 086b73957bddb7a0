"""Files of a git repository as a source. Fetches one branch without its history, and only wanted and changed files.

Nothing is checked out, so that hooks, filters and submodules never run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from app.errors import DocumentError, InputError, VanishedError
from app.ports.sources import OpenedSource, SourceCredentials
from app.types.access import is_of_operator
from app.types.credentials import Credentials
from app.types.documents import Source
from app.types.sources import MAX_LISTED_ITEMS, Fetched, ItemMark, Listing, RecurringSource
from ingest.readers.limits import DEFAULT_LIMITS, MEGABYTE
from ingest.recurring.git_program import Git, GitLimits, environment_of, require_git
from ingest.recurring.hosts import SourceHostGuard
from ingest.recurring.selection import PathSelection
from ingest.recurring.temporary import temporary_folder

_HEAD = "refs/gircse/head"
_FILES = ("100644", "100755")  # neither links nor submodules
_BLOBS_AT_ONCE = 200
# The reply of servers that do not serve single blobs by id, such as over ssh without protocol 2.
_WHOLE_ONLY = "unadvertised object"
_FILTER_IGNORED = "filtering not recognized"
_LARGE_FILE = b"version https://git-lfs.github.com/"
_PORTS = {"https": 443, "http": 80, "ssh": 22}


class GitSourceReader:
    def __init__(
        self,
        *,
        guard: SourceHostGuard,
        credentials: SourceCredentials,
        folder: Path | None = None,
        limits: GitLimits | None = None,
    ) -> None:
        """`folder` holds temporary files; None: the system's own."""
        self._guard = guard
        self._credentials = credentials
        self._folder = folder
        self._limits = limits or GitLimits()

    @contextmanager
    def open(
        self, source: RecurringSource, marks: Mapping[str, ItemMark], *, beat: Callable[[], None]
    ) -> Iterator[OpenedSource]:
        require_git()
        address = urlsplit(source.address)
        addresses: list[str] = []
        if address.scheme == "file":
            if not is_of_operator(source.owner):
                raise InputError("Only the operator may add repositories on this machine's own disks.")
        else:
            addresses = self._guard.addresses(address.hostname or "", address.port or _PORTS[address.scheme])
        own = self._own(source)
        with temporary_folder(self._folder, prefix="git-") as home:
            environment = environment_of(_with_user(address, own), addresses, own, home=home)
            git = Git(home, environment, beat=beat, limits=self._limits)
            yield _Repository(git, source, marks)

    def _own(self, source: RecurringSource) -> Credentials | None:
        name = source.options.credentials
        return self._credentials.find(name, user=source.owner, address=source.address) if name else None


class _Repository:
    def __init__(self, git: Git, source: RecurringSource, marks: Mapping[str, ItemMark]) -> None:
        self._git = git
        self._source = source
        self._marks = marks
        self._blobs: dict[str, tuple[str, str]] = {}  # item address → path and blob id
        self._missing: list[str] = []  # ids of wanted blobs that are not fetched yet

    def items(self) -> Listing:
        self._git.run("init", "--quiet", "--bare", "--template=", ".")
        self._fetch_head("--filter=blob:none")
        ignores_filter = _FILTER_IGNORED in self._git.stderr
        selection = PathSelection(self._source.options.patterns)
        listed = self._git.run("ls-tree", "-r", "-z", "--full-tree", _HEAD).split(b"\0")
        files = sorted(_files(listed, selection))
        for path, blob in files[:MAX_LISTED_ITEMS]:
            self._blobs[item_address(self._source.address, path)] = path, blob
        items: dict[str, ItemMark | None] = {address: ItemMark(blob) for address, (_, blob) in self._blobs.items()}
        if not ignores_filter:
            wanted = [blob for address, (_, blob) in self._blobs.items() if self._marks.get(address) != ItemMark(blob)]
            self._missing = list(dict.fromkeys(wanted))
        is_whole = len(files) <= MAX_LISTED_ITEMS
        note = None if is_whole else f"It has {len(files):,} files; only the first {MAX_LISTED_ITEMS:,} are synced."
        return Listing(items, is_whole=is_whole, note=note)

    def fetch(self, address: str, mark: ItemMark) -> Fetched | None:
        if address not in self._blobs:
            raise VanishedError("The repository no longer has this file.")
        path, blob = self._blobs[address]
        if mark == ItemMark(blob):
            return None
        self._fetch_missing(blob)
        size = int(self._git.run("cat-file", "-s", blob))
        if size > DEFAULT_LIMITS.max_bytes:
            raise DocumentError(
                f"It has {size / MEGABYTE:,.0f} MB; the limit is {DEFAULT_LIMITS.max_bytes / MEGABYTE:,.0f} MB."
            )
        data = self._git.run("cat-file", "blob", blob)
        if data.startswith(_LARGE_FILE):
            raise DocumentError("This file is stored in Git LFS, which is not fetched. Exclude it with a pattern.")
        return Fetched(Source(name=path, uri=address, media_type="", data=data), ItemMark(blob))

    def _fetch_missing(self, blob: str) -> None:
        """Fetches the blob and the next missing ones, 200 per command: a command per blob would take a second each."""
        if blob not in self._missing:
            return
        start = self._missing.index(blob)
        batch = self._missing[start : start + _BLOBS_AT_ONCE]
        try:
            self._git.run(
                # The options that git itself uses to complete a partial clone.
                "-c", "fetch.negotiationAlgorithm=noop",
                "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                "--filter=blob:none", "--stdin", "origin",
                stdin="".join(f"{blob_id}\n" for blob_id in batch),
            )  # fmt: skip
        except DocumentError:
            if _WHOLE_ONLY not in self._git.stderr:
                raise
            self._fetch_head("--refetch", "--no-filter")
            self._missing.clear()
        else:
            del self._missing[start : start + _BLOBS_AT_ONCE]

    def _fetch_head(self, *options: str) -> None:
        branch = self._source.options.branch or "HEAD"
        self._git.run(
            "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", *options, "origin",
            f"+{branch}:{_HEAD}",
        )  # fmt: skip


def item_address(address: str, path: str) -> str:
    return f"git+{address.rstrip('/')}/{quote(path)}"


def _with_user(address: SplitResult, credentials: Credentials | None) -> SplitResult:
    """Adds the user of the credentials to an ssh address that has none."""
    if address.scheme != "ssh" or address.username or credentials is None or not credentials.user:
        return address
    return address._replace(netloc=f"{quote(credentials.user)}@{address.netloc}")


def _files(listed: list[bytes], selection: PathSelection) -> Iterator[tuple[str, str]]:
    for line in listed:
        head, _, raw = line.partition(b"\t")
        mode, _, rest = head.decode("ascii").partition(" ")
        if mode not in _FILES:
            continue
        try:
            path = raw.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if selection.takes(path):
            yield path, rest.partition(" ")[2]
