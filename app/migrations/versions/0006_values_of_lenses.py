"""Values of lenses"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lens", sa.Column("values_json", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
