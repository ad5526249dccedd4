//! Markdown files of the user: a list of them, one of them, a new one, and one section at a time.

mod sections;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use serde_json::{Value, json};
use store::{FileRow, MAX_FILE_BYTES, Write};

use self::sections::{MAX_HEADING_CHARS, Mode, SectionError, SectionHeading};
use super::{found_or_none, store_failure, text};
use crate::files::check_path;
use crate::{Calling, Failed, Tool, ToolOutput};

/// Headings of one file that a list shows.
const MAX_HEADINGS_SHOWN: usize = 20;
/// Bytes of a list, and of a file, that fit into a result with room for the escapes of JSON.
const MAX_LIST_BYTES: usize = 48 * 1024;
const MAX_READ_BYTES: usize = 48 * 1024;

pub(crate) struct ListMarkdown;
pub(crate) struct ReadMarkdown;
pub(crate) struct CreateMarkdownFile;
pub(crate) struct WriteMarkdownSection;

#[async_trait]
impl Tool for ListMarkdown {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let prefix = text(&calling.input, "prefix").unwrap_or_default();
        let files = calling.store.files(calling.scope).await.map_err(store_failure)?;
        let mut listed = Vec::new();
        let mut bytes = 0;
        let mut more = false;
        for file in files.iter().filter(|file| file.path.starts_with(prefix)) {
            let entry = entry(file);
            bytes += entry.to_string().len();
            more = bytes > MAX_LIST_BYTES;
            if more {
                break;
            }
            listed.push(entry);
        }
        Ok(json!({ "files": listed, "more": more }).into())
    }
}

fn entry(file: &FileRow) -> Value {
    let headings = sections::headings(&file.content);
    let shown = headings.iter().take(MAX_HEADINGS_SHOWN);
    let shown: Vec<String> =
        shown.map(|heading| format!("{} {}", "#".repeat(heading.level.into()), heading.text)).collect();
    json!({
        "path": file.path,
        "bytes": file.content.len(),
        "updatedAt": file.updated_at,
        "headings": shown,
    })
}

#[async_trait]
impl Tool for ReadMarkdown {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        path(&calling.input).map(drop)
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let path = path(&calling.input)?;
        let Some(file) = find_file(&calling, path).await? else {
            let message = format!("there is no file {path}; listMarkdown shows those there are");
            return Err(Failed::new("not_found", message));
        };
        let kept = file.content.floor_char_boundary(MAX_READ_BYTES);
        let content = file.content.get(..kept).unwrap_or_default();
        let mut output = json!({ "path": path, "version": file.version, "content": content });
        if let Some(object) = output.as_object_mut().filter(|_| kept < file.content.len()) {
            object.insert("cut".into(), format!("{kept} of {} bytes shown", file.content.len()).into());
        }
        Ok(output.into())
    }
}

#[async_trait]
impl Tool for CreateMarkdownFile {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        create(calling).await.map(drop)
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let (path, content) = create(&calling).await?;
        // A file that was deleted keeps its version.
        let expected = calling.store.file_version(calling.scope, path).await.map_err(store_failure)?;
        Ok(write_file(path, content.to_owned(), expected))
    }
}

async fn create<'a>(calling: &'a Calling<'_>) -> Result<(&'a str, &'a str), Failed> {
    let path = path(&calling.input)?;
    if find_file(calling, path).await?.is_some() {
        let message = format!("there is a file {path} already; change it with writeMarkdownSection");
        return Err(Failed::new("exists", message));
    }
    let content = text(&calling.input, "content").unwrap_or_default();
    check_size(content)?;
    Ok((path, content))
}

#[async_trait]
impl Tool for WriteMarkdownSection {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        section(calling).await.map(drop)
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let (file, content) = section(&calling).await?;
        if content == file.content {
            return Ok(json!({ "path": file.path, "version": file.version, "unchanged": true }).into());
        }
        Ok(write_file(&file.path, content, file.version))
    }
}

/// The file, and its text with the section written.
async fn section(calling: &Calling<'_>) -> Result<(FileRow, String), Failed> {
    let input = &calling.input;
    let path = path(input)?;
    let Some(file) = find_file(calling, path).await? else {
        let message = format!("there is no file {path}; create it with createMarkdownFile");
        return Err(Failed::new("not_found", message));
    };
    let heading = text(input, "heading").unwrap_or_default();
    let wanted = SectionHeading::parse(heading).ok_or_else(|| {
        let message = format!("a heading is one line of 1 to {MAX_HEADING_CHARS} characters");
        Failed::new("invalid_heading", message)
    })?;
    let mode = if text(input, "mode") == Some("append") { Mode::Append } else { Mode::Replace };
    let content = text(input, "content").unwrap_or_default();
    let content = sections::write(&file.content, &wanted, content, mode).map_err(|trouble| match trouble {
        SectionError::Ambiguous(lines) => {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let message = format!("{heading:?} is the heading on lines {}; make them different", lines.join(", "));
            Failed::new("ambiguous_heading", message)
        }
        SectionError::Spills { level } => {
            let message = format!(
                "the content would change other sections; close its code blocks and comments, and use headings \
                 below level {level} only"
            );
            Failed::new("invalid_content", message)
        }
    })?;
    check_size(&content)?;
    Ok((file, content))
}

fn write_file(path: &str, content: String, expected: u64) -> ToolOutput {
    let output = json!({ "path": path, "version": expected + 1, "bytes": content.len() });
    ToolOutput::with_write(output, Write::File { path: path.to_owned(), content: Some(content), expected })
}

fn path(input: &Value) -> Result<&str, Failed> {
    let path = text(input, "path").unwrap_or_default();
    check_path(path).map_err(|reason| Failed::new("invalid_path", reason))?;
    Ok(path)
}

async fn find_file(calling: &Calling<'_>, path: &str) -> Result<Option<FileRow>, Failed> {
    found_or_none(calling.store.file(calling.scope, path).await)
}

fn check_size(content: &str) -> Result<(), Failed> {
    if content.len() <= MAX_FILE_BYTES {
        return Ok(());
    }
    let message = format!("a file holds at most {} KiB; put some of it into another", MAX_FILE_BYTES / 1024);
    Err(Failed::new("too_large", message))
}
