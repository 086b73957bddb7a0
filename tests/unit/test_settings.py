"""Settings: read from the environment once, refused with every error at once."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from app.errors import InputError
from app.settings import Settings, _warn_once, load_log_settings, load_settings
from embedder.model_info import DEFAULT_MODEL


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"GIRCSE_{name.upper()}", raising=False)


def test_defaults_need_no_environment() -> None:
    settings = load_settings()
    assert (settings.model, settings.host, settings.port) == ("gircse-small", "127.0.0.1", 7860)
    assert settings.home.is_absolute()
    assert settings.catalog_url == f"sqlite:///{settings.home.as_posix()}/catalog.db"


def test_environment_is_read_and_overrides_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path))
    monkeypatch.setenv("GIRCSE_PORT", "8000")
    monkeypatch.setenv("GIRCSE_DATABASE_URL", "postgresql://reader@db/gircse")
    settings = load_settings(port=9000, model=None)
    assert settings.home == tmp_path
    assert settings.port == 9000
    assert settings.catalog_url == "postgresql://reader@db/gircse"


def test_empty_variables_count_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIRCSE_PORT", "")
    monkeypatch.setenv("GIRCSE_QDRANT_URL", "")
    assert load_settings().port == 7860
    assert load_settings().qdrant_url is None


def test_all_errors_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIRCSE_PORT", "seven")
    monkeypatch.setenv("GIRCSE_QDRANT_URL", "localhost:6333")
    monkeypatch.setenv("GIRCSE_DATABASE_URL", "mysql://here")
    with pytest.raises(InputError) as refused:
        load_settings()
    for name in ("GIRCSE_PORT", "GIRCSE_QDRANT_URL", "GIRCSE_DATABASE_URL"):
        assert name in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_not_open_to_the_network(host: str) -> None:
    assert not load_settings(host=host).is_open_to_network


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "127.0.0.1.example.org"])
def test_every_other_host_is_open_to_the_network(host: str) -> None:
    assert load_settings(host=host).is_open_to_network


def test_secrets_are_read_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    monkeypatch.setenv("GIRCSE_QDRANT_URL", "http://qdrant:6333")
    monkeypatch.setenv("GIRCSE_QDRANT_API_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("GIRCSE_MODEL_FILE", str(tmp_path / "key"))
    settings = load_settings()
    assert settings.qdrant_api_key is not None
    assert settings.qdrant_api_key.get_secret_value() == "from-a-file"
    assert settings.model == "gircse-small"  # no secret


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_secret_file_that_holds_none_is_refused(
    content: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)
    monkeypatch.setenv("GIRCSE_ADMIN_SECRET_FILE", str(tmp_path / "key"))
    with pytest.raises(InputError, match="GIRCSE_ADMIN_SECRET_FILE"):
        load_settings()


def test_a_password_goes_into_the_url_of_the_catalog() -> None:
    settings = load_settings(database_url="postgresql+psycopg://gircse@db:5432/gircse", database_password="p@ss/w:rd")
    assert settings.catalog_url == "postgresql+psycopg://gircse:p%40ss%2Fw%3Ard@db:5432/gircse"
    assert "p@ss" not in repr(settings)


@pytest.mark.parametrize("url", [None, "postgresql://db/gircse", "postgresql://me:mine@db/gircse"])
def test_a_password_without_its_user_is_refused(url: str | None) -> None:
    with pytest.raises(InputError, match="GIRCSE_DATABASE_PASSWORD"):
        load_settings(database_url=url, database_password="secret-word")


def test_key_without_its_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIRCSE_QDRANT_API_KEY", "secret-key")
    with pytest.raises(InputError, match="GIRCSE_QDRANT_URL") as refused:
        load_settings()
    assert "secret-key" not in str(refused.value)


def test_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a folder")
    with pytest.raises(InputError, match="is a file"):
        load_settings(home=file)


def test_the_key_is_never_shown() -> None:
    settings = load_settings(qdrant_url="http://there:6333", qdrant_api_key="secret-key")
    assert "secret-key" not in repr(settings)


def test_a_way_to_keep_vectors_is_one_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().quantization == "none"
    monkeypatch.setenv("GIRCSE_QUANTIZATION", "int8")
    assert load_settings().quantization == "int8"
    monkeypatch.setenv("GIRCSE_QUANTIZATION", "int4")
    with pytest.raises(InputError, match="GIRCSE_QUANTIZATION"):
        load_settings()


def test_settings_that_are_gone_change_nothing_and_say_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GIRCSE_WORKER_LANES", "many")
    load_settings()
    assert "GIRCSE_WORKER_LANES" in caplog.text


SIGN_IN = {
    "access_control": True,
    "public_url": "https://search.example.org/",
    "oidc_issuer": "https://login.example.org/realms/staff",
    "oidc_client_id": "search",
    "oidc_allowed": "groups=search-users",
}


def test_the_redirect_url_is_that_of_the_public_url() -> None:
    settings = load_settings(**SIGN_IN, oidc_client_secret="secret-word")
    assert settings.oidc_redirect_url == "https://search.example.org/login/openid/callback"
    assert "secret-word" not in repr(settings)
    assert load_settings(**{**SIGN_IN, "public_url": "http://127.0.0.1:7860"}).public_url == "http://127.0.0.1:7860"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"access_control": None}, "GIRCSE_ACCESS_CONTROL=true"),
        ({"public_url": None}, "needs GIRCSE_PUBLIC_URL"),
        ({"oidc_client_id": None}, "GIRCSE_OIDC_CLIENT_ID"),
        ({"oidc_allowed": None}, "GIRCSE_OIDC_ALLOWED, who may sign in"),
        ({"oidc_issuer": None}, "GIRCSE_OIDC_ALLOWED, GIRCSE_OIDC_CLIENT_ID without GIRCSE_OIDC_ISSUER"),
        ({"oidc_issuer": "http://login.example.org"}, "GIRCSE_OIDC_ISSUER: give the issuer"),
        ({"oidc_issuer": "https://me:word@login.example.org"}, "GIRCSE_OIDC_ISSUER: give the issuer"),
        ({"oidc_issuer": "https://login.example.org/?a=b"}, "GIRCSE_OIDC_ISSUER: give the issuer"),
        ({"public_url": "http://search.example.org"}, "GIRCSE_PUBLIC_URL: give https://"),
        ({"public_url": "https://search.example.org/search"}, "without a path"),
        ({"public_url": "search.example.org"}, "GIRCSE_PUBLIC_URL: give https://"),
        ({"oidc_scopes": "profile email"}, "include openid"),
        ({"oidc_label": "a\nb"}, "printable"),
        ({"oidc_allowed": "staff"}, "'staff' is not a rule"),
        ({"oidc_editors": "groups="}, "'groups=' is not a rule"),
        ({"oidc_admins": "*"}, "for everybody set GIRCSE_OIDC_ROLE"),
        ({"oidc_role": "owner"}, "GIRCSE_OIDC_ROLE"),
    ],
)
def test_sign_in_that_contradicts_itself_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        load_settings(**{**SIGN_IN, **changes})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; `home` in it is the home folder."""
    _warn_once.cache_clear()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path / "home"))
    return tmp_path


def test_unknown_variables_are_named_once_with_the_nearest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("GIRCSE_MODELL", "GIRCSE_QDRANT_API_KYE", "GIRCSE_PORT_FILE", "GIRCSE_ZZZ", "GIRCSE_PUBLISH"):
        monkeypatch.setenv(name, "the-secret-value")
    monkeypatch.setenv("GIRCSE_TEST_QDRANT_URL", "")
    load_settings()
    load_settings()
    (line,) = caplog.messages
    assert "GIRCSE_MODELL (did you mean GIRCSE_MODEL?)" in line
    assert "GIRCSE_QDRANT_API_KYE (did you mean GIRCSE_QDRANT_API_KEY?)" in line
    assert "GIRCSE_PORT_FILE" in line
    assert "GIRCSE_ZZZ." in line  # resembles none
    assert "PUBLISH" not in line
    assert "TEST" not in line
    assert "secret" not in line


def test_known_variables_cause_no_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "key").write_text("abc")
    monkeypatch.setenv("GIRCSE_QDRANT_URL", "http://127.0.0.1:6333")
    monkeypatch.setenv("GIRCSE_QDRANT_API_KEY_FILE", str(folder / "key"))
    assert load_settings().qdrant_api_key is not None
    assert caplog.messages == []


def test_the_environment_takes_precedence_over_gircse_toml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "home" / "gircse.toml").write_text(
        'port = 8002\nhost = "127.0.0.2"\nlog_level = "info"\nmodel = ""\nadmin_secret = "from the file"\n'
    )
    monkeypatch.setenv("GIRCSE_HOST", "127.0.0.3")
    settings = load_settings()
    found = settings.port, settings.host, settings.log_level, settings.model
    assert found == (8002, "127.0.0.3", "INFO", DEFAULT_MODEL)
    assert settings.admin_secret is not None
    assert settings.admin_secret.get_secret_value() == "from the file"
    assert load_log_settings().log_level == "INFO"
    assert load_settings(port=9000).port == 9000


def test_gircse_toml_is_read_once_and_again_after_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: read.append(text) or loads(text))
    file = folder / "home" / "gircse.toml"
    file.write_text("port = 8002\n")
    load_log_settings()
    assert load_settings().port == load_settings().port == 8002
    assert read == ["port = 8002\n"]
    file.write_text("port = 18003\n")
    assert load_settings().port == 18003


def test_gircse_toml_in_the_working_directory_is_ignored(folder: Path) -> None:
    (folder / "gircse.toml").write_text('port = 8001\nembedder_url = "http://127.0.0.9"\n')
    settings = load_settings()
    assert (settings.port, settings.embedder_url) == (7860, None)


def test_the_file_cannot_move_the_home(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "home" / "gircse.toml").write_text(f'home = "{folder}/other"\n')
    assert load_settings().home == folder / "home"
    assert f"home in {folder / 'home' / 'gircse.toml'}, which GIRCSE_HOME sets" in caplog.messages[0]
    assert "did you mean" not in caplog.messages[0]


def test_unknown_keys_of_the_file_are_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "home" / "gircse.toml").write_text('modell = "x"\nGIRCSE_PORT = 1\n[qdrant]\nurl = "a-value"\n')
    assert load_settings().port == 7860
    (line,) = caplog.messages
    assert f"modell (did you mean model?) in {folder / 'home' / 'gircse.toml'}" in line
    assert "GIRCSE_PORT" in line
    assert "qdrant" in line
    assert "a-value" not in line


def test_a_file_that_cannot_be_used_is_refused(folder: Path) -> None:
    (folder / "home" / "gircse.toml").write_text("port = \n")
    with pytest.raises(InputError, match=r"gircse\.toml cannot be read"):
        load_settings()
    (folder / "home" / "gircse.toml").write_text('port = "many"\nrerank_steps = 0\n')
    with pytest.raises(InputError, match=r"(?s)GIRCSE_RERANK_STEPS.*GIRCSE_PORT|GIRCSE_PORT.*GIRCSE_RERANK_STEPS"):
        load_settings()
