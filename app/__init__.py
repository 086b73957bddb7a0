"""The core: settings, catalog, vector index, search, API and CLI. Knows nothing of torch, Gradio or file formats."""
