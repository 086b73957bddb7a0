"""Refinement tokens measured: the share of soft-token probability on words that a person would connect with a text.

Beside it stand controls: the same text and words under another instruction, and the words of another label.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import bootstrap
from torch import Tensor
from tqdm.auto import tqdm

from embedder.encoder import Encoder
from embedder.evaluation.data import is_tuning
from research.evaluation.word_lists import WordLists, labels_of

# Which words count: those of the label's name, those typical of other texts with the label, or either; and whether
# words that the text holds itself count, too.
LISTS = ("name", "typical", "either", "name_unseen", "typical_unseen", "either_unseen")
HEADLINE = "either_unseen"
CONTROLS = ("shuffled_instruction", "other_task", "other_label")
_OTHER_LABELS = 5  # drawn per text and aspect; their mean is the control
_RESAMPLES = 2000

Instructions = Mapping[str, Mapping[str, str]]  # task -> aspect -> instruction


@dataclass(frozen=True, slots=True)
class Control:
    """A control's share, and the ratio of the own share to it with its bootstrap 95 % interval over texts."""

    share: float
    ratio: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ListScore:
    """Mean shares of probability over the measured steps; `texts` had words of this list that the model can say."""

    texts: int
    own: float
    controls: Mapping[str, Control | None]


@dataclass(frozen=True, slots=True)
class AspectScores:
    task: str
    aspect: str
    lists: Mapping[str, ListScore]


@dataclass(frozen=True, slots=True)
class TokenScores:
    """by_step: the mean share of the headline list at each step, own and under the shuffled instruction."""

    model: str
    fingerprint: str
    first_step: int
    last_step: int
    texts: int
    seed: int
    overall: Mapping[str, ListScore]
    aspects: Sequence[AspectScores]
    by_step: Mapping[str, Sequence[float]]

    @property
    def headline(self) -> ListScore:
        return self.overall[HEADLINE]


@dataclass(frozen=True, slots=True)
class _Item:
    """A text with its task's instructions and, per aspect in which it has a label, what is summed up for it.

    weights: aspect -> (own and other label's lists, entries); entries: the soft-token entries that any list names.
    """

    task: str
    text: str
    instructions: Mapping[str, str]
    unrelated: str  # an instruction of another task
    entries: np.ndarray
    weights: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Record:
    """Shares (lists, steps) of one text under one aspect; NaN where a list has no word."""

    text: int
    task: str
    aspect: str
    own: np.ndarray
    controls: Mapping[str, np.ndarray]


class _Shares:
    """Observes soft tokens and keeps, per text, step and aspect, the probability on each of its lists."""

    def __init__(self, items: Sequence[_Item], steps: int) -> None:
        self._items = items
        self.values = [
            {aspect: np.zeros((len(weights), steps)) for aspect, weights in item.weights.items()} for item in items
        ]

    def __call__(self, rows: Sequence[int], step: int, soft_token: Tensor) -> None:
        for place, row in enumerate(rows):
            item = self._items[row]
            entries = torch.as_tensor(item.entries, device=soft_token.device)
            probabilities = soft_token[place, entries].double().cpu().numpy()
            for aspect, weights in item.weights.items():
                self.values[row][aspect][:, step - 1] = weights @ probabilities


def token_measure(
    encoder: Encoder,
    rows: Sequence[Mapping],
    instructions: Instructions,
    *,
    limit: int = 150,
    first_step: int = 6,
    last_step: int = 20,
    words_per_label: int = 30,
    seed: int = 0,
    show_progress: bool = False,
) -> TokenScores:
    """Measures up to `limit` texts of the reporting half, as many of each task.

    rows: labelled texts `{task, text, labels: {aspect: value or [values]}}`; all of them make the word lists, but
    never a text its own. Raises ValueError when there is nothing to measure.
    """
    if not 1 <= first_step <= last_step:
        raise ValueError(
            f"There is nothing in steps {first_step} to {last_step}. Take a last step from {first_step} on."
        )
    items = _prepare(encoder, rows, instructions, limit=limit, words_per_label=words_per_label, seed=seed)
    runs = _run(encoder, items, last_step, show_progress=show_progress)
    records = [
        record
        for place, (item, run) in enumerate(zip(items, runs, strict=True))
        for record in _records(place, item, run)
    ]
    window = slice(first_step - 1, last_step)
    by_aspect: dict[tuple[str, str], list[_Record]] = defaultdict(list)
    for record in records:
        by_aspect[record.task, record.aspect].append(record)
    return TokenScores(
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        first_step=first_step,
        last_step=last_step,
        texts=len(items),
        seed=seed,
        overall=_list_scores(records, window, seed),
        aspects=[
            AspectScores(task, aspect, _list_scores(members, window, seed))
            for (task, aspect), members in sorted(by_aspect.items())
        ],
        by_step=_by_step(records),
    )


def select_rows(rows: Sequence[Mapping], *, limit: int, seed: int) -> list[Mapping]:
    """Up to `limit` rows of the reporting half (odd SHA-1 of the text), evenly over tasks, each text once."""
    by_task: dict[str, dict[str, Mapping]] = defaultdict(dict)
    for row in rows:
        if not is_tuning(row["text"]):
            by_task[row["task"]].setdefault(row["text"], row)
    chosen: list[Mapping] = []
    # Small tasks first, so that what they cannot give is shared out among the larger ones.
    for done, (task, texts) in enumerate(sorted(by_task.items(), key=lambda item: (len(item[1]), item[0]))):
        share = -(-(limit - len(chosen)) // (len(by_task) - done))
        order = np.random.default_rng([seed, *task.encode()]).permutation(len(texts))
        members = list(texts.values())
        chosen += [members[place] for place in order[:share]]
    return chosen


def _prepare(
    encoder: Encoder,
    rows: Sequence[Mapping],
    instructions: Instructions,
    *,
    limit: int,
    words_per_label: int,
    seed: int,
) -> list[_Item]:
    entries_of: dict[str, list[int]] = defaultdict(list)
    for entry, word in enumerate(encoder.soft_token_words()):
        entries_of[word].append(entry)
    by_task: dict[str, list[Mapping]] = defaultdict(list)
    for row in rows:
        by_task[row["task"]].append(row)
    lists = {task: WordLists(members, count=words_per_label) for task, members in by_task.items()}
    rng = np.random.default_rng(seed)
    items = []
    for row in select_rows(rows, limit=limit, seed=seed):
        known = instructions.get(row["task"], {})
        unrelated_instructions = {i for task in by_task for i in instructions.get(task, {}).values()} - set(
            known.values()
        )
        source = lists[row["task"]]
        words = {aspect: _lists_of(row, aspect, source, entries_of, rng) for aspect in known if labels_of(row, aspect)}
        if words and unrelated_instructions:
            unrelated = sorted(unrelated_instructions)[rng.integers(len(unrelated_instructions))]
            items.append(_Item(row["task"], row["text"], known, unrelated, *_weigh(words, entries_of)))
    if not items:
        raise ValueError("No text of the reporting half has a label and an instruction, with another task beside it.")
    return items


def _lists_of(
    row: Mapping, aspect: str, source: WordLists, sayable: Container[str], rng: np.random.Generator
) -> list[Mapping[str, float]]:
    """The row's own six lists, then those of other labels: a word in two of five drawn lists weighs 0.4."""
    own = labels_of(row, aspect)
    others = [label for label in source.labels(aspect) if label not in own]
    order = rng.permutation(len(others))
    drawn = [order[start : start + len(own)] for start in range(0, len(others), len(own))][:_OTHER_LABELS]
    drawn_lists = [_six_lists(row["text"], aspect, [others[i] for i in each], source, sayable) for each in drawn]
    weighed: list[Mapping[str, float]] = [
        dict.fromkeys(words, 1.0) for words in _six_lists(row["text"], aspect, own, source, sayable)
    ]
    for variants in zip(*drawn_lists, strict=True):
        usable = [words for words in variants if words]
        counts = Counter(word for words in usable for word in words)
        weighed.append({word: count / len(usable) for word, count in counts.items()})
    return weighed + [{}] * (2 * len(LISTS) - len(weighed))  # an aspect of one label has no other


def _six_lists(
    text: str, aspect: str, labels: Sequence[str], source: WordLists, sayable: Container[str]
) -> list[set[str]]:
    """In the order of LISTS; only words that the model can say."""
    name = {word for label in labels for word in source.words_of(label) if word in sayable}
    typical = {
        word for label in labels for word in source.typical_words(aspect, label, without=text) if word in sayable
    }
    lists = [name, typical, name | typical]
    return lists + [words - source.words_of(text) for words in lists]


def _weigh(
    words: Mapping[str, Sequence[Mapping[str, float]]], entries_of: Mapping[str, Sequence[int]]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Entries that any list names, and per aspect (lists, entries) weights; an empty list has no number but NaN."""
    named = sorted(
        {(entry, word) for lists in words.values() for each in lists for word in each for entry in entries_of[word]}
    )
    weights = {
        aspect: np.array([[each.get(word, 0.0) if each else np.nan for _, word in named] for each in lists])
        for aspect, lists in words.items()
    }
    return np.array([entry for entry, _ in named], dtype=int), weights


def _run(
    encoder: Encoder, items: Sequence[_Item], steps: int, *, show_progress: bool
) -> list[dict[str, dict[str, np.ndarray]]]:
    """Every text under all instructions of its task and one of another: text -> instruction -> aspect -> shares."""
    by_instruction: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        for instruction in dict.fromkeys([*item.instructions.values(), item.unrelated]):
            by_instruction[instruction].append(place)
    found: list[dict[str, dict[str, np.ndarray]]] = [{} for _ in items]
    total = sum(len(places) for places in by_instruction.values())
    with tqdm(total=total, disable=not show_progress, unit="run", desc=f"Reading {steps} soft tokens") as bar:
        for instruction, places in sorted(by_instruction.items()):
            shares = _Shares([items[place] for place in places], steps)
            encoder.watch_soft_tokens(
                [items[place].text for place in places], shares, instruction=instruction, steps=steps
            )
            for place, values in zip(places, shares.values, strict=True):
                found[place][instruction] = values
            bar.update(len(places))
    return found


def _records(place: int, item: _Item, runs: Mapping[str, Mapping[str, np.ndarray]]) -> Iterator[_Record]:
    for aspect in item.weights:
        instruction = item.instructions[aspect]
        siblings = sorted(set(item.instructions.values()) - {instruction}) or [item.unrelated]
        count = len(LISTS)
        own = runs[instruction][aspect]
        controls = {
            "shuffled_instruction": np.mean([runs[each][aspect][:count] for each in siblings], axis=0),
            "other_task": runs[item.unrelated][aspect][:count],
            "other_label": own[count:],
        }
        yield _Record(place, item.task, aspect, own[:count], controls)


def _list_scores(records: Sequence[_Record], window: slice, seed: int) -> dict[str, ListScore]:
    """Scores of every list that some text has; an aspect's labels may have no name that the model can say."""
    scores = {}
    for place, name in enumerate(LISTS):
        known = [record for record in records if np.isfinite(record.own[place]).all()]
        if known:
            own = np.array([record.own[place, window].mean() for record in known])
            texts = np.array([record.text for record in known])
            controls = {
                control: _compare(
                    texts, own, np.array([record.controls[control][place, window].mean() for record in known]), seed
                )
                for control in CONTROLS
            }
            scores[name] = ListScore(len(set(texts)), float(own.mean()), controls)
    return scores


def _compare(texts: np.ndarray, own: np.ndarray, control: np.ndarray, seed: int) -> Control | None:
    """Ratio of means over the records that have this control; whole texts are resampled, their aspects together."""
    known = np.isfinite(control)
    if not known.any():
        return None
    _, group = np.unique(texts[known], return_inverse=True)
    sums = [np.bincount(group, weights=values[known]) for values in (own, control)]
    if not sums[1].all():
        return Control(float(control[known].mean()), None, None, None)
    interval = None
    if len(sums[0]) > 1:
        interval = bootstrap(
            sums,
            lambda mine, other, axis: mine.sum(axis) / other.sum(axis),
            paired=True,
            vectorized=True,
            n_resamples=_RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return Control(
        float(control[known].mean()),
        float(sums[0].sum() / sums[1].sum()),
        float(interval.low) if interval else None,
        float(interval.high) if interval else None,
    )


def _by_step(records: Sequence[_Record]) -> dict[str, list[float]]:
    place = LISTS.index(HEADLINE)
    known = [record for record in records if np.isfinite(record.own[place]).all()]
    curves = {
        "own": [record.own[place] for record in known],
        "shuffled_instruction": [record.controls["shuffled_instruction"][place] for record in known],
    }
    return {name: np.mean(shares, axis=0).tolist() for name, shares in curves.items() if shares}
