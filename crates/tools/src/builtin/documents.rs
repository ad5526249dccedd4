//! Documents: looking things up in what the user uploaded.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use memory::recall::Passage;
use protocol::DocumentId;
use serde_json::{Value, json};

use super::{closed_spec, failed, found_limit, limit_schema, query_schema, text};
use crate::{Calling, Failed, Tool, ToolOutput, ToolSpec};

pub(crate) struct SearchDocuments;

#[async_trait]
impl Tool for SearchDocuments {
    fn spec(&self) -> ToolSpec {
        let properties = json!({
            "query": query_schema("what to look for"),
            "documentId": { "type": "string", "description": "only in this document; in all of the user's when absent" },
            "limit": limit_schema(),
        });
        closed_spec(
            "search_documents",
            "Searches the documents the user has uploaded. Each passage comes with its document and \
                          place: name both when you use it. read_rest reads on in a document.",
            properties,
            &["query"],
        )
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let query = text(&calling.input, "query").unwrap_or_default();
        let limit = found_limit(&calling.input);
        let among = match text(&calling.input, "documentId") {
            Some(id) => Some(vec![document(id)?]),
            None => None,
        };
        let found =
            calling.recall.passages(calling.scope, query, among.as_deref(), limit).await.map_err(failed)?;
        let passages: Vec<Value> = found.iter().take(limit).map(passage).collect();
        Ok(json!({ "passages": passages }).into())
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
