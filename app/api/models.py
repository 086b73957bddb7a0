"""The model that answers, over HTTP."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from app.access.authorized_services import AuthorizedServices
from app.api.schemas import ModelAnswer


def model_routes(services: AuthorizedServices) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/model", tags=["model"])
    model = services.embedder

    @routes.get("", response_model=ModelAnswer)
    def show_model() -> ModelAnswer:
        """The model that answers: its fingerprint, what it does by default, and the most steps it can take."""
        return ModelAnswer(
            version=version("gircse-search"),
            model_name=model.model_name,
            fingerprint=model.fingerprint,
            dimension=model.dimension,
            # Only an answer tells which instruction a query gets by default; it is remembered.
            query_instruction=services.search.refine("about", steps=1).instruction,
            query_steps=model.default_query_steps,
            document_instruction=model.default_document_instruction,
            document_steps=model.default_document_steps,
            max_steps=model.max_steps,
        )

    return routes
