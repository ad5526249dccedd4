//! Markdown, by way of the HTML it stands for: what that leaves out of a page is left out here.

use comrak::Options;

use super::{DocumentProblem, ExtractedDocument, html, text};

pub(super) fn extract(bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    let mut options = Options::default();
    options.extension.autolink = true;
    options.extension.footnotes = true;
    options.extension.front_matter_delimiter = Some("---".to_owned());
    options.extension.strikethrough = true;
    options.extension.table = true;
    options.extension.tasklist = true;
    // The result is never rendered: the reader of HTML takes the tags away.
    options.render.r#unsafe = true;
    html::extract_text(&comrak::markdown_to_html(&text::decode(bytes, None), &options))
}
