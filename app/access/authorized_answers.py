"""Answers, each authorized as a search is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.access.authorizer import Authorizer
from app.ports.answers import Answers
from app.types.access import Role
from app.types.answers import Answer, AnswerPart, AnswerRequest
from app.types.search import ALL_COLLECTIONS


class AuthorizedAnswers:
    def __init__(self, answers: Answers, authorizer: Authorizer) -> None:
        self._answers = answers
        self._authorizer = authorizer

    @property
    def model(self) -> str | None:
        return self._answers.model

    def answer(self, request: AnswerRequest) -> Answer:
        if request.collection == ALL_COLLECTIONS:
            return self._answers.answer(self._among_visible(request))
        with self._authorizer.require_access(Role.READER, request.collection):
            return self._answers.answer(request)

    def stream(self, request: AnswerRequest) -> Iterator[AnswerPart]:
        if request.collection == ALL_COLLECTIONS:
            yield from self._answers.stream(self._among_visible(request))
            return
        with self._authorizer.require_access(Role.READER, request.collection):
            yield from self._answers.stream(request)

    def _among_visible(self, request: AnswerRequest) -> AnswerRequest:
        return replace(request, among=self._authorizer.visible_names())
