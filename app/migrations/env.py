"""Alembic's entry point. Runs on the connection that app.catalog.migrate opened and locked."""

from typing import Literal

from alembic import context
from sqlalchemy import TypeDecorator

from app.catalog.tables import Table


def render_item(kind: str, item: object, _context: object) -> str | Literal[False]:
    """Migrations use plain SQL types, so that they do not change with the application's classes."""
    return f"sa.{item.impl!r}" if kind == "type" and isinstance(item, TypeDecorator) else False


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Table.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
    render_item=render_item,
)
with context.begin_transaction():
    context.run_migrations()
