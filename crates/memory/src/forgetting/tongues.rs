//! How people ask to forget something, say yes and no, and are answered, in each language.

/// Phrases in small letters, as words with one space between them, and a `|` between phrases.
pub(super) type Phrases = &'static str;

/// One language.
#[derive(Debug)]
pub(super) struct Tongue {
    pub(super) code: &'static str,
    /// What may come before a request: greetings, "please".
    pub(super) leads: Phrases,
    /// The same, where it makes a question of the request: "can you".
    pub(super) asking: Phrases,
    pub(super) verbs: Phrases,
    /// Verbs that stand at the end of such a question.
    pub(super) last_verbs: Phrases,
    /// What is said for the thing that was said last.
    pub(super) last: Phrases,
    /// What leads to a topic: "what I said about".
    pub(super) about: Phrases,
    /// What leads to a statement: "that".
    pub(super) clauses: Phrases,
    /// What begins a thing of the user's: "my".
    pub(super) own: Phrases,
    /// Words that end a topic and do not belong to it.
    pub(super) tails: Phrases,
    /// What says nothing by itself, at an end or in an answer.
    pub(super) courtesies: Phrases,
    pub(super) yes: Phrases,
    pub(super) no: Phrases,
    /// Answers; `{}` stands for what is meant.
    pub(super) ask_one: &'static str,
    pub(super) ask_several: &'static str,
    pub(super) forgotten: &'static str,
    pub(super) kept: &'static str,
    pub(super) nothing_of_last: &'static str,
    pub(super) nothing_about: &'static str,
    /// Requests to forget all.
    pub(super) everything: Phrases,
    pub(super) too_much: &'static str,
}

pub(super) const TONGUES: &[Tongue] = &[ENGLISH, GERMAN, SPANISH, FRENCH];

pub(super) const ENGLISH: Tongue = Tongue {
    code: "en",
    leads: "please|pls|kindly|hey|hi|hello|ok|okay|oh|well|so|and|also|now|actually|sorry|no|wait|just|you can|\
           i want you to|i'd like you to|i would like you to|i need you to",
    asking: "can you|could you|would you|will you|may i ask you to",
    verbs: "forget|delete from your memory|erase from your memory|remove from your memory|don't remember|\
           do not remember|stop remembering|don't keep|do not keep",
    last_verbs: "",
    last: "that|this|all that|all of that|all this|that again|that one|what i said|what i just said|\
           what i told you|what i just told you|the last thing|the last thing i said|the last thing i told you|\
           my last message|i said that|i said anything|i ever said that|i told you that|that i said that|\
           that i told you that|that from your memory",
    about: "what i said about|what i told you about|what i have said about|what i've said about|\
           what i have told you about|what i've told you about|what you know about|what you remember about|\
           everything about|everything i said about|everything i told you about|everything you know about|\
           everything you remember about|all about|all i said about|all you know about|anything about|\
           anything i said about|the thing about|the part about|that part about|that thing about|what i said on|\
           everything on",
    clauses: "that|the fact that|i said that|i told you that|i said|i told you",
    own: "my|our",
    tails: "from|your|memory|again|completely",
    courtesies: "please|pls|thanks|thank you|thx|again|now|ok|okay|will you|would you|for good|completely|right away",
    yes: "yes|yes yes|yeah|yep|yup|sure|yes sure|of course|yes of course|correct|exactly|right|yes right|\
           yes that one|do it|yes do it|do that|yes do that|go ahead|yes go ahead|please|please do|do|yes do|ok|\
           okay|yes forget it|forget that|yes forget that|yes forget them|forget them|confirm|confirmed|y",
    no: "no|nope|no no|nah|don't|no don't|do not|keep it|no keep it|keep them|no keep them|keep that|\
           no keep that|stop|never mind|nevermind|no never mind|cancel|n|not that|no not that|not that one|\
           no not that one|leave it|no leave it",
    ask_one: "Shall I forget this?\n- {}\nSay yes, and it is gone from my memory. Nothing is forgotten before that.",
    ask_several: "Shall I forget these?\n{}\nSay yes, and they are gone from my memory. Nothing is forgotten before \
                  that.",
    forgotten: "Done, I have forgotten that. Your own messages stay in this conversation until you delete it, but I no \
                longer see there what you asked me to forget.",
    kept: "All right, I keep it.",
    nothing_of_last: "I have kept no note of what you said last, and I will not. The message itself stays in this conversation until you delete the conversation.",
    nothing_about: "I find nothing about that in my memory, so there is nothing to forget. Your list of memories shows \
                    all that I have kept.",
    everything: "forget everything|forget everything you know|forget everything about me|forget everything you know about me|forget everything i said|forget everything i told you|forget all about me|forget all you know about me",
    too_much: "I know more than I can show you here. Delete it in your list of memories, or tell me what to forget.",
};

const GERMAN: Tongue = Tongue {
    code: "de",
    leads: "bitte|hey|hallo|hi|ok|okay|oh|ach|also|und|nein|nun|jetzt|eigentlich|entschuldige|moment|\
           ich möchte dass du|ich will dass du",
    asking: "kannst du|könntest du|würdest du|können sie|könnten sie|würden sie|magst du",
    verbs: "vergiss|vergiß|vergesse|vergessen sie|vergessen",
    last_verbs: "vergessen|vergisst",
    last: "das|dies|all das|das alles|das wieder|das gerade|was ich gesagt habe|was ich gerade gesagt habe|\
           was ich eben gesagt habe|was ich dir gesagt habe|was ich dir gerade gesagt habe|\
           was ich dir erzählt habe|was ich zuletzt gesagt habe|dass ich das gesagt habe|das aus deinem gedächtnis|\
           meine letzte nachricht",
    about: "was ich über|was ich dir über|was ich von|was ich dir von|was ich zu|was ich dir zu|alles über|\
           alles was ich über|alles was ich dir über|alles was ich von|alles was ich dir von|alles was du über|\
           alles was du von|was du über|was du von|alles zu|alles von|das über|das mit",
    clauses: "dass|daß|das ich",
    own: "mein|meine|meinen|meinem|meiner|unser|unsere|unseren",
    tails: "gesagt|erzählt|geschrieben|habe|hab|weißt|weisst|aus|deinem|gedächtnis|vergessen|wieder",
    courtesies: "bitte|danke|danke schön|wieder|jetzt|gleich|ok|okay|sofort|ganz",
    yes: "ja|ja ja|jawohl|klar|ja klar|genau|ja genau|sicher|ja sicher|gerne|ja gerne|gern|ja gern|mach das|\
           ja mach das|mach es|tu das|ja tu das|bitte|ja vergiss es|vergiss das|ja vergiss das|stimmt|richtig|\
           ja richtig",
    no: "nein|nein nein|nö|ne|nee|nicht|lieber nicht|nein lieber nicht|lass es|nein lass es|lass das|behalte es|\
           nein behalte es|behalt es|doch nicht|nein doch nicht|abbrechen",
    ask_one: "Soll ich das vergessen?\n- {}\nSag ja, dann ist es aus meinem Gedächtnis verschwunden. Vorher wird nichts \
              vergessen.",
    ask_several: "Soll ich das alles vergessen?\n{}\nSag ja, dann ist es aus meinem Gedächtnis verschwunden. Vorher wird \
                  nichts vergessen.",
    forgotten: "Erledigt, das habe ich vergessen. Deine eigenen Nachrichten bleiben in diesem Gespräch, bis du es \
                löschst, aber ich sehe darin nicht mehr, was ich vergessen soll.",
    kept: "Gut, ich behalte es.",
    nothing_of_last: "Von dem, was du zuletzt gesagt hast, habe ich nichts notiert, und ich werde es nicht. Die Nachricht selbst bleibt in diesem Gespräch, bis du es löschst.",
    nothing_about: "Darüber finde ich nichts in meinem Gedächtnis, also gibt es nichts zu vergessen. Die Liste deiner \
                    Erinnerungen zeigt alles, was ich behalten habe.",
    everything: "vergiss alles|vergiss alles über mich|vergiss alles was du weißt|vergiss alles was du über mich weißt|vergiss alles was ich gesagt habe",
    too_much: "Ich weiß mehr, als ich dir hier zeigen kann. Lösche es in der Liste deiner Erinnerungen, oder sag mir, was ich vergessen soll.",
};

const SPANISH: Tongue = Tongue {
    code: "es",
    leads: "por favor|hola|oye|ok|vale|ay|y|ahora|perdona|perdón|espera",
    asking: "puedes|podrías|puede|podría|me puedes|quieres",
    verbs: "olvida|olvidar|olvide|olvídate de|olvidarte de|no recuerdes|no guardes",
    last_verbs: "",
    last: "eso|esto|todo eso|todo esto|lo que dije|lo que acabo de decir|lo que te dije|lo que te acabo de decir|\
           lo que he dicho|lo que te he dicho|lo último|lo último que dije|que dije eso|que te dije eso|\
           eso de tu memoria|mi último mensaje",
    about: "lo que dije sobre|lo que dije de|lo que te dije sobre|lo que te dije de|lo que he dicho sobre|\
           lo que he dicho de|lo que te he dicho sobre|lo que te he dicho de|lo que te conté sobre|\
           lo que te conté de|lo que sabes sobre|lo que sabes de|todo sobre|todo lo que dije sobre|\
           todo lo que te dije sobre|todo lo que sabes sobre|todo lo que sabes de|todo acerca de|\
           lo que dije acerca de|lo de",
    clauses: "que",
    own: "mi|mis|nuestro|nuestra|nuestros|nuestras",
    tails: "de|tu|memoria",
    courtesies: "por favor|gracias|muchas gracias|ya|ahora|vale|ok|del todo",
    yes: "sí|si|sí sí|claro|sí claro|claro que sí|por supuesto|exacto|sí exacto|correcto|hazlo|sí hazlo|adelante|\
           sí adelante|sí olvídalo|por favor|vale|olvida eso|sí olvida eso|dale",
    no: "no|no no|mejor no|no mejor no|guárdalo|no guárdalo|déjalo|no déjalo|no lo olvides|no lo hagas|cancela|\
           cancelar|eso no",
    ask_one: "¿Quieres que olvide esto?\n- {}\nDi que sí, y desaparece de mi memoria. Antes no se olvida nada.",
    ask_several: "¿Quieres que olvide todo esto?\n{}\nDi que sí, y desaparece de mi memoria. Antes no se olvida nada.",
    forgotten: "Hecho, lo he olvidado. Tus mensajes siguen en esta conversación hasta que la borres, pero ya no veo en \
                ellos lo que me pediste olvidar.",
    kept: "De acuerdo, lo guardo.",
    nothing_of_last: "No he anotado nada de lo último que dijiste, y no lo haré. El mensaje mismo sigue en esta conversación hasta que la borres.",
    nothing_about: "No encuentro nada sobre eso en mi memoria, así que no hay nada que olvidar. Tu lista de recuerdos \
                    muestra todo lo que he guardado.",
    everything: "olvida todo|olvídalo todo|olvida todo sobre mí|olvida todo lo que sabes|olvida todo lo que sabes de mí|olvida todo lo que sabes sobre mí|olvida todo lo que te dije",
    too_much: "Sé más de lo que puedo mostrarte aquí. Bórralo en tu lista de recuerdos o dime qué debo olvidar.",
};

const FRENCH: Tongue = Tongue {
    code: "fr",
    leads: "s'il te plaît|s'il vous plaît|stp|svp|salut|bonjour|ok|d'accord|oh|et|alors|maintenant|non|pardon|\
           attends|je veux que tu|j'aimerais que tu",
    asking: "peux tu|pourrais tu|pouvez vous|pourriez vous|tu peux|veux tu",
    verbs: "oublie|oubliez|oublier|oublies|ne retiens pas|ne garde pas",
    last_verbs: "",
    last: "ça|cela|ceci|tout ça|tout cela|ce que j'ai dit|ce que je t'ai dit|ce que je viens de dire|\
           ce que je viens de te dire|ce que je vous ai dit|la dernière chose|que j'ai dit ça|que je t'ai dit ça|\
           ça de ta mémoire|mon dernier message",
    about: "ce que j'ai dit sur|ce que j'ai dit de|ce que j'ai dit à propos de|ce que j'ai dit au sujet de|\
           ce que je t'ai dit sur|ce que je t'ai dit de|ce que je t'ai dit à propos de|\
           ce que je t'ai dit au sujet de|ce que je t'ai raconté sur|ce que je t'ai raconté de|ce que tu sais sur|\
           ce que tu sais de|tout sur|tout ce que j'ai dit sur|tout ce que je t'ai dit sur|tout ce que tu sais sur|\
           tout ce que tu sais de|tout ce que j'ai dit à propos de|l'histoire de",
    clauses: "que",
    own: "mon|ma|mes|notre|nos",
    tails: "de|ta|mémoire",
    courtesies: "s'il te plaît|s'il vous plaît|stp|svp|merci|merci beaucoup|maintenant|ok|complètement|tout de suite",
    yes: "oui|oui oui|ouais|bien sûr|oui bien sûr|d'accord|oui d'accord|exactement|vas y|oui vas y|fais le|\
           oui fais le|oublie ça|oui oublie ça|oublie|oui oublie|c'est ça|oui c'est ça",
    no: "non|non non|plutôt pas|non plutôt pas|garde le|non garde le|garde ça|non garde ça|laisse|non laisse|\
           laisse tomber|non laisse tomber|pas ça|non pas ça|annule|annuler",
    ask_one: "Dois-je oublier ceci ?\n- {}\nDis oui, et cela disparaît de ma mémoire. Rien n'est oublié avant.",
    ask_several: "Dois-je oublier tout ceci ?\n{}\nDis oui, et cela disparaît de ma mémoire. Rien n'est oublié avant.",
    forgotten: "C'est fait, je l'ai oublié. Tes propres messages restent dans cette conversation jusqu'à ce que tu la \
                supprimes, mais je n'y vois plus ce que tu m'as demandé d'oublier.",
    kept: "D'accord, je le garde.",
    nothing_of_last: "Je n'ai rien noté de ce que tu as dit en dernier, et je ne le ferai pas. Le message lui-même reste dans cette conversation jusqu'à ce que tu la supprimes.",
    nothing_about: "Je ne trouve rien là-dessus dans ma mémoire, il n'y a donc rien à oublier. Ta liste de souvenirs \
                    montre tout ce que j'ai gardé.",
    everything: "oublie tout|oublie tout sur moi|oublie tout ce que tu sais|oublie tout ce que tu sais de moi|oublie tout ce que tu sais sur moi|oublie tout ce que je t'ai dit",
    too_much: "Je sais plus de choses que je ne peux t'en montrer ici. Supprime-les dans ta liste de souvenirs, ou dis-moi ce que je dois oublier.",
};
