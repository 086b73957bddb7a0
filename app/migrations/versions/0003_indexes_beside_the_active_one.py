"""Standby indexes beside the active one, the contents of each index, and garbage"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ROLE = sa.Enum("building", "previous", name="indexrole", native_enum=False, length=16)
_KIND = sa.Enum("index", "file", name="removalkind", native_enum=False, length=16)


def upgrade() -> None:
    _create_indexes()
    op.drop_column("collection", "building_index")
    op.add_column("document", sa.Column("revision", sa.Integer(), server_default="1", nullable=False))
    op.create_index("ix_document_content_hash", "document", ["content_hash"], unique=False)
    op.create_table(
        "indexed_document",
        sa.Column("document_id", sa.String(length=36), nullable=False),
        sa.Column("index_name", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["document.id"], name=op.f("fk_indexed_document_document_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("document_id", "index_name", name=op.f("pk_indexed_document")),
    )
    op.execute(
        "INSERT INTO indexed_document (document_id, index_name, revision) SELECT document.id, active_index, 1 "
        "FROM document JOIN collection ON collection.name = document.collection WHERE document.state = 'ready'"
    )
    _rebuild_chunks()


def _create_indexes() -> None:
    op.create_table(
        "standby_index",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("role", _ROLE, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("document_instruction", sa.Text(), nullable=False),
        sa.Column("document_steps", sa.Integer(), nullable=False),
        sa.Column("chunk_tokens", sa.Integer(), nullable=False),
        sa.Column("chunk_overlap", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection"], ["collection.name"], name=op.f("fk_standby_index_collection"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_standby_index")),
        sa.UniqueConstraint("collection", "role", name=op.f("uq_standby_index_collection_role")),
    )
    op.create_table(
        "index_number",
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("collection", name=op.f("pk_index_number")),
    )
    op.execute("INSERT INTO index_number (collection, last) SELECT name, 1 FROM collection")
    op.create_table(
        "removal",
        sa.Column("kind", _KIND, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_removal")),
    )
    op.create_index("ix_removal_due_at", "removal", ["due_at"], unique=False)


def _rebuild_chunks() -> None:
    """Copies the table, because the databases have no common statement to change a primary key in place."""
    op.create_table(
        "chunk_of_index",
        sa.Column("index_name", sa.Text(), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("document_id", sa.String(length=36), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=True),
    )
    op.execute(
        "INSERT INTO chunk_of_index SELECT active_index, chunk.id, document_id, ordinal, text_hash, "
        'chunk.start, chunk."end", chunk.page FROM chunk '
        "JOIN document ON document.id = chunk.document_id JOIN collection ON collection.name = document.collection"
    )
    op.drop_table("chunk")
    op.rename_table("chunk_of_index", "chunk")
    with op.batch_alter_table("chunk") as table:
        table.create_primary_key("pk_chunk", ["index_name", "id"])
        table.create_unique_constraint(
            "uq_chunk_document_id_index_name_ordinal", ["document_id", "index_name", "ordinal"]
        )
        table.create_foreign_key("fk_chunk_document_id", "document", ["document_id"], ["id"], ondelete="CASCADE")


def downgrade() -> None:
    raise NotImplementedError("Restore the backup that was made before this migration.")
