"""`gircse lenses`: saved instructions and their indexes."""

from __future__ import annotations

from typing import Annotated

import typer

from app.api.search_schemas import LensIndexAnswer, ProposalsAnswer
from app.collections.lens_indexes import QueuedLensIndexes
from app.commands import terminal
from app.commands.chosen_collection import InCollection, chosen_collection
from app.commands.suggestions import SuggestingGroup
from app.commands.wiring import open_catalog, open_services
from app.search import lenses as all_lenses
from app.search.judgements import new_lens
from app.search.value_syntax import join_values, split_values
from app.types.lens_indexes import LensIndexState

lenses = typer.Typer(no_args_is_help=True, help="List, save and delete lenses: instructions under a name.")

index = typer.Typer(no_args_is_help=True, help="Store the value of every chunk of a collection under a lens.")
lenses.add_typer(index, name="index", cls=SuggestingGroup)

Name = Annotated[str, typer.Argument(help="Name of the lens.")]


@lenses.command("list")
def list_lenses(as_json: terminal.JsonLines = False) -> None:
    """List lenses. Use one with `gircse search QUERY --lens NAME`."""
    with open_catalog() as catalog:
        known = all_lenses.lenses_of(catalog)
    if as_json:
        terminal.print_json_lines(known)
        return
    rows = [
        (each.name, each.query_instruction, each.document_instruction or "", each.note, "; ".join(each.values))
        for each in known
    ]
    terminal.print_table(("name", "query instruction", "document instruction", "note", "values"), rows)


@lenses.command("save")
def save_lens(
    name: Name,
    instruction: Annotated[str, typer.Option("--instruction", "-i", help="Instruction for queries.")],
    document_instruction: Annotated[
        str | None, typer.Option(help="Instruction for documents. Default: the collection's.")
    ] = None,
    note: Annotated[str, typer.Option(help="Purpose of the lens.")] = "",
    values: Annotated[str, typer.Option(help="Values to distinguish: 'a, b, c' or 'a = synonym, synonym; b; c'.")] = "",
) -> None:
    """Save a lens. Replaces a saved lens of the same name.

    Example: gircse lenses save "same feeling" -i "Identify the feeling that the message expresses"
    """
    lens = new_lens(
        name, instruction, document_instruction=document_instruction, note=note, values=split_values(values)
    )
    with open_catalog() as catalog:
        catalog.save_lens(lens)
    typer.echo(f"Saved. Use it with: gircse search QUERY --lens {lens.name!r}")


@lenses.command("propose")
def propose_values(
    instruction: Annotated[str, typer.Argument(help="Instruction of the lens.")],
    collection: InCollection = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the REST API returns it.")] = False,
) -> None:
    """Propose values that an instruction could distinguish, each with its origin.

    Example: gircse lenses propose "Which continent is it about?" -c sample
    """
    with open_services() as services:
        proposals = services.proposals.propose(instruction, chosen_collection(collection, services.catalog))
    if as_json:
        typer.echo(terminal.json_of(ProposalsAnswer.model_validate({"proposals": proposals})))
    elif not proposals:
        typer.echo("No values to propose. Give your own: gircse search QUERY -i INSTRUCTION --values 'a, b, c'")
    else:
        rows = [
            (join_values(each.values), " ".join((each.source, each.name)).strip(), f"{each.fitting} of {each.texts}")
            for each in proposals
        ]
        terminal.print_table(("values", "from", "texts that fit"), rows)


@lenses.command("delete")
def delete_lens(name: Name) -> None:
    """Delete a lens."""
    with open_catalog() as catalog:
        all_lenses.delete_lens(catalog, name)
    typer.echo(f"Deleted the lens {name!r}.")


@index.command("build")
def build_index(name: Name, collection: InCollection = None) -> None:
    """Queue the index of a lens. Searches with the lens then use every chunk, and counts cover the whole collection.

    Example: gircse lenses index build "Same place" -c sample
    """
    with open_catalog() as catalog:
        chosen = chosen_collection(collection, catalog)
        found = QueuedLensIndexes(catalog).build(chosen, name)
    typer.echo(
        f"Queued the index of {found.lens!r} with {len(found.values)} values; a running `gircse up` or `gircse worker` "
        f"builds it. Progress: `gircse lenses index list -c {chosen}`."
    )


@index.command("list")
def list_indexes(
    collection: InCollection = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the REST API returns it.")] = False,
) -> None:
    """List the lens indexes of a collection with progress and cost."""
    with open_catalog() as catalog:
        found = QueuedLensIndexes(catalog).status(chosen_collection(collection, catalog))
    if as_json:
        for each in found:
            typer.echo(terminal.json_of(LensIndexAnswer.model_validate(each), indent=None))
        return
    rows = [
        (
            each.lens,
            f"{each.state} {each.progress:.0%}" if each.state is LensIndexState.BUILDING else each.state,
            f"{each.chunks:,}",
            f"{each.bytes / 1e6:.1f} MB",
            f"{each.seconds:.1f} s",
            each.error or "",
        )
        for each in found
    ]
    terminal.print_table(("lens", "state", "chunks", "size", "built in", "error"), rows)


@index.command("table")
def print_values(
    name: Name,
    collection: InCollection = None,
    value: Annotated[str | None, typer.Option(help="Only chunks with this value.")] = None,
) -> None:
    """Print every chunk of the collection with its value under the lens, as CSV.

    Example: gircse lenses index table "Same place" -c sample > places.csv
    """
    with open_services() as services:
        chosen = chosen_collection(collection, services.catalog)
        for part in services.value_tables.csv(chosen, name, value=value):
            typer.echo(part, nl=False)


@index.command("delete")
def delete_index(name: Name, collection: InCollection = None) -> None:
    """Delete the index of a lens. The lens is kept."""
    with open_catalog() as catalog:
        QueuedLensIndexes(catalog).delete(chosen_collection(collection, catalog), name)
    typer.echo(f"Deleted the index of {name!r}.")
