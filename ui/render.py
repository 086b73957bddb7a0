"""HTML for search results, refinement tokens and documents. Everything from outside is escaped by MarkupSafe.

Pure functions of values from app.types: no Gradio, no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from markupsafe import Markup

from app.refinement_view import GroupToken, RefinementGroup
from app.search_types import Highlight, Hit, RefinementStep, SearchResult
from app.types import Document, DocumentState, Job, JobState
from ui.contract import AboutInfo

SNIPPET_CHARS = 420
CONTEXT_CHARS = 150
TOKENS_PER_GROUP = 16
TOKENS_PER_STEP = 10
METADATA_CHIPS = 6
TOKEN_SIZES = 5

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def clean(text: str) -> str:
    """Replaces characters that JSON or a browser cannot carry: NUL, control characters, lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _shorten(text: str, max_chars: int) -> str:
    text = clean(text)
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + "…"


def _join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def render_header() -> str:
    return Markup(
        '<header class="site-header"><h1>gircse <span>search</span></h1>'
        "<p>Search your documents by meaning, and say yourself what “similar” should mean.</p></header>"
    )


def render_footer(about: AboutInfo) -> str:
    return Markup('<p class="site-footer">Model <b>{}</b> · gircse-search {} · runs on this machine alone</p>').format(
        clean(about.model_name), clean(about.version)
    )


def render_error(message: str, *, title: str = "Please check this") -> str:
    return Markup('<div class="notice is-error" role="alert"><h2>{}</h2><p dir="auto">{}</p></div>').format(
        clean(title), _shorten(message, 1000)
    )


def render_note(message: str) -> str:
    return Markup('<div class="notice" role="status"><p dir="auto">{}</p></div>').format(_shorten(message, 1000))


def render_welcome() -> str:
    return Markup(
        '<div class="welcome"><h2>Nothing searched yet</h2><p>Write a query and press Enter. Then change the '
        "instruction and watch the order change: the same words, read in another sense.</p></div>"
    )


def render_results(result: SearchResult) -> str:
    if not result.hits:
        return render_note(
            f"The collection “{result.collection}” gave no passages. "
            "Add documents to it under Documents, then search again."
        )
    return _render_summary(result) + Markup('<ol class="hits">{}</ol>').format(_join(map(_render_hit, result.hits)))


def _render_summary(result: SearchResult) -> Markup:
    count = len(result.hits)
    sense = (
        Markup("read as <q>{}</q>").format(_shorten(result.instruction, 160))
        if result.instruction
        else Markup("read without an instruction")
    )
    return Markup(
        '<p class="summary" role="status" dir="auto"><b>{} {}</b>, {} · <span>{} {}</span> · '
        '<span>{} ms</span> <a href="#reading">How it was read</a></p>'
    ).format(
        count,
        "passage" if count == 1 else "passages",
        sense,
        result.steps,
        "step" if result.steps == 1 else "steps",
        round(_total_ms(result.timings_ms)),
    )


def _total_ms(timings_ms: Mapping[str, float]) -> float:
    return timings_ms["total"] if "total" in timings_ms else sum(timings_ms.values())


def _render_hit(hit: Hit) -> Markup:
    return Markup(
        '<li class="hit"><div class="hit-rank" aria-hidden="true">{rank}</div><article>'
        '<h3 dir="auto">{title}</h3>{source}{snippet}{chips}</article>'
        '<div class="hit-score" title="Cosine similarity of query and passage"><span>{score}</span>'
        '<meter min="0" max="1" value="{score}" aria-label="Similarity">{score}</meter></div></li>'
    ).format(
        rank=hit.rank,
        title=_shorten(hit.document.title or hit.document.uri, 160),
        source=_render_source(hit),
        snippet=_render_snippet(hit.chunk.text, hit.why),
        chips=_render_chips(hit.document.metadata),
        score=f"{hit.score:.3f}",
    )


def _render_source(hit: Hit) -> Markup:
    uri = clean(hit.document.uri)
    shown = _shorten(uri, 90)
    # Only web addresses become links: `javascript:` and the like must never be clickable.
    link = Markup('<a href="{}" target="_blank" rel="noopener noreferrer">{}</a>').format(uri, shown)
    source = link if _is_web_address(uri) else Markup("<span>{}</span>").format(shown)
    page = Markup(" · page {}").format(hit.chunk.page) if hit.chunk.page is not None else ""
    return Markup('<p class="hit-source">{}{}</p>').format(source, page)


def _is_web_address(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _render_snippet(text: str, why: Highlight | None) -> Markup:
    start, end = _mark_bounds(text, why)
    first, last = _window(text, start, end)
    snippet = Markup('<p class="snippet" dir="auto">{}{}{}</p>').format(
        "… " if first else "", _marked(text, first, start, end, last), " …" if last < len(text) else ""
    )
    if first == 0 and last == len(text):
        return snippet
    whole = _marked(text, 0, start, end, len(text))
    return snippet + Markup(
        '<details class="whole"><summary>Whole passage</summary><p class="snippet" dir="auto">{}</p></details>'
    ).format(whole)


def _mark_bounds(text: str, why: Highlight | None) -> tuple[int, int]:
    if why is None:
        return 0, 0
    start = min(max(why.start, 0), len(text))
    end = min(max(why.end, start), len(text))
    marked = text[start:end]
    return end - len(marked.lstrip()), start + len(marked.rstrip())


def _window(text: str, start: int, end: int) -> tuple[int, int]:
    """A stretch of about SNIPPET_CHARS around the marked sentence, cut between words."""
    if len(text) <= SNIPPET_CHARS:
        return 0, len(text)
    first = max(0, start - CONTEXT_CHARS)
    last = min(len(text), max(end + CONTEXT_CHARS, first + SNIPPET_CHARS))
    space = text.find(" ", first, start)
    first = space + 1 if first and space >= 0 else first
    space = text.rfind(" ", end, last)
    last = space if last < len(text) and space > end else last
    return first, last


def _marked(text: str, first: int, start: int, end: int, last: int) -> Markup:
    before, marked, after = text[first:start], text[start:end], text[end:last]
    if not marked:
        return Markup("{}").format(clean(before + after))
    return Markup("{}<mark>{}</mark>{}").format(clean(before), clean(marked), clean(after))


def _render_chips(metadata: Mapping[str, object]) -> Markup:
    if not metadata:
        return Markup("")
    chips = [
        Markup("<li><span>{}</span> {}</li>").format(_shorten(str(key), 30), _shorten(str(value), 60))
        for key, value in list(metadata.items())[:METADATA_CHIPS]
    ]
    return Markup('<ul class="chips" aria-label="Metadata">{}</ul>').format(_join(chips))


def render_refinement(groups: Sequence[RefinementGroup], steps: Sequence[RefinementStep]) -> str:
    if not groups:
        return ""
    return Markup(
        '<section class="refinement"><h2>How your query was read</h2><p class="hint">Before it searches, the model '
        "thinks of words. Larger is more probable; pale words carry little meaning.</p>{}"
        '<details class="every-step"><summary>Every step</summary>{}</details></section>'
    ).format(
        _join(_render_group(group, is_first=index == 0) for index, group in enumerate(groups)), _render_steps(steps)
    )


def _render_group(group: RefinementGroup, *, is_first: bool) -> Markup:
    shown = group.added[:TOKENS_PER_GROUP]
    # Sizes compare words of substance with each other: a frequent "the" must not make all of them small.
    heaviest = max((token.weight for token in shown if not token.is_stop_word), default=0.0)
    words = _join(_render_token(token, heaviest) for token in shown)
    kept = ", ".join(clean(token.token) for token in group.kept if not token.is_stop_word)
    return Markup('<div class="group"><h3>{} <span>{}</span></h3>{}{}</div>').format(
        _step_range(group),
        "" if is_first else "adds",
        Markup('<ul class="tokens">{}</ul>').format(words) if shown else Markup('<p class="kept">nothing new</p>'),
        Markup('<p class="kept" dir="auto">still: {}</p>').format(_shorten(kept, 90)) if kept else "",
    )


def _step_range(group: RefinementGroup) -> str:
    if group.first_step == group.last_step:
        return f"Step {group.first_step}"
    return f"Steps {group.first_step}–{group.last_step}"


def _render_token(token: GroupToken, heaviest: float) -> Markup:
    share = min(1.0, token.weight / heaviest) if heaviest > 0 else 0.0
    size = 1 if token.is_stop_word else 1 + round(share**0.5 * (TOKEN_SIZES - 1))
    return Markup('<li class="token size-{}{}" dir="auto" title="summed probability {}">{}</li>').format(
        size, " is-stop" if token.is_stop_word else "", f"{token.weight:.3f}", _shorten(token.token, 40)
    )


def _render_steps(steps: Sequence[RefinementStep]) -> Markup:
    rows = [
        Markup('<tr><th scope="row">{}</th><td><ul>{}</ul></td></tr>').format(
            step.step,
            _join(
                Markup('<li dir="auto">{} <span>{}</span></li>').format(
                    _shorten(token.token, 40), f"{token.probability:.3f}"
                )
                for token in step.tokens[:TOKENS_PER_STEP]
            ),
        )
        for step in steps
    ]
    return Markup(
        '<table class="steps"><thead><tr><th scope="col">Step</th><th scope="col">Most probable words</th></tr></thead>'
        "<tbody>{}</tbody></table>"
    ).format(_join(rows))


def render_documents(documents: Sequence[Document], jobs: Sequence[Job], *, total: int) -> str:
    """`jobs` may hold those of other documents; the newest comes first."""
    if not documents:
        return Markup('<p class="kept">No documents yet. Add some above: they become searchable as they are read.</p>')
    newest: dict[str, Job] = {}
    for job in jobs:
        newest.setdefault(job.document_id, job)
    rows = _join(_render_document(document, newest.get(document.id)) for document in documents)
    more = f"Showing {len(documents)} of {total}." if total > len(documents) else ""
    return Markup(
        '<table class="documents"><thead><tr><th scope="col">Document</th><th scope="col">State</th>'
        '<th scope="col">Passages</th><th scope="col"><span class="sr-only">Delete</span></th></tr></thead>'
        '<tbody>{}</tbody></table><p class="kept">{}</p>'
    ).format(rows, more)


def _render_document(document: Document, job: Job | None) -> Markup:
    title = _shorten(document.title or document.uri, 120)
    error = (
        Markup('<span class="document-error" dir="auto">{}</span>').format(_shorten(document.error, 400))
        if document.error
        else ""
    )
    return Markup(
        '<tr><td><b dir="auto">{title}</b><span class="document-uri">{uri}</span>{error}</td>'
        '<td>{state}</td><td class="number">{chunks}</td><td><button type="button" class="delete" '
        'data-document="{id}" aria-label="Delete {title}">Delete</button></td></tr>'
    ).format(
        title=title,
        uri=_shorten(document.uri, 120),
        error=error,
        state=_render_state(document, job),
        chunks=document.chunk_count,
        id=clean(document.id),
    )


def _render_state(document: Document, job: Job | None) -> Markup:
    if document.state is DocumentState.QUEUED and job is not None and job.state is JobState.RUNNING:
        percent = round(min(max(job.progress, 0.0), 1.0) * 100)
        return Markup('<span class="state is-queued">reading {percent} %</span>').format(percent=percent) + Markup(
            '<progress max="100" value="{}" aria-label="Progress">{} %</progress>'
        ).format(percent, percent)
    name = {DocumentState.QUEUED: "waiting", DocumentState.DELETING: "being deleted"}.get(
        document.state, document.state.value
    )
    return Markup('<span class="state is-{}">{}</span>').format(document.state.value, name)
