"""Tuned leg weights per collection"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "weight_tuning",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("weights_json", sa.Text(), nullable=False),
        sa.Column("validation_json", sa.Text(), nullable=False),
        sa.Column("tuned_by", sa.Text(), nullable=False),
        sa.Column("tuned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_applied", sa.Boolean(), nullable=False),
        sa.Column("undone_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection"], ["collection.name"], name=op.f("fk_weight_tuning_collection"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_weight_tuning")),
    )
    op.create_index("ix_weight_tuning_collection", "weight_tuning", ["collection"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
