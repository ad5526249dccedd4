//! Records: typed objects of an app, made, listed, read, changed and deleted.

use axum::Json as Answer;
use axum::http::StatusCode;
use protocol::{Page, RecordTypeView, RecordVersionView, RecordView};
use service::{Edit, Terms};

use crate::auth::Caller;
use crate::body::{Json, ObjectFields};
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, RecordPath, RecordsPath};
use crate::query::{ExpectedVersion, IfMatch, PageParams, Params, RecordParams, VersionParams};
use crate::routes::{Created, JsonReply, created};

/// Lists the record types of an app, each with its JSON Schema and its tools.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/records",
    params(AppPath),
    responses((status = 200, description = "All record types", body = Page<RecordTypeView>))
)]
pub(super) async fn list_record_types(
    caller: Caller,
    AppPath { app }: AppPath,
) -> JsonReply<Page<RecordTypeView>> {
    Ok(Answer(caller.service.record_types(&caller.principal, &app)?))
}

/// Creates a record. The body is its data.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/records/{type}",
    params(RecordsPath),
    request_body = Object,
    responses((status = 201, description = "The new record", body = RecordView))
)]
pub(super) async fn create_record(
    caller: Caller,
    records: RecordsPath,
    Json(ObjectFields(data), once): Json<ObjectFields>,
) -> Created<RecordView> {
    Ok(created(caller.service.create_record(&caller.principal, &records.into(), data, once).await?))
}

/// Lists records of one type, newest change first; with search words, best match first. `field.NAME=value` filters by a
/// top-level field: its value, or an element of a list.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/records/{type}",
    params(
        RecordsPath,
        ("q" = Option<String>, Query, description = "Words that must occur in the record"),
        PageParams
    ),
    responses((status = 200, description = "A page of records", body = Page<RecordView>))
)]
pub(super) async fn list_records(
    caller: Caller,
    records: RecordsPath,
    RecordParams(search): RecordParams,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<RecordView>> {
    Ok(Answer(caller.service.records(&caller.principal, &records.into(), search, page.into()).await?))
}

/// Returns a record.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/records/{type}/{record}",
    params(RecordPath),
    responses((status = 200, description = "The record", body = RecordView))
)]
pub(super) async fn get_record(caller: Caller, record: RecordPath) -> JsonReply<RecordView> {
    Ok(Answer(caller.service.record(&caller.principal, &record.into()).await?))
}

/// Lists the versions of a record, the present one first: at most 50 earlier ones.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/records/{type}/{record}/versions",
    params(RecordPath),
    responses((status = 200, description = "The versions, in one page", body = Page<RecordVersionView>))
)]
pub(super) async fn record_versions(
    caller: Caller,
    record: RecordPath,
) -> JsonReply<Page<RecordVersionView>> {
    Ok(Answer(caller.service.record_versions(&caller.principal, &record.into()).await?))
}

/// Replaces all data of a record.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/records/{type}/{record}",
    params(RecordPath, VersionParams, IfMatch),
    request_body = Object,
    responses((status = 200, description = "The record as it is now", body = RecordView))
)]
pub(super) async fn replace_record(
    caller: Caller,
    record: RecordPath,
    ExpectedVersion(expected): ExpectedVersion,
    Json(ObjectFields(data), once): Json<ObjectFields>,
) -> JsonReply<RecordView> {
    let terms = Terms { expected, once };
    Ok(Answer(
        caller.service.change_record(&caller.principal, &record.into(), Edit::Replace(data), terms).await?,
    ))
}

/// Changes the fields of a record that are in the body. Null removes a field.
#[utoipa::path(
    patch,
    path = "/v1/apps/{app}/records/{type}/{record}",
    params(RecordPath, VersionParams, IfMatch),
    request_body = Object,
    responses((status = 200, description = "The record as it is now", body = RecordView))
)]
pub(super) async fn change_record(
    caller: Caller,
    record: RecordPath,
    ExpectedVersion(expected): ExpectedVersion,
    Json(ObjectFields(fields), once): Json<ObjectFields>,
) -> JsonReply<RecordView> {
    let terms = Terms { expected, once };
    Ok(Answer(
        caller.service.change_record(&caller.principal, &record.into(), Edit::Merge(fields), terms).await?,
    ))
}

/// Deletes a record.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/records/{type}/{record}",
    params(RecordPath, VersionParams, IfMatch),
    responses((status = 204, description = "The record is deleted"))
)]
pub(super) async fn delete_record(
    caller: Caller,
    record: RecordPath,
    ExpectedVersion(expected): ExpectedVersion,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.delete_record(&caller.principal, &record.into(), Terms { expected, once }).await?;
    Ok(StatusCode::NO_CONTENT)
}
