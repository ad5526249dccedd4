//! Messages as clients ask for them: the path of a thread, oldest first.

use agent::{MessageTurn, tool_result_view};
use protocol::{Message, Page, Principal, Role, ThreadId, ToolCallView};
use store::MessageRow;

use crate::checks::PageQuery;
use crate::{Error, Service};

impl Service {
    /// The path from the thread's head, oldest first.
    pub async fn messages(
        &self,
        principal: &Principal,
        thread: ThreadId,
        page: PageQuery,
    ) -> Result<Page<Message>, Error> {
        let wanted = page.by_position()?;
        let row = agent::thread_row(self.store(), principal, thread).await?;
        let Some(head) = row.head else { return Ok(Page { data: Vec::new(), next: None }) };
        let page = self.store().messages(thread, head, wanted).await?;
        let last = page.rows.last().filter(|_| page.more).map(|row| row.seq.to_string());
        // One by one, so that no more than one message is there both as its rows and as it is shown.
        let data = page.rows.into_iter().filter_map(|row| view(&row)).collect();
        Ok(Page { data, next: last })
    }
}

/// None for a row whose role is none we know.
pub(crate) fn view(row: &MessageRow) -> Option<Message> {
    let MessageTurn { role, text, steps, results, memories_referenced, .. } = agent::read_message(row);
    let role = role?;
    let calls = steps.into_iter().flat_map(|step| step.calls);
    Some(Message {
        id: row.id,
        role,
        text,
        parent_id: row.parent,
        run_id: row.run,
        model: row.model.clone().filter(|_| role == Role::Assistant),
        tool_calls: calls
            .map(|call| ToolCallView { id: call.id, name: call.name, input: call.input })
            .collect(),
        tool_results: results.into_iter().map(tool_result_view).collect(),
        memories_referenced,
        created_at: row.created_at,
    })
}
