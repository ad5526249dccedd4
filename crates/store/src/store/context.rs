//! Parts of prompts besides messages and memories: kept texts, personas, pins, summaries, documents and profiles.

use std::sync::Arc;

use protocol::{AppId, DocumentId, ImageId, MessageId, PinId, PinView, Principal, Scope, Summary, ThreadId};

use super::Store;
use crate::{
    ChunkRow, DocumentRow, Error, IdempotencyClaim, ImageRow, JobRow, JobUsage, KnowledgeRow, NewDocument,
    NewImage, NewPersonaRow, NewPinRow, PageOf, PageRows, PersonaRow, ProfileRow, PromptRows, SummaryRow,
    TimeCursor,
};

store_methods! {
    /// Reads the newest messages of the path that ends in a message of a thread, and all else that a prompt needs of the
    /// thread and the user, as it was at one moment. `everywhere` is the scope of the profile for all apps.
    fn prompt_rows(scope: &Scope, everywhere: &Scope, leaf: (ThreadId, MessageId), newest: usize) -> PromptRows;
}

// Texts beside the log. They are written with the events that name them.
store_methods! {
    /// Each of these texts if it is still there, in the given order.
    fn texts(scope: &Scope, named: &[(String, [u8; 16])]) -> Vec<Option<String>>;
}

// Named prompts of users. Under a key ([`IdempotencyClaim`]) a change happens once.
store_methods! {
    /// By name. The cursor is how many come before.
    fn personas(scope: &Scope, page: PageOf<u64>) -> PageRows<PersonaRow>;
    fn persona(scope: &Scope, id: &str) -> Option<PersonaRow>;
    /// [`Error::Changed`] if there is one of that id, or no room.
    fn add_persona(scope: &Scope, persona: NewPersonaRow, once: Option<IdempotencyClaim>) -> PersonaRow;
    /// [`Error::NotFound`] if there is none of that id.
    fn change_persona(scope: &Scope, persona: NewPersonaRow, once: Option<IdempotencyClaim>) -> PersonaRow;
    /// Removes it, also as the default of threads.
    fn delete_persona(scope: &Scope, id: &str, once: Option<IdempotencyClaim>) -> ();
}

// Pins.
store_methods! {
    /// The thread must be the scope's. [`Error::Changed`] when there is no room.
    fn add_pin(scope: &Scope, pin: NewPinRow, once: Option<IdempotencyClaim>) -> PinView;
    /// Oldest first: those of the thread and those of all threads; the latter alone without a thread.
    fn pins(scope: &Scope, thread: Option<ThreadId>) -> Vec<PinView>;
    /// A page of these. The cursor is how many come before.
    fn pin_page(scope: &Scope, thread: Option<ThreadId>, page: PageOf<u64>) -> PageRows<PinView>;
    /// Removes it and what prompts kept of it. Removing what is gone is [`Error::NotFound`].
    fn delete_pin(principal: &Principal, id: PinId, once: Option<IdempotencyClaim>) -> ();
}

// Summaries of older parts of conversations.
store_methods! {
    /// In the order of the log, at most [`crate::MAX_SUMMARIES_PER_READ`], the newest: those no other took the place of, or all.
    fn summaries(thread: ThreadId, all: bool) -> Vec<SummaryRow>;
    /// A page of them in the order of the log, from the oldest on. The cursor is how many come before.
    fn summary_page(thread: ThreadId, all: bool, page: PageOf<u64>) -> PageRows<SummaryRow>;
    /// Commits a summary, its text, the job as done and what it spent, together. Nothing is changed where the thread is
    /// deleted, another summary of the same level ends at the same message, or one it merges is merged already.
    fn summarise(job: &JobRow, summary: Option<(Summary, String)>, spent: Option<JobUsage>) -> ();
}

// Documents that users uploaded.
store_methods! {
    /// Adds it with all of its pieces, a few at a time. It is shown after the last piece. One that was left half is
    /// purged.
    fn add_document(scope: &Scope, document: NewDocument, once: Option<IdempotencyClaim>) -> DocumentRow;
    /// The document that was made under this key, if any.
    fn document_made(scope: &Scope, once: &IdempotencyClaim) -> Option<DocumentRow>;
    /// The document if it is this principal's, or an app's. Whether the principal may use the app is the caller's to check.
    fn document(principal: &Principal, id: DocumentId) -> DocumentRow;
    /// Newest first.
    fn documents(scope: &Scope, page: PageOf<TimeCursor<DocumentId>>) -> PageRows<DocumentRow>;
    /// How many of its pieces have a vector of this model.
    fn document_embedded(id: DocumentId, model: &str) -> u32;
    /// Hides it at once, with every piece and every text that prompts kept of it; [`Store::purge`] removes
    /// the rows.
    fn delete_document(principal: &Principal, id: DocumentId, once: Option<IdempotencyClaim>) -> ();
    /// Pieces of a document of the scope or of its app, from a number on, at most `limit` and [`crate::MAX_CHUNKS_PER_READ`].
    fn chunks(scope: &Scope, document: DocumentId, from: u32, limit: usize) -> Vec<ChunkRow>;
}

// Documents of apps. They are in the scope of the app itself, see [`Scope::of_app`].
store_methods! {
    /// By name. The cursor is how many come before.
    fn knowledge(app: &AppId, page: PageOf<u64>) -> PageRows<KnowledgeRow>;
    /// Adds it like an upload, with the hash of its file. It takes the place of the one with its name in the transaction that
    /// shows it. [`Error::Changed`] when there is no room.
    fn put_knowledge(app: &AppId, hash: [u8; 32], document: NewDocument) -> DocumentRow;
    /// Hides it at once, with every piece and every text that prompts kept of it. Deleting what is gone changes nothing.
    fn delete_knowledge(app: &AppId, id: DocumentId) -> ();
    /// Gives up documents that a process left half added. Only one process at a time adds documents of an app.
    fn discard_unfinished_knowledge(app: &AppId) -> ();
}

// Images that users uploaded, for messages.
store_methods! {
    /// Adds it, unless the scope has one of the same content: then it is that one, and its time without use begins anew.
    /// [`Error::Changed`] when there is no room.
    fn add_image(scope: &Scope, image: NewImage, once: Option<IdempotencyClaim>) -> ImageRow;
    /// The image that was made under this key, or the one of this content; its time without use begins anew.
    fn known_image(scope: &Scope, hash: [u8; 32], once: Option<IdempotencyClaim>) -> Option<ImageRow>;
    fn image(principal: &Principal, id: ImageId) -> ImageRow;
    /// Newest first.
    fn images(scope: &Scope, page: PageOf<TimeCursor<ImageId>>) -> PageRows<ImageRow>;
    /// The contents of the scope's images, in this order, at most [`crate::MAX_IMAGES_PER_READ`]; none for one that is gone.
    fn image_contents(scope: &Scope, ids: Vec<ImageId>) -> Vec<Option<Arc<[u8]>>>;
    /// Removes it with its content. [`Error::Changed`] while a message shows it.
    fn delete_image(principal: &Principal, id: ImageId, once: Option<IdempotencyClaim>) -> ();
}

// Profiles of users: for all apps, or for one. A scope without an app stands for all of them.
store_methods! {
    /// The profile of exactly this scope; empty if there is none.
    fn profile(scope: &Scope) -> ProfileRow;
    /// Puts it in the place of the one of its version; [`Error::Changed`] if there is another by now. Under a key
    /// ([`IdempotencyClaim`]) that happens once; a second time gives what there is now.
    fn put_profile(scope: &Scope, profile: ProfileRow, once: Option<IdempotencyClaim>) -> ProfileRow;
}
