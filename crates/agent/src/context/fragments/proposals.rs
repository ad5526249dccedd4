//! How the proposals of this conversation that outlive their runs stand.

use memory::tombstone::Forgotten;
use protocol::Decision;
use store::{PageOf, ProposalRow};

use crate::context::gather::Sources;
use crate::context::{Fence, cap_text};

/// Proposals of the user among which those of this conversation are looked for, and at most shown to the model.
const MAX_LOOKED_AT: usize = 50;
const MAX_SHOWN: usize = 10;

/// Bytes of a proposal's input that the model is reminded of.
const MAX_INPUT_BYTES: usize = 300;

/// A line for each of the newest, as the log keeps it.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    forgotten: &Forgotten,
) -> Result<Vec<String>, store::Error> {
    if !from.proposes {
        return Ok(Vec::new());
    }
    let newest = PageOf { after: None, limit: MAX_LOOKED_AT };
    let mut rows = from.world.store.proposals(from.scope, false, newest).await?.rows;
    rows.retain(|row| row.thread == Some(from.thread) && row.run.is_none());
    let line = |row: &ProposalRow| {
        let status = row.decision.map_or("open", Decision::name);
        let mut input = row.input.clone();
        forgotten.clear_json(&mut input, row.created_at);
        let input = cap_text(&input.to_string(), MAX_INPUT_BYTES);
        format!("{} {status}: {} {input}", row.id, row.tool)
    };
    Ok(rows.iter().take(MAX_SHOWN).map(line).collect())
}

pub(super) fn text(lines: &[String], fence: &Fence) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
    format!("Your proposals in this conversation, and how they stand:\n{}", fence.wrap(&lines.join("\n")))
}
