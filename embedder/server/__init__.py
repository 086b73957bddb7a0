"""The embedding server: one model behind OpenAI's `/v1/embeddings` and the application's own routes.

Whoever only speaks to it needs no torch: `protocol`, `errors`, `schemas` and `openai_routes` import none.
"""
