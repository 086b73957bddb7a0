"""Builds export and import of collections from the services."""

from __future__ import annotations

from app.maintenance.transfer import Transfer
from app.services import Services


def transfer_of(services: Services) -> Transfer:
    return Transfer(catalog=services.catalog, index=services.index, blobs=services.blobs, embedder=services.embedder)
