"""Buttons for proposed lens values, with the origin of each proposal."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.search.value_syntax import join_values
from app.types.proposals import ProposalSource, ValueProposal
from ui.language import _, html
from ui.lens_names import shown_lens
from ui.render.text import clean, join, shorten

VALUES_SHOWN = 6


def render_proposals(proposals: Sequence[ValueProposal], given: str = "") -> str:
    """Empty without proposals. `given` are the current values of the field."""
    if not proposals:
        return ""
    return html(
        '<section class="proposals" aria-label="[[Suggested values]]"><p>[[Suggested values:]]</p><ul>{}</ul></section>'
    ).format(join(_render_proposal(each, given) for each in proposals))


def _render_proposal(proposal: ValueProposal, given: str) -> Markup:
    values = join_values(proposal.values)
    names = [each.partition("=")[0].strip() for each in proposal.values]
    more = len(names) - VALUES_SHOWN
    return Markup(
        '<li><button type="button" data-event="use" data-values="{values}" aria-pressed="{pressed}">'
        '<span dir="auto">{shown}{more}</span><small dir="auto">{source}{texts}</small></button></li>'
    ).format(
        values=clean(values),
        pressed="true" if values == given else "false",
        shown=" · ".join(shorten(name, 40) for name in names[:VALUES_SHOWN]),
        more=" " + _("and {count} more").format(count=more) if more > 0 else "",
        source=_describe_source(proposal),
        texts=" · " + _("fits {count} of {total} sampled texts").format(count=proposal.fitting, total=proposal.texts)
        if proposal.texts
        else "",
    )


def _describe_source(proposal: ValueProposal) -> str:
    name = shorten(proposal.name.replace("_", " "), 50)
    match proposal.source:
        case ProposalSource.LENS:
            return _("Lens: {name}").format(name=shown_lens(name))
        case ProposalSource.BANK:
            return _("Built-in suggestion: {name}").format(name=name)
        case ProposalSource.METADATA:
            return _("Metadata of this collection: {name}").format(name=name)
        case ProposalSource.TEXTS:
            return _("The model's words for texts in this collection")
