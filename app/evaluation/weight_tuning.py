"""Tunes the legs' fusion weights for a collection by its judgements; applies them if cross-validation shows a gain."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from app.errors import ConflictError, InputError, NotFoundError
from app.evaluation.judged import Judged
from app.evaluation.weight_validation import choose, cross_validate, grid, ndcg_by_weights, place_of
from app.search.exclusions import exclude_negated
from app.search.fusion import WEIGHTS
from app.search.judgements import LOCAL_PERSON
from app.search.retrieval import term_count
from app.search.service import SearchService
from app.types.documents import utc_now
from app.types.evaluation import JudgedQuery
from app.types.search import SearchRequest
from app.types.weights import CollectionWeights, WeightTuning

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

MIN_JUDGEMENTS, MIN_QUERIES = 20, 5
MAX_QUERIES = 200  # a random sample, see `place_of`


class WeightTuner:
    """Tunes and stores fusion weights. Implements `Tuning`."""

    def __init__(self, catalog: SqlCatalog, search: SearchService) -> None:
        self._catalog = catalog
        self._search = search
        self._judged = Judged(catalog)

    def weights(self, collection: str) -> CollectionWeights:
        tunings = tuple(self._catalog.weights.tunings(collection))
        applied = next((tuning.weights for tuning in tunings if tuning.is_applied), WEIGHTS)
        return CollectionWeights(collection, applied, WEIGHTS, tunings)

    def tune(self, collection: str, *, tuned_by: str = LOCAL_PERSON) -> WeightTuning:
        name = self._catalog.collection(collection).name
        queries = self._queries(name)
        judgements = sum(len(query.grades) for query, _ in queries)
        if len(queries) < MIN_QUERIES or judgements < MIN_JUDGEMENTS:
            raise ConflictError(
                f"The collection {name!r} has {judgements} judgements of {len(queries)} usable queries; tuning needs "
                f"at least {MIN_JUDGEMENTS} judgements of {MIN_QUERIES} queries. Judge more hits. A query is usable if "
                "it has both relevant and irrelevant hits."
            )
        texts: list[str] = []
        rows: list[np.ndarray] = []
        for query, judged_alone in queries[:MAX_QUERIES]:
            request = SearchRequest(query.query, name, query.instruction)
            try:
                legs = self._search.find_legs(request)
            except InputError:  # about this query, for instance too long for the model
                continue
            texts.append(query.query)
            terms = term_count(exclude_negated(request).request)
            rows.append(ndcg_by_weights(legs, query.grades, terms=terms, judged_alone=judged_alone))
        if len(rows) < MIN_QUERIES:
            raise ConflictError(f"Only {len(rows)} of the judged queries of {name!r} are valid; too few for tuning.")
        scores = np.stack(rows)
        validation = cross_validate(scores, texts, judgements=judgements)
        best = choose(scores)
        tuning = WeightTuning(
            id=str(uuid4()),
            collection=name,
            weights=grid()[best],
            validation=validation,
            tuned_by=tuned_by,
            tuned_at=utc_now(),
            is_applied=validation.pays and best != 0,
        )
        self._catalog.weights.save(tuning)
        return tuning

    def undo(self, collection: str) -> WeightTuning:
        undone = self._catalog.weights.undo(collection)
        if undone is None:
            raise NotFoundError(f"The collection {collection!r} has the default weights; there is nothing to undo.")
        return undone

    def _queries(self, collection: str) -> list[tuple[JudgedQuery, bool]]:
        """The usable queries in a fixed order, each with whether to ignore unjudged documents.

        For users' judgements they are ignored, and a query needs relevant and irrelevant documents. Imports count as
        complete, like qrels: an unjudged document is irrelevant.
        """
        sources = self._judged.sources(collection)
        people = [source.judged_by for source in sources if not source.is_import]
        imports = [source.judged_by for source in sources if source.is_import]
        by_people = self._judged.queries(collection, judged_by=people) if people else []
        imported = self._judged.queries(collection, judged_by=imports) if imports else []
        usable = [(query, True) for query in by_people if 0 < query.relevant_count < len(query.grades)]
        usable += [(query, False) for query in imported if query.relevant_count]
        return sorted(usable, key=lambda pair: place_of(f"{pair[0].query}\0{pair[0].instruction}"))
