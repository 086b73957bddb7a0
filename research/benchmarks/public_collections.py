"""Test collections of public repositories on which nothing of the product was chosen.

FOLDER holds the files of FILES as OWNER+NAME/PATH; `reading.write_files` puts them there with git.
"""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from research.benchmarks.judged_collections import Collection
from research.benchmarks.reading import Listed

LANGUAGES = ("en", "de", "es", "ru", "ar", "hi", "zh")
FILES = tuple(
    Listed(*row)
    for row in (
        ("Hamza5/RI-TP", "b362e149af06f9ed6278d71d36752d66e33b2a9d", "cacm/cacm.all"),
        ("Hamza5/RI-TP", "b362e149af06f9ed6278d71d36752d66e33b2a9d", "cacm/query.text"),
        ("Hamza5/RI-TP", "b362e149af06f9ed6278d71d36752d66e33b2a9d", "cacm/qrels.text"),
        ("stefreschke/Information-Retrieval", "ec84884f012ae2c655004f1025753381bef27adb", "npl/doc-text"),
        ("stefreschke/Information-Retrieval", "ec84884f012ae2c655004f1025753381bef27adb", "npl/query-text"),
        ("stefreschke/Information-Retrieval", "ec84884f012ae2c655004f1025753381bef27adb", "npl/rlv-ass"),
        ("kartikbhalala/temp", "17e04f3f31d8926a3cddf8a649d1efb26781919a", "WikiQA-test.tsv"),
        *(
            ("google-deepmind/xquad", "7d30520c717524000f0d9d2f9c10a069acd9d285", f"xquad.{language}.json")
            for language in LANGUAGES
        ),
        ("wasiahmad/PolicyQA", "775538bc6d932e9d0dd16975d4373659cf8964fe", "data/test.json"),
        (
            "abachaa/LiveQA_MedicalTask_TREC2017",
            "3f5a42ccbaa0b8ff1c665a6dc23785740ab0f09f",
            "TestDataset/TREC-2017-LiveQA-Medical-Test-Questions-w-summaries.xml",
        ),
        ("brmson/dataset-sts", "e1d3375f5b3bc24f21aa4e46f96eb379e9fc1081", "data/anssel/wang/test.csv"),
    )
)


def read_public(folder: Path, name: str) -> Collection:
    """The collection `name` of COLLECTIONS. Raises FileNotFoundError where its files are not in `folder`."""
    found = COLLECTIONS[name](folder)
    asked = {key: text for key, text in found.queries.items() if found.grades.get(key)}
    return Collection(found.documents, asked, {key: found.grades[key] for key in asked})


def read_cacm(folder: Path) -> Collection:
    """Abstracts of computer science, and what its readers asked for."""
    own = folder / "Hamza5+RI-TP" / "cacm"
    documents = {
        key: "\n\n".join(parts[each].strip() for each in "TW" if each in parts)
        for key, parts in _dotted(own / "cacm.all")
    }
    queries = {key: " ".join(parts["W"].split()) for key, parts in _dotted(own / "query.text")}
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (own / "qrels.text").read_text(encoding="latin-1").splitlines():
        query, document, *_ = line.split()
        grades[str(int(query))][str(int(document))] = 1
    return Collection(documents, queries, grades)


def _dotted(path: Path) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Records that begin with `.I NUMBER`, of fields that begin with a line `.LETTER`."""
    for record in re.split(r"(?m)^\.I ", path.read_text(encoding="latin-1"))[1:]:
        number, _, rest = record.partition("\n")
        fields = re.split(r"(?m)^\.([A-Z])\n", rest)[1:]
        yield number.strip(), dict(zip(fields[::2], fields[1::2], strict=True))


def read_npl(folder: Path) -> Collection:
    """Abstracts of electronics in lower case, and questions in capitals."""
    own = folder / "stefreschke+Information-Retrieval" / "npl"
    documents, queries, relevant = (_slashed(own / part) for part in ("doc-text", "query-text", "rlv-ass"))
    return Collection(
        documents,
        {key: text.lower() for key, text in queries.items()},
        {key: dict.fromkeys(text.split(), 1) for key, text in relevant.items()},
    )


def _slashed(path: Path) -> Mapping[str, str]:
    """Records that end with a slash; the first line of each is its number."""
    found: dict[str, str] = {}
    for record in re.split(r"(?m)^\s*/\s*$", path.read_text(encoding="latin-1")):
        number, _, text = record.strip().partition("\n")
        if number:
            found[number.strip()] = " ".join(text.split())
    return found


def read_wikiqa(folder: Path) -> Collection:
    """Questions that people typed into a search engine, and sentences of encyclopaedia articles."""
    text = (folder / "kartikbhalala+temp" / "WikiQA-test.tsv").read_text(encoding="utf-8")
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for row in csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE):
        documents[row["SentenceID"]] = row["Sentence"]
        queries[row["QuestionID"]] = row["Question"]
        if row["Label"] == "1":
            grades[row["QuestionID"]][row["SentenceID"]] = 1
    return Collection(documents, queries, grades)


def read_xquad(folder: Path, *, language: str) -> Collection:
    """Paragraphs of encyclopaedia articles, and questions about each, translated by people."""
    return _of_paragraphs(folder / "google-deepmind+xquad" / f"xquad.{language}.json")


def read_policyqa(folder: Path) -> Collection:
    """Parts of the privacy policies of websites, and general questions that many of them answer."""
    return _of_paragraphs(folder / "wasiahmad+PolicyQA" / "data" / "test.json")


def _of_paragraphs(path: Path) -> Collection:
    documents: dict[str, str] = {}
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    numbers: dict[str, str] = {}
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            key = numbers.setdefault(paragraph["context"], str(len(numbers)))
            documents[key] = paragraph["context"]
            for asked in paragraph["qas"]:
                grades[asked["question"]][key] = 1
    return Collection(documents, {text: text for text in grades}, grades)


def read_liveqa(folder: Path) -> Collection:
    """Questions about health, shortened by librarians, and the paragraphs that answer them."""
    name = "TREC-2017-LiveQA-Medical-Test-Questions-w-summaries.xml"
    root = ElementTree.parse(folder / "abachaa+LiveQA_MedicalTask_TREC2017" / "TestDataset" / name).getroot()
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for question in root.iter("NLM-QUESTION"):
        key = question.attrib["qid"]
        queries[key] = " ".join((question.findtext("NLM-Summary") or "").split())
        for answer in _answers(question):
            if text := " ".join((answer.findtext("ANSWER") or "").split()):
                documents[answer.attrib["aid"]] = text
                grades[key][answer.attrib["aid"]] = 1
    return Collection(documents, {key: text for key, text in queries.items() if text}, grades)


def _answers(question: ElementTree.Element) -> Iterator[ElementTree.Element]:
    for tag in ("RefAnswer", "ReferenceAnswer"):
        yield from question.iter(tag)


def read_trecqa(folder: Path) -> Collection:
    """Questions of a contest, and sentences of newspapers."""
    path = folder / "brmson+dataset-sts" / "data" / "anssel" / "wang" / "test.csv"
    numbers: dict[str, str] = {}
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = numbers.setdefault(row["atext"], str(len(numbers)))
            if row["label"] == "1":
                grades[row["qtext"]][key] = 1
    return Collection({key: text for text, key in numbers.items()}, {text: text for text in grades}, grades)


COLLECTIONS: Mapping[str, Callable[[Path], Collection]] = {
    "cacm": read_cacm,
    "npl": read_npl,
    "wikiqa": read_wikiqa,
    "policyqa": read_policyqa,
    "liveqa": read_liveqa,
    "trecqa": read_trecqa,
    **{f"xquad_{language}": partial(read_xquad, language=language) for language in LANGUAGES},
}
TRANSLATED = tuple(f"xquad_{language}" for language in LANGUAGES if language != "en")
