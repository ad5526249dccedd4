//! Keeps a model from answering earlier questions again. In a prompt only where the app's order names it.

pub(super) const TEXT: &str = "CRITICAL INSTRUCTION: You MUST address ONLY the user's CURRENT QUESTION. \
    Previous conversation is provided SOLELY as background context. You MUST NOT: 1) Answer questions from previous \
    exchanges, 2) Refer to previous topics unless explicitly asked, 3) Provide information not directly relevant to \
    the current question. Treat the current question as if it were asked in isolation, while using context only to \
    enhance your understanding of what the user is currently asking.";
