"""The words of the German grammar, with their English and the kinds of words they go with.

Meaning is kept sensible by *kinds*, short labels such as ``person`` or ``food``. A noun lists the
kinds it belongs to; a verb or an adjective lists the kinds it accepts. Several kinds are written
as one string with blanks between them. Regular forms are derived (forms.py); only what
cannot be derived is stated here. Entries are compared by identity, which keeps look-ups fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from scripts.grammar.shared.names import Name, of_kinds

Gender = Literal["m", "f", "n"]
CaseName = Literal["nominative", "accusative", "dative"]
Aspect = Literal["habit", "event", "mishap", "state"]


@dataclass(frozen=True, eq=False)
class Noun:
    """A common noun; `number` marks count nouns, mass nouns, and nouns that everyone has one of."""

    german: str
    gender: Gender
    plural: str
    english: str
    kinds: str
    english_plural: str = ""  # regular when empty
    oblique: str = ""  # the ending of weak masculines outside the nominative singular
    number: Literal["count", "mass", "single"] = "count"
    at: tuple[str, str] = ("in", "in")  # German and English prepositions for being there


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective and the kinds of noun it describes."""

    german: str
    english: str
    kinds: str
    stem: str = ""  # when endings are not added to the plain form: teuer, teur-e
    is_gradable: bool = True  # can be very so


@dataclass(frozen=True)
class Preposition:
    """A preposition, the case it takes here, and its translation."""

    german: str
    case: CaseName
    english: str


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with its forms, its English verb, and the kinds of noun it goes with.

    `aspect` limits its use: a habit has every tense, an event no progressive, a mishap is never
    planned, a state has no point in time.
    """

    infinitive: str  # a separable particle is cut off: an|rufen
    participle: str  # "ist " in front when the perfect takes sein; empty: no perfect
    english: str
    past: str = ""  # regular when empty
    er: str = ""  # third person singular; regular when empty
    subject: str = "person"
    object: str = ""  # accusative object
    dative: str = ""  # dative object, or receiver when there is an accusative one
    to_receiver: bool = False  # English: gives the book *to* the child
    preposition: Preposition | None = None
    about: str = ""  # kinds of noun after the preposition
    place: str = ""
    needs_place: bool = False
    toward: str = ""  # ways of going somewhere: zu, in, nach
    aspect: Aspect = "habit"

    @property
    def particle(self) -> str:
        """The separable particle, or nothing."""
        return self.infinitive.partition("|")[0] if "|" in self.infinitive else ""

    @property
    def base(self) -> str:
        """The infinitive without its particle."""
        return self.infinitive.rpartition("|")[2]


@dataclass(frozen=True, eq=False)
class Modal:
    """A verb that sends another verb, in the infinitive, to the end of the clause."""

    present: tuple[str, str, str, str, str, str]  # ich, du, er, wir, ihr, sie
    english: str
    is_auxiliary: bool = True  # English inverts it: can he; not: does he want to
    can_be_denied: bool = True


NOUNS = (
    # People.
    Noun("Mann", "m", "Männer", "man", "person adult", "men"),
    Noun("Frau", "f", "Frauen", "woman", "person adult", "women"),
    Noun("Kind", "n", "Kinder", "child", "person own", "children"),
    Noun("Junge", "m", "Jungen", "boy", "person", oblique="n"),
    Noun("Mädchen", "n", "Mädchen", "girl", "person"),
    Noun("Lehrerin", "f", "Lehrerinnen", "teacher", "person adult own"),
    Noun("Arzt", "m", "Ärzte", "doctor", "person adult own"),
    Noun("Koch", "m", "Köche", "cook", "person adult"),
    Noun("Studentin", "f", "Studentinnen", "student", "person adult"),
    Noun("Polizist", "m", "Polizisten", "policeman", "person adult", "policemen", oblique="en"),
    Noun("Nachbar", "m", "Nachbarn", "neighbor", "person adult own", oblique="n"),
    Noun("Bauer", "m", "Bauern", "farmer", "person adult", oblique="n"),
    Noun("Sängerin", "f", "Sängerinnen", "singer", "person adult"),
    Noun("Künstler", "m", "Künstler", "artist", "person adult"),
    Noun("König", "m", "Könige", "king", "person adult"),
    Noun("Gast", "m", "Gäste", "guest", "person adult own"),
    Noun("Freund", "m", "Freunde", "friend", "person adult own"),
    Noun("Mutter", "f", "Mütter", "mother", "person adult own", number="single"),
    Noun("Vater", "m", "Väter", "father", "person adult own", number="single"),
    Noun("Großmutter", "f", "Großmütter", "grandmother", "person adult own", number="single"),
    Noun("Bruder", "m", "Brüder", "brother", "person adult own", number="single"),
    Noun("Schwester", "f", "Schwestern", "sister", "person adult own", number="single"),
    Noun("Tochter", "f", "Töchter", "daughter", "person adult own", number="single"),
    Noun("Sohn", "m", "Söhne", "son", "person adult own", number="single"),
    # Animals.
    Noun("Hund", "m", "Hunde", "dog", "animal own pet"),
    Noun("Katze", "f", "Katzen", "cat", "animal own pet"),
    Noun("Pferd", "n", "Pferde", "horse", "animal own"),
    Noun("Kuh", "f", "Kühe", "cow", "animal own"),
    Noun("Vogel", "m", "Vögel", "bird", "animal own"),
    Noun("Maus", "f", "Mäuse", "mouse", "animal", "mice"),
    Noun("Ente", "f", "Enten", "duck", "animal"),
    Noun("Elefant", "m", "Elefanten", "elephant", "animal", oblique="en"),
    Noun("Affe", "m", "Affen", "monkey", "animal", oblique="n"),
    Noun("Hase", "m", "Hasen", "rabbit", "animal own pet", oblique="n"),
    # Food and drink.
    Noun("Apfel", "m", "Äpfel", "apple", "food fruit feed"),
    Noun("Birne", "f", "Birnen", "pear", "food fruit feed"),
    Noun("Orange", "f", "Orangen", "orange", "food fruit"),
    Noun("Tomate", "f", "Tomaten", "tomato", "food fruit", "tomatoes"),
    Noun("Kartoffel", "f", "Kartoffeln", "potato", "food cooked feed", "potatoes"),
    Noun("Ei", "n", "Eier", "egg", "food cooked"),
    Noun("Kuchen", "m", "Kuchen", "cake", "food baked"),
    Noun("Suppe", "f", "Suppen", "soup", "food cooked hot"),
    Noun("Brot", "n", "Brote", "bread", "food baked feed", number="mass"),
    Noun("Käse", "m", "Käse", "cheese", "food", number="mass"),
    Noun("Fleisch", "n", "Fleisch", "meat", "food cooked", number="mass"),
    Noun("Reis", "m", "Reis", "rice", "food cooked", number="mass"),
    Noun("Wasser", "n", "Wasser", "water", "drink hot", number="mass"),
    Noun("Milch", "f", "Milch", "milk", "drink hot", number="mass"),
    Noun("Kaffee", "m", "Kaffee", "coffee", "drink hot", number="mass"),
    Noun("Tee", "m", "Tee", "tea", "drink hot", number="mass"),
    Noun("Saft", "m", "Säfte", "juice", "drink", number="mass"),
    # Texts and other things.
    Noun("Buch", "n", "Bücher", "book", "text written goods portable"),
    Noun("Zeitung", "f", "Zeitungen", "newspaper", "text goods portable"),
    Noun("Brief", "m", "Briefe", "letter", "text written portable sent"),
    Noun("Geschichte", "f", "Geschichten", "story", "text written told", "stories"),
    Noun("Gedicht", "n", "Gedichte", "poem", "text written"),
    Noun("Lied", "n", "Lieder", "song", "song"),
    Noun("Bild", "n", "Bilder", "picture", "goods painted sent"),
    Noun("Auto", "n", "Autos", "car", "goods machine colored vehicle washed"),
    Noun("Fahrrad", "n", "Fahrräder", "bicycle", "goods machine colored"),
    Noun("Computer", "m", "Computer", "computer", "goods machine electric"),
    Noun("Lampe", "f", "Lampen", "lamp", "goods machine electric"),
    Noun("Uhr", "f", "Uhren", "clock", "goods machine"),
    Noun("Gitarre", "f", "Gitarren", "guitar", "goods machine"),
    Noun("Handy", "n", "Handys", "phone", "goods machine electric portable"),
    Noun("Schlüssel", "m", "Schlüssel", "key", "goods portable"),
    Noun("Tasche", "f", "Taschen", "bag", "goods portable colored"),
    Noun("Regenschirm", "m", "Regenschirme", "umbrella", "goods portable colored"),
    Noun("Ball", "m", "Bälle", "ball", "goods portable colored toy"),
    Noun("Ring", "m", "Ringe", "ring", "goods portable"),
    Noun("Messer", "n", "Messer", "knife", "goods portable", "knives"),
    Noun("Tasse", "f", "Tassen", "cup", "goods portable colored washed"),
    Noun("Blume", "f", "Blumen", "flower", "painted sent"),
    Noun("Hut", "m", "Hüte", "hat", "goods clothes portable colored"),
    Noun("Jacke", "f", "Jacken", "jacket", "goods clothes colored washed"),
    Noun("Hemd", "n", "Hemden", "shirt", "goods clothes colored washed"),
    Noun("Kleid", "n", "Kleider", "dress", "goods clothes colored washed", "dresses"),
    Noun("Tisch", "m", "Tische", "table", "goods furniture"),
    Noun("Stuhl", "m", "Stühle", "chair", "goods furniture colored seat", at=("auf", "on")),
    Noun("Sofa", "n", "Sofas", "sofa", "goods furniture colored seat", at=("auf", "on")),
    Noun("Fenster", "n", "Fenster", "window", "opening"),
    Noun("Tür", "f", "Türen", "door", "opening"),
    Noun("Zug", "m", "Züge", "train", "vehicle awaited"),
    Noun("Bus", "m", "Busse", "bus", "vehicle awaited", "buses"),
    # Places.
    Noun("Haus", "n", "Häuser", "house", "place home building inside own"),
    Noun("Küche", "f", "Küchen", "kitchen", "place home room inside kitchen"),
    Noun("Zimmer", "n", "Zimmer", "room", "place home room inside own"),
    Noun("Garten", "m", "Gärten", "garden", "place home outdoors inside own"),
    Noun("Park", "m", "Parks", "park", "place outdoors inside"),
    Noun("Wald", "m", "Wälder", "forest", "place outdoors inside"),
    Noun("Strand", "m", "Strände", "beach", "place outdoors", "beaches", at=("an", "at")),
    Noun("Dorf", "n", "Dörfer", "village", "place outdoors town"),
    Noun("Fluss", "m", "Flüsse", "river", "water"),
    Noun("Meer", "n", "Meere", "sea", "water"),
    Noun("Büro", "n", "Büros", "office", "place work room inside own"),
    Noun("Krankenhaus", "n", "Krankenhäuser", "hospital", "place work building"),
    Noun("Restaurant", "n", "Restaurants", "restaurant", "place work eating building inside"),
    Noun("Hotel", "n", "Hotels", "hotel", "place work building eating inside"),
    Noun("Schule", "f", "Schulen", "school", "place work building study"),
    Noun("Bibliothek", "f", "Bibliotheken", "library", "place study building", "libraries"),
    Noun("Museum", "n", "Museen", "museum", "place sight building inside"),
    Noun("Markt", "m", "Märkte", "market", "place shop", at=("auf", "at")),
    Noun("Supermarkt", "m", "Supermärkte", "supermarket", "place shop building"),
    Noun("Bahnhof", "m", "Bahnhöfe", "station", "place station building", at=("an", "at")),
)

ADJECTIVES = (
    Adjective("alt", "old", "adult animal text goods building"),
    Adjective("jung", "young", "adult animal"),
    Adjective("freundlich", "friendly", "person"),
    Adjective("klug", "clever", "person animal"),
    Adjective("reich", "rich", "adult"),
    Adjective("arm", "poor", "person"),
    Adjective("müde", "tired", "person animal", stem="müd"),
    Adjective("krank", "sick", "person animal"),
    Adjective("traurig", "sad", "person song told"),
    Adjective("glücklich", "happy", "person"),
    Adjective("hungrig", "hungry", "person animal"),
    Adjective("klein", "small", "animal goods place fruit opening"),
    Adjective("groß", "big", "animal goods place fruit opening water"),
    Adjective("schwarz", "black", "pet colored", is_gradable=False),
    Adjective("weiß", "white", "pet colored", is_gradable=False),
    Adjective("rot", "red", "colored", is_gradable=False),
    Adjective("blau", "blue", "colored", is_gradable=False),
    Adjective("grün", "green", "colored", is_gradable=False),
    Adjective("neu", "new", "goods text building song"),
    Adjective("schön", "beautiful", "clothes song painted place"),
    Adjective("teuer", "expensive", "goods", stem="teur"),
    Adjective("billig", "cheap", "goods"),
    Adjective("kaputt", "broken", "machine", is_gradable=False),
    Adjective("frisch", "fresh", "food"),
    Adjective("süß", "sweet", "fruit baked"),
    Adjective("kalt", "cold", "drink hot"),
    Adjective("heiß", "hot", "hot"),
    Adjective("interessant", "interesting", "text sight"),
    Adjective("langweilig", "boring", "text"),
    Adjective("lang", "long", "text song"),
)

NAMES = (
    Name("Anna", "Anna", "f"),
    Name("Peter", "Peter", "m"),
    Name("Maria", "Maria", "f"),
    Name("Paul", "Paul", "m"),
    Name("Lena", "Lena", "f"),
    Name("Thomas", "Thomas", "m"),
    Name("Julia", "Julia", "f"),
    Name("Max", "Max", "m"),
    Name("Sophie", "Sophie", "f"),
    Name("Felix", "Felix", "m"),
    Name("Emma", "Emma", "f"),
    Name("Jonas", "Jonas", "m"),
    Name("Clara", "Clara", "f"),
    Name("Martin", "Martin", "m"),
    Name("Laura", "Laura", "f"),
)

CITIES = (
    Name("Berlin", "Berlin"),
    Name("Hamburg", "Hamburg"),
    Name("München", "Munich"),
    Name("Köln", "Cologne"),
    Name("Wien", "Vienna"),
    Name("Rom", "Rome"),
    Name("Prag", "Prague"),
    Name("Paris", "Paris"),
    Name("London", "London"),
    Name("Dresden", "Dresden"),
)

NUMBERS = (
    ("zwei", "two"),
    ("drei", "three"),
    ("vier", "four"),
    ("fünf", "five"),
    ("sechs", "six"),
    ("zehn", "ten"),
)


@cache
def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """Return the nouns that belong to one of the kinds."""
    return of_kinds(NOUNS, kinds)


@cache
def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """Return the adjectives that can describe a noun."""
    return of_kinds(ADJECTIVES, noun.kinds)
