"""How often a question that belongs elsewhere is told to have no answer, and one that has an answer is told so too:
each query of three collections is asked of all three.
python -m research.benchmarks.calibration --data FOLDER [--home FOLDER]
"""

from __future__ import annotations

from collections import Counter

from app.services import Services
from app.types.search import Match, SearchMode, SearchRequest
from embedder.command.standard_output import run_program
from embedder.evaluation.data import is_tuning
from research.benchmarks.hybrid import COLLECTIONS, Judged, ingest, parser_of, read_judged, services_at

MOST_QUERIES = 150  # of a collection


def main() -> None:
    options = parser_of(__doc__).parse_args()
    judged = [read_judged(options.data, name) for name in COLLECTIONS]
    with services_at(options.home) as services:
        for each in judged:
            ingest(services, each)
        print("| collection | mode | queries with an answer | weak | fair | strong | queries without one | weak |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for asked in judged:
            for mode in SearchMode:
                print(row(services, asked, mode, [each for each in judged if each is not asked]), flush=True)


def row(services: Services, asked: Judged, mode: SearchMode, others: list[Judged]) -> str:
    """Of queries that nothing was chosen on."""
    own = matches(services, asked, asked.name, mode)
    off_topic: Counter[Match | None] = Counter()
    for other in others:
        off_topic += matches(services, other, asked.name, mode)
    count, elsewhere = own.total(), off_topic.total()
    shares = " | ".join(f"{100 * own[each] / count:.1f} %" for each in (Match.WEAK, Match.FAIR, Match.STRONG))
    # Where no word is shared nothing is found by words, which says the same.
    told = 100 * (off_topic[Match.WEAK] + off_topic[None]) / elsewhere
    return f"| {asked.name} | {mode} | {count} | {shares} | {elsewhere} | {told:.1f} % |"


def matches(services: Services, judged: Judged, collection: str, mode: SearchMode) -> Counter[Match | None]:
    queries = [text for text in judged.queries.values() if not is_tuning(text)][:MOST_QUERIES]
    requests = [SearchRequest(text, collection, mode=mode, limit=10) for text in queries]
    return Counter(services.search.search(each).match for each in requests)


if __name__ == "__main__":
    run_program(main)
