"""Jobs may have the priority background

The column takes it as it is. The new version keeps earlier releases, which cannot read the value, out of the catalog.
"""

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
