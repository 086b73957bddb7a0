"""Bulk ingestion of a collection in shards on a Ray cluster. Only app/wiring/bulk.py imports it: Ray is an extra."""
