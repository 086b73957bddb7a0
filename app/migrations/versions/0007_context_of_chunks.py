"""Whether chunks are embedded with title and headings"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("collection", "standby_index"):
        op.add_column(table, sa.Column("chunk_context", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
