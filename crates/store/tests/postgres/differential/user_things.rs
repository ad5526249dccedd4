//! Operations on records, files and profiles.

use protocol::{Ids as _, RecordId, Scope};
use serde_json::{Value, json};
use store::{MAX_FILE_BYTES, MAX_PATH_BYTES, ProfileRow, RecordQuery, Write};

use super::generator::ComparedPlan;

const RECORD_KINDS: &[&str] = &["note", "task", "it's odd"];

impl ComparedPlan {
    /// A new record, or the next version of one; sometimes for a version that it does not have.
    pub(super) async fn record_write(&mut self, scope: &Scope) -> Write {
        let known = self.known.records.iter().filter(|(of, _)| of == scope).map(|(_, named)| *named);
        let known: Vec<(&'static str, RecordId)> = known.collect();
        let (kind, id, expected) = if known.is_empty() || self.once_in(3) {
            let (kind, id) = (self.one_of(RECORD_KINDS), self.ids.record());
            self.known.records.push((scope.clone(), (kind, id)));
            (kind, id, 0)
        } else {
            let (kind, id) = self.one_of(&known);
            let row = ask!(self, record_of(scope, kind, id));
            (kind, id, row.map_or(0, |row| row.version))
        };
        let expected = if self.once_in(12) { expected + 1 } else { expected };
        let data = match self.random.u32(..40) {
            0 => Some(json!({ "title": "x".repeat(70_000) })),
            1 => Some(self.json()),
            2..=7 => None,
            _ => Some(Value::Object(self.object())),
        };
        let kind = if self.once_in(30) { "other" } else { kind };
        Write::Record { id, kind: kind.to_owned(), data, expected }
    }

    pub(super) async fn file_write(&mut self, scope: &Scope) -> Write {
        let path = match self.random.u32(..20) {
            0 => "p".repeat(MAX_PATH_BYTES + 1),
            _ => self.name(),
        };
        self.known.files.push((scope.clone(), path.clone()));
        let version = ask!(self, file_version(scope, &path)).unwrap_or(0);
        let expected = if self.once_in(12) { version + 1 } else { version };
        let content = if self.once_in(6) { None } else { Some(self.bounded_text(MAX_FILE_BYTES)) };
        Write::File { path, content, expected }
    }

    pub(super) async fn next_profile(&mut self, scope: &Scope) -> ProfileRow {
        let row = ask!(self, profile(scope)).unwrap_or_default();
        ProfileRow {
            version: if self.once_in(8) { row.version + 1 } else { row.version },
            name: self.maybe(ComparedPlan::text),
            timezone: self.maybe(ComparedPlan::name),
            locale: self.maybe(ComparedPlan::name),
            fields: match self.random.u32(..30) {
                0 => json!({ "long": "y".repeat(20_000) }),
                _ => Value::Object(self.object()),
            },
            updated_at: None,
        }
    }
}

pub(super) async fn put_record(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let (write, once) = (plan.record_write(&scope).await, plan.once());
    ask!(plan, put_record(&scope, write.clone(), once.clone()));
}

pub(super) async fn put_file(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let (write, once) = (plan.file_write(&scope).await, plan.once());
    ask!(plan, put_file(&scope, write.clone(), once.clone()));
}

pub(super) async fn put_profile(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let (profile, once) = (plan.next_profile(&scope).await, plan.once());
    ask!(plan, put_profile(&scope, profile.clone(), once.clone()));
}

pub(super) async fn look_at_records(plan: &mut ComparedPlan) {
    let unknown = |ids: &super::two_stores::IdsFrom| ("note", ids.record());
    let (scope, (kind, id)) = plan.thing(|known| &known.records, unknown);
    let scope = plan.near(scope);
    match plan.random.u32(..4) {
        0 => drop(ask!(plan, record_of(&scope, kind, id))),
        1 => drop(ask!(plan, record_versions(&scope, kind, id))),
        2 => {
            let ids = vec![id, id, plan.ids.record()];
            ask!(plan, count_records(&scope, kind, &ids));
        }
        _ => {
            let fields = (0..plan.random.usize(..2)).map(|_| field(plan)).collect();
            let query = RecordQuery { text: None, fields };
            let page = plan.page_from(Some(id));
            ask!(plan, records(&scope, kind, query.clone(), page));
        }
    }
}

fn field(plan: &mut ComparedPlan) -> (String, Value) {
    let object = plan.object();
    let first = object.into_iter().next();
    let (name, value) = first.unwrap_or_else(|| ("title".to_owned(), json!(plan.text())));
    let inner = value.as_array().and_then(|list| list.first()).cloned();
    (name, inner.filter(|_| plan.random.bool()).unwrap_or(value))
}

/// A search by words. The databases rank in their own ways, so the records are compared without their order.
pub(super) async fn search_records(plan: &mut ComparedPlan) {
    let (scope, kind) = (plan.scope(), plan.one_of(RECORD_KINDS));
    let text = if plan.random.bool() { plan.word().to_owned() } else { plan.text() };
    let fields = if plan.once_in(4) { vec![field(plan)] } else { vec![] };
    let query = RecordQuery { text: Some(text), fields };
    let page = store::PageOf { after: None, limit: 10_000 };
    plan.note("records", format!("{:?}", (&scope, kind, &query, &page)));
    let (file, server) = plan.stores();
    let sorted = |mut found: store::PageRows<protocol::RecordView>| {
        found.rows.sort_by_key(|row| row.id);
        found
    };
    let one = file.records(&scope, kind, query.clone(), page).await.map(sorted);
    let other = server.records(&scope, kind, query, page).await.map(sorted);
    plan.compare(one, other);
}

pub(super) async fn look_at_files(plan: &mut ComparedPlan) {
    let (scope, path) = plan.pick(|known| &known.files).unwrap_or_else(|| (plan.scope(), plan.name()));
    let scope = plan.near(scope);
    match plan.random.u32(..4) {
        0 => drop(ask!(plan, files(&scope))),
        1 => drop(ask!(plan, file(&scope, &path))),
        2 => drop(ask!(plan, file_versions(&scope, &path))),
        _ => drop(ask!(plan, file_sizes(&scope))),
    }
}
