"""The embedding server: OpenAI's `/v1/embeddings` and the application's own routes over an engine.

Clients need no torch: `protocol`, `errors`, `schemas` and `openai_routes` import none.
"""
