"""Repositories as sources: which files, of which branch, and nothing that a repository could have run here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from patience import wait_until
from postgres_server import free_port
from source_origins import HOST, NAME, BareRepository, guard_of, serving

from app.collections.credentials_folder import CredentialsFolder
from app.errors import DocumentError, InputError, LeaseLostError
from app.types.access import OPERATOR
from app.types.documents import utc_now
from app.types.sources import ItemMark, Listing, RecurringSource, SourceKind, SourceOptions
from ingest.addresses import is_public
from ingest.recurring.git import GitSourceReader
from ingest.recurring.git_program import GitLimits

MARKS: dict[str, ItemMark] = {}


@pytest.fixture
def repository(tmp_path: Path) -> BareRepository:
    return BareRepository(tmp_path)


def source_of(address: str, *, owner: str = OPERATOR.name, **options: Any) -> RecurringSource:
    every = timedelta(hours=1)
    return RecurringSource(
        "1", "library", SourceKind.GIT, address, every, True, owner, utc_now(), SourceOptions(**options)
    )  # fmt: skip


def reader_of(folder: Path, *, is_allowed: Any = lambda _: True, limits: GitLimits | None = None) -> GitSourceReader:
    own = CredentialsFolder(folder)
    return GitSourceReader(guard=guard_of(is_allowed), credentials=own, folder=folder, limits=limits)


def names(listing: Listing) -> list[str]:
    return [each.rpartition("handbook.git/")[2] for each in listing.items]


def listed(repository: BareRepository, **options: Any) -> list[str]:
    source = source_of(repository.bare.as_uri(), **options)
    with reader_of(repository.folder).open(source, MARKS, beat=lambda: None) as opened:
        return names(opened.items())


def test_files_that_can_be_read_are_listed_by_pattern_and_branch(repository: BareRepository) -> None:
    for name in ("readme.md", "docs/ü ß.md", "docs/old.txt", ".hidden/note.md", "LICENSE", "main.o"):
        repository.put(name, name)
    assert listed(repository) == ["LICENSE", "docs/old.txt", "docs/%C3%BC%20%C3%9F.md", "readme.md"]
    assert listed(repository, patterns=("*.md", "!docs/**")) == [".hidden/note.md", "readme.md"]
    repository.git("checkout", "--quiet", "-b", "next/one")
    repository.put("new.md", "new")
    assert "new.md" not in listed(repository)
    assert "new.md" in listed(repository, branch="next/one")
    with pytest.raises(DocumentError, match="no such branch"):
        listed(repository, branch="gone")


def test_links_and_submodules_are_left_out_and_nothing_is_run(repository: BareRepository, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (repository.work / "link.md").symlink_to(tmp_path / "secret.md")
    other = BareRepository(_folder(tmp_path / "other"))
    other.put("inner.md", "inner")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.bare), "sub.md")
    ran = tmp_path / "ran"
    for hook in ("post-checkout", "post-merge", "reference-transaction", "pre-auto-gc"):
        script = _folder(tmp_path / "hooks") / hook
        script.write_text(f"#!/bin/sh\ntouch {ran}\n")
        script.chmod(0o755)
    repository.put(".gitattributes", "*.md filter=evil\n")
    repository.put("a.md", "a")
    repository.git("config", "core.hooksPath", str(tmp_path / "hooks"), at=repository.bare)
    repository.git("config", "filter.evil.smudge", f"touch {ran}", at=repository.bare)
    source = source_of(repository.bare.as_uri())
    with reader_of(tmp_path).open(source, MARKS, beat=lambda: None) as opened:
        listing = opened.items()
        assert names(listing) == ["a.md"]
        fetched = opened.fetch(next(iter(listing.items)), ItemMark())
    assert fetched is not None
    assert fetched.source.data == b"a"
    assert not ran.exists()
    assert not list(tmp_path.glob("git-*"))  # what was temporary is gone


@pytest.mark.parametrize("can_filter", [True, False])
def test_only_blobs_that_changed_are_sent_where_the_server_can(repository: BareRepository, can_filter: bool) -> None:
    repository.git("config", "uploadpack.allowFilter", str(can_filter).lower(), at=repository.bare)
    for name in ("a.md", "b.md", "c.md"):
        repository.put(name, name * 3)
    source = source_of(repository.bare.as_uri())
    reader = reader_of(repository.folder)
    with reader.open(source, MARKS, beat=lambda: None) as opened:
        marks = {each: mark or ItemMark() for each, mark in opened.items().items.items()}
    repository.put("b.md", "changed")
    with reader.open(source, marks, beat=lambda: None) as opened:
        listing = opened.items()
        [changed] = [each for each, mark in listing.items.items() if marks[each] != mark]
        [folder] = repository.folder.glob("git-*")
        fetched = opened.fetch(changed, marks[changed])
        assert fetched is not None
        assert fetched.source.data == b"changed"
        here = subprocess.run(
            ["git", "cat-file", "--batch-check", "--batch-all-objects"], cwd=folder, capture_output=True, text=True,
            check=True,
        ).stdout  # fmt: skip
    assert here.count("blob") == (1 if can_filter else 3)


def test_what_git_lfs_keeps_and_what_is_too_much_say_so(repository: BareRepository) -> None:
    repository.put("scan.pdf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    source = source_of(repository.bare.as_uri())
    with reader_of(repository.folder).open(source, MARKS, beat=lambda: None) as opened:
        [address] = opened.items().items
        with pytest.raises(DocumentError, match="LFS"):
            opened.fetch(address, ItemMark())
    repository.put("noise.bin", "".join(os.urandom(1_000).hex() for _ in range(2_000)))
    repository.git("config", "uploadpack.allowFilter", "false", at=repository.bare)
    repository.git("config", "core.compression", "0", at=repository.bare)
    small = GitLimits(repository_bytes=1_000, command_s=0.0)
    with (
        reader_of(repository.folder, limits=small).open(source, MARKS, beat=lambda: None) as opened,
        pytest.raises(DocumentError, match="fewer paths"),
    ):
        opened.items()


def test_a_lease_that_is_lost_ends_the_program(repository: BareRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.put("a.md", "a")
    monkeypatch.setattr("ingest.recurring.git_program._BEAT_EVERY_S", -1.0)
    monkeypatch.setattr("ingest.recurring.git_program._LOOK_EVERY_S", 0.0)

    def lost() -> None:
        raise LeaseLostError("taken over")

    with (
        reader_of(repository.folder).open(source_of(repository.bare.as_uri()), MARKS, beat=lost) as opened,
        pytest.raises(LeaseLostError),
    ):
        opened.items()


def test_what_a_killed_worker_left_is_removed_after_a_day(repository: BareRepository) -> None:
    old, young, other = (_folder(repository.folder / name) for name in ("git-old", "git-young", "digits"))
    (_folder(old / "objects") / "pack").write_bytes(b"x")
    for each in (old, other):
        os.utime(each, (0, 0))
    repository.put("a.md", "a")
    assert listed(repository) == ["a.md"]
    assert [each.exists() for each in (old, young, other)] == [False, True, True]


def test_disks_of_this_machine_are_the_operators(repository: BareRepository) -> None:
    source = source_of(repository.bare.as_uri(), owner="anna")
    with (
        pytest.raises(InputError, match="operator"),
        reader_of(repository.folder).open(source, MARKS, beat=lambda: None),
    ):
        pass  # pragma: no cover


def test_a_name_that_leads_to_a_private_address_is_not_asked(repository: BareRepository) -> None:
    for address in (f"ssh://git@{HOST}/handbook.git", f"https://{HOST}/handbook.git"):
        with (
            pytest.raises(DocumentError, match="not on the public internet"),
            reader_of(repository.folder, is_allowed=is_public).open(source_of(address), MARKS, beat=lambda: None),
        ):
            pass  # pragma: no cover


def test_a_server_that_sends_on_elsewhere_is_not_followed(repository: BareRepository) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere.git{self.path}")
            self.end_headers()
            asked.append(self.path)

        def log_message(self, *_: object) -> None:
            pass

    asked: list[str] = []
    with serving(Handler) as port:
        source = source_of(f"http://{HOST}:{port}/handbook.git")
        reading = reader_of(repository.folder).open(source, MARKS, beat=lambda: None)
        with reading as opened, pytest.raises(DocumentError, match="another address"):
            opened.items()
    assert len(asked) == 1


@contextmanager
def ssh_server(folder: Path) -> Iterator[int]:
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or os.getuid() != 0:
        pytest.skip("There is no sshd that could be started here: apt-get install openssh-server")
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port = free_port()
    Path("/run/sshd").mkdir(exist_ok=True)
    options = {
        "Port": port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "PidFile": "none", "UsePAM": "no",
        "AuthorizedKeysFile": folder / "own.pub", "StrictModes": "no", "PermitRootLogin": "yes",
    }  # fmt: skip
    command = [program, "-D", "-e", "-f", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _listens(port), told=(folder / "log").read_text)
            yield port
        finally:
            process.terminate()


def test_over_ssh_by_a_key_and_to_a_known_host_alone(repository: BareRepository, tmp_path: Path) -> None:
    repository.put("a.md", "The tide.")
    folder = _folder(tmp_path / "ssh")
    with ssh_server(folder) as port:
        address = f"ssh://root@{HOST}:{port}{repository.bare}"
        own = f"address = ssh://{HOST}:{port}\nkey_file = {folder}/own\nknown_hosts = {folder}/known\n"
        (tmp_path / NAME).write_text(own)
        source = source_of(address, credentials=NAME)

        def read() -> bytes:
            with reader_of(tmp_path).open(source, MARKS, beat=lambda: None) as opened:
                [found] = opened.items().items
                fetched = opened.fetch(found, ItemMark())
                assert fetched is not None
                return fetched.source.data

        with pytest.raises(DocumentError, match="known_hosts"):
            read()
        (folder / "known").write_text(f"[{HOST}]:{port} {(folder / 'host.pub').read_text()}")
        assert read() == b"The tide."


def _listens(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path
