//! A Rust file as tokens with lines, and as functions with sizes.

use std::ops::RangeInclusive;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemMod, LitStr, Meta, Signature, TraitItemFn};

pub(super) struct RustFile {
    pub(super) tokens: Vec<Token>,
    pub(super) functions: Vec<Function>,
    /// The whole file is test code.
    all_test: bool,
    /// Lines that are test code.
    tests: Vec<RangeInclusive<usize>>,
}

/// An identifier, a literal, or a single sign.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    /// The content, if this is a string.
    pub(super) fn string(&self) -> Option<String> {
        syn::parse_str::<LitStr>(&self.text).ok().map(|literal| literal.value())
    }
}

pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    /// Between its braces.
    pub(super) lines: usize,
}

impl RustFile {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let syntax = syn::parse_file(text).map_err(|error| error.to_string())?;
        let stream = TokenStream::from_str(text).map_err(|error| error.to_string())?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let all_test = path.split('/').any(|part| part == "tests") || path.ends_with("/tests.rs");
        let mut collector = Collector::default();
        collector.visit_file(&syntax);
        Ok(Self { tokens, functions: collector.functions, all_test, tests: collector.tests })
    }

    pub(super) fn is_test(&self, line: usize) -> bool {
        self.all_test || self.tests.iter().any(|lines| lines.contains(&line))
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let token = |text: &str, span: proc_macro2::Span| Token { text: text.into(), line: span.start().line };
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(token(open, group.span_open()));
                flatten(group.stream(), tokens);
                tokens.push(token(close, group.span_close()));
            }
            // A doc comment arrives as `#[doc = ".."]`; its text is prose.
            TokenTree::Literal(_) if matches!(tokens.as_slice(), [.., doc, is] if doc.text == "doc" && is.text == "=") =>
                {}
            leaf @ (TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) => {
                tokens.push(token(&leaf.to_string(), leaf.span()));
            }
        }
    }
}

#[derive(Default)]
struct Collector {
    functions: Vec<Function>,
    tests: Vec<RangeInclusive<usize>>,
}

impl Collector {
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        let line = signature.fn_token.span.start().line;
        let braces = body.brace_token.span;
        let (open, close) = (braces.open().start().line, braces.close().start().line);
        self.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: close.saturating_sub(open + 1),
        });
        if attributes.iter().any(is_test) {
            self.tests.push(line..=close);
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if let (true, Some((braces, _))) = (item.attrs.iter().any(is_cfg_test), &item.content) {
            self.tests.push(item.mod_token.span.start().line..=braces.span.close().start().line);
        }
        visit::visit_item_mod(self, item);
    }
}

/// `#[test]`, `#[tokio::test]` and their like.
fn is_test(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    matches!(&attribute.meta, Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}
