"""Types shared by several folders: immutable values without framework objects."""
