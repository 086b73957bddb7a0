"""Messages of Outlook (.msg), with the same structure as .eml messages."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Sequence

from oxmsg.storage import Storage

from app.types.texts import ExtractedText
from ingest.readers.containers import open_compound_file
from ingest.readers.limits import ReadLimits
from ingest.readers.mapi import DEEPEST, AttachedItem, MessageItem, Properties, headers_of, parts_of
from ingest.readers.media_types import OUTLOOK
from ingest.readers.members import ReadMember
from ingest.readers.message_parts import message_text

_TABLE, _ATTACHED_MESSAGE = "__properties_version1.0", "__substg1.0_3701000d"  # names differ in case
_CONTENT = re.compile("__substg1\\.0_([0-9a-f]{4})([0-9a-f]{4})")


def read_outlook(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A message with its attachments. Raises DocumentError if nothing in it is readable."""
    with open_compound_file(io.BytesIO(data)) as compound:
        item = _item(Storage.from_ole(compound), 32)
    return message_text(headers_of(item), parts_of(item, limits), limits, read_member, media_type=OUTLOOK)


def _item(storage: Storage, header: int, depth: int = 0) -> MessageItem:
    """A message of which `header` bytes stand before the table of its properties."""
    item = MessageItem(_properties(storage, header))
    labels = item.properties.labels
    item.recipients = [_properties(inner, 8, labels) for inner in storage.iter_recipient_storages()]
    for inner in storage.iter_attachment_storages():
        nested = [each for each in inner.storages if each.name.lower() == _ATTACHED_MESSAGE]
        is_message = any(stream.name.lower() == _TABLE for each in nested for stream in each.streams)
        message = _item(nested[0], 24, depth + 1) if is_message and depth < DEEPEST else None
        item.attachments.append(AttachedItem(_properties(inner, 8, labels), message))
    return item


def _properties(storage: Storage, header: int, labels: Sequence[str] = ()) -> Properties:
    """[MS-OXMSG] 2.1."""
    streams = {stream.name.lower(): stream.bytes_ for stream in storage.streams}
    table = streams.get(_TABLE, b"")[header:]
    values = {
        struct.unpack_from("<H", table, at + 2)[0]: table[at + 8 : at + 16] for at in range(0, len(table) - 15, 16)
    }
    contents = {
        (int(match[1], 16), int(match[2], 16)): content
        for name, content in streams.items()
        if (match := _CONTENT.fullmatch(name))
    }
    return Properties(values, contents, labels)
