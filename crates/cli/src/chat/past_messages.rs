//! The end of a conversation that a chat goes on with.

use protocol::{Message, Page, Role};

use super::Chat;
use super::typed_input::PROMPT;
use crate::CommandResult;
use crate::terminal_text::{printable, shorten_to};

/// Messages that are shown again, and characters of each.
const MAX_SHOWN: usize = 6;
const MAX_SHOWN_CHARS: usize = 2000;

/// Messages in a page of the list, which begins with the oldest; and pages that are read at most.
const PAGE_MESSAGES: usize = 1000;
const MAX_PAGES: usize = 50;

impl Chat {
    /// Shows the last messages, so that a person knows what the conversation was about.
    pub(super) async fn show_past(&mut self) -> CommandResult {
        for message in self.newest_messages().await? {
            let text = shorten_to(&message.text, MAX_SHOWN_CHARS);
            match message.role {
                Role::User => self.screen.print(&printable(&format!("{PROMPT}{text}")))?,
                Role::Assistant => self.screen.earlier_text(&text)?,
            }
        }
        Ok(())
    }

    /// The newest messages of the conversation, oldest first.
    pub(super) async fn newest_messages(&self) -> CommandResult<Vec<Message>> {
        let Some(thread) = self.thread else { return Ok(Vec::new()) };
        let (mut newest, mut cursor) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let path = format!("/v1/threads/{thread}/messages?limit={PAGE_MESSAGES}{cursor}");
            let page: Page<Message> = self.api.get(&path).await?;
            newest.extend(page.data);
            newest.drain(..newest.len().saturating_sub(MAX_SHOWN));
            match page.next {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        Ok(newest)
    }
}
