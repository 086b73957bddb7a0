"""Makes app/search/aspect_vectors.safetensors anew, after the bank or the model has changed:
`python scripts/make_aspect_vectors.py`.
"""

from __future__ import annotations

import numpy as np

from app.search.aspect_search import bank_wordings, embed_plainly
from app.search.aspect_vectors import FILE, keep_vectors
from app.wiring.embedding import LocalEmbedder

if __name__ == "__main__":
    model = LocalEmbedder("gircse-mini", dtype="float32")
    wordings = bank_wordings()
    found = [embed_plainly(model, wordings[at : at + 512]) for at in range(0, len(wordings), 512)]
    keep_vectors(model.info, wordings, np.concatenate(found))
    model.close()
    print(f"{FILE}: {len(wordings)} wordings, {FILE.stat().st_size / 1e6:.1f} MB")
