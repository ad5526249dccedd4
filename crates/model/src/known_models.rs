//! Well-known providers and models, so that operators do not have to describe them. Providers are code, because each
//! speaks a wire; what is known of their models is data, in `known.toml` or in a newer file of that form.

mod catalogue;
mod changes;
mod retirement;
mod rules;
#[cfg(test)]
mod tests;

use crate::anthropic::AnthropicVersion;
use crate::capabilities::{Capabilities, ProviderKind, SchemaSupport};
use crate::connect::ProviderWire;

pub use catalogue::{Catalogue, KnownEmbedding, KnownModel, ModelFamily};
pub use changes::CatalogueChange;
pub use retirement::{NOTICE_DAYS, Retirement};
pub use rules::{InvalidCatalogue, MAX_CATALOGUE_BYTES};

/// A provider with its default settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    pub name: &'static str,
    /// The wire at its own base URL.
    pub wire: ProviderWire,
    /// The wire of a server at another base URL under its name.
    pub wire_elsewhere: ProviderWire,
    pub kind: ProviderKind,
    pub base_url: &'static str,
    /// The variable its key is in; it is used as soon as that is set.
    pub key_variable: Option<&'static str>,
    /// The variable that names another base URL.
    pub url_variable: &'static str,
    /// How its models are held to a schema.
    pub structured: SchemaSupport,
}

const fn cloud(
    name: &'static str,
    base_url: &'static str,
    (key, url_variable): (&'static str, &'static str),
) -> KnownProvider {
    KnownProvider {
        name,
        wire: ProviderWire::Chat,
        wire_elsewhere: ProviderWire::Chat,
        kind: ProviderKind::Cloud,
        base_url,
        key_variable: Some(key),
        url_variable,
        structured: SchemaSupport::WithTools,
    }
}

/// In the order in which they are looked for.
pub const PROVIDERS: &[KnownProvider] = &[
    KnownProvider {
        // Over Chat Completions, its models since gpt-5.6 take no tools while they think.
        wire: ProviderWire::Responses,
        ..cloud("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    },
    KnownProvider {
        wire: ProviderWire::Anthropic(AnthropicVersion::V2026),
        wire_elsewhere: ProviderWire::Anthropic(AnthropicVersion::V2026),
        ..cloud("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"))
    },
    KnownProvider {
        structured: SchemaSupport::Alone,
        ..cloud(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
        )
    },
    cloud("openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL")),
    KnownProvider {
        structured: SchemaSupport::Alone,
        ..cloud("mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY", "MISTRAL_BASE_URL"))
    },
    KnownProvider {
        structured: SchemaSupport::Alone,
        ..cloud("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY", "GROQ_BASE_URL"))
    },
    KnownProvider {
        structured: SchemaSupport::Prompt,
        ..cloud("deepseek", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL"))
    },
    KnownProvider {
        name: "ollama",
        wire: ProviderWire::Ollama,
        wire_elsewhere: ProviderWire::Ollama,
        kind: ProviderKind::Local,
        base_url: "http://127.0.0.1:11434",
        key_variable: None,
        url_variable: "OLLAMA_HOST",
        structured: SchemaSupport::Alone,
    },
];

/// The provider of this name.
pub fn provider(name: &str) -> Option<&'static KnownProvider> {
    PROVIDERS.iter().find(|known| known.name == name)
}

impl KnownProvider {
    /// The capabilities of its models that the configuration does not describe.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { structured: self.structured, ..Capabilities::of_kind(self.kind) }
    }
}

/// The providers and what their models can do, as a Markdown table for the documentation.
pub fn markdown(catalogue: &Catalogue) -> String {
    const HEAD: &str = "| provider | wire | kind | base URL | variables | streaming | tools | schema | context | \
                        default model | known models |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    PROVIDERS.iter().fold(HEAD.to_owned(), |table, provider| table + &provider.row(catalogue))
}

impl KnownProvider {
    fn row(&self, catalogue: &Catalogue) -> String {
        let can = self.capabilities();
        let models: Vec<_> = catalogue.current_models().filter(|model| model.provider == self.name).collect();
        let largest = models.iter().map(|model| model.context_window).max().unwrap_or(can.context_window);
        let names: Vec<String> = models.iter().map(|model| code(&model.name)).collect();
        let variables: Vec<String> =
            self.key_variable.into_iter().chain([self.url_variable]).map(code).collect();
        let wires = if self.wire == self.wire_elsewhere {
            code(self.wire.name())
        } else {
            format!("{}; elsewhere {}", code(self.wire.name()), code(self.wire_elsewhere.name()))
        };
        let cells = [
            code(self.name),
            wires,
            self.kind.name().to_owned(),
            code(self.base_url),
            variables.join(", "),
            yes_or_no(can.streaming),
            yes_or_no(can.tools),
            code(can.structured.name()),
            largest.to_string(),
            catalogue.default_model(self.name).map_or_else(|| "–".to_owned(), code),
            if names.is_empty() { "–".to_owned() } else { names.join(", ") },
        ];
        format!("| {} |\n", cells.join(" | "))
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn yes_or_no(can: bool) -> String {
    if can { "yes" } else { "no" }.to_owned()
}
