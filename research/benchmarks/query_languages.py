"""How often the language of a query is detected: English queries that are mistaken for another language, and queries in
other languages that are recognised.

FOLDER has English queries in train/, dev/ and dev2/ (pairs.*.jsonl.gz, without titles of ACL, of which many are French;
ir.*.queries.jsonl.gz), and questions of XQuAD
in languages/ (ir.xquad_LANGUAGE.queries.jsonl.gz).

python -m research.benchmarks.query_languages --data FOLDER [--mistaken 20]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.search.query_language import other_language
from embedder.command.standard_output import run_program
from embedder.evaluation.data import read_rows

ENGLISH_FOLDERS = ("train", "dev", "dev2")
LEFT_OUT = "pairs.acl_title_abstract.jsonl.gz"  # many titles are French
ENGLISH = "en"


def english_queries(data: Path) -> Iterator[str]:
    """Distinct, in the order of the files."""
    found = (path for folder in ENGLISH_FOLDERS for path in sorted((data / folder).iterdir()))
    paths = [path for path in found if path.name != LEFT_OUT]
    pairs = (row["query"] for path in paths if path.match("pairs.*.jsonl.gz") for row in read_rows(path))
    asked = (row["text"] for path in paths if path.match("ir.*.queries.jsonl.gz") for row in read_rows(path))
    yield from dict.fromkeys([*pairs, *asked])


def translated_queries(data: Path) -> Mapping[str, list[str]]:
    """The same questions by language code."""
    return {
        path.name.removeprefix("ir.xquad_").removesuffix(".queries.jsonl.gz"): [row["text"] for row in read_rows(path)]
        for path in sorted((data / "languages").glob("ir.xquad_*.queries.jsonl.gz"))
    }


def mistaken(queries: Iterator[str]) -> tuple[int, list[tuple[str, str]]]:
    """The number of queries, and those with the language that was detected."""
    detected = [(query, other_language(query)) for query in queries]
    return len(detected), [(query, language) for query, language in detected if language is not None]


def recognised(queries: list[str]) -> float:
    """The share of queries that are not taken for English."""
    return sum(other_language(query) is not None for query in queries) / len(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of train/, dev/, dev2/ and languages/")
    parser.add_argument("--mistaken", type=int, default=20, help="how many mistaken queries are printed")
    options = parser.parse_args()
    count, found = mistaken(english_queries(options.data))
    print(f"English queries: {count:,}, mistaken: {len(found):,}")
    for query, language in found[: options.mistaken]:
        print(f"  {language}: {query}")
    for code, queries in translated_queries(options.data).items():
        share = recognised(queries)
        print(f"{code}: {len(queries):,} queries, {'mistaken' if code == ENGLISH else 'recognised'}: {share:.1%}")


if __name__ == "__main__":
    run_program(main)
