"""What can be read back from vectors: all of what a vector spells out, nothing of what it does not hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tiny_models import contract, family_backbone, save_tiny_model, tiny_tokenizer

import research.evaluation.__main__ as evaluation
from embedder.encoder import Encoder
from embedder.errors import DataError
from research.evaluation import privacy
from research.evaluation.generative_attacker import DecoderConfig, GenerativeAttacker
from research.evaluation.privacy import (
    AttackTexts,
    LinearAttacker,
    example_table,
    f1_of,
    in_int8,
    leak_table,
    measure_leaks,
    normalised,
    protections,
    read_attack_texts,
    read_texts,
    soft_token_leak,
    word_sequence,
    words_of,
)

WORDS = ["anchor", "bottle", "candle", "dagger", "engine", "feather", "garden", "hammer"]


@pytest.fixture
def spelled() -> tuple[np.ndarray, list[frozenset[str]]]:
    """Vectors with an axis for every word, and the words."""
    rng = np.random.default_rng(0)
    held = rng.random((400, len(WORDS))) < 0.3
    held[np.arange(400), rng.integers(len(WORDS), size=400)] = True
    return normalised(held.astype(float)), [frozenset(np.array(WORDS)[row]) for row in held]


def test_vectors_that_spell_their_words_are_read_back(spelled) -> None:
    vectors, words = spelled
    read = LinearAttacker(vectors[:300], words[:300]).read(vectors[300:])
    assert f1_of(read, words[300:]).mean() > 0.95


def test_what_a_vector_does_not_hold_is_not_read_back(spelled) -> None:
    vectors, words = spelled
    shuffled = words[150:] + words[:150]
    told = f1_of(LinearAttacker(vectors[:300], words[:300]).read(vectors[300:]), words[300:]).mean()
    chance = f1_of(LinearAttacker(vectors[:300], shuffled[:300]).read(vectors[300:]), shuffled[300:]).mean()
    assert chance < told - 0.3


def test_f1_counts_both_what_is_missing_and_what_is_too_much() -> None:
    read = [frozenset("ab"), frozenset("abcd"), frozenset(), frozenset("x")]
    held = [frozenset("ab"), frozenset("ab"), frozenset("ab"), frozenset("ab")]
    np.testing.assert_allclose(f1_of(read, held), [1, 2 / 3, 0, 0])


def test_protections_keep_the_length_and_lose_more_and_more(spelled) -> None:
    vectors = np.random.default_rng(1).standard_normal((50, 64))
    vectors = normalised(vectors)
    cosines = {}
    for name, protect in protections(0).items():
        stored = protect(vectors)
        np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1, atol=1e-6)
        cosines[name] = float((stored * vectors).sum(axis=1).mean())
    assert cosines["none"] == pytest.approx(1)
    assert len(np.unique(np.abs(protections(0)["binary"](vectors)).round(9))) == 1
    np.testing.assert_allclose(in_int8(vectors), vectors, atol=0.01)
    assert cosines["int8"] > cosines["noise 0.25"] > cosines["noise 0.5"] > cosines["noise 1"] > cosines["noise 2"]


def test_no_tested_vector_has_the_noise_of_one_of_the_attackers() -> None:
    protect = protections(0)["noise 2"]
    own, tested = (protect(np.eye(4, 64)) for _ in range(2))
    assert np.abs((own * tested).sum(axis=1)).max() < 0.6  # 4/5 of each is noise
    np.testing.assert_allclose(protections(0)["noise 2"](np.eye(4, 64)), own)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("model")
    return Encoder(family_backbone(save_tiny_model(folder, "llama")), tiny_tokenizer(), contract())


def write_texts(folder: Path, texts: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [{"text": text, "labels": {}} for text in texts]
    (folder / "labels.tiny.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def some_texts(count: int, *, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return sorted({" ".join(rng.permutation(WORDS)[:3]) for _ in range(count)})


def test_leaks_of_a_model_are_measured_and_told(tmp_path: Path, encoder: Encoder) -> None:
    texts = some_texts(80)
    write_texts(tmp_path, texts)
    assert read_texts(tmp_path, limit=1000) == texts
    with pytest.raises(DataError, match="at least 20"):
        read_texts(tmp_path, limit=5)
    attacked = read_attack_texts(tmp_path, limit=1000)
    leaks = {each.protection: each for each in measure_leaks(encoder, attacked, steps=1, resamples=20)}
    assert leaks["none"].kept == pytest.approx(100)
    assert leaks["none"].telling.value > leaks["no vector"].telling.value
    assert leaks["no vector"].kept is None
    assert leaks["none"].kept > leaks["noise 2"].kept
    said = soft_token_leak(encoder, attacked, steps=2, resamples=20)
    assert 0 <= said.all.value <= 100
    assert "| no vector |" in leak_table(list(leaks.values()))
    assert example_table(list(leaks.values()), attacked) == ""


def test_a_decoder_attacks_the_same_stored_vectors(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of texts that it has seen, too, so that it has something to say of so small a model."""
    some = ("none", "binary", "noise 2")
    monkeypatch.setattr(privacy, "protections", lambda seed: {name: protections(seed)[name] for name in some})
    texts = some_texts(24)
    attacked = AttackTexts(tuple(texts), tuple(texts))
    small = DecoderConfig(hidden=96, embedding=32, min_updates=80, batch_size=32, learning_rate=1e-2, word_dropout=0.1)
    found = list(measure_leaks(encoder, attacked, steps=1, tokenizer=tiny_tokenizer(), decoder=small, resamples=20))
    leaks = {each.protection: each for each in found if each.attacker == "generative"}
    assert leaks["none"].exact.value > 50
    assert leaks["none"].exact.value > leaks["noise 2"].exact.value + 20
    assert leaks["binary"].all.value <= leaks["none"].all.value + 5
    assert leaks["none"].all.value > leaks["another's vector"].all.value + 20
    assert [each.kept for each in found if each.protection == "binary"] == [leaks["binary"].kept] * 2
    assert len(leaks["none"].read) == len(texts)
    shown = leak_table(found)
    assert shown.index("| linear | no vector |") < shown.index("| generative | none |")
    examples = example_table(found, attacked, count=3).splitlines()
    assert len(examples) == 2 + 3
    text, read, _ = (cell.strip() for cell in examples[2].strip("|").split(" | "))
    assert text == read


def test_tested_texts_are_never_the_attackers(tmp_path: Path) -> None:
    texts = some_texts(80)
    data = write_texts(tmp_path / "dev", texts)
    new = some_texts(200, seed=1)
    further = write_texts(tmp_path / "train", [*new, *(f"{text.upper()}!" for text in texts)])
    plain = read_attack_texts(data, limit=40)
    more = read_attack_texts(data, limit=40, further=further)
    some = read_attack_texts(data, limit=40, own=45, further=further)
    of_the_half = read_attack_texts(data, limit=40, own=30)
    assert plain.tested == more.tested == some.tested == of_the_half.tested
    assert len(plain.own) + len(plain.tested) == 40
    for each in (plain, more, some, of_the_half):
        tested = {word_sequence(text) for text in each.tested}
        assert not tested & {word_sequence(text) for text in each.own}
        assert set(plain.own) <= set(each.own)
        assert len(set(each.own)) == len(each.own)
    assert set(new) - set(more.own) <= set(plain.tested)
    assert len(some.own) == 45
    assert len(of_the_half.own) == 30
    assert set(of_the_half.own) <= set(texts)


def test_more_texts_than_there_are_cannot_be_the_attackers(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "dev", some_texts(80))
    for count in (5, 5000):
        with pytest.raises(DataError, match=rf"cannot have {count} texts: .* at least 20.*--attacker-data"):
            read_attack_texts(data, limit=40, own=count)
    with pytest.raises(DataError, match=r"train holds 0 labelled texts"):
        read_attack_texts(data, limit=40, further=tmp_path / "train")


def test_the_command_measures_tells_what_is_wrong_and_can_be_stopped(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    data = write_texts(tmp_path / "dev", some_texts(80))
    command = ["privacy", "--data", str(data), "--steps", "1"]
    monkeypatch.setattr(evaluation, "load_encoder", lambda _: encoder)
    monkeypatch.setattr(evaluation, "load_model_tokenizer", lambda _: tiny_tokenizer())
    small = DecoderConfig(hidden=16, embedding=8, min_updates=4)
    monkeypatch.setattr(
        privacy,
        "GenerativeAttacker",
        lambda *parts, **options: GenerativeAttacker(*parts, **{**options, "config": small}),
    )
    assert evaluation.main([*command, "--generative", "--attacker-texts", "30"]) == 0
    told = capsys.readouterr().out
    assert "| generative | noise 0.5 |" in told
    assert "| text | read from its vector |" in told
    assert evaluation.main([*command, "--attacker-texts", "3000"]) == 1
    assert "gircse eval privacy: The attacker cannot have 3000 texts" in capsys.readouterr().err

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(privacy, "GenerativeAttacker", stop)
    assert evaluation.main([*command, "--generative"]) == 130
    stopped = capsys.readouterr()
    assert "Stopped. 1 figures were measured" in stopped.err
    assert "| linear | none |" in stopped.out


def test_words_are_letters_or_numbers() -> None:
    assert words_of("Don't pay 40 EUR, pay_later!") == {"don", "pay", "40", "eur", "later"}
