"""The embedding model of this server, over HTTP."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from app.access.authorized_services import AuthorizedServices
from app.api.schemas import ModelAnswer


def model_routes(services: AuthorizedServices) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/model", tags=["model"])

    @routes.get("", response_model=ModelAnswer)
    def show_model() -> ModelAnswer:
        """The embedding model: fingerprint, dimension, default instructions and steps, allowed range of steps."""
        info = services.embedder.info
        return ModelAnswer(
            version=version("gircse-search"),
            model_name=info.name,
            fingerprint=info.fingerprint,
            dimension=info.dimension,
            query_instruction=info.default_query_instruction,
            query_steps=info.default_query_steps,
            document_instruction=info.default_document_instruction,
            document_steps=info.default_document_steps,
            min_steps=info.min_steps,
            max_steps=info.max_steps,
        )

    return routes
