"""Displayed names of evaluation variants."""

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
    """Translates a variant label, which files and programs keep in English."""
    return " · ".join(map(_shown, label.split(" · ")))


def _shown(part: str) -> str:
    if part.startswith(_LENS):
        return _("instruction of the lens {name}").format(name=shown_lens(part.removeprefix(_LENS)))
    return _(part) if part in _PARTS else part
