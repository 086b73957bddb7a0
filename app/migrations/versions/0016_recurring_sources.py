"""Synced sources, and the marks of their items"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "recurring_source",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("every_s", sa.Integer(), nullable=False),
        sa.Column("removes", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_running", sa.Boolean(), nullable=False),
        sa.Column("fencing_token", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("removed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection"], ["collection.name"], name="fk_recurring_source_collection", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_recurring_source"),
        sa.UniqueConstraint("collection", "address", name="uq_recurring_source_collection_address"),
    )
    op.create_index("ix_recurring_source_next_at", "recurring_source", ["next_at"])
    op.create_table(
        "source_item",
        sa.Column("source_id", sa.String(36), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("etag", sa.Text(), nullable=False),
        sa.Column("modified", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"], ["recurring_source.id"], name="fk_source_item_source_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("source_id", "address", name="pk_source_item"),
    )


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
