"""Displayed names of evaluation variants."""

from __future__ import annotations

from ui.language import _, later, ngettext
from ui.lens_names import shown_lens

_PARTS = {
    "dense": later("Meaning"),
    "sparse": later("Words"),
    "hybrid": later("Both"),
    "instruction judged": later("instruction as in the judgements"),
    "instruction none": later("no instruction"),
    "instruction default": later("default instruction of the model"),
}
_LENS = "instruction lens:"
_STEPS = "K "


def shown_label(label: str) -> str:
    """A variant label in the words of the pages; files and programs keep it as it is."""
    return " · ".join(map(_shown, label.split(" · ")))


def _shown(part: str) -> str:
    if part.startswith(_LENS):
        return _("instruction of the lens {name}").format(name=shown_lens(part.removeprefix(_LENS)))
    count = part.removeprefix(_STEPS)
    if count != part and count.isdigit():
        return ngettext("{count} step", "{count} steps", int(count)).format(count=count)
    return _(_PARTS[part]) if part in _PARTS else part
