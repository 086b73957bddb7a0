"""Integrations: LangChain's interfaces over the encoder and over collections."""
