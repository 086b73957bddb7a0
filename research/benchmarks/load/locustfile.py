"""What people and programs do with a service, for locust: search in every way, add and delete documents, read, embed.

LOAD_READER_KEY and LOAD_EDITOR_KEY are API keys, LOAD_MODEL is the name of the model, and LOAD_RECORD a file that at
the end gets what was asked and answered.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

from locust import FastHttpUser, between, events, task
from locust.env import Environment

COLLECTION = "load"
MODEL = os.environ.get("LOAD_MODEL", "gircse-small")
TIMEOUT_S = 30.0
MOST_KEPT = 30  # documents of one user, who then deletes as many as are added
TURNED_AWAY = (429, 503)
ROWS = [json.loads(line) for line in (Path(__file__).parents[3] / "sample" / "library.jsonl").open(encoding="utf-8")]
INSTRUCTIONS = [
    "Identify the feeling that the message expresses",
    "Find texts about the same place",
    "Retrieve passages that answer the question",
    "",
]
WITH_ALL: dict[str, Any] = {
    "instruction": "Identify the part of the world",
    "values": ["Africa", "Asia", "Europe", "the Americas", "Oceania"],
    "rerank": 20,
    "per_document": 2,
    "mode": "hybrid",
}

asked: list[tuple[str, int, float]] = []  # kind, status (0: no answer in time), seconds
kept: dict[str, str] = {}  # documents that were accepted, and the word that only this one has
deleted: dict[str, str] = {}


def note(name: str, response_time: float, response: Any, **_: Any) -> None:
    asked.append((name, getattr(response, "status_code", 0) or 0, response_time / 1000))


def write_record(environment: Environment, **_: Any) -> None:
    by_kind: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for kind, status, seconds in asked:
        by_kind[kind].append((status, round(seconds, 4)))
    record = {"kinds": by_kind, "kept": kept, "deleted": deleted}
    Path(os.environ["LOAD_RECORD"]).write_text(json.dumps(record), encoding="utf-8")


events.request.add_listener(note)
events.quitting.add_listener(write_record)


class Client(FastHttpUser):
    abstract = True
    key = ""
    connection_timeout = TIMEOUT_S
    network_timeout = TIMEOUT_S
    wait_time = between(0.2, 0.8)

    def ask(self, method: str, path: str, name: str, **options: Any) -> Any:
        """The answer, or None where there is none to use. What is turned away is no failure for locust."""
        headers = {"authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        with self.client.request(
            method, path, name=name, headers=headers, catch_response=True, **options
        ) as answer:  # fmt: skip
            if answer.status_code in TURNED_AWAY:
                answer.success()
        return answer if answer.ok else None


def query() -> str:
    """Words of the sample, never quite the same twice, so that no cache answers."""
    words = random.choice(ROWS)["text"].split()
    start = random.randrange(max(1, len(words) - 8))
    return " ".join([*words[start : start + 8], str(random.randrange(100_000))])


class Searcher(Client):
    weight = 5
    key = os.environ.get("LOAD_READER_KEY", "")
    begun = itertools.count()

    def on_start(self) -> None:
        """However short a run is, every kind of request is sent at least once: five users begin with two kinds each."""
        kinds = (
            *(self.search_hybrid, self.search_with_all, self.rerank, self.search_by_words, self.embed),
            *(self.search_through_an_instruction, self.search_in_few_steps, self.search_streamed, self.refine),
        )
        begun = next(Searcher.begun)
        for kind in (kinds[begun % len(kinds)], kinds[(begun + 5) % len(kinds)]):
            kind()

    def search(self, name: str, **question: Any) -> None:
        self.ask("POST", "/api/v1/search", name, json={"query": query(), "collection": COLLECTION, **question})

    @task(5)
    def search_through_an_instruction(self) -> None:
        self.search("search", instruction=random.choice(INSTRUCTIONS))

    @task(3)
    def search_hybrid(self) -> None:
        self.search("search, hybrid", mode="hybrid", limit=5)

    @task(2)
    def search_with_all(self) -> None:
        """A lens with values, a second look, and few passages of one document."""
        self.search("search, values and second look", **WITH_ALL)

    @task(1)
    def rerank(self) -> None:
        passages = [query() for _ in range(10)]
        body = {"model": MODEL, "query": query(), "documents": passages, "instruction": WITH_ALL["instruction"]}
        self.ask("POST", "/v1/rerank", "rerank", json=body)

    @task(2)
    def search_by_words(self) -> None:
        self.search("search, words", mode="sparse")

    @task(2)
    def search_in_few_steps(self) -> None:
        self.search("search, 2 steps, bare", steps=2, explain=False)

    @task(1)
    def search_streamed(self) -> None:
        body = {"query": query(), "collection": COLLECTION}
        self.ask("POST", "/api/v1/search", "search, streamed", json=body, headers={"accept": "text/event-stream"})

    @task(1)
    def refine(self) -> None:
        self.ask("POST", "/api/v1/refine", "refine", json={"text": query(), "steps": random.randint(1, 10)})

    @task(2)
    def embed(self) -> None:
        texts = [query() for _ in range(random.randint(1, 8))]
        self.ask("POST", "/v1/embeddings", "embeddings", json={"model": MODEL, "input": texts})


class Writer(Client):
    weight = 2
    key = os.environ.get("LOAD_EDITOR_KEY", "")

    def on_start(self) -> None:
        self.own: list[str] = []
        self.add_text()
        self.add_file()
        self.delete_one()

    @task(3)
    def add_text(self) -> None:
        word, text = marked_text()
        body = {"text": text, "title": word, "uri": f"text://{word}", "collection": COLLECTION}
        self.keep(word, self.ask("POST", "/api/v1/documents", "add text", json=body))

    @task(2)
    def add_file(self) -> None:
        word, text = marked_text()
        body, kind = form({"collection": COLLECTION}, f"{word}.md", f"# {word}\n\n{text}")
        headers = {"content-type": kind}
        self.keep(word, self.ask("POST", "/api/v1/documents", "add file", data=body, headers=headers))

    @task(3)
    def delete(self) -> None:
        if len(self.own) > MOST_KEPT or random.random() < 0.5:
            self.delete_one()

    def delete_one(self) -> None:
        """Whether it was deleted is not known when there is no answer: then it is neither kept nor deleted."""
        if self.own:
            document = self.own.pop(random.randrange(len(self.own)))
            word = kept.pop(document)
            if self.ask("DELETE", f"/api/v1/documents/{document}", "delete") is not None:
                deleted[document] = word

    def keep(self, word: str, answer: Any) -> None:
        if answer is not None:
            document = answer.json()["document"]["id"]
            kept[document] = word
            self.own.append(document)


class Reader(Client):
    weight = 1
    key = os.environ.get("LOAD_READER_KEY", "")

    @task(2)
    def list_documents(self) -> None:
        self.ask("GET", f"/api/v1/documents?collection={COLLECTION}&limit=20", "list documents")

    @task(3)
    def read_document(self) -> None:
        """404 is right where somebody has deleted it by now."""
        if not kept:
            return
        document = random.choice(list(kept))
        for part, name in (("", "show document"), ("/text", "read text")):
            with self.client.get(
                f"/api/v1/documents/{document}{part}", name=name, catch_response=True,
                headers={"authorization": f"Bearer {self.key}"},
            ) as answer:  # fmt: skip
                if answer.status_code in (404, *TURNED_AWAY):
                    answer.success()

    @task(1)
    def list_jobs(self) -> None:
        self.ask("GET", f"/api/v1/jobs?collection={COLLECTION}&limit=20", "list jobs")


def marked_text() -> tuple[str, str]:
    """A word that no other document has, and a text with it."""
    word = f"mark{uuid.uuid4().hex[:16]}"
    rows = random.sample(ROWS, random.randint(1, 4))
    return word, "\n\n".join([*(row["text"] for row in rows), f"This was filed as {word}."])


def form(fields: dict[str, str], name: str, text: str) -> tuple[bytes, str]:
    """FastHttpUser sends no forms of its own."""
    border = uuid.uuid4().hex
    begin = f"--{border}\r\nContent-Disposition: form-data; name="
    parts = [f'{begin}"{key}"\r\n\r\n{value}' for key, value in fields.items()]
    parts += [f'{begin}"file"; filename="{name}"\r\nContent-Type: text/markdown\r\n\r\n{text}', f"--{border}--\r\n"]
    return "\r\n".join(parts).encode(), f"multipart/form-data; boundary={border}"
