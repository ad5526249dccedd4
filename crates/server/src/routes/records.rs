//! Records: typed objects of an app, made, listed, read, changed and deleted.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{Page, Principal, RecordId, RecordView};
use service::{Edit, RecordPlace, RecordsPlace, Terms};

use crate::Api;
use crate::body::{Fields, Json};
use crate::error::Problem;
use crate::once::Key;
use crate::query::{At, Expected, PageParams, Paging, VersionParams, WhichRecords};

/// Makes a record. The body is its data.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/records/{type}",
    tag = "records",
    operation_id = "create_record",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("type" = String, Path, description = "A type of records that the app has")
    ),
    request_body = Object,
    responses((status = 201, description = "The new record", body = RecordView))
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    At(of): At<RecordsPlace>,
    Json(Fields(data), once): Json<Fields>,
) -> Result<(StatusCode, Answer<RecordView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.service.create_record(&principal, &of, data, once).await?)))
}

/// Records of one type, the one changed last first; where words are given, the best match first. `field.NAME=value`,
/// for any field at the top level, keeps those that have the value or, for a list, hold it.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/records/{type}",
    tag = "records",
    operation_id = "list_records",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("type" = String, Path, description = "A type of records that the app has"),
        ("q" = Option<String>, Query, description = "Words that must occur in its texts"),
        PageParams
    ),
    responses((status = 200, description = "A page of records", body = Page<RecordView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    At(of): At<RecordsPlace>,
    WhichRecords(search): WhichRecords,
    Paging(page): Paging,
) -> Result<Answer<Page<RecordView>>, Problem> {
    Ok(Answer(api.service.records(&principal, &of, search, page).await?))
}

/// One record.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/records/{type}/{record}",
    tag = "records",
    operation_id = "get_record",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("type" = String, Path, description = "A type of records that the app has"),
        ("record" = RecordId, Path)
    ),
    responses((status = 200, description = "The record", body = RecordView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    At(place): At<RecordPlace>,
) -> Result<Answer<RecordView>, Problem> {
    Ok(Answer(api.service.record(&principal, &place).await?))
}

/// Replaces all data of a record.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/records/{type}/{record}",
    tag = "records",
    operation_id = "replace_record",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("type" = String, Path, description = "A type of records that the app has"),
        ("record" = RecordId, Path),
        VersionParams,
        ("If-Match" = Option<String>, Header, description = "The version this is meant for, such as \"3\"")
    ),
    request_body = Object,
    responses((status = 200, description = "The record as it is now", body = RecordView))
)]
pub(super) async fn replace(
    State(api): State<Api>,
    principal: Principal,
    At(place): At<RecordPlace>,
    Expected(expected): Expected,
    Json(Fields(data), once): Json<Fields>,
) -> Result<Answer<RecordView>, Problem> {
    let terms = Terms { expected, once };
    Ok(Answer(api.service.change_record(&principal, &place, Edit::Replace(data), terms).await?))
}

/// Changes the fields of a record that the body names. Null takes a field away.
#[utoipa::path(
    patch,
    path = "/v1/apps/{app}/records/{type}/{record}",
    tag = "records",
    operation_id = "change_record",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("type" = String, Path, description = "A type of records that the app has"),
        ("record" = RecordId, Path),
        VersionParams,
        ("If-Match" = Option<String>, Header, description = "The version this is meant for, such as \"3\"")
    ),
    request_body = Object,
    responses((status = 200, description = "The record as it is now", body = RecordView))
)]
pub(super) async fn change(
    State(api): State<Api>,
    principal: Principal,
    At(place): At<RecordPlace>,
    Expected(expected): Expected,
    Json(Fields(fields), once): Json<Fields>,
) -> Result<Answer<RecordView>, Problem> {
    let terms = Terms { expected, once };
    Ok(Answer(api.service.change_record(&principal, &place, Edit::Merge(fields), terms).await?))
}

/// Deletes a record.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/records/{type}/{record}",
    tag = "records",
    operation_id = "delete_record",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("type" = String, Path, description = "A type of records that the app has"),
        ("record" = RecordId, Path),
        VersionParams,
        ("If-Match" = Option<String>, Header, description = "The version this is meant for, such as \"3\"")
    ),
    responses((status = 204, description = "The record is gone"))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    principal: Principal,
    At(place): At<RecordPlace>,
    Expected(expected): Expected,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.service.delete_record(&principal, &place, Terms { expected, once }).await?;
    Ok(StatusCode::NO_CONTENT)
}
