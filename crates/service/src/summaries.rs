//! Summaries as the outside asks for them: what stands for the older parts of a conversation.

use memory::tombstone::Forgotten;
use protocol::{Page, Principal, SummaryView, ThreadId};
use store::SummaryRow;

use crate::checks::{self, PageQuery};
use crate::{Error, Service};

impl Service {
    /// In the order of the conversation: those that no other took the place of, or all.
    pub async fn summaries(
        &self,
        principal: &Principal,
        thread: ThreadId,
        all: bool,
        page: PageQuery,
    ) -> Result<Page<SummaryView>, Error> {
        let asked = page.of_short_list()?;
        let scope = agent::thread_row(self.store(), principal, thread).await?.scope;
        let page = self.store().summary_page(thread, all, asked).await?;
        let forgotten = self.recall().forgotten_words(&scope).await?;
        Ok(checks::short_page(page, asked, |row| view(row, &forgotten)))
    }
}

/// Without words that were forgotten since.
fn view(row: SummaryRow, forgotten: &Forgotten) -> SummaryView {
    SummaryView {
        id: row.id,
        level: row.level,
        from_message_id: row.from_message,
        to_message_id: row.to_message,
        from: row.from,
        to: row.to,
        messages: row.messages,
        text: row.text.map(|text| forgotten.clear(&text, row.created_at).into_owned()),
        merged: row.merged,
        created_at: row.created_at,
    }
}
