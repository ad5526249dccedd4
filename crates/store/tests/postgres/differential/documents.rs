//! Operations on documents of users and of apps.

use protocol::{DocumentId, Ids as _, Scope};
use store::{MAX_CHUNK_BYTES, NewChunk, NewDocument};

use super::generator::ComparedPlan;

impl ComparedPlan {
    pub(super) fn new_document(&mut self) -> NewDocument {
        let chunk = |plan: &mut Self| NewChunk {
            id: plan.ids.chunk(),
            text: plan.bounded_text(MAX_CHUNK_BYTES),
            place: plan.name(),
            suspicious: plan.once_in(4),
        };
        NewDocument {
            id: self.ids.document(),
            quota: if self.once_in(10) { 3 } else { 100_000_000 },
            name: self.name(),
            title: self.maybe(ComparedPlan::text),
            kind: self.one_of(&["text", "pdf"]),
            bytes: self.random.u64(..100_000),
            pages: self.maybe(|plan| plan.random.u32(..20)),
            chunks: (0..self.random.usize(..6)).map(|_| chunk(self)).collect(),
        }
    }

    pub(super) fn some_document(&mut self) -> (Scope, DocumentId) {
        self.thing(|known| &known.documents, |ids| ids.document())
    }
}

pub(super) async fn add(plan: &mut ComparedPlan) {
    let (scope, document, once) = (plan.scope(), plan.new_document(), plan.once());
    if let Some(row) = ask!(plan, add_document(&scope, document.clone(), once.clone())) {
        plan.known.documents.push((scope.clone(), row.id));
    }
    if let Some(mut once) = once {
        if plan.once_in(3) {
            once.fingerprint = [7; 32];
        }
        ask!(plan, document_made(&scope, &once));
    }
}

pub(super) async fn delete(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_document();
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    ask!(plan, delete_document(&principal, id, once.clone()));
}

pub(super) async fn look(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_document();
    let principal = plan.principal_of(&scope);
    match plan.random.u32(..4) {
        0 => drop(ask!(plan, document(&principal, id))),
        1 => {
            let page = plan.page_from(Some(id));
            ask!(plan, documents(&scope, page));
        }
        2 => {
            let from = plan.random.u32(..4);
            ask!(plan, chunks(&scope, id, from, 3));
        }
        _ => drop(ask!(plan, document_embedded(id, "model"))),
    }
}

pub(super) async fn knowledge(plan: &mut ComparedPlan) {
    let app = plan.app();
    match plan.random.u32(..6) {
        0..=2 => {
            let (hash, document) = (plan.hash(), plan.new_document());
            if let Some(row) = ask!(plan, put_knowledge(&app, hash, document.clone())) {
                plan.known.documents.push((Scope::of_app(app), row.id));
            }
        }
        3 => {
            let (_, id) = plan.some_document();
            ask!(plan, delete_knowledge(&app, id));
        }
        4 => drop(ask!(plan, discard_unfinished_knowledge(&app))),
        _ => {
            let after = plan.maybe(|plan| plan.random.u64(..3));
            let page = plan.page(after);
            ask!(plan, knowledge(&app, page));
        }
    }
}
