"""How many vectors a chunk has"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("collection", "standby_index"):
        op.add_column(table, sa.Column("vectors_per_chunk", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
