"""Messages of IMAP folders as a source, over TLS only. Folders are opened read-only, so that no message becomes read.

A message never changes: UIDVALIDITY and UID identify it (RFC 3501), and its address is a URL of RFC 5092."""

from __future__ import annotations

import imaplib
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote, unquote, urlsplit

from app.errors import DocumentError, InputError, VanishedError
from app.ports.sources import OpenedSource, SourceCredentials
from app.types.credentials import Credentials
from app.types.documents import Source
from app.types.sources import MAX_LISTED_ITEMS, Fetched, ItemMark, Listing, RecurringSource
from ingest.path_patterns import path_patterns
from ingest.readers.limits import DEFAULT_LIMITS, MEGABYTE
from ingest.recurring.folder_names import decoded_folder, encoded_folder
from ingest.recurring.hosts import SourceHostGuard

_PORT = 993
_STEP_TIMEOUT_S = 60.0
_INBOX = "INBOX"
_MARK = ItemMark("message")  # the same for every message: they never change
_LISTED = re.compile(rb'\((?P<flags>[^)]*)\) (?:"(?:\\.|[^"\\])*+"|NIL) (?P<name>.+)', re.DOTALL)
_UID, _SIZE = re.compile(rb"\bUID (\d+)"), re.compile(rb"\bRFC822\.SIZE (\d+)")
_ITEM = re.compile(r"/(?P<folder>[^;/]+);UIDVALIDITY=(?P<validity>\d+)/;UID=(?P<uid>\d+)")


class ImapSourceReader:
    def __init__(
        self, *, guard: SourceHostGuard, credentials: SourceCredentials, tls: ssl.SSLContext | None = None
    ) -> None:
        self._guard = guard
        self._credentials = credentials
        self._tls = tls

    @contextmanager
    def open(
        self, source: RecurringSource, marks: Mapping[str, ItemMark], *, beat: Callable[[], None]
    ) -> Iterator[OpenedSource]:
        if not source.options.credentials:
            raise InputError("A mailbox needs credentials: name a credentials file of the operator.")
        own = self._credentials.find(source.options.credentials, user=source.owner, address=source.address)
        with _mapped_errors(own):
            connection = self._logged_in(source, own)
            try:
                yield _Mailbox(connection, source, beat)
            finally:
                connection.shutdown()

    def _logged_in(self, source: RecurringSource, own: Credentials) -> _PinnedConnection:
        address = urlsplit(source.address)
        host, port = address.hostname or "", address.port or _PORT
        addresses = self._guard.addresses(host, port)
        connection = _PinnedConnection(host, port, addresses, self._tls or ssl.create_default_context())
        try:
            connection.login(unquote(address.username or "") or own.user, own.password)
        except (imaplib.IMAP4.error, OSError):
            connection.shutdown()
            raise
        return connection


class _PinnedConnection(imaplib.IMAP4_SSL):
    """Connects to the checked addresses only. TLS still verifies the host name."""

    def __init__(self, host: str, port: int, addresses: list[str], tls: ssl.SSLContext) -> None:
        self._addresses = addresses
        super().__init__(host, port, ssl_context=tls, timeout=_STEP_TIMEOUT_S)

    def _create_socket(self, timeout: float | None) -> ssl.SSLSocket:
        failure: OSError | None = None
        for address in self._addresses:
            try:
                plain = socket.create_connection((address, self.port), timeout)
            except OSError as error:
                failure = error
                continue
            return self.ssl_context.wrap_socket(plain, server_hostname=self.host)
        raise failure or OSError("the host name has no address")


class _Mailbox:
    def __init__(self, connection: imaplib.IMAP4, source: RecurringSource, beat: Callable[[], None]) -> None:
        self._connection = connection
        self._source = source
        self._beat = beat
        self._opened: tuple[str, str] = ("", "")  # folder and its UIDVALIDITY

    def items(self) -> Listing:
        messages: list[tuple[int, str]] = []
        lacking = 0
        folders, unread = self._folders()
        for folder in folders:
            self._beat()
            validity, count = self._select(folder)
            if count:
                own = item_prefix(self._source.address, folder, validity)
                # FETCH, not SEARCH: the one line of its answer may exceed the limit of imaplib.
                uids = self._uids(folder)
                lacking += max(0, count - len(uids))
                messages += [(uid, f"{own}{uid}") for uid in uids]
        kept = sorted(messages, reverse=True)[:MAX_LISTED_ITEMS]
        notes = []
        if len(kept) < len(messages):
            notes.append(f"It has {len(messages):,} messages; only the newest {MAX_LISTED_ITEMS:,} are synced.")
        if lacking:
            notes.append(f"The mail server left {lacking:,} messages out of its lists, so nothing was removed.")
        if unread:
            notes.append(f"The names of {unread:,} folders could not be read, so nothing was removed.")
        return Listing({address: _MARK for _, address in kept}, is_whole=not notes, note=" ".join(notes) or None)

    def fetch(self, address: str, mark: ItemMark) -> Fetched | None:
        if mark == _MARK:
            return None
        parts = _ITEM.search(address)
        if parts is None:
            raise VanishedError("This is not the address of a message.")
        folder = unquote(parts["folder"])
        if self._opened != (folder, parts["validity"]):
            self._select(folder)
        if self._opened != (folder, parts["validity"]):
            raise VanishedError("The folder was deleted and created again.")
        size = _SIZE.search(self._fetch_part(parts["uid"], "(RFC822.SIZE)")[0])
        if size is None:
            raise VanishedError("The message no longer exists.")
        if int(size[1]) > DEFAULT_LIMITS.max_bytes:
            most = DEFAULT_LIMITS.max_bytes / MEGABYTE
            raise DocumentError(f"The message has {int(size[1]) / MEGABYTE:,.0f} MB; the limit is {most:,.0f} MB.")
        _, data = self._fetch_part(parts["uid"], "(BODY.PEEK[])")
        if not data:
            raise VanishedError("The message no longer exists.")
        name = f"{folder} {parts['uid']}"
        return Fetched(Source(name=name, uri=address, media_type="message/rfc822", data=data), _MARK)

    def _folders(self) -> tuple[list[str], int]:
        """The wanted folders, and the number of lines of the list that could not be read."""
        patterns = self._source.options.patterns or (_INBOX,)
        wanted = path_patterns(patterns)
        kind, listed = self._connection.list()
        if kind != "OK" or listed == [None]:  # every mailbox has an INBOX
            raise DocumentError("The mail server did not list its folders. Try again later.")
        # Behind a name that was sent as a literal, imaplib lists the empty end of its line.
        lines = [_LISTED.fullmatch(_joined(line)) for line in listed if line]
        names = (_folder_of(line) for line in lines if line is not None)
        return sorted({name for name in names if name is not None and wanted.match_file(name)}), lines.count(None)

    def _select(self, folder: str) -> tuple[str, int]:
        quoted = encoded_folder(folder).replace("\\", "\\\\").replace('"', '\\"')
        kind, count = self._connection.select(f'"{quoted}"', readonly=True)
        if kind != "OK":
            raise DocumentError(f"The folder {folder[:80]!r} cannot be opened. Check the patterns of the source.")
        if count[0] is None:
            raise DocumentError(f"The mail server did not count the messages of {folder[:80]!r}. Try again later.")
        validity = (self._connection.response("UIDVALIDITY")[1] or [b"0"])[0] or b"0"
        self._opened = folder, bytes(validity).decode("ascii")
        return self._opened[1], int(count[0])

    def _uids(self, folder: str) -> list[int]:
        kind, lines = self._connection.uid("FETCH", "1:*", "(UID)")
        if kind != "OK":
            raise DocumentError(f"The mail server did not list the messages of {folder[:80]!r}. Try again later.")
        return [int(match[1]) for line in lines if isinstance(line, bytes) and (match := _UID.search(line))]

    def _fetch_part(self, uid: str, what: str) -> tuple[bytes, bytes]:
        """Fetches `what` of one message: the line of the response, and the literal in it."""
        kind, parts = self._connection.uid("FETCH", uid, what)
        if kind != "OK":
            raise DocumentError("The mail server did not send the message. Try again later.")
        for part in parts:
            if isinstance(part, tuple):
                return part[0], part[1]
        return next((part for part in parts if isinstance(part, bytes)), b""), b""


def item_prefix(address: str, folder: str, validity: str) -> str:
    return f"{address.rstrip('/')}/{quote(folder, safe='')};UIDVALIDITY={validity}/;UID="


def _joined(line: bytes | tuple[bytes, bytes]) -> bytes:
    """A line of a LIST response. The name may have been sent as a literal."""
    return line[0].rpartition(b"{")[0] + line[1] if isinstance(line, tuple) else line


def _folder_of(listed: re.Match[bytes]) -> str | None:
    """The name of a listed folder; None for one that holds no messages."""
    if b"\\noselect" in listed["flags"].lower() or b"\\nonexistent" in listed["flags"].lower():
        return None
    name = listed["name"].strip()
    if name.startswith(b'"') and name.endswith(b'"'):
        name = re.sub(rb"\\(.)", rb"\1", name[1:-1])
    return decoded_folder(name.decode("ascii", "replace"))


@contextmanager
def _mapped_errors(own: Credentials) -> Iterator[None]:
    """Maps library errors to DocumentErrors with advice, and removes the password, which a server may repeat."""
    try:
        yield
    except ssl.SSLError as error:
        raise DocumentError(f"The mail server's certificate was not accepted ({error.reason}).") from None
    except imaplib.IMAP4.abort as error:
        raise DocumentError(
            f"The mail server ended the connection ({_message_of(error, own)}). Try again later."
        ) from None
    except imaplib.IMAP4.error as error:
        text = _message_of(error, own)
        if "AUTHENTICATIONFAILED" in text.upper() or "login" in text.lower():
            text = f"The mail server rejected user and password; check the credentials ({text})"
        raise DocumentError(text) from None
    except OSError as error:
        raise DocumentError(f"The mail server cannot be reached ({type(error).__name__}). Try again later.") from None


def _message_of(error: Exception, own: Credentials) -> str:
    argument = error.args[0] if error.args else b""
    text = argument.decode("utf-8", "replace") if isinstance(argument, bytes) else str(argument)
    return (text.replace(own.password, "…") if own.password else text)[:300]
