"""The catalog: collections, documents, chunks and jobs in SQL, the one source of truth for state.

All SQL of the application lives in this package. It knows nothing of vectors, models or files.
"""

from app.catalog.access import SqlAccess
from app.catalog.catalog import SqlCatalog
from app.catalog.damage import check_file
from app.catalog.dump import CatalogSnapshot, is_filled, load, snapshot
from app.catalog.engine import connect, file_of
from app.catalog.migrate import CatalogFacts, describe, upgrade
from app.catalog.row_checks import check_rows
from app.catalog.searches import SqlSearches

__all__ = [
    "CatalogFacts",
    "CatalogSnapshot",
    "SqlAccess",
    "SqlCatalog",
    "SqlSearches",
    "check_file",
    "check_rows",
    "connect",
    "describe",
    "file_of",
    "is_filled",
    "load",
    "snapshot",
    "upgrade",
]
