"""The upload area. ui/assets/upload.js fills in its target and progress."""

from __future__ import annotations

from ui.language import html


def render_uploader() -> str:
    return html(
        '<div class="uploader"><p class="uploader-call">[[Drop files or folders here]]</p><p '
        'class="uploader-target" role="status"></p><p class="uploader-buttons"><button type="button" '
        'class="plain-button" data-pick="files">[[Choose files]]</button><button type="button" '
        'class="plain-button" data-pick="folder">[[Choose a folder]]</button></p><p '
        'class="hint">[[Text, PDF, Office, web pages, e-mail, tables, source code, archives of '
        'these]]</p><input type="file" name="files" multiple hidden><input type="file" name="folder" '
        'webkitdirectory hidden><p class="upload-said" role="status"></p><progress hidden '
        'aria-label="[[Upload progress]]"></progress><p class="upload-undo" hidden><button '
        'type="button" class="plain-button" data-undo>[[Undo]]</button><label>[[or move the files to]] '
        '<select></select></label><button type="button" class="plain-button" '
        'data-move>[[Move]]</button></p><ul class="upload-errors"></ul></div>'
    )
