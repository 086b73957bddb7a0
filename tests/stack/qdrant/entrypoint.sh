#!/bin/sh
# The name that docker-compose.yml starts. Its options are those of a Qdrant node.
exec python /qdrant/serve_engine.py "$@"
