"""What Moses leaves apart comes together again, and nothing else."""

from __future__ import annotations

from functools import cache

import pytest

from jtrans.text.segment import Moses


@cache
def _moses(language: str) -> Moses:
    return Moses(language)


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("de", "Um 11:27 Uhr fuhr er 70 km/h, im Jahr 1968/69."),
        ("en", "See https://a.b/c_d or write to me_too@home.example.org."),
        ("en", "It’s the peoples’ choice, they’re told."),
        ("en", "“No,” he said, “never.” She said “yes”."),
        ("en", "A ‘real’ part (“so-called”) of 70–80%."),
        ("en", "It cost US$134 million; give us $5. A $5 bill."),
        ("de", "Er las „Men's Health“ von O'Connor; „ja“."),
        ("de", "Das sind 5 Millionen £ jährlich, also 100 € (90 $)."),
        ("de", "Gegen COVID‑19 bei 15 °C…"),
        ("fr", "L’eau d’en face n’a qu’une idée."),
        ("sv", "Han sade ”ja” och gick."),
        ("vi", "Anh nói: “Tốt,” và “đẹp”."),
        ("ar", "مرحبا، كيف حالك؟ ١٢٬٣٤٥٫٦٧؛ قال: «نعم، هل تسمع؟»"),
        ("fa", "سلام، حال شما چطور است؟"),
        ("ur", "وہ گھر گیا۔"),
        ("hi", "राम, श्याम और सीता घर गए।"),
        ("bn", "সে বাড়ি গেছে।"),
        ("am", "ሰላም፣ እንዴት ነህ።"),
        ("hy", "Բարև, ինչպե՞ս ես։ Անի՞ եկավ։"),
        ("tr", "Ayşe'yi gördüm, Ankara'ya gidiyoruz, 2020'de ve 5'inci, Ayşe'ninki."),
        ("tr", "Türkiye’nin başkenti Ankara’dır."),
        ("tr", "O, 'evet' dedi ve gitti."),
        ("az", "Bakı'nın küçələri"),
        ("uk", "П'ять хлопців з об'єднаного м'яча, ім'я; п’ять."),
        ("be", "аб'ект і п'ять"),
        ("ca", "L'home d'aquest poble vol l'aigua, col·lega. Porta'l i dona'm-ne."),
        ("nl", "Hij heeft zo'n auto en foto's."),
        ("nl", "Hij ging 's avonds naar huis, 's morgens niet."),
        ("pt", "Um copo d'água e D'Artagnan."),
        ("gl", "Un vaso d'auga."),
        ("it", "Vorrei un po' d'acqua, l'altro è po' vero."),
        ("he", 'צה"ל הודיע ומנכ"ל אמר "שלום" לכולם.'),
        ("fi", "EU:n jäsen ja YK:n kokous alkavat 5:ssä maassa."),
        ("fi", "Hän sanoi: en tule."),
        ("sv", "USA:s och EU:s ledare. USA: en stormakt."),
        ("ru", "Газета «Правда» и «Известия», «да»."),
        ("es", "El «Quijote» es bueno."),
        ("de", "Er sagte »nein« und »ja«."),
        ("de", "Er las «Die Zeit» und ging."),
        ("fr", "Il dit « oui » et « non »."),
        ("uz", "O'zbekiston, bog' va tog'lar bo'ldi"),
        ("br", "Ar c'hi a zo c'hoazh"),
        ("sq", "S'ka gjë, t'i them ç'do."),
        ("sw", "Ng'ombe wa ng'ambo"),
        ("lb", "D'Haus an d'Leit"),
        ("ga", "B'fhéidir d'ól sé"),
        ("fa", "او می‌رود."),
        ("bn", "র‍্যাব"),
        ("ar", "بنسبة ٥٠٪ من"),
        ("hy", "Ի՞նչ է սա։ Ո՞վ։"),
        # words apart that look like the parts of one
        ("sv", "Källa: s. 12. Fråga: är det S? Storlek: stor."),
        ("fi", "Hinta: n. 20 euroa."),
        ("he", 'כיתה "א".'),
        ("pt", "O grupo 'd' venceu."),
        ("ca", "La 'd' i"),
        ("tr", "Ona 'de' dedi."),
        ("tr", "Kızın adı 'Su' ya da 'Ay'."),
        ("uk", "Він мав 'єдиний' шанс."),
    ],
)
def test_a_line_comes_back(language: str, line: str) -> None:
    segmenter = _moses(language)
    assert segmenter.join(segmenter.segment(line)) == line


@pytest.mark.parametrize(
    ("language", "line"),
    [("ru", "Это правда» и ушёл в «Известия»."), ("he", '"הארץ" ו"מעריב"')],
)
def test_marks_without_a_partner_are_not_joined_to_other_words(language: str, line: str) -> None:
    moses = _moses(language)
    assert isinstance(moses, Moses)
    words = moses.segment(line)
    assert moses.join(words) == moses._detokenizer.detokenize(words, unescape=False)


@pytest.mark.parametrize("line", ["Tom & Anna", "a — b", "c + d", "in the ’90s", "x = y * z"])
def test_what_is_divided_stays_as_moses_has_it(line: str) -> None:
    moses = _moses("en")
    assert isinstance(moses, Moses)
    words = moses.segment(line)
    assert moses.join(words) == moses._detokenizer.detokenize(words, unescape=False)
