"""Chooses the weights of a hybrid search's legs; for a query in a language that the model does not read, also makes
the notice that says how its hits are ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.search.fusion import UNREAD_WEIGHTS, WEIGHTS
from app.search.query_language import unread_language
from app.search.reranking import Candidate
from app.search.retrieval import LegWeights
from app.types.documents import ScoredPoint
from app.types.search import Leg, SearchRequest, UnreadLanguage, UnreadRanking


class Weighting(NamedTuple):
    """The weights of a search's legs, and what they were chosen by.

    language: of the query, if the model does not read it, else None. read: the only language that the model reads;
    None: any.
    """

    weights: LegWeights
    is_tuned: bool
    language: str | None
    read: str | None

    @classmethod
    def of(cls, request: SearchRequest, query: str, *, read: str | None, tuned: LegWeights | None) -> Weighting:
        """Chooses the weights: tuned ones, else those for the language of the query.

        query: as the user wrote it, with negated phrases. tuned: the collection's weights from judgements, if any. They
        do not apply if they weigh pseudo-feedback and the request has feedback of its own (like, unlike), which
        switches pseudo-feedback off.
        """
        language = unread_language(query, read)
        if tuned is not None and tuned.get(Leg.FEEDBACK) and (request.like or request.unlike):
            tuned = None
        return cls(tuned or (UNREAD_WEIGHTS if language else WEIGHTS), tuned is not None, language, read)

    def unread(
        self, hits: Sequence[Candidate], legs: Mapping[Leg, Sequence[ScoredPoint]], *, is_by_value: bool
    ) -> UnreadLanguage | None:
        """The notice about the query's language; None if the model reads it.

        legs: points of each leg as retrieved. is_by_value: whether values of a lens affect the ranking.
        """
        if self.language is None or self.read is None:
            return None
        return UnreadLanguage(self.language, self.read, self._ranking(hits, legs, is_by_value) if hits else None)

    def _ranking(
        self, hits: Sequence[Candidate], legs: Mapping[Leg, Sequence[ScoredPoint]], is_by_value: bool
    ) -> UnreadRanking:
        if not legs.get(Leg.SPARSE):  # the mode is dense, or no passage has one of the words
            return UnreadRanking.MEANING
        if is_by_value or any(hit.rerank_score is not None for hit in hits):
            return UnreadRanking.MODEL
        return UnreadRanking.TUNED if self.is_tuned else UnreadRanking.WORDS
