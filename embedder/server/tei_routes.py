"""`POST /embed` of text-embeddings-inference (TEI), over any `EmbeddingSource`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from embedder.server.client_errors import TEI_EMBED_PATH
from embedder.server.failures import FailingRoute
from embedder.server.gone import unless_gone
from embedder.server.lenient import ignored_header
from embedder.server.openai_routes import body_of, check_dimensions, shortened, texts_of
from embedder.server.protocol import CUT_HEADER, FINGERPRINT_HEADER, EmbeddingSource, EmbedTask, InputType
from embedder.server.schemas import TeiEmbeddingQuestion


def tei_routes(source: EmbeddingSource, *, input_type: InputType = InputType.DOCUMENT) -> APIRouter:
    """Builds the route. input_type: the role of texts without `prompt_name`."""
    routes = APIRouter(tags=["text-embeddings-inference"], route_class=FailingRoute)

    @routes.post(TEI_EMBED_PATH, response_model=list[list[float]])
    async def embed_as_tei(question: TeiEmbeddingQuestion, request: Request) -> Response:
        """Embeddings in the format of text-embeddings-inference: a list of vectors, also for a single text."""
        check_dimensions(question.dimensions, await source.info())
        task = EmbedTask(
            texts_of(question.inputs, "inputs"),
            question.prompt_name or input_type,
            instruction=question.instruction,
            steps=question.steps,
            may_cut=question.truncate is not False,
        )
        found = await unless_gone(request, source.embed(task))
        vectors = found.vectors if question.dimensions is None else shortened(found.vectors, question.dimensions)
        body = await body_of(len(task.texts), vectors.tolist)
        headers = {FINGERPRINT_HEADER: found.fingerprint, CUT_HEADER: str(found.truncated)}
        headers |= ignored_header(question.ignored())
        return Response(body, media_type="application/json", headers=headers)

    return routes
