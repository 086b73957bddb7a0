"""Copies of rows that grant access, hold settings or say what to process, by which an altered one is noticed

`app.catalog.row_copies` fills the table, and creates its triggers after every migration.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "row_copy",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("row_key", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "row_key", name="pk_row_copy"),
    )


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
