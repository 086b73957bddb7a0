"""Numbered migrations of the catalog, run by app.catalog.migrate."""
