//! Templates of requests: which names they may use, and which text they make of the values of a call.
//!
//! A template gets no secret but those it names plainly, so that none can be reached by a detour. An error while
//! it is filled names no value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value as Json};

use crate::template::{Bounded, Mistake, environment};

/// The size that one template, or one JSON value made of templates, may have when it is filled.
const MAX_RENDERED_BYTES: usize = 256 * 1024;
const NAME: &str = "template";
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const SECRET: &str = "secret";
const CREDENTIAL: &str = "credential";
/// All else can give a name to a secret, or is of no use in one value.
const STATEMENTS: &[&str] = &["if", "elif", "else", "endif", "for", "endfor"];

/// Names that a template may use, by its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// The request of a call.
    Call,
    /// The request that undoes a call.
    Undo,
    /// The answer that the model reads; no secret may come into it.
    Answer,
    /// The headers or variables of a connection to a server, before there is a call.
    Connection,
}

impl Names {
    /// A name without a dot may be followed by anything.
    fn list(self) -> &'static [&'static str] {
        match self {
            Self::Call => {
                &["input", "secret.NAME", "credential.NAME", "user.id", "app.id", "thread.id", "call.key"]
            }
            Self::Undo => &[
                "input",
                "output",
                "secret.NAME",
                "credential.NAME",
                "user.id",
                "app.id",
                "thread.id",
                "call.key",
            ],
            Self::Answer => &["input", "output", "user.id", "app.id", "thread.id", "call.key"],
            Self::Connection => &["secret.NAME", "credential.NAME", "user.id", "app.id"],
        }
    }

    /// Checks one of the paths that a template uses, such as `input.title` or `user`.
    fn check(self, path: &str) -> Result<(), Mistake> {
        let mut parts = path.split('.');
        let (root, next) = (parts.next(), parts.next());
        let fits = |name: &&&str| match name.split_once('.') {
            None => root == Some(**name),
            Some((first, "NAME")) => root == Some(first) && next.is_some(),
            Some((first, second)) => root == Some(first) && next == Some(second),
        };
        if self.list().iter().any(|name| fits(&name)) {
            return Ok(());
        }
        let names = self.list().join(", ");
        Err(Mistake::new(format!("the template names {path:?}"), format!("use only {names}")))
    }
}

/// How a value is written into the text around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    Plain,
    /// Percent-encoded but for letters, digits and `-._~`.
    Encoded,
}

/// A text with values of a call in it. Two are equal when their texts are.
#[derive(Clone)]
pub struct TextTemplate {
    source: String,
    environment: Arc<Environment<'static>>,
    /// Of a template that is one `{{ expression }}` and nothing else.
    expression: Option<String>,
    secrets: BTreeSet<String>,
    credentials: BTreeSet<String>,
    names_user: bool,
}

impl TextTemplate {
    pub fn new(source: &str, names: Names) -> Result<Self, String> {
        Self::read(source, names, Writing::Plain).map_err(|mistake| mistake.to_string())
    }

    pub(crate) fn read(source: &str, names: Names, writing: Writing) -> Result<Self, Mistake> {
        check_statements(source)?;
        let mut environment = environment(SyntaxConfig::builder().keep_trailing_newline(true).build()?);
        environment.set_formatter(move |out, _, value| {
            let text = text(value)?;
            match writing {
                Writing::Plain => out.write_str(&text),
                Writing::Encoded => write!(out, "{}", utf8_percent_encode(&text, ENCODED)),
            }
            .map_err(Error::from)
        });
        environment.add_template_owned(NAME, source.to_owned())?;
        let used = environment.get_template(NAME)?.undeclared_variables(true);
        let used: BTreeSet<String> = used.into_iter().collect(); // the first mistake is the same one each time
        used.iter().try_for_each(|path| names.check(path))?;
        let named = |root: &str| -> BTreeSet<String> {
            let paths = used.iter().filter_map(|path| path.strip_prefix(root)?.strip_prefix('.'));
            paths.filter_map(|rest| rest.split('.').next()).map(str::to_owned).collect()
        };
        let (secrets, credentials) = (named(SECRET), named(CREDENTIAL));
        check_followed(source, SECRET, &secrets)?;
        check_followed(source, CREDENTIAL, &credentials)?;
        let template = Self {
            expression: only_expression(source, &environment),
            secrets,
            credentials,
            names_user: used.iter().any(|path| path.starts_with("user.")),
            source: source.to_owned(),
            environment: Arc::new(environment),
        };
        template.try_out()?;
        Ok(template)
    }

    /// The operator's secrets that it names.
    pub fn secrets(&self) -> &BTreeSet<String> {
        &self.secrets
    }

    /// The user's own secrets that it names.
    pub fn credentials(&self) -> &BTreeSet<String> {
        &self.credentials
    }

    /// Whether it comes out differently for each user.
    pub fn is_per_user(&self) -> bool {
        self.names_user || !self.credentials.is_empty()
    }

    /// None for a template that is one `{{ expression }}` without a value. Objects and lists are written as JSON.
    pub fn text(&self, values: &Json) -> Result<Option<String>, String> {
        match &self.expression {
            Some(expression) => {
                let Some(value) = self.evaluate(expression, values)? else { return Ok(None) };
                let text = text(&value).map_err(|error| fill_error(&error))?;
                within_bounds(text.len())?;
                Ok(Some(text))
            }
            None => self.write(values).map(Some),
        }
    }

    /// As `text`, but what is one `{{ expression }}` keeps its type.
    pub fn value(&self, values: &Json) -> Result<Option<Json>, String> {
        match &self.expression {
            Some(expression) => {
                let Some(value) = self.evaluate(expression, values)? else { return Ok(None) };
                let value = serde_json::to_value(&value).map_err(|_| "the value is not JSON")?;
                within_bounds(value.to_string().len())?;
                Ok(Some(value))
            }
            None => self.write(values).map(|text| Some(Json::String(text))),
        }
    }

    /// The whole text; what has no value is written as nothing.
    pub(super) fn write(&self, values: &Json) -> Result<String, String> {
        let mut written = Bounded::new(MAX_RENDERED_BYTES);
        let result = self.render_to(values, &mut written);
        if written.is_full {
            return Err(too_long());
        }
        result.map_err(|error| fill_error(&error))?;
        Ok(written.text())
    }

    fn render_to(&self, values: &Json, written: &mut Bounded) -> Result<(), Error> {
        let template = self.environment.get_template(NAME)?;
        template.render_captured_to(self.context(values), written).map(drop)
    }

    fn evaluate(&self, expression: &str, values: &Json) -> Result<Option<Value>, String> {
        let compiled = self.environment.compile_expression_owned(expression.to_owned());
        let value = compiled.and_then(|compiled| compiled.eval(self.context(values)));
        let value = value.map_err(|error| fill_error(&error))?;
        Ok(Some(value).filter(|value| !value.is_undefined() && !value.is_none()))
    }

    fn context(&self, values: &Json) -> Value {
        let roots = values.as_object().into_iter().flatten().map(|(root, inner)| {
            let given = match root.as_str() {
                SECRET => named_values(inner, &self.secrets),
                CREDENTIAL => named_values(inner, &self.credentials),
                _ => Value::from(Serde(inner)),
            };
            (root.clone(), given)
        });
        Value::from(roots.collect::<BTreeMap<String, Value>>())
    }

    /// A filter that does not exist only shows when it is reached.
    fn try_out(&self) -> Result<(), Mistake> {
        let mut written = Bounded::new(MAX_RENDERED_BYTES);
        let unknown = [ErrorKind::UnknownFilter, ErrorKind::UnknownTest, ErrorKind::UnknownFunction];
        match self.render_to(&Json::Null, &mut written) {
            Err(error) if unknown.contains(&error.kind()) => Err(error.into()),
            Err(_) | Ok(()) => Ok(()),
        }
    }
}

impl fmt::Debug for TextTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TextTemplate").field(&self.source).finish()
    }
}

impl PartialEq for TextTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// A JSON value whose texts are templates, at any depth.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonTemplate(Node);

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Fixed(Json),
    Text(TextTemplate),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl JsonTemplate {
    pub fn new(value: &Json, names: Names) -> Result<Self, String> {
        Self::read(value, names).map_err(|mistake| mistake.to_string())
    }

    /// A mistake begins with its place, such as `/items/0`.
    pub(crate) fn read(value: &Json, names: Names) -> Result<Self, Mistake> {
        Node::read(value, names, "").map(Self)
    }

    /// A field or entry without a value is left out.
    pub fn render(&self, values: &Json) -> Result<Json, String> {
        let rendered = self.0.render(values, &mut 0)?;
        Ok(rendered.unwrap_or(Json::Null))
    }

    pub(super) fn templates(&self) -> Vec<&TextTemplate> {
        let mut found = Vec::new();
        self.0.collect(&mut found);
        found
    }
}

impl Node {
    fn read(value: &Json, names: Names, place: &str) -> Result<Self, Mistake> {
        Ok(match value {
            Json::String(text) if is_template(text) => {
                let template = TextTemplate::read(text, names, Writing::Plain);
                Self::Text(template.map_err(|mistake| at_place(place, mistake))?)
            }
            Json::Array(items) => {
                let items = items.iter().enumerate();
                let read = items.map(|(index, item)| Self::read(item, names, &format!("{place}/{index}")));
                Self::List(read.collect::<Result<_, _>>()?)
            }
            Json::Object(fields) => {
                let read = |(name, field): (&String, &Json)| {
                    Ok((name.clone(), Self::read(field, names, &format!("{place}/{name}"))?))
                };
                Self::Object(fields.iter().map(read).collect::<Result<_, Mistake>>()?)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Self::Fixed(value.clone()),
        })
    }

    /// `bytes` is what all templates before came to.
    fn render(&self, values: &Json, bytes: &mut usize) -> Result<Option<Json>, String> {
        Ok(match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Text(template) => {
                let value = template.value(values)?;
                *bytes += value.as_ref().map_or(0, |value| value.to_string().len());
                within_bounds(*bytes)?;
                value
            }
            Self::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    list.extend(item.render(values, bytes)?);
                }
                Some(Json::Array(list))
            }
            Self::Object(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    if let Some(value) = field.render(values, bytes)? {
                        object.insert(name.clone(), value);
                    }
                }
                Some(Json::Object(object))
            }
        })
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a TextTemplate>) {
        match self {
            Self::Fixed(_) => {}
            Self::Text(template) => found.push(template),
            Self::List(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Object(fields) => fields.iter().for_each(|(_, field)| field.collect(found)),
        }
    }
}

/// Whether a text is more than itself.
fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|start| text.contains(start))
}

fn at_place(place: &str, mistake: Mistake) -> Mistake {
    if place.is_empty() {
        return mistake;
    }
    Mistake { message: format!("{place}: {}", mistake.message), ..mistake }
}

fn check_statements(source: &str) -> Result<(), Mistake> {
    for statement in source.split("{%").skip(1) {
        let words = statement.trim_start_matches(['-', '+']).trim_start();
        let word: String = words.chars().take_while(char::is_ascii_alphanumeric).collect();
        if !STATEMENTS.contains(&word.as_str()) {
            return Err(Mistake::new(format!("the template uses {{% {word} %}}"), "use only if and for"));
        }
    }
    Ok(())
}

/// A name that a template uses is not found everywhere it can stand, such as before `[1:]`. A secret that was missed would come
/// out as nothing.
fn check_followed(source: &str, root: &str, found: &BTreeSet<String>) -> Result<(), Mistake> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let tags = [("{{", "}}"), ("{%", "%}")].into_iter().flat_map(|(open, close)| {
        source.split(open).skip(1).filter_map(move |after| after.split(close).next())
    });
    for mut rest in tags {
        while let Some((before, after)) = rest.split_once(root) {
            rest = after;
            let is_part = before.ends_with(|c: char| is_name(c) || c == '.') || after.starts_with(is_name);
            let name = after.trim_start().strip_prefix('.').map(str::trim_start).unwrap_or_default();
            let name: String = name.chars().take_while(|c| is_name(*c)).collect();
            if !is_part && !found.contains(&name) {
                let message = format!("the template uses {root} in a way that cannot be checked");
                return Err(Mistake::new(message, format!("write it plainly, as {{{{ {root}.NAME }}}}")));
            }
        }
    }
    Ok(())
}

/// The expression between the braces, where there is one pair and nothing outside of it.
fn only_expression(source: &str, environment: &Environment<'static>) -> Option<String> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    let signs = ['-', '+']; // they say what becomes of the blanks around
    let inner = inner.strip_prefix(signs).unwrap_or(inner);
    let inner = inner.strip_suffix(signs).unwrap_or(inner);
    environment.compile_expression_owned(inner.to_owned()).ok().map(|_| inner.to_owned())
}

fn named_values(values: &Json, names: &BTreeSet<String>) -> Value {
    let given = names.iter().filter_map(|name| Some((name, values.get(name)?)));
    Value::from(Serde(given.collect::<BTreeMap<&String, &Json>>()))
}

fn text(value: &Value) -> Result<String, Error> {
    if value.is_undefined() || value.is_none() {
        return Ok(String::new());
    }
    if matches!(value.kind(), ValueKind::Bool | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
        let unfit = |_| Error::new(ErrorKind::BadSerialization, "the value is not JSON");
        return serde_json::to_string(value).map_err(unfit);
    }
    Ok(value.to_string())
}

fn within_bounds(bytes: usize) -> Result<(), String> {
    if bytes > MAX_RENDERED_BYTES { Err(too_long()) } else { Ok(()) }
}

fn too_long() -> String {
    format!("it becomes longer than {} KiB", MAX_RENDERED_BYTES / 1024)
}

/// The detail of the error may quote a value, and a value may be a secret.
fn fill_error(error: &Error) -> String {
    format!("the template cannot be filled: {}", error.kind())
}
