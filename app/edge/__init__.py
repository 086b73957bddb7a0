"""The embedded engine: Qdrant Edge in a child process that implements a subset of Qdrant's REST API.

`process` starts or finds the child, `transport` sends requests to it, `server` runs in the child. Nothing here may
depend on documents, lenses or the catalog.
"""

from app.edge.connection import EdgeConnection
from app.edge.process import PUT_ASIDE, EdgeProcess, edge_folder

__all__ = ["PUT_ASIDE", "EdgeConnection", "EdgeProcess", "edge_folder"]
