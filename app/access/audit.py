"""Audit entries of operations that are already done."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.errors import CatalogUnavailableError
from app.types.access import AuditEntry
from app.types.patience import waiting_long

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog.access import SqlAccess

_log = logging.getLogger(__name__)


def note_done(ledger: SqlAccess, entries: Sequence[AuditEntry]) -> None:
    """Writes the entries in one transaction. Waits long for a locked catalog. If that times out, it writes them to the
    log of the service: a request whose operation is done must not fail.
    """
    try:
        with waiting_long():
            ledger.note(*entries)
    except CatalogUnavailableError as error:
        for entry in entries:
            _log.error("This entry is missing in the audit log: %s (%s)", entry, error)
