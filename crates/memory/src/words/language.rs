//! Which language a text is in: by its script or, where many languages share one, by the small words they do not share.
//!
//! English is what a text is taken for unless it has more small words of another language. Words that are small in one
//! language and say something in English, such as the German "hat", are in no list.

use snowball_stemmers_rs::Algorithm;

use super::{folded, stop, tokens};

/// Words of a text that are looked at.
const MAX_LOOKED_AT: usize = 32;
/// Languages that a text may be in when its small words fit several as well.
const MAX_CANDIDATES: usize = 3;
/// What a small word says for its language: little if it is a single letter.
const WORD: usize = 2;
const LETTER: usize = 1;
/// From so much on a text is surely in a language.
const SURE: usize = 2 * WORD;

/// Languages with Latin letters, and their commonest words as they are compared.
const LATIN: &[(Algorithm, &[&str])] = &[
    (Algorithm::Catalan, CATALAN),
    (Algorithm::Czech, CZECH),
    (Algorithm::Danish, DANISH),
    (Algorithm::Dutch, DUTCH),
    (Algorithm::Estonian, ESTONIAN),
    (Algorithm::Finnish, FINNISH),
    (Algorithm::French, FRENCH),
    (Algorithm::German, GERMAN),
    (Algorithm::Hungarian, HUNGARIAN),
    (Algorithm::Indonesian, INDONESIAN),
    (Algorithm::Irish, IRISH),
    (Algorithm::Italian, ITALIAN),
    (Algorithm::Lithuanian, LITHUANIAN),
    (Algorithm::Norwegian, NORWEGIAN),
    (Algorithm::Polish, POLISH),
    (Algorithm::Portuguese, PORTUGUESE),
    (Algorithm::Romanian, ROMANIAN),
    (Algorithm::Spanish, SPANISH),
    (Algorithm::Swedish, SWEDISH),
    (Algorithm::Turkish, TURKISH),
];

/// What a text is written in.
#[derive(Default)]
pub(super) struct Written {
    /// The languages that it may be in, other than English; none for English and for what cannot be told.
    pub(super) languages: Vec<Language>,
    /// Whether it surely is in one of them.
    pub(super) is_sure: bool,
}

impl Written {
    /// Whether the word, as it is compared, is too common in its language to find anything by.
    pub(super) fn is_common(&self, word: &str) -> bool {
        self.is_sure && self.languages.iter().any(|language| language.common.binary_search(&word).is_ok())
    }
}

/// A language that words can be reduced to their stems in.
#[derive(Clone, Copy)]
pub(super) struct Language {
    pub(super) stemmer: Algorithm,
    common: &'static [&'static str],
}

pub(super) fn of(text: &str) -> Written {
    if let Some(language) = by_script(text) {
        return Written { languages: vec![language], is_sure: true };
    }
    let (mut english, mut counts) = (0, [0; LATIN.len()]);
    let worth = |word: &str| if word.chars().nth(1).is_some() { WORD } else { LETTER };
    for token in tokens(text).take(MAX_LOOKED_AT) {
        let word = folded(token);
        if stop::is_stop_word(&word) {
            english += worth(&word);
        }
        for part in word.split('\'') {
            let is_common = |words: &[&str]| words.binary_search(&part).is_ok();
            let fitting = counts.iter_mut().zip(LATIN).filter(|(_, (_, words))| is_common(words));
            fitting.for_each(|(count, _)| *count += worth(part));
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    if most <= english || most < WORD {
        return Written::default();
    }
    let best = counts.iter().zip(LATIN).filter(|(count, _)| **count == most);
    let language =
        |(stemmer, common): &(Algorithm, &'static [&'static str])| Language { stemmer: *stemmer, common };
    Written {
        languages: best.map(|(_, latin)| language(latin)).take(MAX_CANDIDATES).collect(),
        is_sure: most >= SURE,
    }
}

/// The language of a text that is mostly in a script of its own, or of one where a letter tells which language it is.
fn by_script(text: &str) -> Option<Language> {
    let is_own = |letter: &char| {
        letter.is_alphabetic() && !matches!(letter, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
    };
    let first = text.chars().find(is_own)?;
    if text.chars().filter(is_own).count() * 2 < text.chars().filter(|letter| letter.is_alphabetic()).count()
    {
        return None;
    }
    let has =
        |letters: &str| text.chars().flat_map(char::to_lowercase).any(|letter| letters.contains(letter));
    let (stemmer, common): (Algorithm, &'static [&'static str]) = match first {
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => (Algorithm::Greek, &[]),
        '\u{400}'..='\u{52f}' if has("іїєґ") => (Algorithm::Ukrainian, UKRAINIAN),
        '\u{400}'..='\u{52f}' if has("јљњћђџ") => (Algorithm::Serbian, &[]),
        '\u{400}'..='\u{52f}' => (Algorithm::Russian, RUSSIAN),
        '\u{530}'..='\u{58f}' => (Algorithm::Armenian, &[]),
        '\u{600}'..='\u{6ff}' if has("پچژگ") => (Algorithm::Persian, &[]),
        '\u{600}'..='\u{6ff}' => (Algorithm::Arabic, &[]),
        '\u{900}'..='\u{97f}' => (Algorithm::Hindi, &[]),
        '\u{b80}'..='\u{bff}' => (Algorithm::Tamil, &[]),
        _ => return None,
    };
    Some(Language { stemmer, common })
}

const CATALAN: &[&str] = &[
    "a", "al", "amb", "aquest", "de", "del", "dels", "el", "els", "em", "en", "es", "ha", "i", "la", "les",
    "li", "mes", "meu", "meva", "molt", "no", "on", "perque", "que", "qui", "quin", "quina", "se", "si",
    "soc", "te", "tinc", "un", "una", "va", "vaig",
];
const CZECH: &[&str] = &[
    "a", "bych", "byl", "byla", "co", "do", "jak", "jake", "jaky", "je", "jeho", "jeji", "jmenuje", "jsem",
    "jsme", "jsou", "k", "kde", "kdo", "kdy", "ma", "mam", "me", "moje", "muj", "na", "nebo", "o", "od",
    "po", "pro", "proc", "s", "se", "si", "ta", "tak", "to", "v", "ve", "z", "za", "ze",
];
const DANISH: &[&str] = &[
    "af", "at", "bor", "da", "de", "den", "der", "det", "du", "efter", "eller", "en", "er", "et", "for",
    "fra", "han", "hans", "har", "hedder", "hendes", "hvad", "hvem", "hvor", "hvornar", "i", "ikke", "ja",
    "jeg", "kan", "med", "mig", "min", "mit", "og", "om", "pa", "sig", "skal", "som", "til", "ud", "var",
    "vi", "vil",
];
const DUTCH: &[&str] = &[
    "aan", "als", "bij", "dat", "de", "den", "der", "deze", "die", "dit", "doe", "een", "en", "er", "haar",
    "heb", "heeft", "heet", "hem", "het", "hij", "hoe", "houd", "ik", "in", "is", "je", "kan", "maar", "me",
    "mee", "mij", "mijn", "naar", "niet", "nog", "of", "om", "onze", "ook", "op", "te", "toen", "tot", "uit",
    "van", "veel", "voor", "waar", "wanneer", "wat", "we", "welke", "wie", "wij", "wil", "woont", "ze",
    "zich", "zijn",
];
const ESTONIAN: &[&str] = &[
    "aga", "ei", "elab", "ja", "kas", "kes", "kui", "kus", "ma", "mida", "millal", "mille", "mina", "minu",
    "mis", "mu", "nad", "ning", "olen", "oli", "olid", "on", "seda", "siis", "ta", "tema", "voi",
];
const FINNISH: &[&str] = &[
    "asuu", "ei", "en", "ensi", "etta", "han", "hanen", "ja", "jos", "kanssa", "ketka", "kuin", "kuinka",
    "kuka", "kun", "me", "mika", "milla", "milloin", "mina", "minulla", "minun", "missa", "mita", "mutta",
    "ne", "niin", "olen", "oli", "on", "ovat", "pitaa", "se", "sen", "siita", "tai",
];
const FRENCH: &[&str] = &[
    "a", "ai", "alors", "au", "aux", "avec", "c", "ce", "ces", "cet", "cette", "comment", "d", "dans", "de",
    "depuis", "des", "du", "elle", "en", "est", "et", "etait", "il", "ils", "j", "je", "l", "la", "le",
    "les", "leur", "lui", "m", "ma", "mais", "me", "mes", "moi", "mon", "n", "ne", "nos", "notre", "nous",
    "on", "ont", "ou", "par", "pas", "quand", "que", "quel", "quelle", "qui", "quoi", "s", "sa", "se", "ses",
    "sont", "suis", "sur", "ta", "te", "tes", "tu", "un", "une", "votre", "vous", "y",
];
const GERMAN: &[&str] = &[
    "aber", "als", "am", "an", "auch", "auf", "aus", "bei", "bis", "das", "dass", "den", "der", "des", "die",
    "doch", "du", "ein", "eine", "einem", "einen", "einer", "er", "es", "gern", "hab", "habe", "haben",
    "heißt", "ich", "ihm", "ihn", "ihr", "im", "in", "ist", "ja", "kann", "kein", "keine", "mag", "mein",
    "meine", "meinem", "meinen", "meiner", "mich", "mir", "mit", "nach", "nicht", "noch", "nur", "oder",
    "sein", "seine", "seit", "sich", "sie", "sind", "so", "sonst", "um", "und", "uns", "unser", "vom", "von",
    "vor", "wann", "warum", "was", "weil", "wem", "wen", "wer", "wie", "wir", "wird", "wo", "wohnt", "zu",
    "zum", "zur",
];
const HUNGARIAN: &[&str] = &[
    "a", "az", "azt", "de", "egy", "el", "es", "ez", "hogy", "hol", "is", "kell", "ki", "lakik", "meg",
    "mert", "mi", "mikor", "milyen", "mit", "nagyon", "nekem", "nem", "vagy", "vagyok", "van", "volt",
];
const INDONESIAN: &[&str] = &[
    "ada",
    "adalah",
    "akan",
    "aku",
    "anak",
    "apa",
    "atau",
    "bagaimana",
    "berapa",
    "dan",
    "dari",
    "dengan",
    "di",
    "dia",
    "dimana",
    "ini",
    "itu",
    "kami",
    "kapan",
    "ke",
    "mana",
    "nama",
    "pada",
    "punya",
    "saya",
    "siapa",
    "suka",
    "tidak",
    "tinggal",
    "untuk",
    "yang",
];
const IRISH: &[&str] = &[
    "ag", "agus", "an", "ar", "as", "ata", "bhfuil", "cad", "cathain", "conas", "do", "go", "i", "in", "is",
    "le", "liom", "mar", "me", "mo", "na", "ni", "nil", "o", "se", "si", "ta",
];
const ITALIAN: &[&str] = &[
    "a", "abita", "ai", "al", "alla", "anche", "c", "che", "chi", "ci", "come", "con", "cosa", "cui", "da",
    "dal", "dalla", "dei", "del", "della", "di", "dove", "e", "ed", "era", "gli", "ha", "hai", "ho", "i",
    "il", "in", "io", "l", "la", "le", "lei", "lo", "lui", "ma", "me", "mi", "mia", "mie", "miei", "mio",
    "ne", "nel", "nella", "non", "o", "perche", "piace", "piu", "qual", "quale", "quando", "questo", "sei",
    "si", "sono", "su", "sua", "suo", "ti", "tra", "tu", "un", "una", "vive",
];
const LITHUANIAN: &[&str] = &[
    "ar", "as", "bet", "buvo", "gyvena", "ir", "is", "jai", "jam", "ji", "jis", "kad", "kada", "kaip", "kas",
    "kur", "mano", "mes", "mus", "ne", "nors", "nuo", "o", "prie", "su", "tai", "tu", "ura", "uz", "vardas",
    "yra",
];
const NORWEGIAN: &[&str] = &[
    "at", "av", "bor", "da", "de", "den", "der", "det", "du", "eller", "en", "er", "et", "etter", "for",
    "fra", "han", "hans", "har", "henne", "hva", "hvem", "hvilken", "hvor", "i", "ikke", "ja", "jeg", "kan",
    "med", "meg", "min", "mitt", "og", "om", "pa", "seg", "skal", "som", "til", "ut", "var", "vi", "vil",
];
const POLISH: &[&str] = &[
    "a", "bo", "byc", "byl", "byla", "co", "czy", "dla", "do", "gdzie", "go", "i", "ich", "ja", "jak",
    "jaki", "jakie", "jego", "jej", "jest", "jestem", "jestesmy", "juz", "kiedy", "kto", "ktory", "lubi",
    "ma", "mam", "mi", "mieszka", "moim", "moj", "moja", "moje", "mojego", "na", "nazywa", "nie", "o", "od",
    "po", "pod", "sa", "sie", "ta", "tak", "to", "tym", "w", "we", "z", "za", "ze",
];
const PORTUGUESE: &[&str] = &[
    "a", "ao", "aos", "as", "com", "como", "da", "das", "de", "dela", "dele", "depois", "do", "dos", "e",
    "ela", "ele", "em", "entre", "era", "essa", "esse", "esta", "eu", "foi", "gosta", "ha", "isso", "ja",
    "mas", "me", "meu", "meus", "minha", "minhas", "mora", "muito", "na", "nao", "nas", "no", "nos", "o",
    "onde", "os", "ou", "para", "pela", "pelo", "por", "porque", "qual", "quando", "que", "quem", "se",
    "sem", "ser", "seu", "sou", "sua", "tem", "tenho", "um", "uma",
];
const ROMANIAN: &[&str] = &[
    "a", "al", "am", "ar", "are", "au", "ca", "ce", "cel", "cine", "cu", "cum", "da", "de", "din", "e", "ea",
    "ei", "el", "este", "eu", "fi", "in", "la", "lui", "ma", "mai", "mea", "mei", "meu", "mi", "nu", "o",
    "pe", "pentru", "sa", "sau", "se", "si", "sunt", "ta", "un", "una", "unde",
];
const SPANISH: &[&str] = &[
    "a", "al", "algo", "antes", "aunque", "como", "con", "cual", "cuando", "de", "del", "desde", "donde",
    "e", "el", "ella", "ellos", "en", "entre", "era", "eran", "es", "esa", "ese", "eso", "esta", "este",
    "esto", "estoy", "fue", "gusta", "ha", "hasta", "hay", "la", "las", "le", "les", "llama", "lo", "los",
    "mas", "me", "mi", "mis", "mucho", "muy", "nada", "ni", "no", "nos", "o", "os", "para", "pero", "por",
    "porque", "que", "quien", "quiero", "se", "sobre", "soy", "su", "sus", "tambien", "te", "tengo", "tiene",
    "todo", "tu", "un", "una", "unos", "vive", "y", "ya", "yo",
];
const SWEDISH: &[&str] = &[
    "ar", "att", "av", "bor", "da", "de", "den", "det", "din", "du", "efter", "eller", "en", "er", "ett",
    "for", "fran", "ha", "han", "hans", "har", "henne", "heter", "hon", "hur", "i", "icke", "ingen", "inte",
    "ja", "jag", "kan", "med", "mig", "min", "mina", "mitt", "nar", "och", "om", "pa", "sa", "sig", "ska",
    "som", "ut", "vad", "var", "vem", "vi", "vid", "vilken",
];
const TURKISH: &[&str] = &[
    "ama", "ben", "benim", "bir", "bu", "cok", "da", "daha", "de", "degil", "diye", "en", "gibi", "hangi",
    "icin", "ile", "kac", "mi", "nasil", "ne", "neden", "nerede", "o", "olarak", "onun", "sen", "siz", "su",
    "var", "ve", "veya", "ya", "yok",
];
const RUSSIAN: &[&str] = &[
    "а",
    "без",
    "был",
    "была",
    "были",
    "в",
    "во",
    "вы",
    "где",
    "да",
    "для",
    "до",
    "его",
    "ее",
    "если",
    "есть",
    "еще",
    "же",
    "за",
    "и",
    "из",
    "или",
    "им",
    "их",
    "к",
    "как",
    "какая",
    "какие",
    "какой",
    "когда",
    "кто",
    "ли",
    "меня",
    "мне",
    "мои",
    "мой",
    "моя",
    "моё",
    "мы",
    "на",
    "не",
    "нет",
    "но",
    "о",
    "он",
    "она",
    "они",
    "от",
    "по",
    "при",
    "с",
    "со",
    "так",
    "там",
    "то",
    "тоже",
    "ты",
    "у",
    "что",
    "это",
    "я",
];
const UKRAINIAN: &[&str] = &[
    "а", "але", "був", "була", "в", "ви", "вона", "вони", "він", "де", "для", "до", "з", "за", "його",
    "коли", "мене", "мені", "ми", "моя", "моє", "мій", "на", "не", "ні", "о", "про", "та", "так", "ти", "у",
    "хто", "це", "чи", "що", "я", "як", "яка", "який", "є", "і", "із", "її",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<Algorithm> {
        of(text).languages.iter().map(|language| language.stemmer).collect()
    }

    #[test]
    fn the_words_are_in_order() {
        for words in LATIN.iter().map(|(_, words)| *words).chain([RUSSIAN, UKRAINIAN]) {
            assert!(words.is_sorted(), "{words:?}");
        }
    }

    #[test]
    fn the_language_of_a_sentence_is_told() {
        use Algorithm::{
            Arabic, French, German, Greek, Italian, Polish, Portuguese, Russian, Spanish, Ukrainian,
        };
        for (text, expected) in [
            ("¿Cómo se llama mi perro?", Spanish),
            ("Es alérgico a los cacahuetes", Spanish),
            ("Meine Großmutter wohnt in Köln", German),
            ("Was soll ich nicht essen?", German),
            ("Où habite ma soeur ?", French),
            ("J'ai deux chats", French),
            ("Dove abita mia sorella?", Italian),
            ("Minha irmã mora em Lisboa", Portuguese),
            ("Gdzie mieszka moja siostra?", Polish),
            ("Где живёт моя сестра?", Russian),
            ("Моя сестра живе в Києві", Ukrainian),
            ("Πού μένει η αδελφή μου;", Greek),
            ("أين تعيش أختي؟", Arabic),
        ] {
            assert_eq!(told(text), [expected], "{text}");
        }
    }

    #[test]
    fn english_and_what_cannot_be_told_have_none() {
        for text in [
            "",
            "Where does my sister live?",
            "Biscuit",
            "I am in Los Angeles",
            "We met in a café",
            "We call it борщ at home",
            "猫が好き",
            "O'Brien",
            "A man with a hat",
        ] {
            assert!(told(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_may_be_english_keeps_all_its_words() {
        let written = of("Den mother");
        assert!(!written.is_sure && !written.is_common("den"));
        assert!(of("Der Hund von Ida und mir").is_common("von"));
    }
}
