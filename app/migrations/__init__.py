"""Numbered migrations of the catalog; app.catalog.migrate runs them."""
