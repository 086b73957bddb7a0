"""Export and import over the services."""

from __future__ import annotations

from app.services import Services
from app.transfer import Transfer


def transfer_of(services: Services) -> Transfer:
    return Transfer(catalog=services.catalog, index=services.index, blobs=services.blobs, embedder=services.embedder)
