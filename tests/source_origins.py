"""Real servers that sources come from, on this machine: a web site, git over HTTP, Dovecot over TLS, and S3 by moto."""

from __future__ import annotations

import base64
import grp
import imaplib
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any, Protocol

import minio
import pytest
import trustme
from patience import PATIENCE_S, wait_until
from postgres_server import free_port
from served import in_thread

from app.collections.credentials_folder import CredentialsFolder
from app.ports.sources import SourceReader
from app.types.sources import SourceKind, SourceOptions
from ingest.recurring.git import GitSourceReader
from ingest.recurring.hosts import SourceHostGuard
from ingest.recurring.imap import ImapSourceReader
from ingest.recurring.s3 import S3SourceReader
from ingest.recurring.web import WebSourceReader
from ingest.urls import UrlReader

USER, PASSWORD = "anna", "open-sesame-48151623"
NAME = "own"
# A name that nobody knows: what reaches a server has asked the resolver that it was given, and no other.
HOST = "sources"

IsAllowed = Callable[[str], bool]


class Origin(Protocol):
    """What a source comes from. `put` makes or replaces a text."""

    kind: SourceKind
    address: str
    options: SourceOptions
    folder: Path  # of credentials
    asks_for_password: bool

    def put(self, name: str, text: str) -> None: ...
    def delete(self, name: str) -> None: ...
    def reader(self, is_allowed: IsAllowed) -> SourceReader: ...


def resolve(host: str, port: int) -> list[str]:
    return ["127.0.0.1"] if host == HOST else []


async def resolve_for_httpx(host: str, port: int) -> list[str]:
    return resolve(host, port)


def guard_of(is_allowed: IsAllowed) -> SourceHostGuard:
    return SourceHostGuard(is_allowed=is_allowed, resolve=resolve)


def write_credentials(
    folder: Path, address: str, *, user: str = USER, password: str = PASSWORD, more: str = ""
) -> None:
    (folder / NAME).write_text(f"# for tests\naddress = {address}\nuser = {user}\npassword = {password}\n{more}")


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], *, tls: SSLContext | None = None) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with in_thread(server):
        yield server.server_port


@dataclass
class WebOrigin:
    folder: Path
    port: int = 0
    pages: dict[str, str] = field(default_factory=dict)
    kind: SourceKind = SourceKind.SITEMAP
    options: SourceOptions = field(default_factory=SourceOptions)
    asks_for_password: bool = False

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/sitemap.xml"

    def put(self, name: str, text: str) -> None:
        self.pages[f"/{name}"] = f"<p>{text}</p>"

    def delete(self, name: str) -> None:
        del self.pages[f"/{name}"]

    def reader(self, is_allowed: IsAllowed) -> SourceReader:
        return WebSourceReader(UrlReader(is_allowed=is_allowed, resolve=resolve_for_httpx))

    def body(self, path: str) -> str | None:
        if path != "/sitemap.xml":
            return self.pages.get(path)
        items = "".join(f"<url><loc>http://{HOST}:{self.port}{each}</loc></url>" for each in self.pages)
        return f"<urlset>{items}</urlset>"


@contextmanager
def web_origin(folder: Path) -> Iterator[WebOrigin]:
    origin = WebOrigin(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = origin.body(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as origin.port:
        yield origin


class BareRepository:
    """Made by a working copy that pushes to it."""

    def __init__(self, folder: Path) -> None:
        self.bare, self.work = folder / "handbook.git", folder / "work"
        self.folder = folder
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare), at=folder)
        self.git("clone", "--quiet", str(self.bare), str(self.work), at=folder)
        self.git("config", "uploadpack.allowFilter", "true", at=self.bare)

    def git(self, *arguments: str, at: Path | None = None) -> str:
        own = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main",
            **{f"GIT_{who}_{what}": "a@b.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }  # fmt: skip
        command = ["git", *arguments]
        return subprocess.run(command, cwd=at or self.work, env=own, check=True, capture_output=True, text=True).stdout

    def put(self, name: str, text: str) -> None:
        file = self.work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        self.push()

    def delete(self, name: str) -> None:
        (self.work / name).unlink()
        self.push()

    def push(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change", "--allow-empty")
        self.git("push", "--quiet", "origin", "HEAD")


@dataclass
class GitOrigin:
    folder: Path
    repository: BareRepository
    port: int = 0
    asked: list[str] = field(default_factory=list)  # paths, of who was let in
    kind: SourceKind = SourceKind.GIT
    options: SourceOptions = field(default_factory=lambda: SourceOptions(credentials=NAME))
    asks_for_password: bool = True

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/handbook.git"

    def put(self, name: str, text: str) -> None:
        self.repository.put(f"{name}.md", text)

    def delete(self, name: str) -> None:
        self.repository.delete(f"{name}.md")

    def reader(self, is_allowed: IsAllowed) -> SourceReader:
        return GitSourceReader(guard=guard_of(is_allowed), credentials=CredentialsFolder(self.folder))


@contextmanager
def git_origin(folder: Path) -> Iterator[GitOrigin]:
    """By git's own program for servers, which asks for a password."""
    backend = Path(subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip())
    origin = GitOrigin(folder, BareRepository(folder))
    wanted = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
            origin.asked.append(self.path)
            path, _, query = self.path.partition("?")
            variables = {
                "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": USER,
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }  # fmt: skip
            given = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            said = subprocess.run(
                [str(backend / "git-http-backend")], env=variables, input=given, capture_output=True, check=False
            ).stdout
            head, _, body = said.partition(b"\r\n\r\n")
            lines = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(lines.pop("Status", "200").split()[0]))
            for name, value in lines.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as origin.port:
        write_credentials(folder, f"http://{HOST}:{origin.port}/")
        yield origin


@dataclass
class MailOrigin:
    folder: Path
    port: int
    tls: SSLContext
    authority: Path  # the certificate to trust
    uids: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    kind: SourceKind = SourceKind.IMAP
    options: SourceOptions = field(default_factory=lambda: SourceOptions(credentials=NAME))
    asks_for_password: bool = True

    @property
    def address(self) -> str:
        return f"imaps://{HOST}:{self.port}"

    @contextmanager
    def connected(self) -> Iterator[imaplib.IMAP4_SSL]:
        with imaplib.IMAP4_SSL("localhost", self.port, ssl_context=self.tls, timeout=PATIENCE_S) as connection:
            connection.login(USER, PASSWORD)
            yield connection

    def put(self, name: str, text: str, *, at: str = "INBOX") -> None:
        """Messages never change: another one takes its place."""
        if name in self.uids:
            self.delete(name)
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = name, "ben@example.org", "anna@example.org"
        message.set_content(text)
        with self.connected() as connection:
            connection.create(at)
            _, said = connection.append(at, "", None, message.as_bytes())
            self.uids[name] = at, said[0].split()[2].rstrip(b"]")

    def delete(self, name: str) -> None:
        at, uid = self.uids.pop(name)
        with self.connected() as connection:
            connection.select(at)
            connection.uid("STORE", uid.decode(), "+FLAGS", "(\\Deleted)")
            connection.expunge()

    def reader(self, is_allowed: IsAllowed) -> SourceReader:
        credentials = CredentialsFolder(self.folder)
        return ImapSourceReader(guard=guard_of(is_allowed), credentials=credentials, tls=self.tls)


_DOVECOT = """
protocols = imap
listen = 127.0.0.1
base_dir = {home}/run
state_dir = {home}/state
log_path = {home}/log
ssl = required
ssl_cert = <{home}/cert.pem
ssl_key = <{home}/key.pem
ssl_dh =
mail_location = maildir:{home}/mail/%u
first_valid_uid = 1
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={home}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {port}
  }}
}}
service anvil {{
  chroot =
}}
"""


@contextmanager
def mail_origin(folder: Path) -> Iterator[MailOrigin]:
    """A Dovecot of its own."""
    program = shutil.which("dovecot", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("There is no Dovecot here: apt-get install dovecot-imapd")
    authority = trustme.CA()
    with ExitStack() as opened:
        # Its processes run as another user, who cannot enter pytest's folders.
        home = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="mail-")))
        home.chmod(0o755)
        own = pwd.getpwuid(os.getuid() or pwd.getpwnam("mail").pw_uid)
        certificate = authority.issue_cert("localhost", HOST)
        certificate.cert_chain_pems[0].write_to_path(home / "cert.pem")
        certificate.private_key_pem.write_to_path(home / "key.pem")
        (home / "mail").mkdir()
        if os.getuid() == 0:
            os.chown(home / "mail", own.pw_uid, own.pw_gid)
        port = free_port()
        group = grp.getgrgid(own.pw_gid).gr_name
        settings = _DOVECOT.format(
            home=home, port=port, password=PASSWORD, uid=own.pw_uid, gid=own.pw_gid, user=own.pw_name, group=group
        )
        (home / "dovecot.conf").write_text(settings)
        process = subprocess.Popen([program, "-F", "-c", str(home / "dovecot.conf")], start_new_session=True)
        opened.callback(process.wait)
        opened.callback(os.killpg, process.pid, signal.SIGKILL)  # asked to end, it takes a second
        tls = create_default_context()
        authority.configure_trust(tls)
        authority.cert_pem.write_to_path(home / "authority.pem")
        origin = MailOrigin(folder, port, tls, home / "authority.pem")
        wait_until(lambda: _answers(origin), told=(home / "log").read_text)
        write_credentials(folder, origin.address)
        yield origin


def _answers(origin: MailOrigin) -> bool:
    try:
        with origin.connected():
            return True
    except OSError:
        return False


@dataclass
class S3Origin:
    folder: Path
    port: int
    client: Any
    kind: SourceKind = SourceKind.S3
    options: SourceOptions = field(default_factory=lambda: SourceOptions(credentials=NAME))
    asks_for_password: bool = False  # everybody is let in

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/papers"

    def put(self, name: str, text: str) -> None:
        data = text.encode()
        self.client.put_object("papers", f"{name}.txt", BytesIO(data), len(data))

    def delete(self, name: str) -> None:
        self.client.remove_object("papers", f"{name}.txt")

    def add_user(self) -> tuple[str, str]:
        """An access key of somebody who may do all that S3 has, and its secret."""
        boto3 = pytest.importorskip("boto3")
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}
        iam = boto3.client("iam", endpoint_url=f"http://127.0.0.1:{self.port}", **keys)
        iam.create_user(UserName="reader")
        statement = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=policy)
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]

    def reader(self, is_allowed: IsAllowed) -> SourceReader:
        return S3SourceReader(guard=guard_of(is_allowed), credentials=CredentialsFolder(self.folder))


@contextmanager
def s3_origin(folder: Path, server: tuple[str, int]) -> Iterator[S3Origin]:
    client = minio.Minio(f"{server[0]}:{server[1]}", access_key=USER, secret_key=PASSWORD, secure=False)
    client.make_bucket("papers")
    origin = S3Origin(folder, server[1], client)
    write_credentials(folder, origin.address)
    try:
        yield origin
    finally:
        for each in client.list_objects("papers", recursive=True):
            client.remove_object("papers", each.object_name)
        client.remove_bucket("papers")
