"""Identities of users at OpenID providers"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "user_identity",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("user", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user"], ["user_account.name"], name=op.f("fk_user_identity_user"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_user_identity")),
    )
    op.create_index("ix_user_identity_user", "user_identity", ["user"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
