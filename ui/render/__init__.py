"""HTML of the page. Pure functions of values: no Gradio, no state; MarkupSafe escapes everything from outside."""
