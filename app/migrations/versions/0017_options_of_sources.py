"""Options of synced sources, and the name of their credentials"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("recurring_source") as batch:
        for name, default in (("patterns_json", "[]"), ("branch", ""), ("credentials", "")):
            batch.add_column(sa.Column(name, sa.Text(), nullable=False, server_default=default))


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
