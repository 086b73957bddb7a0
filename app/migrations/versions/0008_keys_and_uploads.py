"""Scopes of keys, counts of failed logins, and percent-encoded URIs of uploads

Keys of admins could create keys so far, so they get that scope. Uploads keep their ids and get the URI that new uploads
of the same name have, so that uploading the same file again finds the same document.
"""

import re
import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0008"
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
    _encode_uploads(op.get_bind())


def _encode_uploads(connection: sa.Connection) -> None:
    document = sa.table("document", sa.column("id"), sa.column("collection"), sa.column("uri"))
    rows = connection.execute(sa.select(document).where(document.c.uri.like("upload://%"))).all()
    taken = {(row.collection, row.uri) for row in rows}
    for row in rows:
        encoded = _encoded(row.uri)
        if (row.collection, encoded) not in taken:
            taken.add((row.collection, encoded))
            connection.execute(document.update().where(document.c.id == row.id).values(uri=encoded))


def _encoded(uri: str) -> str:
    """Unchanged if a program may have percent-encoded it already."""
    path = uri.removeprefix("upload://")
    if all(character == "%" or _is_plain(character) for character in path) and "%" not in re.sub("%[0-9A-Fa-f]{2}", "", path):
        return uri
    parts = (c if _is_plain(c) else "".join(f"%{byte:02X}" for byte in c.encode()) for c in path)
    return "upload://" + "".join(parts)


def _is_plain(character: str) -> bool:
    if character > "\x7f":
        return unicodedata.category(character)[0] in "LMNPS"
    return character.isalnum() or character in "-._~!$&'()*+,;=:@/"


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
