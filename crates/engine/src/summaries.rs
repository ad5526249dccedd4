//! Summaries as the outside asks for them: what stands for the older parts of a conversation.

use protocol::{Page, Principal, SummaryView, ThreadId};
use store::SummaryRow;

use crate::{Engine, Error};

impl Engine {
    /// In the order of the conversation: those that no other took the place of, or all.
    pub async fn summaries(
        &self,
        principal: &Principal,
        thread: ThreadId,
        all: bool,
    ) -> Result<Page<SummaryView>, Error> {
        self.scope_of_thread(principal, thread).await?;
        let rows = self.store().summaries(thread, all).await?;
        Ok(Page { data: rows.into_iter().map(view).collect(), next: None })
    }
}

fn view(row: SummaryRow) -> SummaryView {
    SummaryView {
        id: row.id,
        level: row.level,
        from_message_id: row.from_message,
        to_message_id: row.to_message,
        from: row.from,
        to: row.to,
        messages: row.messages,
        text: row.text,
        merged: row.merged,
        created_at: row.created_at,
    }
}
