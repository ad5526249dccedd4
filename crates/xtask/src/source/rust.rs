//! A Rust file as tokens with lines, and the declarations in it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::str::FromStr;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Ident, ImplItemFn, ItemEnum, ItemFn, ItemImpl, ItemMod, ItemStruct, ItemTrait,
    ItemType, ItemUnion, LitStr, Meta, Signature, TraitItemFn, Type, Visibility,
};

pub(crate) struct RustFile {
    pub(crate) tokens: Vec<Token>,
    /// With a body.
    pub(crate) functions: Vec<MeasuredFunction>,
    /// Types that are visible outside this file.
    pub(crate) types: Vec<DeclaredName>,
    /// Types that are not visible outside this file.
    pub(crate) private_types: Vec<DeclaredName>,
    /// Functions and methods, but for those whose names a trait has chosen.
    pub(crate) function_names: Vec<DeclaredName>,
    pub(crate) modules: Vec<DeclaredModule>,
    pub(crate) methods: Vec<DeclaredMethod>,
    /// Lines with code: neither blank nor comments.
    code_lines: BTreeSet<usize>,
    /// The whole file is test code.
    all_test: bool,
    /// Lines that are test code.
    tests: Vec<RangeInclusive<usize>>,
}

/// An identifier, a literal, or a single sign.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    /// The content, if this is a string.
    pub(crate) fn string(&self) -> Option<String> {
        if !self.text.ends_with(['"', '#']) {
            return None; // most tokens, and reading one as a literal takes long
        }
        syn::parse_str::<LitStr>(&self.text).ok().map(|literal| literal.value())
    }
}

pub(crate) struct MeasuredFunction {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Between its braces.
    pub(crate) lines: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredName {
    pub(crate) name: String,
    pub(crate) line: usize,
}

impl DeclaredName {
    fn new(ident: &Ident) -> Self {
        Self { name: ident.to_string(), line: ident.span().start().line }
    }
}

pub(crate) struct DeclaredModule {
    pub(crate) declaration: DeclaredName,
    /// `#[cfg(test)]` stands before it.
    pub(crate) is_test: bool,
    /// The lines between its braces; none if it has a file of its own.
    pub(crate) inline: Option<RangeInclusive<usize>>,
}

/// A method of a type, but for those of traits.
pub(crate) struct DeclaredMethod {
    pub(crate) type_name: String,
    /// Whether it is visible outside its file.
    pub(crate) is_visible: bool,
    pub(crate) line: usize,
}

impl RustFile {
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let stream = TokenStream::from_str(text).map_err(|error| error.to_string())?;
        let syntax: syn::File = syn::parse2(stream.clone()).map_err(|error| error.to_string())?;
        let mut flat = FlatTokens::default();
        flat.add_all(stream, true);
        let FlatTokens { tokens, code } = flat;
        let lines = (1..).zip(text.lines());
        let is_code = |line: usize| code.get(line).copied().unwrap_or_default();
        let code_lines = lines.filter(|(line, text)| is_code(*line) && !text.trim().is_empty());
        let code_lines = code_lines.map(|(line, _)| line).collect();
        let all_test = path.split('/').any(|part| part == "tests") || path.ends_with("/tests.rs");
        let mut collector = Collector::default();
        collector.visit_file(&syntax);
        let Collector { functions, types, private_types, function_names, modules, methods, tests } =
            collector;
        Ok(Self {
            tokens,
            functions,
            types,
            private_types,
            function_names,
            modules,
            methods,
            code_lines,
            all_test,
            tests,
        })
    }

    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.all_test || self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Whether the line has code, such as a part of a string.
    pub(crate) fn is_code_line(&self, line: usize) -> bool {
        self.code_lines.contains(&line)
    }

    /// How many lines of code there are that are no test.
    pub(crate) fn count_code(&self) -> usize {
        self.code_lines.iter().filter(|line| !self.is_test(**line)).count()
    }

    /// The names of the modules within this file that the line stands in, from the outermost.
    pub(crate) fn modules_around(&self, line: usize) -> impl Iterator<Item = &str> {
        let around =
            move |module: &&DeclaredModule| module.inline.as_ref().is_some_and(|lines| lines.contains(&line));
        self.modules.iter().filter(around).map(|module| module.declaration.name.as_str())
    }
}

/// The tokens of a file, and which of its lines have code.
#[derive(Default)]
struct FlatTokens {
    tokens: Vec<Token>,
    /// By the number of the line.
    code: Vec<bool>,
}

impl FlatTokens {
    fn add_all(&mut self, stream: TokenStream, is_code: bool) {
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            let is_sign =
                |tree: &TokenTree, sign| matches!(tree, TokenTree::Punct(one) if one.as_char() == sign);
            let begins_attribute = is_sign(&tree, '#');
            let inner = trees.next_if(|next| begins_attribute && is_sign(next, '!'));
            let text = trees.next_if(|next| begins_attribute && is_doc(next));
            let is_code = is_code && text.is_none();
            for tree in [Some(tree), inner, text].into_iter().flatten() {
                self.add_tree(tree, is_code);
            }
        }
    }

    fn add_tree(&mut self, tree: TokenTree, is_code: bool) {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                self.add(open.into(), group.span_open(), is_code);
                self.add_all(group.stream(), is_code);
                self.add(close.into(), group.span_close(), is_code);
            }
            // A doc comment arrives as `#[doc = ".."]`; its text is prose.
            TokenTree::Literal(_)
                if !is_code
                    && matches!(self.tokens.as_slice(), [.., doc, is] if doc.text == "doc" && is.text == "=") =>
                {}
            leaf @ (TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) => {
                self.add(leaf.to_string(), leaf.span(), is_code);
            }
        }
    }

    fn add(&mut self, text: String, span: Span, is_code: bool) {
        let line = span.start().line;
        if is_code {
            let end = line + text.matches('\n').count();
            self.code.resize(self.code.len().max(end + 1), false);
            self.code.get_mut(line..=end).unwrap_or_default().fill(true);
        }
        self.tokens.push(Token { text, line });
    }
}

fn is_doc(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else { return false };
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

#[derive(Default)]
struct Collector {
    functions: Vec<MeasuredFunction>,
    types: Vec<DeclaredName>,
    private_types: Vec<DeclaredName>,
    function_names: Vec<DeclaredName>,
    modules: Vec<DeclaredModule>,
    methods: Vec<DeclaredMethod>,
    tests: Vec<RangeInclusive<usize>>,
}

impl Collector {
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        let line = signature.fn_token.span.start().line;
        let braces = body.brace_token.span;
        let (open, close) = (braces.open().start().line, braces.close().start().line);
        self.functions.push(MeasuredFunction {
            name: signature.ident.to_string(),
            line,
            lines: close.saturating_sub(open + 1),
        });
        if attributes.iter().any(|attribute| is_test(attribute) || is_cfg_test(attribute)) {
            self.tests.push(first_line(attributes, line)..=close);
        }
    }

    fn declared_type(&mut self, visibility: &Visibility, ident: &Ident) {
        let types = if is_visible(visibility) { &mut self.types } else { &mut self.private_types };
        types.push(DeclaredName::new(ident));
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function_names.push(DeclaredName::new(&item.sig.ident));
        self.function(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let (None, Type::Path(path)) = (&item.trait_, &*item.self_ty)
            && let Some(segment) = path.path.segments.last()
        {
            for item in &item.items {
                let syn::ImplItem::Fn(function) = item else { continue };
                let name = DeclaredName::new(&function.sig.ident);
                let is_visible = is_visible(&function.vis);
                self.methods.push(DeclaredMethod {
                    type_name: segment.ident.to_string(),
                    is_visible,
                    line: name.line,
                });
                self.function_names.push(name);
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.function_names.push(DeclaredName::new(&item.sig.ident));
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let is_test = item.attrs.iter().any(is_cfg_test);
        let declaration = DeclaredName::new(&item.ident);
        let inline = item.content.as_ref().map(|(braces, _)| {
            let (open, close) = (braces.span.open().start().line, braces.span.close().start().line);
            open..=close
        });
        if let (true, Some(lines)) = (is_test, &inline) {
            self.tests.push(first_line(&item.attrs, declaration.line)..=*lines.end());
        }
        self.modules.push(DeclaredModule { declaration, is_test, inline });
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.declared_type(&item.vis, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.declared_type(&item.vis, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.declared_type(&item.vis, &item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.declared_type(&item.vis, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.declared_type(&item.vis, &item.ident);
        visit::visit_item_type(self, item);
    }
}

fn is_visible(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Public(_) => true,
        // `pub(self)` is none.
        Visibility::Restricted(restricted) => !restricted.path.is_ident("self"),
        Visibility::Inherited => false,
    }
}

/// The line of the first attribute, if there is one before this line.
fn first_line(attributes: &[Attribute], line: usize) -> usize {
    attributes.iter().map(|attribute| attribute.pound_token.span.start().line).min().unwrap_or(line)
}

/// `#[test]`, `#[tokio::test]` and their like.
fn is_test(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    matches!(&attribute.meta, Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}
