"""Code, docs and pages use the field's words: retired ones do not come back."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ = {".py", ".md", ".js", ".css", ".html", ".sh", ".toml", ".yml", ".yaml", ".mako", ""}

# Retired → the field's word. Names are split at _ and capitals; a space also stands for _ or a line break.
TERMS = {
    "house": "application",
    "houses": "applications",
    "toy house": "toy_services",
    "door": "interface, entry point",
    "doors": "interfaces, entry points",
    "gate": "authorizer; or what the lock or event is for",
    "gates": "locks",
    "passing": "require_access, require_role",
    "guarded": "authorized",
    "lane": "priority class (scheduler), request class (admission), worker slot (ingest)",
    "lanes": "priority classes, request classes, worker slots",
    "pace": "latency estimator",
    "paces": "latency estimators",
    "in hand": "in flight",
    "visit": "slot (admission), walk (folders)",
    "visits": "slots",
    "spool": "spooled temporary file",
    "spools": "spooled temporary files",
    "removals": "garbage collection",
    "presence": "worker lock",
    "kept answer": "idempotency record",
    "kept answers": "idempotency records",
    "claim alike": "claim_batch",
    "cut texts": "truncated",
    "essence": "canonical form",
    "wake": "notify",
    "wakes": "notifies",
    "woken": "notified",
    "waking": "notification",
    "soften": "softmax",
    "softens": "softmax",
    "softened": "softmax",
    "settle": "converge; finish (jobs)",
    "settles": "converges; finishes (jobs)",
    "settled": "converged; finished (jobs)",
    "settling": "convergence",
    "opinion": "judgement",
    "opinions": "lenses and judgements",
    "whoever": "the caller, the client, the user",
    "reading of a query": "soft-token summary",
    "foreign": "unmanaged (points, indexes), hidden (collections)",
    "stranger": "untrusted client or value",
    "strangers": "untrusted clients",
    "no matter of": "does not concern",
    "has words": "has_sparse",
    "joint embedder": "the scheduler",
    "packed reader": "prefill runner",
    "padded reader": "prefill runner",
    "require passing": "require_access",
    "as handler services": "authorized services",
    "asked search": "matchable search (percolation)",
    "fetching again": "syncing sources",
    "hear again": "put back",
    "spoken pieces": "pieces of soft tokens",
}

# Where a retired word is right: what it stands in, in which files, and why.
EXCEPTIONS = (
    (r"[Ff]oreign[ _]?[Kk]ey", r"", "SQL's own word"),
    (r"settled_step", r"", "a public field of REST and MCP"),
    (r"allSettled", r"ui/assets/", "a method of JavaScript's Promise"),
    (
        r"\blane(?==|\b.?`|\")|\"in hand\"",
        r"(app/runtime|embedder/server)/metrics|docs/|tests/|research/",
        "labels of metrics",
    ),
    (r"\blane(?==|`|\")|\"in hand\"", r"(app|embedder)/.*metrics|docs/|tests/|research/", "labels of metrics"),
    (r"kept_answers?", r"app/(migrations|catalog)/", "a table of stored catalogs"),
    (r"(?s)<!-- tour -->.*?<!-- /tour -->", r"README\.md", "words that the model says"),
    (r"Same opinion", r"app/search/lenses|ui/|tests/|docs/", "a lens that comes with the product"),
    (r"WORKER_LANES", r"app/settings|tests/|docs/", "a setting that is gone, and is named by the warning"),
    (r"foreignObject", r"ingest/readers/xml|tests/unit/test_everyday_files", "an element of SVG"),
    (r"\bforeign\b", r"app/commands/doctor|tests/e2e/test_upkeep", "the former name of `gircse check --unmanaged`"),
    (r"\b(ffn_)?gate(_proj)?\b", r"embedder/|tests/", "the gate of a gated feed-forward layer"),
    (r"0028-one-gate-before-all-services", r"docs/", "the name of a decision"),
)
# What was decided, measured or written by others stays as it was. docs/reference is made from checked code.
SKIPPED = (
    "CHANGELOG.md",
    "research/LOG.md",
    "LICENSE",
    "docs/decisions/",
    "docs/evaluation/",
    "docs/reference/",
    "sample/",
)


def pattern() -> re.Pattern[str]:
    """Each term in lower case, in capitals, and with a first capital, which may stand inside a name."""
    terms = [term.replace(" ", "\0") for term in sorted(TERMS, key=len, reverse=True)]
    plain, capital = "|".join(terms), "|".join(term.capitalize() for term in terms)
    words = rf"(?:(?<![A-Za-z])(?:{plain}|{plain.upper()})|(?:{capital}))(?![a-z])(?!-[a-z])"
    return re.compile(words.replace("\0", r"(?:_|[\s#]+)"))


def checked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    skipped = (*SKIPPED, Path(__file__).relative_to(ROOT).as_posix())
    return [
        name
        for name in listed.splitlines()
        if Path(name).suffix in READ and not name.startswith(skipped) and (ROOT / name).is_file()
    ]


def retired_words(name: str, words: re.Pattern[str]) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    if not words.search(text):
        return []
    for allowed, files, _ in EXCEPTIONS:
        if re.match(files, name):
            text = re.sub(allowed, lambda found: re.sub(r"[^\n]", "-", found[0]), text)
    return [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]!r} is retired; say {field_word(found[0])}"
        for found in words.finditer(text)
    ]


def field_word(retired: str) -> str:
    return TERMS[re.sub(r"[\W_]+", " ", retired).lower()]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source distribution: Git does not list its files")
def test_retired_words_do_not_come_back() -> None:
    words = pattern()
    found = [line for name in checked_files() for line in retired_words(name, words)]
    assert not found, "\n".join(found)
