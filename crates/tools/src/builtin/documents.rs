//! Documents: looking things up in what the user uploaded, and in the documents of the app.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use memory::recall::Passage;
use protocol::{DocumentId, Source};
use serde_json::{Value, json};

use super::{found_limit, store_failure, text};
use crate::{Calling, Failed, Tool, ToolOutput};

/// The name of the tool that searches documents.
pub const SEARCH_DOCUMENTS: &str = "search_documents";

pub(crate) struct SearchDocuments;

#[async_trait]
impl Tool for SearchDocuments {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let query = text(&calling.input, "query").unwrap_or_default();
        let limit = found_limit(&calling.input);
        let among = match text(&calling.input, "documentId") {
            Some(id) => Some(vec![document(id)?]),
            None => None,
        };
        let found = calling
            .recall
            .all_passages(calling.scope, query, among.as_deref(), limit)
            .await
            .map_err(store_failure)?;
        let passages: Vec<Value> = found.iter().take(limit).map(passage).collect();
        let sources = found.iter().take(limit).map(source).collect();
        Ok(ToolOutput { sources, ..json!({ "passages": passages }).into() })
    }
}

fn document(id: &str) -> Result<DocumentId, Failed> {
    id.parse().map_err(|_| {
        Failed::new(
            "invalid_arguments",
            "documentId is not the id of a document; take it from a passage that was found",
        )
    })
}

fn source(Passage { chunk, .. }: &Passage) -> Source {
    Source {
        kind: "document".into(),
        id: chunk.document.to_string(),
        title: chunk.name.clone(),
        place: chunk.place.clone(),
    }
}

fn passage(found: &Passage) -> Value {
    let chunk = &found.chunk;
    json!({
        "documentId": chunk.document,
        "document": chunk.name,
        "place": chunk.place,
        "piece": chunk.number,
        "text": chunk.text,
    })
}
