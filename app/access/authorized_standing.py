"""Standing searches for interfaces: the caller's own, over collections that the caller may read."""

from __future__ import annotations

from app.access.authorizer import Authorizer
from app.collections.own_standing import OwnStanding
from app.services import Services
from app.types.access import Role


def authorized_standing(services: Services, authorizer: Authorizer) -> OwnStanding:
    def require_access(collection: str) -> None:
        with authorizer.require_access(Role.READER, collection):
            services.catalog.collection(collection)

    return OwnStanding(
        services.catalog,
        services.index,
        owner=lambda: authorizer.require_role().name,
        require_access=require_access,
        reaches=authorizer.reaches,
        alerts=services.alerts,
    )
