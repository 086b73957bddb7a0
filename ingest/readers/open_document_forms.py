"""Controls of OpenDocument forms: their labels and current values, by the id with which the page refers to them."""

from __future__ import annotations

from ingest.readers.opc import Element, attribute, local

_VALUES = {"text", "textarea", "formatted-text", "number", "date", "time", "combobox"}
_LABELS = {"button", "fixed-text", "frame"}
_CHECKED = {"checkbox", "radio"}


class FormControls:
    """The controls declared anywhere below `root`."""

    def __init__(self, root: Element) -> None:
        self._controls: dict[str, Element] = {}
        for forms in root.iter("{*}forms"):
            for control in forms.iter("*"):
                if identity := attribute(control, "id"):
                    self._controls[identity] = control

    def shown(self, identity: str) -> str:
        """The text that a control shows; empty for an unknown one and for a password."""
        control = self._controls.get(identity)
        return "" if control is None else _shown(control)


def _shown(control: Element) -> str:
    kind = local(control)
    if kind in _VALUES:
        return attribute(control, "current-value") or attribute(control, "value")
    if kind in _LABELS:
        return attribute(control, "label")
    if kind in _CHECKED:
        state = attribute(control, "current-state") or attribute(control, "state")
        state = state or attribute(control, "current-selected") or attribute(control, "selected")
        return f"{'☑' if state in ('checked', 'true') else '☐'} {attribute(control, 'label')}".strip()
    if kind == "listbox":
        options = [node for node in control.iterchildren("*") if local(node) == "option"]
        chosen = [option for option in options if _is_chosen(option)]
        shown = chosen if attribute(control, "dropdown") == "true" else options
        return "\n".join(filter(None, (attribute(option, "label") for option in shown)))
    return ""


def _is_chosen(option: Element) -> bool:
    return "true" in (attribute(option, "current-selected"), attribute(option, "selected"))
