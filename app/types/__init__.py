"""Values that cross folder borders: frozen, plain, no framework objects."""
