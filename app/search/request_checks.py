"""Validates search requests without a model, catalog or index, so that commands without these can use it, too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from uuid import UUID

from app.errors import EmptyQueryError, FilterError, InputError
from app.types.documents import require_text
from app.types.search import (
    MAX_EXCLUSION_CHARACTERS,
    MAX_EXCLUSIONS,
    MAX_FEEDBACK,
    MAX_FILTERS,
    MAX_LIMIT,
    MAX_QUERY_CHARACTERS,
    MAX_RERANK,
    REQUEST_OPTIONS,
    SearchMode,
    SearchRequest,
)
from app.types.values import value_names
from embedder.refinement_steps import MAX_BIAS, MAX_BIASED_WORDS, MAX_INSTRUCTION_CHARACTERS

# Options with checks and messages of their own, below or in the model. All others are checked by the bounds of their
# fields.
_IN_OWN_WORDS = (
    *("query", "steps", "limit", "filters", "token_bias", "like", "unlike", "rerank", "per_document", "exclude"),
    "diversity",
)
_BY_BOUNDS = [each for each in REQUEST_OPTIONS.values() if each.field.metadata and each.name not in _IN_OWN_WORDS]


def check_request(request: SearchRequest) -> None:
    """Raises InputError. Limits that depend on the model or on a lens's values are checked elsewhere."""
    check_query(request.query)
    check_instruction(request.instruction)
    if not 1 <= request.limit <= MAX_LIMIT:
        raise InputError(f"limit must be 1 to {MAX_LIMIT}, not {request.limit}.")
    check_rerank(request.rerank)
    _check_feedback(request)
    _check_grouping(request)
    _check_exclude(request.exclude)
    if len(request.filters) > MAX_FILTERS:
        raise FilterError(f"At most {MAX_FILTERS} filters can be given, not {len(request.filters)}.")
    for key, value in request.filters.items():
        if not key.strip():
            raise FilterError("A filter has no key; write it as KEY=VALUE.")
        require_text(key, name="filter key")
        require_text(value, name=f"value of the filter {key!r}")
    for option in _BY_BOUNDS:
        option.read(getattr(request, option.name))


def check_value(request: SearchRequest) -> None:
    """Raises InputError if `value` is not one of the request's values. Call after the lens is resolved."""
    names = value_names(request.values)
    if request.value is not None and (not request.values or request.value not in names):
        known = ", ".join(names) if request.values else "none, since the search has no values"
        raise InputError(f"The value {request.value[:80]!r} is unknown. Values of the search: {known}.")


def check_query(text: str) -> None:
    require_text(text, name="query")
    if not text.strip():
        raise EmptyQueryError("The query is empty; write what you are looking for.")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InputError(f"The query has {len(text)} characters; at most {MAX_QUERY_CHARACTERS} are allowed.")


def check_instruction(text: str | None, *, name: str = "instruction") -> None:
    """Raises InputError. Whether the model takes it depends on its tokens."""
    if len(require_text(text or "", name=name)) > MAX_INSTRUCTION_CHARACTERS:
        raise InputError(
            f"The {name} has {len(text or ''):,} characters; at most {MAX_INSTRUCTION_CHARACTERS:,} are allowed."
        )


def check_token_bias(token_bias: Mapping[str, float]) -> None:
    if len(token_bias) > MAX_BIASED_WORDS:
        raise InputError(f"At most {MAX_BIASED_WORDS} words can be boosted or suppressed, not {len(token_bias)}.")
    for word, bias in token_bias.items():
        require_text(word, name="word to boost or suppress")
        if not word.strip():
            raise InputError("A word to boost or suppress is empty.")
        if not (math.isfinite(bias) and -MAX_BIAS <= bias <= MAX_BIAS):
            raise InputError(f"The bias of {word!r} must be from {-MAX_BIAS:g} to {MAX_BIAS:g}, not {bias}.")


def _check_feedback(request: SearchRequest) -> None:
    if (request.like or request.unlike) and request.mode is SearchMode.SPARSE:
        raise InputError("like and unlike change the query's vector, but the mode sparse uses no vector.")
    for name, ids in (("like", request.like), ("unlike", request.unlike)):
        if len(ids) > MAX_FEEDBACK:
            raise InputError(f"At most {MAX_FEEDBACK} chunks can be given as {name}, not {len(ids)}.")
        for chunk_id in ids:
            if not _is_chunk_id(chunk_id):
                raise InputError(f"{name}: {chunk_id[:100]!r} is not the id of a chunk; use chunk.id of a hit.")
    if both := set(request.like) & set(request.unlike):
        raise InputError(f"The chunk {min(both)} is in both like and unlike; give it in one of them.")


def _is_chunk_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def check_rerank(count: int | None) -> None:
    """Raises InputError."""
    if count is not None and not 0 <= count <= MAX_RERANK:
        raise InputError(f"rerank must be 0 to {MAX_RERANK} candidates, not {count}.")


def _check_grouping(request: SearchRequest) -> None:
    if request.per_document is not None and request.per_document < 1:
        raise InputError(f"per_document must be at least 1, not {request.per_document}; leave it out for no limit.")
    if not 0 <= request.diversity <= 1:  # also refuses NaN
        raise InputError(f"diversity must be from 0 to 1, not {request.diversity}.")


def _check_exclude(phrases: Sequence[str]) -> None:
    if len(phrases) > MAX_EXCLUSIONS:
        raise InputError(f"At most {MAX_EXCLUSIONS} phrases can be excluded, not {len(phrases)}.")
    for phrase in phrases:
        if len(require_text(phrase, name="phrase to exclude")) > MAX_EXCLUSION_CHARACTERS:
            raise InputError(
                f"The phrase to exclude {phrase[:40]!r}… has {len(phrase):,} characters; at most "
                f"{MAX_EXCLUSION_CHARACTERS} are allowed."
            )
        if not phrase.strip():
            raise InputError("A phrase to exclude is empty; name what the hits should not be about.")
