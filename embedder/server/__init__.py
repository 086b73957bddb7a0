"""The embedding server: OpenAI's `/v1/embeddings` and our own routes over an engine.

`protocol`, `errors`, `schemas` and `openai_routes` do not import torch, so clients can use them without it.
"""
