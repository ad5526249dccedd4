//! The files of a user as resources. A file has the address `rondo://APP/files/PATH`.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use protocol::FileView;
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};

use super::McpCaller;
use super::calls::visible_apps;
use crate::Api;
use crate::error::{ApiProblem, ProblemCode};

const SCHEME: &str = "rondo://";
const FILES: &str = "/files/";
const MARKDOWN: &str = "text/markdown";

/// Files in a page.
const PAGE_FILES: usize = 100;

/// Bytes of a cursor or of an address.
const MAX_ADDRESS_BYTES: usize = 4 * 1024;

/// A page of the caller's files, by app and path.
pub(super) async fn list(
    api: &Api,
    caller: &McpCaller,
    request: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let after = request.and_then(|request| request.cursor).map(|cursor| read_cursor(&cursor)).transpose()?;
    let (mut found, mut next) = (Vec::new(), None);
    for app in visible_apps(api, caller) {
        if after.as_ref().is_some_and(|(after, _)| app < *after) {
            continue;
        }
        let files = api.service.files(&caller.principal, &app).await;
        let mut files = files.map_err(|error| error_data(&error.into()))?.data;
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let is_after =
            |file: &FileView| after.as_ref().is_none_or(|(name, path)| *name != app || file.path > *path);
        for file in files.into_iter().filter(is_after) {
            if found.len() == PAGE_FILES {
                let last: Option<&(String, FileView)> = found.last();
                next = last.map(|(app, file)| cursor(app, &file.path));
                break;
            }
            found.push((app.clone(), file));
        }
        if next.is_some() {
            break;
        }
    }
    let resources = found.iter().map(|(app, file)| resource(app, file)).collect();
    let mut page = ListResourcesResult::with_all_items(resources);
    page.next_cursor = next;
    Ok(page)
}

/// The form of the addresses.
pub(super) fn templates(caller: &McpCaller) -> ListResourceTemplatesResult {
    let app = caller.app.as_deref().unwrap_or("{app}");
    let template = ResourceTemplate::new(format!("{SCHEME}{app}{FILES}{{+path}}"), "file")
        .with_title("File")
        .with_description("A Markdown file of the user in an app")
        .with_mime_type(MARKDOWN);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// One file.
pub(super) async fn read(
    api: &Api,
    caller: &McpCaller,
    request: &ReadResourceRequestParams,
) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || ErrorData::resource_not_found("there is no such file", None);
    let (app, path) = read_address(&request.uri).ok_or_else(unknown)?;
    let file = api.service.file(&caller.principal, (&app, &path)).await.map_err(|error| {
        let problem = ApiProblem::from(error);
        // A path that no file can have names none, either.
        let is_unknown = [ProblemCode::NotFound, ProblemCode::InvalidRequest].contains(&problem.code());
        if is_unknown { unknown() } else { error_data(&problem) }
    })?;
    let contents = ResourceContents::text(file.content.unwrap_or_default(), address(&app, &path));
    Ok(ReadResourceResult::new(vec![contents.with_mime_type(MARKDOWN)]))
}

fn resource(app: &str, file: &FileView) -> Resource {
    Resource::new(address(app, &file.path), file.path.clone()).with_mime_type(MARKDOWN).with_size(file.bytes)
}

fn error_data(problem: &ApiProblem) -> ErrorData {
    ErrorData::internal_error(problem.line(), None)
}

/// The place after which the next page begins.
fn cursor(app: &str, path: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{app}/{path}"))
}

fn read_cursor(cursor: &str) -> Result<(String, String), ErrorData> {
    let unknown = || ErrorData::invalid_params("the cursor is not one that this server has given", None);
    let bytes = URL_SAFE_NO_PAD.decode(beginning_of(cursor).ok_or_else(unknown)?).map_err(|_| unknown())?;
    let text = String::from_utf8(bytes).map_err(|_| unknown())?;
    let (app, path) = text.split_once('/').ok_or_else(unknown)?;
    Ok((app.to_owned(), path.to_owned()))
}

fn beginning_of(text: &str) -> Option<&str> {
    (text.len() <= MAX_ADDRESS_BYTES).then_some(text)
}

/// The address of a file. Bytes that an address cannot have are percent-encoded.
fn address(app: &str, path: &str) -> String {
    let mut address = format!("{SCHEME}{app}{FILES}");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            address.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(address, "%{byte:02X}");
        }
    }
    address
}

/// The app and the path of an address.
fn read_address(address: &str) -> Option<(String, String)> {
    let (app, path) = beginning_of(address)?.strip_prefix(SCHEME)?.split_once(FILES)?;
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [char::from(rest.next()?).to_digit(16)?, char::from(rest.next()?).to_digit(16)?];
        bytes.push(u8::try_from(digits[0] * 16 + digits[1]).ok()?);
    }
    Some((app.to_owned(), String::from_utf8(bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_its_app_and_path() {
        for path in ["a.md", "notes/2026-03-01.md", "Été/über mich.md", "日記/一.md"] {
            let address = address("test", path);
            assert!(address.is_ascii(), "{address}");
            assert_eq!(read_address(&address), Some(("test".into(), path.into())), "{address}");
        }
        assert_eq!(address("test", "a b.md"), "rondo://test/files/a%20b.md");
        for wrong in
            ["", "rondo://", "rondo://test", "file:///a.md", "rondo://test/files/%", "rondo://t/files/%f"]
        {
            assert_eq!(read_address(wrong), None, "{wrong}");
        }
        assert_eq!(read_address("rondo://test/files/%ff.md"), None);
        assert_eq!(read_address(&format!("rondo://test/files/{}", "a".repeat(5000))), None);
    }

    #[test]
    fn a_cursor_reads_back_and_another_text_is_refused() {
        assert_eq!(read_cursor(&cursor("test", "a/b.md")).ok(), Some(("test".into(), "a/b.md".into())));
        for wrong in ["%", "AA", "", &"A".repeat(5000)] {
            assert!(read_cursor(wrong).is_err(), "{wrong}");
        }
    }
}
