"""Answers a question from the passages of a search: by their own sentences, or by a language model, then checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from app.answers.checks import check_answer_request
from app.answers.extract import MOST_READ, Extracted, candidates_of, choose, choose_by_reader, score_candidates
from app.answers.generated import GeneratedAnswer
from app.answers.prompt import messages_for
from app.answers.sentence_vectors import SentenceVectors
from app.answers.support import Vectors
from app.errors import InputError
from app.ports.answers import LanguageModel, SentenceReader
from app.ports.parts import Embedder
from app.ports.services import Search
from app.search.hits import on_page_of
from app.search.query_language import unread_language
from app.types.answers import (
    MAX_QUESTION_CHARACTERS,
    NO_ANSWER,
    Answer,
    AnswerKind,
    AnswerPart,
    AnswerRequest,
    AnswerSentence,
    Message,
    Passage,
)
from app.types.search import Match, SearchRequest, SearchResult


class AnswerService:
    """Answers questions with citations. Implements `Answers`."""

    def __init__(
        self,
        search: Search,
        embedder: Embedder,
        *,
        language_model: LanguageModel | None = None,
        reader: SentenceReader | None = None,
    ) -> None:
        """reader: chooses among the sentences that vectors and words find; without one, or for a question in a language
        that it does not read, vectors and words alone choose."""
        self._search = search
        self._reader = reader
        self._vectors = SentenceVectors(embedder)
        self._language_model = language_model

    @property
    def model(self) -> str | None:
        return None if self._language_model is None else self._language_model.name

    def answer(self, request: AnswerRequest) -> Answer:
        *_, last = self.stream(request)
        assert isinstance(last, Answer)  # as `stream` promises
        return last

    def stream(self, request: AnswerRequest) -> Iterator[AnswerPart]:
        check_answer_request(request)
        model = self._model_for(request)
        started = perf_counter()
        result = self._search.search(_search_request(request))
        head = _head_of(request, result, model)
        yield head
        if request.dry_run:
            return
        vectors = self._vectors_of(result)
        generated = None if model is None else GeneratedAnswer(model, head.passages, vectors=vectors)
        extracted = Extracted()
        if generated is None and _may_answer(head.passages):
            extracted = _extracted(head, vectors, self._reader_for(head.searched))
        sentences: list[AnswerSentence] = []
        for part in _parts(head, generated, extracted):
            yield part
            if isinstance(part, AnswerSentence):
                sentences.append(part)
        notes = (*head.notes, *(generated.notes if generated else ()), *(() if sentences else (NO_ANSWER,)))
        whole = replace(
            head,
            sentences=tuple(sentences),
            nearest=extracted.nearest,
            notes=notes,
            is_complete=generated is None or generated.is_complete,
            timings_ms={**head.timings_ms, "answer": round((perf_counter() - started) * 1000, 3)},
        )
        yield replace(whole, passages=on_pages_of(head.passages, whole.quoted))

    def _model_for(self, request: AnswerRequest) -> LanguageModel | None:
        if request.kind is AnswerKind.EXTRACT:
            return None
        if self._language_model is None:
            raise InputError(
                "This server has no language model (GIRCSE_ANSWER_URL). Use the kind extract, which quotes sentences "
                "of the documents."
            )
        return self._language_model

    def _reader_for(self, question: str) -> SentenceReader | None:
        return None if self._reader and unread_language(question, self._reader.language) else self._reader

    def _vectors_of(self, result: SearchResult) -> Vectors:
        def vectors(texts: Sequence[str]) -> np.ndarray:
            return self._vectors.of(texts, instruction=result.document_instruction, is_plain=result.has_plain_vectors)

        return vectors


def _search_request(request: AnswerRequest) -> SearchRequest:
    """Builds the search. A follow-up is prefixed by the question before it, which usually names the subject."""
    query = " ".join([*(turn.question for turn in request.turns[-1:]), request.question])
    return SearchRequest(
        query=query[-2 * MAX_QUESTION_CHARACTERS :],
        collection=request.collection,
        instruction="",
        limit=request.passages,
        filters=request.filters,
        among=request.among,
    )


def _head_of(request: AnswerRequest, result: SearchResult, model: LanguageModel | None) -> Answer:
    passages = tuple(
        Passage(number, hit.document, hit.chunk, hit.match) for number, hit in enumerate(result.hits, start=1)
    )
    sent: tuple[Message, ...] = ()
    if model is not None and _may_answer(passages):
        sent = messages_for(request.question, passages, request.turns)
    return Answer(
        question=request.question,
        searched=result.query,
        collection=result.collection,
        kind=request.kind,
        passages=passages,
        notes=result.notes,
        sent=sent,
        model=None if model is None else model.name,
        timings_ms=result.timings_ms,
    )


def on_pages_of(passages: Sequence[Passage], sentences: Sequence[AnswerSentence]) -> tuple[Passage, ...]:
    """Sets the page of each quoted passage to the page of the first sentence quoted from it."""
    starts = {number: one.start for one in reversed(sentences) for number in one.citations if one.start is not None}
    return tuple(
        replace(passage, chunk=on_page_of(passage.chunk, starts[passage.number]))
        if passage.number in starts
        else passage
        for passage in passages
    )


def _may_answer(passages: Sequence[Passage]) -> bool:
    """False if all passages match weakly, no better than for off-topic queries. Then no language model is called."""
    return any(passage.match is not Match.WEAK for passage in passages)


def _parts(head: Answer, generated: GeneratedAnswer | None, extracted: Extracted) -> Iterator[AnswerPart]:
    if generated is None:
        yield from extracted.sentences
    elif _may_answer(head.passages):
        yield from generated.parts(head.sent)


def _extracted(head: Answer, vectors: Vectors, reader: SentenceReader | None) -> Extracted:
    candidates = candidates_of(head.passages)
    texts = {passage.number: passage.chunk.text for passage in head.passages}
    embedded = vectors([head.searched, *texts.values(), *(candidate.text for candidate in candidates)])
    cosines = embedded[1:] @ embedded[0]
    by_passage = dict(zip(texts, cosines.tolist(), strict=False))
    scored = score_candidates(
        head.searched,
        candidates,
        cosines=cosines[len(texts) :],
        passage_cosines=[by_passage[candidate.passage] for candidate in candidates],
    )
    if reader is None:
        return choose(scored)
    likely = scored[:MOST_READ]
    logits = reader.score(head.searched, [one.candidate.text for one in likely])
    return choose_by_reader(likely, logits)
