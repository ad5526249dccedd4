//! Operations on images, and on vectors and the items that recall reads.

use protocol::{ChunkId, Ids as _, Scope};
use store::{Error, ItemRef, NewImage, NewVector, RecallItem, Store};

use super::generator::ComparedPlan;

impl ComparedPlan {
    pub(super) fn new_image(&mut self, hash: [u8; 32]) -> NewImage {
        let size = self.one_of(&[0, 10, 5_000]);
        NewImage {
            id: self.ids.image(),
            hash,
            media_type: self.one_of(&["image/png", "image/jpeg"]),
            width: self.random.u32(1..4_000),
            height: self.random.u32(1..4_000),
            name: self.maybe(ComparedPlan::text),
            content: self.bytes(size),
        }
    }
}

pub(super) async fn add_image(plan: &mut ComparedPlan) {
    let (scope, once, hash) = (plan.scope(), plan.once(), plan.hash());
    let image = plan.new_image(hash);
    if plan.once_in(3) {
        ask!(plan, known_image(&scope, hash, once.clone()));
    }
    if let Some(row) = ask!(plan, add_image(&scope, image.clone(), once.clone())) {
        plan.known.images.push((scope, row.id));
    }
}

pub(super) async fn look_at_images(plan: &mut ComparedPlan) {
    let (scope, id) = plan.thing(|known| &known.images, |ids| ids.image());
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    match plan.random.u32(..4) {
        0 => drop(ask!(plan, image(&principal, id))),
        1 => {
            let page = plan.page_from(Some(id));
            ask!(plan, images(&scope, page));
        }
        2 => {
            let ids = vec![id, plan.ids.image(), id];
            ask!(plan, image_contents(&scope, ids.clone()));
        }
        _ => drop(ask!(plan, delete_image(&principal, id, once.clone()))),
    }
}

/// Vectors for items that recall reads.
pub(super) async fn put_vectors(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let items = plan.recall_changes(&scope, None).await;
    let named = items.iter().filter_map(|item| match item {
        RecallItem::Memory(row, _) => Some(ItemRef::Memory(row.id)),
        RecallItem::Message(row, _) => Some(ItemRef::Message(row.id)),
        RecallItem::Chunk(row, _) => Some(ItemRef::Chunk(row.id)),
        RecallItem::DocumentGone(_)
        | RecallItem::ThreadGone(_)
        | RecallItem::Tombstones
        | RecallItem::Gone(_) => None,
    });
    let unknown = ItemRef::Chunk(ChunkId::new(plan.ids.fresh()));
    let mut items: Vec<ItemRef> = named.collect();
    items.push(unknown);
    plan.random.shuffle(&mut items);
    let size = if plan.once_in(30) { store::MAX_VECTOR_NUMBERS + 1 } else { 16 };
    let vectors: Vec<NewVector> = (0..plan.random.usize(..4))
        .map(|_| NewVector {
            item: plan.one_of(&items),
            hash: [plan.random.u8(..); 16],
            vector: plan.vector(size),
        })
        .collect();
    let model = plan.one_of(&["model", "other model"]);
    ask!(plan, put_vectors(&scope, model, vectors.clone()));
}

pub(super) async fn look_at_recall(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    if plan.once_in(3) {
        let after = plan.maybe(ComparedPlan::scope);
        ask!(plan, scopes_to_embed("model", after.as_ref(), 3));
    } else {
        let model = plan.maybe(|plan| plan.one_of(&["model", "other model"]));
        plan.recall_changes(&scope, model).await;
    }
}

impl ComparedPlan {
    /// The place of the newest change on both sides. A request that was refused may have left a number out on PostgreSQL,
    /// so each side has its own numbers.
    pub(super) async fn recall_heads(&mut self, scope: &Scope) -> [u64; 2] {
        self.note("recall_head", format!("{scope:?}"));
        let (file, server) = self.stores();
        let heads = [file.recall_head(scope).await, server.recall_head(scope).await];
        let [one, other] = heads.map(Result::unwrap);
        self.compare(Ok(one > 0), Ok(other > 0));
        [one, other]
    }

    /// Changes from a random place on, without their numbers. The first read finds the number of the place on each side.
    pub(super) async fn recall_changes(&mut self, scope: &Scope, model: Option<&str>) -> Vec<RecallItem> {
        let (skipped, limit) = (self.random.usize(..60), self.one_of(&[1, 5, 500]));
        self.note("recall_changes", format!("{:?}", (scope, skipped, model, limit)));
        let (file, server) = self.stores();
        let one = changes_after(&file, scope, skipped, (model, limit)).await;
        let other = changes_after(&server, scope, skipped, (model, limit)).await;
        self.compare(one, other).unwrap_or_default()
    }
}

async fn changes_after(
    store: &Store,
    scope: &Scope,
    skipped: usize,
    (model, limit): (Option<&str>, usize),
) -> Result<Vec<RecallItem>, Error> {
    let first = store.recall_changes(scope, 0, None, skipped).await?;
    let after = first.last().map_or(0, |item| item.rev);
    let found = store.recall_changes(scope, after, model, limit).await?;
    let head = store.recall_head(scope).await?;
    assert!(found.iter().all(|item| item.rev > after && item.rev <= head), "{after} to {head}: {found:?}");
    assert!(found.is_sorted_by_key(|item| item.rev), "{found:?}");
    Ok(found.into_iter().map(|item| item.what).collect())
}
