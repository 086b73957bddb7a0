"""What may be the address of a source, whose credentials go where, and names of mail folders."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.collections.credentials_folder import CredentialsFolder
from app.errors import InputError
from app.types.credentials import read_credentials
from app.types.source_addresses import check_source
from app.types.sources import SourceKind, SourceOptions
from ingest.recurring.folder_names import decoded_folder, encoded_folder

DAY = timedelta(days=1)
WITH = SourceOptions(credentials="own")


@pytest.mark.parametrize(
    ("kind", "address", "options"),
    [
        ("page", "https://host/a?b=c", SourceOptions()),
        ("git", "https://host:8443/team/x.git", SourceOptions(("*.md",), "release/1.2", "token")),
        ("git", "ssh://git@host/x.git", SourceOptions()),
        ("git", "file:///srv/x.git", SourceOptions()),
        ("imap", "imaps://anna%40example.org@host", WITH),
        ("s3", "http://host:9000/bucket/prefix/", SourceOptions()),
    ],
)
def test_addresses_of_their_kind_are_taken(kind: str, address: str, options: SourceOptions) -> None:
    assert check_source(SourceKind(kind), f" {address} ", every=DAY, options=options) == address


@pytest.mark.parametrize(
    ("kind", "address", "options"),
    [
        ("page", "ftp://host/a", SourceOptions()),
        ("page", "file:///etc/passwd", SourceOptions()),
        ("page", "https://anna:secret@host/a", SourceOptions()),
        ("page", "https://host/a", WITH),
        ("page", "https://host/a", SourceOptions(("*.md",))),
        ("page", "https://host/a", SourceOptions(branch="main")),
        ("git", "git@host:team/x.git", SourceOptions()),
        ("git", "ext::sh -c touch% /tmp/x", SourceOptions()),
        ("git", "--upload-pack=touch", SourceOptions()),
        ("git", "https://host", SourceOptions()),
        ("git", "https://host/x.git#main", SourceOptions()),
        ("git", "ssh://git:secret@host/x.git", SourceOptions()),
        ("git", "ssh://-oProxyCommand=touch@host/x.git", SourceOptions()),
        ("git", "file://host/share", SourceOptions()),
        ("git", "https://host/x.git", SourceOptions(branch="--upload-pack=x")),
        ("git", "https://host/x.git", SourceOptions(branch="a:b")),
        ("git", "https://host/x.git", SourceOptions(branch="a..b")),
        ("git", "https://host/x.git", SourceOptions(credentials="../own")),
        ("git", "https://host/x.git", SourceOptions(("x",) * 51)),
        ("imap", "imap://host", WITH),
        ("imap", "imaps://host", SourceOptions()),
        ("s3", "https://host/", SourceOptions()),
        ("s3", "https://host:x/bucket", SourceOptions()),
        ("s3", "https://ho\nst/bucket", SourceOptions()),
    ],
)
def test_others_are_refused_with_what_to_do(kind: str, address: str, options: SourceOptions) -> None:
    with pytest.raises(InputError) as refused:
        check_source(SourceKind(kind), address, every=DAY, options=options)
    assert "secret" not in str(refused.value)


def test_an_interval_has_bounds() -> None:
    with pytest.raises(InputError, match="31 days"):
        check_source(SourceKind.PAGE, "https://host/", every=timedelta(minutes=1), options=SourceOptions())


@pytest.mark.parametrize(
    ("address", "is_covered"),
    [
        ("https://host/team/x.git", True),
        ("https://host/team", True),
        ("https://HOST/team/x", True),
        ("https://host/teams/x.git", False),
        ("https://host.evil.org/team/x", False),
        ("https://host@evil.org/team/x", False),
        ("https://host:444/team/x", False),
        ("http://host/team/x", False),
    ],
)
def test_credentials_go_to_their_address_alone(address: str, is_covered: bool) -> None:
    own = read_credentials("address = https://host/team/\npassword = a=b #c\n", name="own")
    assert own.password == "a=b #c"
    assert "a=b" not in repr(own)
    assert own.covers(address) is is_covered


@pytest.mark.parametrize("text", ["password = secret", "address = host\npassword = secret", "secret", "what = secret"])
def test_wrong_files_of_credentials_are_refused_without_telling_them(text: str) -> None:
    with pytest.raises(InputError) as refused:
        read_credentials(text, name="own")
    assert "secret" not in str(refused.value)


def test_credentials_are_offered_to_their_users(tmp_path: Path) -> None:
    (tmp_path / "annas").write_text("address = https://host\nusers = anna, ben\n")
    (tmp_path / "all").write_text("address = https://host\n")
    (tmp_path / "wrong").write_text("nothing")
    (tmp_path / ".hidden").write_text("address = https://host\n")
    own = CredentialsFolder(tmp_path)
    assert (own.names_for("anna"), own.names_for("eve")) == (["all", "annas"], ["all"])
    for name, user in (("annas", "eve"), ("gone", "anna"), ("../annas", "anna"), (".hidden", "anna")):
        with pytest.raises(InputError, match="no credentials"):
            own.find(name, user=user, address="https://host/x")
    with pytest.raises(InputError, match="may not be sent"):
        own.find("all", user="eve", address="https://other/x")
    assert CredentialsFolder().names_for("anna") == []


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20))
def test_names_of_mail_folders_come_back(name: str) -> None:
    assert decoded_folder(encoded_folder(name)) == name
    assert encoded_folder(name).isascii()


def test_names_of_mail_folders_are_those_of_the_standard() -> None:
    assert encoded_folder("~peter/mail/台北/日本語") == "~peter/mail/&U,BTFw-/&ZeVnLIqe-"
    assert (encoded_folder("A & B"), decoded_folder("&broken")) == ("A &- B", "&broken")
