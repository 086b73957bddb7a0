"""Lens indexes: the values of all chunks under a lens"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lens_index",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("lens", sa.Text(), nullable=False),
        sa.Column("values_json", sa.Text(), nullable=False),
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("built_index", sa.Text(), nullable=False),
        sa.Column("built_field", sa.Text(), nullable=False),
        sa.Column("built_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("places_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection"], ["collection.name"], name=op.f("fk_lens_index_collection"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lens_index")),
        sa.UniqueConstraint("collection", "lens", name=op.f("uq_lens_index_collection_lens")),
    )


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
