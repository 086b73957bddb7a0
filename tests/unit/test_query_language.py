"""German, French and Chinese queries are told from English ones, and English ones are left alone."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from app.search import weighting
from app.search.bm25 import query_vector
from app.search.fusion import UNREAD_WEIGHTS, WEIGHTS, word_share
from app.search.query_language import other_language, unread_language
from app.search.weighting import Weighting
from app.testing import ToyEmbedder, text_source
from app.types.search import Leg, SearchMode, SearchRequest, UnreadRanking
from app.types.values import LensValue
from app.types.weights import CrossValidation, WeightTuning
from embedder.model.contract import read_contract
from embedder.model_info import MODEL_PACKAGES, SHIPPED_MODELS
from ui.render.advice import render_language

MODELS = Path(__file__).parents[2] / "embedder/models"
GERMAN = """Wie reagieren die Preise, wenn die Nachfrage sinkt?
Warum wurde mein Konto gesperrt?
Ich habe meine neue Karte noch nicht erhalten
Was macht der Hippocampus im Gehirn?
Welche Länder exportieren Erdöl?
Regeln für die Benennung von Variablen
Erinnere mich morgen an den Anruf bei meiner Mutter
Wie entstehen Sterne?
Die Fähre war zu spät und niemand hat uns etwas gesagt
Streitkräfte der Pazifikinseln
Wo kann ich mich über eine Rechnung beschweren?
Ursachen der Inflation in Westafrika
Wer regiert das Land nach der Wahl?
Rezept für Apfelkuchen mit Zimt
Wer gewann das letzte Spiel
Wohin fließt die Donau
Gibt es eine Frist für die Rückgabe?
Sprachen, die auf der Insel gesprochen werden
Unterschied zwischen Lohn und Gehalt
Der Fischfang ernährt die meisten Familien
Zweifel am Ergebnis der Studie
Wann fährt der nächste Zug nach Hamburg?""".splitlines()
FRENCH = """Comment réagissent les prix quand la demande baisse ?
Pourquoi mon compte a-t-il été bloqué ?
Je n'ai pas encore reçu ma nouvelle carte
À quoi sert l'hippocampe ?
Quels pays exportent du pétrole ?
Règles pour nommer les variables
Rappelle-moi d'appeler ma mère demain
Comment naissent les étoiles ?
Le ferry était en retard et personne ne nous a rien dit
Forces armées des îles du Pacifique
Où puis-je me plaindre d'une facture ?
Les causes de l'inflation en Afrique de l'Ouest
Qui gouverne le pays après les élections ?
Recette de tarte aux pommes
Y a-t-il un délai pour le retour ?
Langues parlées sur l'île
La différence entre un salaire et une prime
La pêche nourrit la plupart des familles
Doutes sur le résultat de l'étude
Quand part le prochain train pour Lyon ?""".splitlines()
CHINESE = """需求下降时价格如何反应
为什么我的账户被冻结
我还没有收到新卡
海马体有什么作用
哪些国家出口石油
变量命名规则
明天提醒我给妈妈打电话
恒星是如何形成的
渡轮晚点了
太平洋岛国的军队
我可以在哪里投诉账单
西非通货膨胀的原因
选举后谁统治国家
苹果派食谱
退货期限是多久
岛上使用的语言
工资和薪水的区别
渔业养活了大多数家庭
对研究结果的怀疑
GPT 模型的训练方法""".splitlines()


@pytest.mark.parametrize(
    ("language", "queries"),
    [("German", GERMAN), ("French", FRENCH), ("Chinese", CHINESE)],
    ids=lambda each: str(each)[:7],
)
def test_most_queries_of_a_language_are_told(language: str, queries: list[str]) -> None:
    missed = [query for query in queries if other_language(query) != language]
    assert len(missed) <= 3, missed


def test_english_is_left_alone() -> None:
    sample = files("sample")
    rows = [json.loads(line) for line in sample.joinpath("library.jsonl").read_text("utf-8").splitlines()]
    planted = json.loads(sample.joinpath("planted.json").read_text("utf-8"))
    texts = [*(row["text"] for row in rows), *(row["title"] for row in rows), *(each["query"] for each in planted)]
    alarms = [text[:80] for text in texts if other_language(text)]
    assert len(texts) > 1000
    assert len(alarms) <= len(texts) / 200, alarms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "café",
        "São Paulo hotels",
        "Die Hard and Das Boot",
        "El Salvador",
        "la carte menu",
        "naïve résumé",
        "Müller v Meier",
        "hoe blade sharpening",
        "wen surgery",
        "WER benchmark",
    ],
)
def test_short_and_mixed_queries_count_as_english(text: str) -> None:
    assert other_language(text) is None


def test_only_a_model_of_one_language_leaves_queries_unread() -> None:
    query = "Wie reagieren die Preise, wenn die Nachfrage sinkt?"
    assert unread_language(query, "English") == "German"
    assert unread_language(query, None) is None
    assert unread_language("How do prices react when demand falls?", "English") is None


# Models with a distribution of their own are not in an sdist.
HERE = [name for name in SHIPPED_MODELS.values() if name not in MODEL_PACKAGES or (MODELS / name).is_dir()]


@pytest.mark.parametrize("name", HERE)
def test_the_contract_of_a_shipped_model_says_which_language_it_reads(name):
    assert read_contract(MODELS / name).language == "English"


class EnglishEmbedder(ToyEmbedder):
    """Reads English only."""

    @property
    def info(self) -> Any:
        return replace(super().info, language="English")


def ferries(toy: Any, *texts: str) -> Any:
    toy.services.library.ensure_collection("library")
    for text in (*texts, "Die Fähre ist blau.", "The ferry is blue."):
        toy.services.library.add_document("library", text_source(f"text://{text}", text))
    toy.work_off()
    return toy


@pytest.mark.parametrize(
    ("query", "weights"),
    [("Wann fährt die Fähre und wie lange?", UNREAD_WEIGHTS), ("When does the ferry leave?", WEIGHTS)],
)
def test_words_decide_where_the_model_does_not_read_the_query(
    toy_services_class: Any, tmp_path: Path, query: str, weights: dict[Leg, float]
) -> None:
    with ExitStack() as opened:
        toy = ferries(toy_services_class(tmp_path, opened, embedder=EnglishEmbedder()), query)
        first, *_ = toy.services.search.search(SearchRequest(query, "library", instruction="")).hits
    scores = {rank.leg: rank.score for rank in first.legs}
    words = word_share(scores[Leg.SPARSE], len(query_vector(query).indices))
    share = weights[Leg.SPARSE]
    assert first.score == pytest.approx((1 - share) * scores[Leg.DENSE] + share * words, abs=1e-4)


VALUES = (LensValue("blue", ("blau",)), LensValue("red", ("rot",)))
GERMAN_QUERY = "Wann fährt die Fähre und wie lange?"


def test_the_notice_says_what_ranked_the_hits(toy_services_class: Any, tmp_path: Path) -> None:
    def ranking(query: str = GERMAN_QUERY, **more: Any) -> UnreadRanking | None:
        unread = toy.services.search.search(SearchRequest(query, "library", instruction="", **more)).unread
        return unread and unread.ranking

    with ExitStack() as opened:
        toy = ferries(toy_services_class(tmp_path, opened, embedder=EnglishEmbedder()))
        assert ranking() is UnreadRanking.WORDS
        assert ranking(mode=SearchMode.DENSE) is ranking("Wer hat das gesagt?") is UnreadRanking.MEANING
        assert ranking(rerank=5) is ranking(values=VALUES) is UnreadRanking.MODEL
        assert ranking(mode=SearchMode.SPARSE) is ranking("When does the ferry leave?") is None
        tuned = {Leg.DENSE: 0.5, Leg.SPARSE: 0.5}
        validation = CrossValidation(8, 32, 5, 0.5, 0.6, 0.02)
        applied = WeightTuning("1", "library", tuned, validation, "ann", datetime.now(UTC), is_applied=True)
        toy.services.catalog.weights.save(applied)
        assert ranking() is UnreadRanking.TUNED
        assert ranking(mode=SearchMode.DENSE) is UnreadRanking.MEANING


def test_without_hits_the_notice_says_nothing_on_ranking(toy_services_class: Any, tmp_path: Path) -> None:
    with ExitStack() as opened:
        toy = ferries(toy_services_class(tmp_path, opened, embedder=EnglishEmbedder()))
        request = SearchRequest(GERMAN_QUERY, "library", instruction="", filters={"kind": "none"})
        result = toy.services.search.search(request)
    assert result.hits == ()
    assert str(result.unread) == "This model reads English, and this looks like German."
    assert "rank" not in render_language(result.unread)


def test_own_feedback_switches_off_weights_that_count_pseudo_feedback() -> None:
    tuned = {Leg.DENSE: 0.3, Leg.FEEDBACK: 0.2, Leg.SPARSE: 0.5}
    plain = SearchRequest(GERMAN_QUERY, "library")
    for request in (replace(plain, like=("a",)), replace(plain, unlike=("a",))):
        chosen = Weighting.of(request, request.query, read="English", tuned=tuned)
        assert (chosen.weights, chosen.is_tuned) == (UNREAD_WEIGHTS, False)
        chosen = Weighting.of(request, request.query, read="English", tuned={Leg.DENSE: 0.5, Leg.SPARSE: 0.5})
        assert chosen.is_tuned
    chosen = Weighting.of(plain, plain.query, read="English", tuned=tuned)
    assert (chosen.weights, chosen.is_tuned) == (tuned, True)


def test_the_language_is_detected_once_per_search(
    toy_services_class: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detected: list[str] = []

    def detect(query: str, read: str | None) -> str | None:
        detected.append(query)
        return unread_language(query, read)

    monkeypatch.setattr(weighting, "unread_language", detect)
    with ExitStack() as opened:
        toy = ferries(toy_services_class(tmp_path, opened, embedder=EnglishEmbedder()))
        toy.services.search.search(SearchRequest(GERMAN_QUERY, "library", instruction=""))
    assert detected == [GERMAN_QUERY]


def test_asking_words_are_function_words() -> None:
    for question in ("wer kommt", "quelles îles", "quién llama", "perché piove", "waarom regent"):
        assert other_language(question), question


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("German", "Wieviel kostet die Miete?"),
        ("French", "Combien coûte le loyer ?"),
        ("French", "Lequel est le plus cher ?"),
        ("Spanish", "¿Cuántas páginas tiene?"),
        ("Italian", "Quante pagine ha la casa?"),
        ("Portuguese", "Quanto custa o aluguel?"),
        ("Portuguese", "quem escreveu isso"),
        ("Dutch", "Hoeveel kost de huur?"),
        ("Dutch", "Wie heeft dit geschreven?"),
    ],
)
def test_a_question_word_tells_the_language_and_not_a_related_one(language: str, query: str) -> None:
    assert other_language(query) == language
