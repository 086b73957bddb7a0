"""Where Gradio serves the scripts, styles and fonts of the pages."""

SHARED_FILES = ("/assets/", "/static/", "/svelte/")  # the same files in every installation
