"""Maintenance of collections: backup, transfer, new indexes, and checks for damage and differences."""
