"""Qdrant Edge, the embedded engine, in a child process that speaks the part of Qdrant's REST API that we use.

`process` starts and finds the child, `transport` carries requests to it, `server` is the child.
Nothing here knows documents, lenses or the catalog.
"""

from app.edge.connection import EdgeConnection
from app.edge.process import PUT_ASIDE, EdgeProcess, edge_folder

__all__ = ["PUT_ASIDE", "EdgeConnection", "EdgeProcess", "edge_folder"]
