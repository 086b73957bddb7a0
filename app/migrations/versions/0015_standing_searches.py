"""Standing searches, their matches and deliveries"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collection", sa.Column("standing_version", sa.Integer(), server_default="0", nullable=False))
    op.create_table(
        "standing_search",
        sa.Column("search_id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("strength", sa.String(16), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("feed_token", sa.String(64), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=True),
        sa.Column("webhook_secret", sa.String(80), nullable=False),
        sa.Column("alert", sa.Text(), nullable=True),
        sa.Column("space", sa.String(64), nullable=False),
        sa.Column("vector", sa.Text(), nullable=False),
        sa.Column("median", sa.Double(), nullable=False),
        sa.Column("deviation", sa.Double(), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["search_id"], ["saved_search.id"], name="fk_standing_search_search_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["collection"], ["collection.name"], name="fk_standing_search_collection", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("search_id", name="pk_standing_search"),
        sa.UniqueConstraint("feed_token", name="uq_standing_search_feed_token"),
    )
    op.create_index("ix_standing_search_collection", "standing_search", ["collection"])
    op.create_table(
        "standing_match",
        sa.Column("search_id", sa.String(36), nullable=False),
        sa.Column("chunk_id", sa.String(36), nullable=False),
        sa.Column("document_id", sa.String(36), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("match", sa.String(16), nullable=False),
        sa.Column("matched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_seen", sa.Boolean(), nullable=False),
        sa.Column("webhook_delivery", sa.String(36), nullable=True),
        sa.Column("alert_delivery", sa.String(36), nullable=True),
        sa.ForeignKeyConstraint(
            ["search_id"], ["standing_search.search_id"], name="fk_standing_match_search_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["document_id"], ["document.id"], name="fk_standing_match_document_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("search_id", "chunk_id", name="pk_standing_match"),
    )
    op.create_index("ix_standing_match_document_id", "standing_match", ["document_id"])
    op.create_index("ix_standing_match_search_id_matched_at", "standing_match", ["search_id", "matched_at"])
    op.create_table(
        "standing_delivery",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("search_id", sa.String(36), nullable=False),
        sa.Column("channel", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fencing_token", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["search_id"], ["standing_search.search_id"], name="fk_standing_delivery_search_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_standing_delivery"),
    )
    op.create_index("ix_standing_delivery_search_id", "standing_delivery", ["search_id"])
    op.create_index("ix_standing_delivery_state_not_before", "standing_delivery", ["state", "not_before"])


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
