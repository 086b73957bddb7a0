"""What a collection is where nobody says otherwise."""

DEFAULT_COLLECTION = "library"
CHUNK_TOKENS = 200
CHUNK_OVERLAP = 30
