"""Actions for selected documents. ui/assets/selection.js shows them while documents are selected."""

from __future__ import annotations

from ui.language import html


def render_selection() -> str:
    return html(
        '<div class="selection" role="region" aria-label="[[Selected documents]]" hidden><b '
        'role="status"></b><span class="selection-move"><label>[[Move to]] '
        '<select></select></label><button type="button" class="plain-button" '
        'data-do="move">[[Move]]</button></span><button type="button" class="plain-button is-danger" '
        'data-do="delete">[[Delete]]</button><button type="button" class="plain-button" '
        'data-do="clear">[[Clear selection]]</button></div>'
    )
