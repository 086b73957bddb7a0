"""Training texts that differ in one thing alone, the wordings of instructions, and the folded adapter's gradient."""

import json
import random
import re
from importlib.resources import files

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from embedder.training.contrasts import compose, find_contrasts, short_aspects
from embedder.training.data import Aspect, TrainingData
from embedder.training.lora import folded_lora
from embedder.training.sampling import BatchSampler, Mixture
from embedder.training.wordings import Wordings, shipped_wordings

COLOURS = ("red", "green", "blue")
ANIMALS = ("dog", "cat", "owl")


def aspect_of(task, name, label_of, texts):
    labels = {text: label_of(text) for text in texts}
    groups = {each: tuple(t for t in texts if labels[t] == each) for each in sorted(set(labels.values()))}
    return Aspect(task, name, f"Which {name}?", groups), {text: frozenset({label}) for text, label in labels.items()}


@pytest.fixture
def data():
    """Colour and animal vary freely; breed is nested in animal; weather belongs to another task."""
    zoo = [f"a {c} {a} no {n}" for c in COLOURS for a in ANIMALS for n in range(4)]
    sky = [f"{w} on day {n}" for w in ("rain", "sun", "snow") for n in range(4)]
    data = TrainingData()
    for task, name, label_of, texts in (
        ("zoo", "colour", lambda text: text.split()[1], zoo),
        ("zoo", "animal", lambda text: text.split()[2], zoo),
        ("zoo", "breed", lambda text: f"{text.split()[2]} {int(text.split()[4]) % 2}", zoo),
        ("sky", "weather", lambda text: text.split()[0], sky),
    ):
        aspect, labels = aspect_of(task, name, label_of, texts)
        data.aspects.append(aspect)
        data.labels[task, name] = labels
    return data


def test_contrasts_are_found_between_aspects_that_vary_freely(data):
    found = find_contrasts(data, seed=1)
    assert "zoo:colour|animal" in found
    assert "zoo:animal|colour" in found
    assert "zoo:breed|animal" not in found  # who shares the breed shares the animal


@pytest.mark.parametrize("seed", range(5))
def test_contrast_shares_the_wanted_label_with_the_positive_and_the_other_with_the_negative(data, seed):
    contrast = find_contrasts(data, seed=1)["zoo:colour|animal"]
    query, positive, negative = contrast.draw(random.Random(seed), "red")
    of = [text.split()[1:3] for text in (query, positive, negative)]
    assert of[0][0] == of[1][0] == "red" != of[2][0]
    assert of[0][1] == of[2][1] != of[1][1]


@pytest.mark.parametrize("seed", range(5))
def test_composed_texts_share_one_half_each(data, seed):
    aspects = short_aspects(data)
    query, positive, negative = compose(
        random.Random(seed), aspects["zoo:colour"], aspects["sky:weather"], "red", "blue"
    )

    def colour_and_weather(text):
        return re.search("red|green|blue", text)[0], re.search("rain|sun|snow", text)[0]

    assert colour_and_weather(query)[0] == colour_and_weather(positive)[0] == "red"
    assert colour_and_weather(negative)[0] == "blue"
    assert colour_and_weather(query)[1] == colour_and_weather(negative)[1] != colour_and_weather(positive)[1]


def test_texts_that_are_long_or_say_two_labels_are_not_composed(data):
    long, both = "a red dog " + 200 * "x", "a red cat no 1"
    aspect = data.aspects[0]
    data.aspects[0] = Aspect("zoo", "colour", "", {**aspect.texts, "red": (*aspect.texts["red"], long)})
    data.labels["zoo", "colour"] |= {long: frozenset({"red"}), both: frozenset({"red", "blue"})}
    kept = short_aspects(data)["zoo:colour"].texts["red"]
    assert set(aspect.texts["red"]) - set(kept) == {both}
    assert long not in kept


@pytest.mark.parametrize("kind", ["contrasts", "composed"])
def test_batches_of_contrasts_hold_no_false_negatives_and_no_row_without_one(data, kind):
    sampler = BatchSampler(data, Mixture({kind: 1.0}, {kind: 6}, families={"zoo": "animals", "sky": "weather"}), seed=3)
    bare = 0
    for step in range(20):
        batch = sampler.batch(step)
        count = len(batch.queries)
        assert batch.allowed.shape == (count, 2 * count) == (count, len(batch.documents))
        assert not batch.allowed.diagonal().any()
        assert batch.allowed[:, count:].diagonal().all()  # the contrast itself
        bare += not batch.document_instruction
        assert batch.document_instruction in ("", batch.query_instruction)
    assert 0 < bare < 20


def test_labels_of_a_composed_batch_decide_what_is_a_negative(data):
    sampler = BatchSampler(data, Mixture({"composed": 1.0}, {"composed": 6}, families={"zoo": "a", "sky": "b"}), seed=1)
    batch = next(each for each in map(sampler.batch, range(40)) if each.hints[0][0] in COLOURS)
    for row, query in enumerate(batch.queries):
        colour = batch.hints[row][0]
        assert colour in query
        for column, document in enumerate(batch.documents):
            assert batch.allowed[row, column] == (colour not in document)


def test_texts_of_one_family_are_never_composed(data):
    sampler = BatchSampler(
        data, Mixture({"composed": 1.0, "labels": 0.1}, {"composed": 4, "labels": 4}, families={"zoo": "a"}), seed=1
    )
    assert {sampler.batch(step).kind for step in range(10)} == {"labels"}


class TestWordings:
    known = Wordings(("Same {word}.",), {"colour": ("hue",)}, ("Same meaning.",), {"facts": ("Find.",)}, {"zoo": {"colour": ("Which?",)}})  # fmt: skip  # noqa: E501

    def said(self, task, aspect, share):
        draws = (self.known.of_aspect(random.Random(n), task, aspect, "Own.", share=share) for n in range(60))
        return set(draws)

    def test_an_aspect_is_said_in_its_own_words_in_written_ones_and_in_patterns(self):
        assert self.said("zoo", "colour", 0.5) == {"Own.", "Which?", "Same hue."}
        assert self.said("zoo", "colour", 0.0) == {"Own."}

    def test_an_aspect_without_wordings_keeps_its_instruction(self):
        assert self.said("farm", "crop", 1.0) == {"Own."}
        assert self.said("farm", "colour", 1.0) == {"Same hue."}

    def test_pairs_vary_too(self):
        draws = {self.known.of_pairs(random.Random(n), "facts", "Own.", share=0.5) for n in range(30)}
        assert draws == {"Own.", "Find."}
        assert self.known.of_pairs(random.Random(1), "other", "Own.", share=1.0) == "Own."

    def test_shipped_wordings_are_many_and_none_is_one_that_is_measured(self):
        def plain(text):
            return " ".join(re.findall("[a-z]+", text.lower()))

        shipped = shipped_wordings()
        of_aspects = [wording for task in shipped.aspects.values() for each in task.values() for wording in each]
        measured = json.loads((files("embedder.evaluation") / "paraphrases.json").read_text())["instructions"]
        held_back = {plain(text) for task in measured.values() for texts in task.values() for text in texts}
        assert len(of_aspects) > 600
        assert not held_back & {plain(text) for text in [*of_aspects, *shipped.similarity]}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_folded_adapter_gives_the_gradients_of_the_adapter_itself(dtype):
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 4, bias=False))
    model = get_peft_model(body, LoraConfig(r=2, lora_alpha=3, target_modules=["0", "2"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    inputs = torch.randn(3, 5, 6, requires_grad=True)

    def gradients():
        model.zero_grad()
        inputs.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
            out = model(inputs)
        out.float().square().sum().backward()
        return [out.float().detach(), inputs.grad, *(p.grad for p in model.parameters() if p.requires_grad)]

    plain = gradients()
    with folded_lora(model):
        folded = gradients()
    assert len(plain) == 6
    for one, other in zip(plain, folded, strict=True):
        assert (one - other).norm() <= (1e-5 if dtype is torch.float32 else 3e-2) * one.norm()
