"""Matches of standing searches for agents: structured fields, and the same content as text. Independent of MCP."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from app.agents.answers import UNTRUSTED, fenced
from app.types.search import Match
from app.types.standing import News, StandingSearch


class StandingSummary(BaseModel):
    id: str
    name: str
    collection: str
    unseen: int = Field(description="Matches that its owner has not marked as seen.")


class FoundPassage(BaseModel):
    document_id: str
    chunk_id: str
    title: str
    uri: str
    text: str
    start: int = Field(description="Character offset in the document, as in fetch_document.")
    end: int
    page: int | None
    match: Match
    found_at: str
    is_seen: bool


class NewsToolResult(BaseModel):
    searches: list[StandingSummary] = Field(description="Monitored searches.")
    search: str | None = Field(description="Name of the search that these matches belong to.")
    news: list[FoundPassage]
    notice: str = UNTRUSTED

    def readable(self, fence: str) -> str:
        if self.search is None:
            lines = [f"{search.name} (in {search.collection}): {search.unseen} new" for search in self.searches]
            return "\n\n".join(fenced(["\n".join(lines)], fence)) if lines else "There is no monitored search."
        head = f"{len(self.news)} matches, newest first."
        return "\n\n".join([head, *fenced([_passage(passage) for passage in self.news], fence)])


def news_answer(
    searches: Sequence[StandingSearch], named: StandingSearch | None, news: Sequence[News]
) -> NewsToolResult:
    return NewsToolResult(
        searches=[
            StandingSummary(id=search.id, name=search.name, collection=search.collection, unseen=search.unseen)
            for search in searches
        ],
        search=None if named is None else named.name,
        news=[
            FoundPassage(
                document_id=match.document_id,
                chunk_id=match.chunk_id,
                title=match.title,
                uri=match.uri,
                text=match.text,
                start=match.start,
                end=match.end,
                page=match.page,
                match=match.match,
                found_at=match.matched_at.isoformat(),
                is_seen=match.is_seen,
            )
            for match in news
        ],
    )


def _passage(passage: FoundPassage) -> str:
    where = f"characters {passage.start}-{passage.end}" + (f", page {passage.page}" if passage.page else "")
    head = f"{passage.match.value}, found {passage.found_at}, document_id {passage.document_id}, {where}"
    return f"{head}\ntitle: {passage.title}\nuri: {passage.uri}\n\n{passage.text}"
