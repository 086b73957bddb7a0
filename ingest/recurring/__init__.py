"""Sources that are synced on a schedule: an adapter per kind, behind the port `SourceReader`."""
