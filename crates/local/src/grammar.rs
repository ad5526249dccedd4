//! Answers that cannot be anything but what a schema describes: tokens that would break it are never chosen.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::llama::LoadError;
use crate::tokenizer::Tokenizer;

/// Makes grammars for one vocabulary.
pub(crate) struct Grammars {
    factory: ParserFactory,
}

impl Grammars {
    pub(crate) fn new(tokenizer: &Tokenizer, vocabulary: usize) -> Result<Self, LoadError> {
        const UNSUPPORTED: LoadError = LoadError::Unsupported("vocabulary");
        let size = u32::try_from(vocabulary).map_err(|_| UNSUPPORTED)?;
        let end =
            *tokenizer.ends().first().ok_or(LoadError::Unsupported("lack of a token that ends an answer"))?;
        let words: Vec<Vec<u8>> = (0..size).map(|token| word(tokenizer, token)).collect();
        let trie = TokTrie::from(&TokRxInfo::new(size, end), &words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&environment).map_err(|_| UNSUPPORTED)?;
        factory.quiet();
        Ok(Self { factory })
    }

    /// What holds an answer to a schema. The error says what in the schema cannot be followed.
    pub(crate) fn matcher(&self, schema: &Value) -> Result<Matcher, String> {
        let mut schema = schema.clone();
        if let Value::Object(fields) = &mut schema {
            // A small model that may write white space writes nothing else.
            fields.insert("x-guidance".into(), json!({"whitespace_flexible": false}));
        }
        let parser = self.factory.create_parser(TopLevelGrammar::from_json_schema(schema));
        parser.map(|parser| Matcher::new(Ok(parser))).map_err(|error| error.to_string())
    }
}

/// The bytes of a token; those that are no text are marked as such.
fn word(tokenizer: &Tokenizer, token: u32) -> Vec<u8> {
    let bytes = tokenizer.token(token);
    let mark = tokenizer.is_control(token).then_some(TokTrie::SPECIAL_TOKEN_MARKER);
    mark.into_iter().chain(bytes.iter().copied()).collect()
}

/// Rules out every token that may not come next.
pub(crate) fn mask(matcher: &mut Matcher, scores: &mut [f32]) -> Result<(), String> {
    let mask = matcher.compute_mask_or_eos().map_err(|error| error.to_string())?;
    for (token, score) in (0..).zip(scores.iter_mut()) {
        if !mask.is_allowed(token) {
            *score = f32::NEG_INFINITY;
        }
    }
    Ok(())
}

/// Takes the token that was chosen. True if nothing can follow it.
pub(crate) fn accept(matcher: &mut Matcher, token: u32) -> Result<bool, String> {
    matcher.consume_token(token).map_err(|error| error.to_string())?;
    Ok(matcher.is_stopped())
}
