"""What the process has imported from which tests fork those of the program. There is one in each process of pytest."""

PRELOADED = [
    "app.cli",
    "app.wiring.services",
    "app.wiring.web",
    "app.wiring.ingestion",
    "embedder.checkpoint",
    "embedder.model.causal_model",
    "transformers.models.qwen2.modeling_qwen2",
]
