"""Saved and past searches of each person"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_search",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("request_json", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_saved_search"),
        sa.UniqueConstraint("owner", "name", name="uq_saved_search_owner_name"),
    )
    op.create_table(
        "past_search",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("request_json", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_past_search"),
    )
    op.create_index("ix_past_search_owner_asked_at", "past_search", ["owner", "asked_at"])


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
