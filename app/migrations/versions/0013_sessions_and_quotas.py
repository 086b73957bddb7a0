"""Details of sessions for their users, and quotas

Existing sessions continue; details that were never recorded stay empty. Existing documents count against no quota.
"""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("id", "address", "browser"):
        kind = sa.String(length=36) if name == "id" else sa.Text()
        op.add_column("web_session", sa.Column(name, kind, nullable=False, server_default=""))
    op.add_column("web_session", sa.Column("used_at", sa.DateTime(timezone=True), nullable=True))
    _fill(op.get_bind())
    with op.batch_alter_table("web_session") as table:
        table.alter_column("used_at", nullable=False)
    op.create_index("ix_web_session_id", "web_session", ["id"], unique=False)
    for quota in ("bytes", "documents", "requests"):
        op.add_column("user_account", sa.Column(f"quota_{quota}", sa.BigInteger(), nullable=True))
    op.add_column("document", sa.Column("added_by", sa.String(length=64), nullable=True))
    op.create_index("ix_document_added_by_byte_count", "document", ["added_by", "byte_count"], unique=False)


def _fill(connection: sa.Connection) -> None:
    session = sa.table(
        "web_session", *map(sa.column, ("token_hash", "id", "used_at", "created_at"))
    )
    for (token_hash,) in connection.execute(sa.select(session.c.token_hash)).all():
        connection.execute(
            session.update()
            .where(session.c.token_hash == token_hash)
            .values(id=uuid.uuid4().hex[:12], used_at=session.c.created_at)
        )


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
