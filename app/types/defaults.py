"""Defaults of new collections, and limits for deleting and moving documents."""

DEFAULT_COLLECTION = "library"
SAMPLE_COLLECTION = "sample"  # of `gircse up --sample`
CHUNK_TOKENS = 200
CHUNK_OVERLAP = 30

MAX_DOCUMENTS_AT_ONCE = 1_000
UNDO_S = 60  # how long a document deleted on a page can be restored
MAX_DELETE_DELAY_S = 1_800  # well below one hour: a job further ahead counts as misdated by a clock jump
