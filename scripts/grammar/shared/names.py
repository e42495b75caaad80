"""The nominals that both grammars share: names, couples, and the interface of all nominals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from scripts.grammar.shared.english import Agreement
from scripts.grammar.shared.words import Phrase, pair

Form = TypeVar("Form", contravariant=True)
HE_OR_SHE, THEY = Agreement(3), Agreement(3, True)


class Sayable(Protocol[Form]):
    """A subject or object: noun phrases, names, pronouns; a form is a case or a part of speech."""

    @property
    def agreement(self) -> Agreement:
        """Person and number, for the verb."""

    def phrase(self, form: Form, /) -> Phrase:
        """Return the words in a form; every call makes new units."""


@dataclass(frozen=True)
class Name:
    """A proper name of a person (m or f) or of a place."""

    source: str
    english: str
    gender: Literal["m", "f", "place"] = "place"

    @property
    def entity(self) -> Literal["PER", "LOC"]:
        """The kind of entity that it names."""
        return "LOC" if self.gender == "place" else "PER"


@dataclass(frozen=True)
class NamePhrase:
    """A person or a place by name."""

    name: Name
    agreement: Agreement = HE_OR_SHE
    is_definite: bool = True

    def phrase(self, form: object, /) -> Phrase:
        """Return the name, which is the same in every form."""
        return pair(self.name.source, "PROPN", self.name.english, self.name.entity)


@dataclass(frozen=True)
class Couple(Generic[Form]):
    """Two people joined by a conjunction of the source language."""

    first: Sayable[Form]
    second: Sayable[Form]
    conjunction: str
    agreement: Agreement = THEY
    is_definite: bool = True

    def phrase(self, form: Form, /) -> Phrase:
        """Return both in the form, with the conjunction between them."""
        joining = pair(self.conjunction, "CCONJ", "and")
        return self.first.phrase(form) + joining + self.second.phrase(form)


class HasKinds(Protocol):
    """An entry of a lexicon with its kinds, separated by blanks."""

    @property
    def kinds(self) -> str:
        """The kinds it belongs to, or accepts."""


Entry = TypeVar("Entry", bound=HasKinds)


def of_kinds(entries: Iterable[Entry], kinds: str) -> tuple[Entry, ...]:
    """Return the entries that have one of the kinds."""
    asked = set(kinds.split())
    return tuple(entry for entry in entries if asked & set(entry.kinds.split()))
