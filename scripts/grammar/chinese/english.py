"""English verb groups for the Chinese grammar, linked to 了, 过, 会, 不 and 没有."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.grammar.chinese.verbs import Modal, Mood, Tense, Verb
from scripts.grammar.shared.english import (
    Agreement,
    english_be,
    english_past,
    english_present,
    english_progressive,
    english_was,
)
from scripts.grammar.shared.words import English, Units, Word, english_words


@dataclass(frozen=True)
class Meaning:
    """The units a verb group expresses: the verb, what shows its tense, and a denial."""

    verb: Units
    helper: Units
    denial: Units = ()  # of 不 or 没有
    denied_by: str = "not"  # or never


def english_verb(
    verb: Verb, mood: Mood, agreement: Agreement, meaning: Meaning, *, is_inverted: bool = False
) -> English:
    """Inflect a verb.

    Args:
        verb: the verb.
        mood: tense or modal verb.
        agreement: person and number of the subject.
        meaning: the units to express.
        is_inverted: whether the subject will stand between auxiliary and rest.
    """
    is_third = agreement.person == 3 and not agreement.is_plural
    never = meaning.denial and meaning.denied_by == "never"
    needs_do = is_inverted or (bool(meaning.denial) and not never)
    if isinstance(mood, Modal):
        auxiliary, rest = _modal(verb, mood, agreement, meaning, needs_do)
    elif mood is Tense.PROGRESSIVE:
        auxiliary = english_words(english_be(agreement), meaning.helper)
        rest = english_words(english_progressive(verb.english), meaning.verb)
    elif mood is Tense.PERFECT:
        auxiliary = english_words(english_present("have", is_third), meaning.helper)
        rest = english_words(verb.participle or _past(verb), meaning.verb)
    elif needs_do:
        do = "did" if mood is Tense.PAST else english_present("do", is_third)
        units = (meaning.denial or meaning.helper) if mood is Tense.PAST else meaning.verb
        auxiliary, rest = english_words(do, units), english_words(verb.english, meaning.verb)
    elif mood is Tense.PAST:
        units = meaning.verb if never else meaning.verb + meaning.helper
        auxiliary, rest = (), english_words(_past(verb), units)
    else:
        auxiliary, rest = (), english_words(english_present(verb.english, is_third), meaning.verb)
    if is_inverted:  # why does he not sleep
        return auxiliary, english_words(
            meaning.denied_by, meaning.denial
        ) + rest if meaning.denial else rest
    return deny(auxiliary, meaning), rest


def english_copula(agreement: Agreement, meaning: Meaning, *, is_past: bool = False) -> English:
    """Inflect to be, which is its own auxiliary."""
    form = english_was(agreement) if is_past else english_be(agreement)
    return deny(english_words(form, meaning.verb), meaning), ()


def deny(auxiliary: tuple[Word, ...], meaning: Meaning) -> tuple[Word, ...]:
    """Put not after the auxiliary; can takes it as an ending."""
    if not meaning.denial:
        return auxiliary
    if auxiliary and auxiliary[-1].text == "can" and meaning.denied_by == "not":
        return (*auxiliary[:-1], Word("cannot", auxiliary[-1].units + meaning.denial))
    return (*auxiliary, Word(meaning.denied_by, meaning.denial))


def _past(verb: Verb) -> str:
    return verb.past or english_past(verb.english)


def _modal(
    verb: Verb, modal: Modal, agreement: Agreement, meaning: Meaning, needs_do: bool
) -> English:
    infinitive = english_words(verb.english, meaning.verb)
    first, _, rest = modal.english.partition(" ")
    if modal.is_auxiliary or first == "be":
        form = english_be(agreement) if first == "be" else first
        return english_words(form, meaning.helper), english_words(rest, meaning.helper) + infinitive
    is_third = agreement.person == 3 and not agreement.is_plural
    if needs_do:
        do = english_words(english_present("do", is_third), meaning.helper)
        return do, english_words(modal.english, meaning.helper) + infinitive
    return (), english_words(english_present(modal.english, is_third), meaning.helper) + infinitive
