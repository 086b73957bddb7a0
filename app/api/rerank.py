"""The ranker of the application's rerank routes: the re-ranker of its searches."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app.ports.services import Search
from app.ports.texts import TokenCounter
from app.search.value_syntax import parse_values
from embedder.server.rerank_shapes import Ranked, RankTask
from embedder.server.rerank_shapes import rerank_routes as routes_over


def rerank_routes(service: Search, token_counter: TokenCounter, *, model: str) -> APIRouter:
    def rank(task: RankTask) -> Ranked:
        scores = service.rerank_texts(
            task.query, task.texts, instruction=task.instruction, values=parse_values(list(task.values))
        )
        tokens = sum(len(token_counter.token_offsets(text)) for text in (task.query, *task.texts))
        unused = frozenset({"steps"} if task.steps is not None else ()) | ({"may_cut"} if not task.may_cut else set())
        return Ranked(scores, model, tokens, unused=unused)

    async def rank_in_thread(task: RankTask, _: Request) -> Ranked:
        return await run_in_threadpool(rank, task)

    return routes_over(rank_in_thread)
