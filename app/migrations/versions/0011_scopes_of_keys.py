"""What a key was made for, and counts of failed logins. Keys of admins made keys until now, and go on doing so"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_key", sa.Column("scopes", sa.JSON(), nullable=False, server_default="[]"))
    op.execute("UPDATE api_key SET scopes = '[\"access\"]' WHERE role = 'admin'")
    op.create_table(
        "login_attempt",
        sa.Column("counter", sa.String(length=100), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("counter", name=op.f("pk_login_attempt")),
    )
    op.create_index("ix_login_attempt_began_at", "login_attempt", ["began_at"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
