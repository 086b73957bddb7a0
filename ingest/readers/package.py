"""What docx, xlsx, pptx and epub share: zip archives with a fixed folder, and the same document properties."""

from __future__ import annotations

import io
import re
import zipfile
from datetime import date, datetime

from app.errors import DocumentError, ServerLimitError
from app.types.documents import MetadataValue
from ingest.readers.limits import MEGABYTE, ReadLimits

_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ISO_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?(?![\d-])")


def check_package(data: bytes, limits: ReadLimits, *, kind: str, folder: str = "") -> None:
    """Raises DocumentError unless `data` is a zip archive with that folder, if any, and acceptable unpacked size.
    Unpacks nothing.

    The sizes in the directory are reliable here: zipfile unpacks no more of an entry than it declares.
    """
    if data.startswith(_OLE_SIGNATURE):
        raise DocumentError(
            f"This {kind} is protected by a password or in a format from before 2007. "
            "Save it without a password in a current format."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise DocumentError(
            f"This {kind} is damaged or truncated ({error}). Fetch it again, or open it and save it again."
        ) from error
    if not any(entry.filename.replace("\\", "/").startswith(folder) for entry in entries):
        raise DocumentError(f"This is no {kind}: it has no folder {folder!r}. Give it the suffix of its real format.")
    expanded = sum(entry.file_size for entry in entries)
    if expanded > limits.max_expanded_bytes:
        raise ServerLimitError(
            f"This {kind} would unpack to {expanded / MEGABYTE:,.0f} MB; the limit is "
            f"{limits.max_expanded_bytes / MEGABYTE:,.0f} MB. Remove large pictures, split it, or raise "
            "GIRCSE_MAX_UNPACKED_MB."
        )


def core_metadata(author: str | None, created: datetime | None, modified: datetime | None) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    if author:
        metadata["author"] = author
    if created:
        metadata["created"] = created.date().isoformat()
    if modified:
        metadata["modified"] = modified.date().isoformat()
    return metadata


def iso_date(text: str) -> str:
    """The ISO date at the start of `text`, or only its year or month; empty without one."""
    match = _ISO_DATE.match(text.strip())
    if match is None:
        return ""
    try:
        date.fromisoformat((match.group() + "-01-01")[:10])
    except ValueError:
        return ""
    return match.group()
