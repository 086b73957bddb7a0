"""Whether chunks keep to sections, pages and rows"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("collection", "standby_index"):
        op.add_column(table, sa.Column("chunk_structure", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
