"""Job priorities, fair sharing between collections, paused collections"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_PRIORITY = sa.Enum("interactive", "bulk", name="jobpriority", native_enum=False, length=16)
_WAITING = sa.text("state IN ('queued', 'failed')")


def upgrade() -> None:
    op.add_column("collection", sa.Column("is_paused", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("job", sa.Column("priority", _PRIORITY, server_default="bulk", nullable=False))
    op.add_column("job", sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True))
    op.drop_index("ix_job_due", table_name="job")
    op.create_index(
        "ix_job_due",
        "job",
        ["collection", "priority", "not_before", "created_at", "id"],
        unique=False,
        sqlite_where=_WAITING,
        postgresql_where=_WAITING,
    )
    op.create_index("ix_job_collection_claimed_at", "job", ["collection", "claimed_at"], unique=False)
    op.drop_index("ix_job_collection", table_name="job")
    op.create_index("ix_job_created_at", "job", ["created_at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_job_created_at", table_name="job")
    op.create_index("ix_job_collection", "job", ["collection"], unique=False)
    op.drop_index("ix_job_collection_claimed_at", table_name="job")
    op.drop_index("ix_job_due", table_name="job")
    op.create_index(
        "ix_job_due",
        "job",
        ["not_before", "created_at", "id"],
        unique=False,
        sqlite_where=_WAITING,
        postgresql_where=_WAITING,
    )
    op.drop_column("job", "claimed_at")
    op.drop_column("job", "priority")
    op.drop_column("collection", "is_paused")
