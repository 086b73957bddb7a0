"""`gircse lenses`: saved instructions."""

from __future__ import annotations

from typing import Annotated

import typer

from app.api.search_schemas import ProposalsAnswer
from app.commands import console
from app.commands.composition import open_catalog, open_services
from app.search import lenses as all_lenses
from app.search.judgements import new_lens
from app.search.value_syntax import join_values, split_values
from app.types.defaults import DEFAULT_COLLECTION

lenses = typer.Typer(no_args_is_help=True, help="List, save and delete lenses: instructions under a name.")

Name = Annotated[str, typer.Argument(help="Of the lens.")]


@lenses.command("list")
def list_lenses(as_json: console.JsonLines = False) -> None:
    """List lenses. Use one with `gircse search QUERY --lens NAME`."""
    with open_catalog() as catalog:
        known = all_lenses.lenses_of(catalog)
    if as_json:
        console.print_json_lines(known)
        return
    rows = [
        (each.name, each.query_instruction, each.document_instruction or "", each.note, "; ".join(each.values))
        for each in known
    ]
    console.print_table(("name", "query instruction", "document instruction", "note", "values"), rows)


@lenses.command("save")
def save_lens(
    name: Name,
    instruction: Annotated[str, typer.Option("--instruction", "-i", help="How it looks at a query.")],
    document_instruction: Annotated[
        str | None, typer.Option(help="How it looks at documents. Left out: as the collection does.")
    ] = None,
    note: Annotated[str, typer.Option(help="What it is good for.")] = "",
    values: Annotated[
        str, typer.Option(help="Values that it tells apart: 'a, b, c' or 'a = synonym, synonym; b; c'.")
    ] = "",
) -> None:
    """Save a lens; one of the same name is replaced.

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
    instruction: Annotated[str, typer.Argument(help="What a lens should look at.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Whose texts it is for.")] = DEFAULT_COLLECTION,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, the same as the REST API answers.")] = False,
) -> None:
    """Propose values that an instruction could tell apart, and say where they come from.

    Example: gircse lenses propose "Which continent is it about?" -c sample
    """
    with open_services() as services:
        proposals = services.proposals.propose(instruction, collection)
    if as_json:
        typer.echo(console.json_of(ProposalsAnswer.model_validate({"proposals": proposals})))
    elif not proposals:
        typer.echo("No values to propose. Name your own: gircse search QUERY -i INSTRUCTION --values 'a, b, c'")
    else:
        rows = [
            (join_values(each.values), " ".join((each.source, each.name)).strip(), f"{each.fitting} of {each.texts}")
            for each in proposals
        ]
        console.print_table(("values", "from", "texts that fit"), rows)


@lenses.command("delete")
def delete_lens(name: Name) -> None:
    """Delete a lens."""
    with open_catalog() as catalog:
        all_lenses.delete_lens(catalog, name)
    typer.echo(f"The lens {name!r} is deleted.")
