//! Images of messages: added once for each content, kept while a message shows them, removed with the last thread that
//! does. An upload that no message shows is removed after a while.

use std::sync::Arc;

use crate::sql::{SqlConnection, SqlRow, params};
use jiff::Timestamp;
use protocol::{ImageId, MessageId, MessagePart, Principal, RunId, Scope, ThreadId};

use super::append::Batch;
use super::read::{
    count, find_all, find_first, find_only, find_page, has_any, id, one_more, page_start, scope_at, text,
    time,
};
use super::{RowsOf, SqlStore, idempotency};
use crate::rules::images::{check_image_room, check_unused};
use crate::{Error, IdempotencyClaim, ImageRow, MAX_IMAGES_PER_READ, NewImage, PageOf, PageRows, TimeCursor};

/// Images removed in one transaction: each may have a few megabytes.
const MAX_REMOVED: usize = 4;

const COLUMNS: &str = "id, app, user, media_type, width, height, bytes, name, created_at";

impl SqlStore {
    pub(crate) async fn add_image(
        &self,
        scope: &Scope,
        image: NewImage,
        once: Option<IdempotencyClaim>,
    ) -> Result<ImageRow, Error> {
        let scope = scope.clone();
        self.writer.write(move |batch| add(batch, &scope, &image, once.as_ref())).await
    }

    pub(crate) async fn known_image(
        &self,
        scope: &Scope,
        hash: [u8; 32],
        once: Option<IdempotencyClaim>,
    ) -> Result<Option<ImageRow>, Error> {
        let scope = scope.clone();
        self.writer.write(move |batch| find_content(batch, &scope, &hash, once.as_ref())).await
    }

    pub(crate) async fn image(&self, principal: &Principal, image: ImageId) -> Result<ImageRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_for(rows, move |conn| find(conn, image, user.as_str())).await
    }

    pub(crate) async fn images(
        &self,
        scope: &Scope,
        page: PageOf<TimeCursor<ImageId>>,
    ) -> Result<PageRows<ImageRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| newest_images(conn, &scope, page)).await
    }

    pub(crate) async fn image_contents(
        &self,
        scope: &Scope,
        ids: Vec<ImageId>,
    ) -> Result<Vec<Option<Arc<[u8]>>>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| contents(conn, &scope, &ids)).await
    }

    pub(crate) async fn delete_image(
        &self,
        principal: &Principal,
        image: ImageId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        self.writer.write_for(rows, move |batch| delete(batch, &principal, image, once.as_ref())).await
    }
}

fn add(
    batch: &Batch<'_>,
    scope: &Scope,
    new: &NewImage,
    once: Option<&IdempotencyClaim>,
) -> Result<ImageRow, Error> {
    if let Some(known) = find_content(batch, scope, &new.hash, once)? {
        return Ok(known);
    }
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let statement =
        "SELECT count(*), coalesce(CAST(sum(bytes) AS BIGINT), 0) FROM images WHERE app = ?1 AND user = ?2";
    let (there, held) =
        find_only(batch.conn(), statement, [app, user], |row| Ok((count(row, 0)?, count(row, 1)?)))?;
    check_image_room(there, held, new.content.len() as u64)?;
    let statement = "INSERT INTO images
                (id, app, user, hash, media_type, width, height, bytes, name, created_at, unused_since)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)";
    let row = params![
        new.id.bytes(),
        app,
        user,
        new.hash,
        new.media_type,
        new.width,
        new.height,
        new.content.len() as i64,
        new.name,
        batch.at()
    ];
    batch.execute(statement, row)?;
    let statement = "INSERT INTO image_contents (image, content) VALUES (?1, ?2)";
    batch.execute(statement, params![new.id.bytes(), new.content])?;
    idempotency::remember(batch, scope, once, new.id.uuid())?;
    find(batch.conn(), new.id, user)
}

/// The image of an earlier request under the key, or of this content. It counts as uploaded just now.
fn find_content(
    batch: &Batch<'_>,
    scope: &Scope,
    hash: &[u8; 32],
    once: Option<&IdempotencyClaim>,
) -> Result<Option<ImageRow>, Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    if let Some(earlier) = idempotency::earlier_target(batch, scope, once)? {
        return find(batch.conn(), earlier.into(), user).map(Some);
    }
    let statement = format!("SELECT {COLUMNS} FROM images WHERE app = ?1 AND user = ?2 AND hash = ?3");
    let found = find_first(batch.conn(), &statement, params![app, user, hash], image_row)?;
    if let Some(row) = &found {
        let statement = "UPDATE images SET unused_since = ?2 WHERE id = ?1 AND unused_since IS NOT NULL";
        batch.execute(statement, params![row.id.bytes(), batch.at()])?;
        idempotency::remember(batch, scope, once, row.id.uuid())?;
    }
    Ok(found)
}

/// A message shows these images, which must be the scope's.
pub(super) fn used_by(
    batch: &Batch<'_>,
    scope: &Scope,
    (thread, message): (ThreadId, MessageId),
    parts: &[MessagePart],
) -> Result<(), Error> {
    for image in parts.iter().filter_map(MessagePart::image) {
        let statement = "UPDATE images SET unused_since = NULL WHERE id = ?1 AND app = ?2 AND user = ?3";
        let of_scope = params![image.bytes(), scope.app.as_str(), scope.user.as_str()];
        if batch.count_changed(statement, of_scope)? == 0 {
            return Err(Error::NotFound("image"));
        }
        let statement =
            "INSERT INTO image_uses (image, message, thread) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        batch.execute(statement, params![image.bytes(), message.bytes(), thread.bytes()])?;
    }
    Ok(())
}

/// A run that waited never begins: the message it would have said shows no image, unless it was said before.
pub(super) fn unused_by(batch: &Batch<'_>, run: RunId) -> Result<(), Error> {
    let statement = "DELETE FROM image_uses WHERE message = (SELECT message FROM runs WHERE id = ?1)
                AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = image_uses.message) RETURNING image";
    let images: Vec<ImageId> = find_all(batch.conn(), statement, [run.bytes()], |row| id(row, 0))?;
    for image in images {
        let statement = "UPDATE images SET unused_since = ?2 WHERE id = ?1
                    AND NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.image = ?1)";
        batch.execute(statement, params![image.bytes(), batch.at()])?;
    }
    Ok(())
}

/// Removes some uses of a deleted thread, and the images that no other thread shows. True when there were any.
pub(super) fn purge_uses(batch: &Batch<'_>, thread: ThreadId) -> Result<bool, Error> {
    let statement = "DELETE FROM image_uses WHERE (image, message) IN
                (SELECT image, message FROM image_uses WHERE thread = ?1 LIMIT ?2) RETURNING image";
    let key = params![thread.bytes(), MAX_REMOVED as i64];
    let images: Vec<ImageId> = find_all(batch.conn(), statement, key, |row| id(row, 0))?;
    for image in &images {
        let statement = "SELECT 1 FROM image_uses WHERE image = ?1 LIMIT 1";
        if !has_any(batch.conn(), statement, [image.bytes()])? {
            remove(batch, *image)?;
        }
    }
    Ok(!images.is_empty())
}

/// Removes some uploads that no message has shown since `before`. True when there were any.
pub(super) fn forget_unused(batch: &Batch<'_>, before: Timestamp) -> Result<bool, Error> {
    let statement = "SELECT id FROM images WHERE unused_since IS NOT NULL AND unused_since < ?1
                ORDER BY unused_since LIMIT ?2";
    let key = params![before.as_millisecond(), MAX_REMOVED as i64];
    let images: Vec<ImageId> = find_all(batch.conn(), statement, key, |row| id(row, 0))?;
    for image in &images {
        remove(batch, *image)?;
    }
    if !images.is_empty() {
        batch.note_removed()?;
    }
    Ok(!images.is_empty())
}

fn delete(
    batch: &Batch<'_>,
    principal: &Principal,
    image: ImageId,
    once: Option<&IdempotencyClaim>,
) -> Result<(), Error> {
    if idempotency::is_repeated(batch, principal, once)? {
        return Ok(());
    }
    let row = find(batch.conn(), image, principal.user().as_str())?;
    // A deleted thread shows nothing, though its rows may not be gone yet.
    let statement = "SELECT 1 FROM image_uses u CROSS JOIN threads t ON t.id = u.thread
                WHERE u.image = ?1 AND t.deleted_at IS NULL LIMIT 1";
    check_unused(has_any(batch.conn(), statement, [image.bytes()])?)?;
    idempotency::claim(batch, &row.scope, once, image.uuid())?;
    remove(batch, image)?;
    batch.note_removed()
}

/// Removes an image with its content and its uses.
fn remove(batch: &Batch<'_>, image: ImageId) -> Result<(), Error> {
    for statement in [
        "DELETE FROM image_uses WHERE image = ?1",
        "DELETE FROM image_contents WHERE image = ?1",
        "DELETE FROM images WHERE id = ?1",
    ] {
        batch.execute(statement, [image.bytes()])?;
    }
    Ok(())
}

fn find(conn: &SqlConnection, image: ImageId, user: &str) -> Result<ImageRow, Error> {
    let statement = format!("SELECT {COLUMNS} FROM images WHERE id = ?1 AND user = ?2");
    find_first(conn, &statement, params![image.bytes(), user], image_row)?.ok_or(Error::NotFound("image"))
}

fn newest_images(
    conn: &SqlConnection,
    scope: &Scope,
    page: PageOf<TimeCursor<ImageId>>,
) -> Result<PageRows<ImageRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM images WHERE app = ?1 AND user = ?2 AND (created_at, id) < (?3, ?4)
            ORDER BY created_at DESC, id DESC LIMIT ?5"
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let limit = one_more(page.limit);
    let key = params![scope.app.as_str(), scope.user.as_str(), at, last, limit];
    find_page(conn, &statement, key, page.limit, image_row)
}

fn contents(conn: &SqlConnection, scope: &Scope, ids: &[ImageId]) -> Result<Vec<Option<Arc<[u8]>>>, Error> {
    let mut find = conn.prepare(
        "SELECT c.content FROM images i CROSS JOIN image_contents c ON c.image = i.id
            WHERE i.id = ?1 AND i.app = ?2 AND i.user = ?3",
    )?;
    let some = ids.iter().take(MAX_IMAGES_PER_READ);
    let found = some.map(|id| {
        let key = params![id.bytes(), scope.app.as_str(), scope.user.as_str()];
        find.find_first(key, |row| row.value(0)?.as_blob().map(Arc::from))
    });
    found.collect()
}

fn image_row(row: &SqlRow<'_>) -> Result<ImageRow, Error> {
    let side = |column| count(row, column).map(|side| u32::try_from(side).unwrap_or(u32::MAX));
    Ok(ImageRow {
        id: id(row, 0)?,
        scope: scope_at(row, 1)?,
        media_type: text(row, 3)?,
        width: side(4)?,
        height: side(5)?,
        bytes: count(row, 6)?,
        name: row.get(7)?,
        created_at: time(row, 8)?,
    })
}
