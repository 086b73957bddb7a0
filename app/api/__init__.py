"""The HTTP interface: REST under /api/v1, health, and OpenAPI. Pydantic models stay in this folder."""
