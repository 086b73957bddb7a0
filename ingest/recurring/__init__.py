"""Sources that come again: an adapter for each kind, behind the port `SourceReader`."""
