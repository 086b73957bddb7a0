"""What the variants of an evaluation are called on the page."""

from __future__ import annotations

from ui.language import _, later
from ui.lens_names import shown_lens

_PARTS = (
    later("dense"),
    later("sparse"),
    later("hybrid"),
    later("instruction judged"),
    later("instruction none"),
    later("instruction default"),
)
_LENS = "instruction lens:"


def shown_label(label: str) -> str:
    """As files and programs have it, in the language of the person at hand."""
    return " · ".join(map(_shown, label.split(" · ")))


def _shown(part: str) -> str:
    if part.startswith(_LENS):
        return _("instruction of the lens {name}").format(name=shown_lens(part.removeprefix(_LENS)))
    return _(part) if part in _PARTS else part
