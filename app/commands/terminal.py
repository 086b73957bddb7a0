"""Prints values on a terminal. Text of documents and models is never interpreted as markup or control sequences."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.errors import ConflictError
from app.search.soft_tokens import CONVERGENCE_TOLERANCE, converged_step, group_refinement
from app.types.documents import ChunkKind
from app.types.printable import printable
from app.types.search import ALL_COLLECTIONS, Exclusion, ExclusionEffect, Hit, Match, SearchMode, SearchResult
from app.types.uris import shown_address
from app.types.values import ValueScope, ValueSummary
from embedder.refinement_steps import RefinementStep

if TYPE_CHECKING:  # imports numpy, which takes long
    from embedder.refinement import Refinement

TOKENS_PER_GROUP = 12
BEST_SENTENCE = "bold yellow"
_GRADES = {Match.STRONG: "green", Match.FAIR: "cyan", Match.WEAK: "yellow"}
WHOLE = frozenset({"id", "document", "name", "user", "collection"})  # columns never wrapped, so that they can be copied
_NARROW = 10

JsonLines = Annotated[bool, typer.Option("--json", help="Print a JSON object per line.")]
# Of commands that print JSON in any case, so that every command with data takes the option.
IsJson = Annotated[bool, typer.Option("--json", help="Accepted; the output is JSON in any case.")]

stdout = Console(highlight=False, emoji=False, markup=False)
stderr = Console(highlight=False, emoji=False, markup=False, stderr=True)


def address(uri: str) -> str:
    """The address of a document, readable and without control characters."""
    return printable(shown_address(uri))


def confirm_deletion(question: str, *, refusal: str = "Nothing was deleted.") -> None:
    """Asks on stderr. Raises ConflictError with `refusal` unless the answer is yes; nobody answers in a script."""
    try:
        is_agreed = typer.confirm(question, err=True)
    except typer.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        typer.echo(err=True)
        raise ConflictError(f"{refusal} To delete without a question, add --yes.") from None
    if not is_agreed:
        raise ConflictError(refusal)


def print_json_lines(values: Iterable[object]) -> None:
    """Print each value as a JSON object on its own line."""
    for value in values:
        typer.echo(json_of(value, indent=None))


def json_of(value: object, *, indent: int | None = 2) -> str:
    """A dataclass or REST response model as JSON, with the same fields as the REST API."""
    return TypeAdapter(type(value)).dump_json(value, indent=indent).decode()


def print_search(result: SearchResult, filters: Mapping[str, str]) -> None:
    """`filters` are those of the request."""
    stdout.print(_heading(result))
    if not result.hits:
        stdout.print(Text(_nothing_found(result, filters)))
    if result.values is not None:
        stdout.print(_value_counts(result.values))
    if result.match is Match.WEAK and not result.instruction:
        stdout.print(Text("Probably no answer here: no passage is nearer than a random one.\n", style="yellow"))
    for exclusion in result.exclusions:
        style = "yellow" if exclusion.effect is ExclusionEffect.OFFERED else "dim"
        stdout.print(Text(f"{_exclusion(exclusion)}\n", style=style))
    for note in result.notes:
        stdout.print(Text(f"{printable(note)}\n", style="yellow"))
    for hit in result.hits:
        stdout.print(_hit(hit, names_collection=result.collection == ALL_COLLECTIONS))
    print_read_text(result.read_text)
    if result.refinement:
        stdout.print(refinement_table(result.refinement))
    spent = "  ".join(f"{stage} {ms:.0f} ms" for stage, ms in result.timings_ms.items())
    stdout.print(Text(spent, style="dim"))


def _nothing_found(result: SearchResult, filters: Mapping[str, str]) -> str:
    if filters:
        named = printable(", ".join(f"{key}={value}" for key, value in filters.items()))
        return f"Nothing found. No passage matches all filters: {named}. Fewer filters find more."
    if result.mode is SearchMode.SPARSE:
        return f"Nothing found. No passage contains these words. Find other wordings with --mode {SearchMode.HYBRID}."
    return f"Nothing found. Is the collection {result.collection!r} filled? `gircse documents list`."


def print_refinement(embedding: Refinement) -> None:
    stdout.print(
        Text(f"instruction: {printable(embedding.instruction) or '(none)'}   steps: {embedding.step_count}", "dim")
    )
    print_read_text(embedding.read_text)
    if embedding.steps:
        stdout.print(refinement_table(embedding.steps))
    converged = converged_step(embedding.steps)
    if converged is not None:
        left = f"later vectors stay within {CONVERGENCE_TOLERANCE:g} (1 - cosine) of the final one"
        stdout.print(Text(f"converged at step {converged} of {embedding.step_count}: {left}", "dim"))


def print_read_text(read_text: str) -> None:
    """Print the part of the query that the model embedded, if it is not the whole query."""
    if read_text:
        stdout.print(Text(f"the instruction concerns only this part of the query: {printable(read_text)}", "dim"))


def refinement_table(steps: Sequence[RefinementStep]) -> RenderableType:
    """A table with the most probable tokens of each group of steps, bold if no earlier group has the token."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    for group in group_refinement(steps):
        words = Text()
        content_tokens = [token for token in group.tokens if not token.is_stop_word]
        for token in content_tokens[:TOKENS_PER_GROUP]:
            words.append(printable(token.token), style="bold" if token.is_new else "")
            words.append(f" {token.weight:.2f}  ", style="dim")
        table.add_row(f"steps {group.first_step}-{group.last_step}", words)
    return Group(Text("refinement tokens", style="dim"), table)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, err: bool = False) -> None:
    """Print a table, on stderr with `err`. Pipes get one row a line.

    Ids and names (`WHOLE`) are never wrapped, even on a narrow terminal.
    """
    device = stderr if err else stdout
    is_shown = device.is_terminal
    cells = [[_cell(cell, one_line=not is_shown) for cell in row] for row in rows]
    longest = [max([cell_len(name), *(cell_len(row[at]) for row in cells)]) for at, name in enumerate(columns)]
    least = [width if name in WHOLE else min(width, _NARROW) for name, width in zip(columns, longest, strict=True)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, width in zip(columns, least, strict=True):
        table.add_column(name, overflow="fold", min_width=width, no_wrap=name in WHOLE)
    for row in cells:
        table.add_row(*map(Text, row))
    between = 2 * (len(columns) - 1)
    width = max(device.width, sum(least) + between) if is_shown else sum(longest) + between
    wide = Console(width=width, highlight=False, emoji=False, markup=False, soft_wrap=is_shown)
    with wide.capture() as captured:
        wide.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()), err=err)


def note_more(found: Sequence[object], limit: int) -> None:
    """Says on stderr that a list ends at its limit, if more than `limit` were found."""
    if len(found) > limit:
        typer.echo(f"These are the first {limit:,}; there are more. --limit lists them.", err=True)


def _cell(value: object, *, one_line: bool) -> str:
    text = printable(str(value))
    return " ".join(text.split()) if one_line else text


def _heading(result: SearchResult) -> Text:
    heading = Text(printable(result.query), style="bold")
    place = "all collections" if result.collection == ALL_COLLECTIONS else result.collection
    heading.append(f"\nin {place}, {result.mode}, {result.steps} steps, instruction: ", style="dim")
    heading.append(printable(result.instruction) or "(none)", style="dim italic")
    return heading


def _value_counts(values: ValueSummary) -> Text:
    counted = "   ".join(f"{printable(each.name)} {each.count}" for each in values.counts if each.count)
    among = "candidates" if values.scope is ValueScope.CANDIDATES else "chunks of the collection"
    return Text(f"the query is {printable(values.query)}; of {values.passages:,} {among}: {counted}\n", "dim")


def _exclusion(found: Exclusion) -> str:
    phrase = printable(found.phrase)
    if found.effect is ExclusionEffect.OFFERED:
        return f"“{phrase}” counts as part of the query; to exclude it: --exclude {phrase!r}"
    done = "left out" if found.effect is ExclusionEffect.VALUE else "ranked lower"
    undo = " (negated in the query; --no-detect-negation turns this off)" if found.is_detected else ""
    return f"not about {phrase}: {found.passages} candidates {done}{undo}"


def _hit(hit: Hit, *, names_collection: bool) -> RenderableType:
    title = Text(
        f"{hit.rank:>2}  {hit.match or f'{hit.score:.3f}':<6}  ", style=_GRADES[hit.match] if hit.match else "cyan"
    )
    title.append(printable(hit.document.title), style="bold")
    if names_collection:
        title.append(f"  {hit.document.collection}", style="green")
    page = "" if hit.chunk.page is None else f"  page {hit.chunk.page}"
    place = f"  {printable(hit.chunk.context)}" if " › " in hit.chunk.context else ""
    title.append(f"  {address(hit.document.uri)}{page}{place}", style="dim")
    if hit.excluded is not None:
        title.append(f"  about {printable(hit.excluded)}", style="yellow")
    if hit.value is not None:
        title.append(f"  {printable(hit.value.name)}", style="magenta")
    if hit.match is not None:
        title.append(f"  score {hit.score:.3f}", style="dim")
    for leg in hit.legs:
        title.append(f"  {leg.leg} {leg.rank} ({leg.score:.3g})", style="dim")
    if hit.chunk.kind is not ChunkKind.PROSE:
        title.append(f"  {hit.chunk.kind}", style="dim")
    if hit.duplicates:
        title.append(f"  and {len(hit.duplicates)} near-identical", style="dim")
    if hit.rerank_score is not None:
        title.append(f"  re-ranked {hit.rerank_score:.3f}, was {hit.moved_from}", style="dim")
    body = Text(printable(hit.chunk.text))
    if hit.why is not None:
        body.stylize(BEST_SENTENCE, hit.why.start, hit.why.end)
    return Group(title, Padding(body, (0, 0, 1, 4)))
