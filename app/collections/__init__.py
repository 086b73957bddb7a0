"""Documents in and out of collections: upload, fetch, reindex, export, consistency. No SQL, no HTTP, no model."""
