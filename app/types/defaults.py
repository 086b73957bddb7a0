"""What a collection is where nobody says otherwise; how many documents are deleted or moved at once."""

DEFAULT_COLLECTION = "library"
CHUNK_TOKENS = 200
CHUNK_OVERLAP = 30

MAX_DOCUMENTS_AT_ONCE = 1_000
UNDO_S = 60  # for so long what a person deletes on a page can be restored
MAX_DELETE_DELAY_S = 1_800  # well below an hour, after which a job counts as put off by a clock that jumped
