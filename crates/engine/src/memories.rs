//! Memories as the outside asks for them: facts about the user, kept in each app by itself.

use jiff::Timestamp;
use protocol::{AppId, MemoryId, MemoryView, NewMemory, Page, Principal, Scope};
use store::{MAX_MEMORY_BYTES, MemoryCursor, MemoryRow, Once, PageOf};

use crate::request::PageQuery;
use crate::{Engine, Error};

/// What a memory is when nobody says.
const DEFAULT_KIND: &str = "fact";

const MAX_KIND_BYTES: usize = 32;

/// The source of what users say themselves.
const BY_USER: &str = "user";

impl Engine {
    pub async fn create_memory(
        &self,
        principal: &Principal,
        app: &str,
        new: NewMemory,
        once: Option<Once>,
    ) -> Result<MemoryView, Error> {
        let scope = self.memory_scope(principal, app)?;
        let memory = store::NewMemory {
            id: self.shared.ids.memory(),
            text: text(&new.text)?,
            kind: kind(new.kind)?,
            source: BY_USER,
        };
        Ok(view(self.store().add_memory(&scope, memory, once).await?))
    }

    /// What is not forgotten, newest first.
    pub async fn memories(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<MemoryView>, Error> {
        let scope = self.memory_scope(principal, app)?;
        let (after, limit) = (cursor(&page)?, page.limit()?);
        let mut rows = self.store().memories(&scope, PageOf { after, limit: limit + 1 }).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().map(|row| format!("{}.{}", row.created_at.as_millisecond(), row.id));
        Ok(Page { data: rows.into_iter().map(view).collect(), next: last.filter(|_| more) })
    }

    pub async fn memory(&self, principal: &Principal, memory: MemoryId) -> Result<MemoryView, Error> {
        Ok(view(self.memory_row(principal, memory).await?))
    }

    /// From the next run on it is in no prompt. Forgetting twice is forgetting once.
    pub async fn forget_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<Once>,
    ) -> Result<(), Error> {
        self.memory_row(principal, memory).await?;
        Ok(self.store().forget_memory(principal, memory, once).await?)
    }

    fn memory_scope(&self, principal: &Principal, app: &str) -> Result<Scope, Error> {
        let id = AppId::new(app);
        let is_there = self.has_app(app) && principal.may_use(&id);
        if is_there { Ok(principal.scope(id)) } else { Err(Error::NotFound { what: "app" }) }
    }

    async fn memory_row(&self, principal: &Principal, memory: MemoryId) -> Result<MemoryRow, Error> {
        let row = self.store().memory(principal, memory).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "memory" }) }
    }
}

fn view(row: MemoryRow) -> MemoryView {
    MemoryView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        text: row.text,
        kind: row.kind,
        status: row.status,
        access_count: row.access_count,
        last_accessed_at: row.last_accessed_at,
        source: row.source,
        created_at: row.created_at,
    }
}

fn text(text: &str) -> Result<String, Error> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(Error::invalid("text", "is empty; say what to remember"));
    }
    if trimmed.len() > MAX_MEMORY_BYTES {
        return Err(Error::TooLarge { field: "text", limit: MAX_MEMORY_BYTES });
    }
    Ok(trimmed.to_owned())
}

fn kind(kind: Option<String>) -> Result<String, Error> {
    let Some(kind) = kind else { return Ok(DEFAULT_KIND.to_owned()) };
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    if kind.is_empty() || kind.len() > MAX_KIND_BYTES || !kind.bytes().all(plain) {
        let message = format!("must be one word of 1 to {MAX_KIND_BYTES} small letters, digits, - and _");
        return Err(Error::invalid("kind", message));
    }
    Ok(kind)
}

fn cursor(page: &PageQuery) -> Result<Option<MemoryCursor>, Error> {
    let parse = |cursor: &str| {
        let (millis, id) = cursor.split_once('.')?;
        let created_at = Timestamp::from_millisecond(millis.parse().ok()?).ok()?;
        Some(MemoryCursor { created_at, id: id.parse().ok()? })
    };
    let invalid = || Error::invalid("cursor", "take it from `next` of the page before, unchanged");
    page.cursor.as_deref().map(|cursor| parse(cursor).ok_or_else(invalid)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_trimmed_and_bounded() {
        assert_eq!(text(" \n lives in Oslo\t").unwrap(), "lives in Oslo");
        let longest = "x".repeat(MAX_MEMORY_BYTES);
        assert_eq!(text(&format!(" {longest} ")).unwrap(), longest);
        assert!(matches!(text(&format!("{longest}x")), Err(Error::TooLarge { field: "text", .. })));
        assert!(matches!(text(" \t\n"), Err(Error::Invalid { field: "text", .. })));
    }

    #[test]
    fn a_kind_is_one_plain_word() {
        assert_eq!(kind(None).unwrap(), "fact");
        for good in ["x", "likes-2_do", &"a".repeat(MAX_KIND_BYTES)] {
            assert_eq!(kind(Some(good.into())).unwrap(), good);
        }
        for wrong in ["", "two words", "Fact", "é", "a.b", &"a".repeat(MAX_KIND_BYTES + 1)] {
            let refused = kind(Some(wrong.into()));
            assert!(matches!(refused, Err(Error::Invalid { field: "kind", .. })), "{wrong:?}");
        }
    }
}
