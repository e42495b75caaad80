"""The verbs, modal verbs and adverbials of the German grammar.

Adverbials are written word by word as German/TAG/English; an underscore joins English words that
translate one German word.
"""

from __future__ import annotations

from functools import cache

from scripts.grammar.german.lexicon import Modal, Noun, Preposition, Verb

ANYWHERE = "home outdoors"

AUF = Preposition("auf", "accusative", "for")
AN = Preposition("an", "accusative", "of")
VON = Preposition("von", "dative", "of")
MIT = Preposition("mit", "dative", "with")
MIT_TO = Preposition("mit", "dative", "to")

VERBS = (
    # No object.
    Verb("schlafen", "geschlafen", "sleep", "slept", "schläft", "person animal", place=ANYWHERE),
    Verb("arbeiten", "gearbeitet", "work", place="work city"),
    Verb("lachen", "gelacht", "laugh"),
    Verb("weinen", "geweint", "cry", place=ANYWHERE),
    Verb("tanzen", "getanzt", "dance", place=ANYWHERE),
    Verb("schwimmen", "ist geschwommen", "swim", "swam", subject="person animal", place="water"),
    Verb("lernen", "gelernt", "study", place="study home"),
    Verb("auf|stehen", "ist aufgestanden", "get up", "got up"),
    Verb("ein|schlafen", "ist eingeschlafen", "fall asleep", "fell asleep", "schläft",
         subject="person animal", place="home", aspect="event"),
    Verb("auf|wachen", "ist aufgewacht", "wake up", "woke up", subject="person animal",
         place="home", aspect="event"),
    Verb("fern|sehen", "ferngesehen", "watch TV", er="sieht", place="room"),
    Verb("ein|kaufen", "eingekauft", "shop", place="shop"),
    Verb("an|kommen", "ist angekommen", "arrive", place="station city", needs_place=True,
         aspect="event"),
    Verb("wohnen", "gewohnt", "live", place="city town", needs_place=True, aspect="state"),
    Verb("sitzen", "gesessen", "sit", "sat", subject="person pet", place="seat outdoors",
         needs_place=True),
    Verb("stehen", "gestanden", "stand", "stood", subject="person pet", place="building-side",
         needs_place=True),
    Verb("liegen", "gelegen", "lie", "lay", subject="portable", place="furniture-side",
         needs_place=True, aspect="state"),
    # Going somewhere.
    Verb("gehen", "ist gegangen", "go", "went", toward="zu in hause"),
    Verb("fahren", "ist gefahren", "drive", "drove", "fährt", toward="zu nach hause"),
    Verb("laufen", "ist gelaufen", "run", "ran", "läuft", "person pet", toward="zu in"),
    Verb("reisen", "ist gereist", "travel", toward="nach"),
    Verb("fliegen", "ist geflogen", "fly", "flew", toward="nach"),
    Verb("zurück|kommen", "ist zurückgekommen", "come back", "came back", toward="zu nach",
         aspect="event"),
    # An accusative object.
    Verb("essen", "gegessen", "eat", "ate", "isst", object="food", place="kitchen eating"),
    Verb("fressen", "gefressen", "eat", "ate", "frisst", "animal", object="feed",
         place="outdoors"),
    Verb("trinken", "getrunken", "drink", "drank", object="drink", place="kitchen eating"),
    Verb("kaufen", "gekauft", "buy", "bought", object="food drink goods", place="shop"),
    Verb("verkaufen", "verkauft", "sell", "sold", object="goods food", place="shop"),
    Verb("lesen", "gelesen", "read", "read", "liest", object="text", place=ANYWHERE + " study"),
    Verb("schreiben", "geschrieben", "write", "wrote", object="written", place="home study"),
    Verb("singen", "gesungen", "sing", "sang", object="song", place=ANYWHERE),
    Verb("sehen", "gesehen", "see", "saw", "sieht", "person animal",
         object="person animal goods", place="outdoors city", aspect="state"),
    Verb("kennen", "gekannt", "know", "knew", object="person text sight", aspect="state"),
    Verb("lieben", "geliebt", "love", object="person pet song text", aspect="state"),
    Verb("brauchen", "gebraucht", "need", object="goods", aspect="state"),
    Verb("haben", "", "have", "had", "hat", object="goods pet", aspect="state"),
    Verb("suchen", "gesucht", "look for", object="portable pet person"),
    Verb("finden", "gefunden", "find", "found", object="portable pet", place=ANYWHERE,
         aspect="event"),
    Verb("verlieren", "verloren", "lose", "lost", object="portable", place="outdoors city",
         aspect="mishap"),
    Verb("vergessen", "vergessen", "forget", "forgot", "vergisst", object="portable song told",
         aspect="mishap"),
    Verb("tragen", "getragen", "wear", "wore", "trägt", object="clothes"),
    Verb("kochen", "gekocht", "cook", object="cooked", place="kitchen eating"),
    Verb("backen", "gebacken", "bake", object="baked", place="kitchen"),
    Verb("waschen", "gewaschen", "wash", er="wäscht", object="washed pet"),
    Verb("putzen", "geputzt", "clean", object="opening room"),
    Verb("reparieren", "repariert", "repair", object="machine"),
    Verb("öffnen", "geöffnet", "open", object="opening"),
    Verb("schließen", "geschlossen", "close", object="opening"),
    Verb("malen", "gemalt", "paint", object="painted animal", place="outdoors"),
    Verb("besuchen", "besucht", "visit", object="person sight", place="city"),
    Verb("treffen", "getroffen", "meet", "met", "trifft", object="person", place="eating city"),
    Verb("fragen", "gefragt", "ask", object="person"),
    Verb("füttern", "gefüttert", "feed", "fed", object="animal", place="outdoors"),
    Verb("an|rufen", "angerufen", "call", object="person"),
    Verb("ein|laden", "eingeladen", "invite", er="lädt", object="person"),
    Verb("ab|holen", "abgeholt", "fetch", object="person", place="station"),
    Verb("auf|räumen", "aufgeräumt", "tidy up", object="room"),
    Verb("mit|bringen", "mitgebracht", "bring", "brought", object="food drink portable"),
    Verb("an|ziehen", "angezogen", "put on", "put on", object="clothes"),
    Verb("an|machen", "angemacht", "turn on", object="electric"),
    Verb("aus|machen", "ausgemacht", "turn off", object="electric"),
    Verb("weg|werfen", "weggeworfen", "throw away", "threw away", "wirft",
         object="portable clothes", aspect="event"),
    # A dative object, alone or as receiver.
    Verb("helfen", "geholfen", "help", er="hilft", dative="person", place="home work"),
    Verb("danken", "gedankt", "thank", dative="person"),
    Verb("folgen", "ist gefolgt", "follow", subject="person pet", dative="person animal"),
    Verb("antworten", "geantwortet", "answer", dative="person"),
    Verb("zu|hören", "zugehört", "listen to", dative="person"),
    Verb("gehören", "gehört", "belong to", subject="goods pet", dative="person", aspect="state"),
    Verb("geben", "gegeben", "give", "gave", "gibt", object="portable food", dative="person",
         to_receiver=True),
    Verb("schicken", "geschickt", "send", "sent", object="sent", dative="person",
         to_receiver=True),
    Verb("leihen", "geliehen", "lend", "lent", object="goods", dative="person",
         to_receiver=True),
    Verb("zeigen", "gezeigt", "show", object="goods pet text", dative="person"),
    Verb("erzählen", "erzählt", "tell", "told", object="told", dative="person"),
    # An object with a preposition.
    Verb("warten", "gewartet", "wait", preposition=AUF, about="person awaited",
         place="station eating"),
    Verb("denken", "gedacht", "think", "thought", preposition=AN, about="person pet"),
    Verb("träumen", "geträumt", "dream", preposition=VON, about="person animal vehicle"),
    Verb("sprechen", "gesprochen", "talk", er="spricht", preposition=MIT_TO,
         about="person", place="outdoors eating"),
    Verb("spielen", "gespielt", "play", subject="person pet", preposition=MIT, about="toy pet",
         place=ANYWHERE),
)  # fmt: skip

LIKE = Verb("gefallen", "gefallen", "like", er="gefällt", aspect="state")
COST = Verb("kosten", "gekostet", "cost", "cost", subject="goods", aspect="state")

SAYING = (
    Verb("sagen", "gesagt", "say", "said"),
    Verb("glauben", "geglaubt", "believe"),
    Verb("hoffen", "gehofft", "hope"),
    Verb("wissen", "gewusst", "know", "knew"),
)
ASKING = Verb("fragen", "gefragt", "ask")

MODALS = (
    Modal(("kann", "kannst", "kann", "können", "könnt", "können"), "can"),
    Modal(("soll", "sollst", "soll", "sollen", "sollt", "sollen"), "should"),
    Modal(("werde", "wirst", "wird", "werden", "werdet", "werden"), "will"),
    Modal(("will", "willst", "will", "wollen", "wollt", "wollen"), "want to", False),
    Modal(("muss", "musst", "muss", "müssen", "müsst", "müssen"), "have to", False),
    Modal(
        ("möchte", "möchtest", "möchte", "möchten", "möchtet", "möchten"),
        "would like to",
        can_be_denied=False,
    ),
)

# Infinitives of activities with other people, and of activities for other people.
SOCIABLE = frozenset({"tanzen", "arbeiten", "lernen", "ein|kaufen", "fern|sehen"})
GENEROUS = frozenset({"kaufen", "kochen", "backen", "malen"})
# Activities that people can like.
PLEASANT = frozenset(
    {"essen", "trinken", "lesen", "kochen", "backen", "malen", "singen", "tanzen", "schwimmen",
     "schlafen", "lernen", "reisen", "ein|kaufen", "fern|sehen", "arbeiten", "spielen"}
)  # fmt: skip

FREQUENCY = ("oft/ADV/often", "immer/ADV/always", "manchmal/ADV/sometimes", "selten/ADV/rarely")
NEVER = "nie/ADV/never"

HABIT_TIMES = (
    "jeden/DET/every Tag/NOUN/day",
    "jeden/DET/every Morgen/NOUN/morning",
    "jeden/DET/every Abend/NOUN/evening",
    "jede/DET/every Woche/NOUN/week",
    "am/ADP/on_the Wochenende/NOUN/weekend",
    "im/ADP/in_the Sommer/NOUN/summer",
    "im/ADP/in_the Winter/NOUN/winter",
    "sonntags/ADV/on_Sundays",
)
NOW_TIMES = ("jetzt/ADV/now", "gerade/ADV/right_now")
DAYS = (
    "am/ADP/on Montag/NOUN/Monday",
    "am/ADP/on Freitag/NOUN/Friday",
    "heute/ADV/today",
)
FUTURE_TIMES = (
    "morgen/ADV/tomorrow",
    "bald/ADV/soon",
    "nächste/ADJ/next Woche/NOUN/week",
    "heute/ADV/this Abend/NOUN/evening",
    *DAYS,
)
PAST_TIMES = (
    "gestern/ADV/yesterday",
    "gestern/ADV/yesterday Abend/NOUN/evening",
    "heute/ADV/this Morgen/NOUN/morning",
    "letzte/ADJ/last Woche/NOUN/week",
    "letztes/ADJ/last Jahr/NOUN/year",
    *DAYS,
)

SIDES = {
    "building-side": (
        "building",
        (("vor", "in front of"), ("hinter", "behind"), ("neben", "next to")),
    ),
    "furniture-side": (
        "furniture",
        (("auf", "on"), ("unter", "under"), ("neben", "next to")),
    ),
}


OBJECT_VERBS = tuple(
    v for v in VERBS if v.object and not v.dative and "person" in v.subject.split()
)
DATIVE_VERBS = tuple(v for v in VERBS if v.dative and not v.object)
PLACED_VERBS = tuple(v for v in VERBS if v.place)
MOVING_VERBS = tuple(v for v in VERBS if v.toward)
DAILY_VERBS = tuple(v for v in VERBS if v.aspect == "habit" and "person" in v.subject.split())
PLEASANT_VERBS = tuple(v for v in VERBS if v.infinitive in PLEASANT)
WANT = next(modal for modal in MODALS if modal.english == "want to")


@cache
def verbs_for_subject(noun: Noun) -> tuple[Verb, ...]:
    """Return the verbs whose subject a noun can be."""
    kinds = set(noun.kinds.split())
    return tuple(verb for verb in VERBS if kinds & set(verb.subject.split()))


@cache
def verbs_for_object(noun: Noun) -> tuple[Verb, ...]:
    """Return the verbs that take a noun as accusative and only object."""
    kinds = set(noun.kinds.split())
    return tuple(verb for verb in OBJECT_VERBS if kinds & set(verb.object.split()))
