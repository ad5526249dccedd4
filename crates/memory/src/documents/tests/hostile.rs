//! Documents of attackers, and damaged documents.

use proptest::prelude::*;

use super::*;
use crate::documents::tests::sheets::PRICES;
use crate::documents::tests::writing::{docx, package, pdf};

const KINDS: [DocumentKind; 7] = DocumentKind::ALL;
/// How many lengths a fixture is cut at.
const CUTS: usize = 64;
const DEEP: usize = 100_000;
const MEBIBYTE: usize = 1024 * 1024;

#[test]
fn a_document_that_is_cut_off_anywhere_is_read_in_part_or_refused() {
    let fixtures = [
        (DocumentKind::Pdf, LEAFLET),
        (DocumentKind::Pdf, OBJECT_STREAMS),
        (DocumentKind::Pdf, EMBEDDED_FONT),
        (DocumentKind::Docx, RULES),
        (DocumentKind::Xlsx, PRICES),
    ];
    for (kind, fixture) in fixtures {
        for cut in 0..CUTS {
            let part = &fixture[..fixture.len() * cut / CUTS];
            match extract(kind, part) {
                Ok(extracted) => assert!(kind == DocumentKind::Pdf && !extracted.blocks.is_empty()),
                Err(problem) => assert!(matches!(problem.code(), "document_unreadable" | "document_empty")),
            }
        }
    }
}

#[test]
fn a_part_of_a_docx_that_inflates_without_end_is_refused() {
    let bomb = package(&[("word/document.xml", &vec![b' '; 65 * MEBIBYTE])]);
    assert!(bomb.len() < MEBIBYTE);
    assert_eq!(extract(DocumentKind::Docx, &bomb), Err(DocumentProblem::part_too_large()));
}

#[test]
fn a_stream_of_a_pdf_that_inflates_without_end_is_refused_however_often_it_is_compressed() {
    let content = vec![b' '; 129 * MEBIBYTE];
    for layers in [1, 2, 3] {
        let bomb = pdf(&content, layers);
        assert!(bomb.len() < MEBIBYTE);
        assert_eq!(extract(DocumentKind::Pdf, &bomb).unwrap_err().code(), "document_too_large");
    }
    let words = pdf(b"BT /F 12 Tf 50 700 Td (all is well) Tj ET", 2);
    assert_eq!(full_text(&extract(DocumentKind::Pdf, &words).unwrap()), "all is well");
}

#[test]
fn too_much_text_and_too_many_blocks_are_refused() {
    let long = "word ".repeat(MAX_TEXT_BYTES / 5 + 1);
    let many = "a\n\n".repeat(MAX_BLOCKS + 1);
    assert_eq!(extract(DocumentKind::Text, long.as_bytes()).unwrap_err().code(), "document_too_large");
    assert_eq!(extract(DocumentKind::Text, many.as_bytes()).unwrap_err().code(), "document_too_large");
}

#[test]
fn too_many_pages_are_refused() {
    let breaks = "<w:p><w:r><w:br w:type=\"page\"/><w:t>x</w:t></w:r></w:p>";
    assert_eq!(extract(DocumentKind::Docx, &docx(&breaks.repeat(1999))).unwrap().pages, Some(2000));
    let problem = extract(DocumentKind::Docx, &docx(&breaks.repeat(2000))).unwrap_err();
    assert_eq!(problem, DocumentProblem::TooManyPages { pages: 2001, limit: 2000 });
}

#[test]
fn deep_nesting_is_read_or_refused_and_never_overflows() {
    let html = format!("{}x{}", "<div>".repeat(DEEP), "</div>".repeat(DEEP));
    assert_eq!(full_text(&extract(DocumentKind::Html, html.as_bytes()).unwrap()), "x");
    let lists = "<ul><li>".repeat(DEEP / 10) + "x";
    assert_eq!(full_text(&extract(DocumentKind::Html, lists.as_bytes()).unwrap()), "- x");
    let tables = "<table><tr><td>".repeat(DEEP / 10) + "x";
    assert_eq!(full_text(&extract(DocumentKind::Html, tables.as_bytes()).unwrap()), "x");
    let quotes = "> ".repeat(DEEP / 10) + "x";
    assert_eq!(full_text(&extract(DocumentKind::Markdown, quotes.as_bytes()).unwrap()), "x");
    let brackets = "[".repeat(DEEP) + "x";
    assert!(full_text(&extract(DocumentKind::Markdown, brackets.as_bytes()).unwrap()).ends_with("[x"));
    let deep = docx(&("<w:p>".repeat(DEEP) + &"</w:p>".repeat(DEEP)));
    assert_eq!(
        extract(DocumentKind::Docx, &deep),
        Err(DocumentProblem::Unreadable { what: "its XML is nested too deeply" })
    );
    for open in ["(", "[", "<<"] {
        let deep = pdf(open.repeat(DEEP).as_bytes(), 1);
        assert_eq!(extract(DocumentKind::Pdf, &deep), Err(DocumentProblem::NoText));
    }
}

#[test]
fn end_tags_that_nobody_opened_cost_nothing() {
    let html = "<b>".repeat(DEEP) + &"</i>".repeat(DEEP) + "<p>x";
    assert_eq!(full_text(&extract(DocumentKind::Html, html.as_bytes()).unwrap()), "x");
}

#[test]
fn what_was_deleted_moved_or_hidden_in_a_docx_is_left_out() {
    let body = "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>no</w:delText><w:t>no</w:t></w:r></w:del>\
        <w:moveFrom><w:r><w:t>no</w:t></w:r></w:moveFrom><w:ins><w:r><w:t xml:space=\"preserve\"> in</w:t></w:r></w:ins>\
        <w:r><w:rPr><w:vanish/></w:rPr><w:t>no</w:t></w:r><w:r><w:rPr><w:vanish w:val=\"0\"/></w:rPr><w:tab/>\
        <w:t>shown</w:t></w:r><w:r><w:instrText>no</w:instrText></w:r><mc:AlternateContent><mc:Choice><w:r><w:t>, once\
        </w:t></w:r></mc:Choice><mc:Fallback><w:r><w:t>no</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>";
    let extracted = extract(DocumentKind::Docx, &docx(body)).unwrap();
    assert_eq!((full_text(&extracted).as_str(), extracted.pages), ("kept in shown, once", None));
}

#[test]
fn entities_a_docx_declares_for_itself_are_not_expanded() {
    let xml = b"<!DOCTYPE w [<!ENTITY a \"boom\"><!ENTITY file SYSTEM \"file:///etc/passwd\">]>\
        <w:document><w:p><w:t>a&a;&file;&amp;&#x42;</w:t></w:p></w:document>";
    let extracted = extract(DocumentKind::Docx, &package(&[("word/document.xml", xml)])).unwrap();
    assert_eq!(full_text(&extracted), "a&B");
}

#[test]
fn styles_of_another_language_and_levels_of_paragraphs_are_headings() {
    let styles = b"<w:styles><w:style w:styleId=\"berschrift1\"><w:name w:val=\"heading 1\"/></w:style>\
        <w:style w:styleId=\"Own\"><w:name w:val=\"Own\"/><w:pPr><w:outlineLvl w:val=\"1\"/></w:pPr></w:style></w:styles>";
    let paragraph = |properties: &str, text: &str| {
        format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    };
    let xml = [
        "<w:pStyle w:val=\"berschrift1\"/>",
        "<w:pStyle w:val=\"Own\"/>",
        "<w:outlineLvl w:val=\"2\"/>",
        "<w:numPr/>",
    ]
    .iter()
    .zip(["one", "two", "three", "item"])
    .map(|(properties, text)| paragraph(properties, text))
    .collect::<String>();
    let main = format!("<w:document>{xml}</w:document>");
    let bytes = package(&[("word/document.xml", main.as_bytes()), ("word/styles.xml", styles)]);
    let extracted = extract(DocumentKind::Docx, &bytes).unwrap();
    assert_eq!(
        places(&extracted),
        [("one > two > three".to_owned(), "one\n\ntwo\n\nthree\n\n- item".to_owned())]
    );
}

#[test]
fn nothing_is_read_from_nothing() {
    for kind in KINDS {
        assert_eq!(extract(kind, b""), Err(DocumentProblem::Empty));
    }
    assert_eq!(extract(DocumentKind::Html, b"<script>only()</script>"), Err(DocumentProblem::Empty));
    assert_eq!(extract(DocumentKind::Text, b" \n\t\r\n"), Err(DocumentProblem::Empty));
    assert_eq!(extract(DocumentKind::Docx, &docx("<w:p/>")), Err(DocumentProblem::Empty));
}

/// A fixture with some of its bytes changed.
fn damaged() -> impl Strategy<Value = (DocumentKind, Vec<u8>)> {
    let fixtures = vec![
        (DocumentKind::Pdf, LEAFLET),
        (DocumentKind::Pdf, OBJECT_STREAMS),
        (DocumentKind::Pdf, EMBEDDED_FONT),
        (DocumentKind::Pdf, OWNER_LOCKED),
        (DocumentKind::Docx, RULES),
        (DocumentKind::Xlsx, PRICES),
    ];
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..24);
    (proptest::sample::select(fixtures), changes).prop_map(|((kind, fixture), changes)| {
        let mut bytes = fixture.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        (kind, bytes)
    })
}

/// Markup of every kind in any order.
fn markup() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        proptest::sample::select(vec![
            "<p>",
            "</p>",
            "<ul>",
            "<li>",
            "</ul>",
            "<table>",
            "<tr>",
            "<td>",
            "</table>",
            "<h2>",
            "</h2>",
            "<pre>",
            "</pre>",
            "<div hidden>",
            "</div>",
            "<title>",
            "</title>",
            "<!--",
            "-->",
            "<script>",
            "</script>",
            "# ",
            "\n",
            "\n\n",
            "- ",
            "| a | b |\n|---|---|\n",
            "```\n",
            "---\n",
            "> ",
            "&amp;",
            "&#0;",
            "<br>",
            "[a](b)",
        ])
        .prop_map(str::to_owned),
        "[a-z .!é日]{0,12}",
    ];
    proptest::collection::vec(parts, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = kind("x", None, &bytes);
        for kind in KINDS {
            if let Ok(extracted) = extract(kind, &bytes) {
                super::pieces::hold(&extracted);
            }
        }
    }

    #[test]
    fn any_damage_is_read_or_refused((kind, bytes) in damaged()) {
        if let Ok(extracted) = extract(kind, &bytes) {
            super::pieces::hold(&extracted);
        }
    }

    #[test]
    fn any_markup_is_read_or_refused(text in markup()) {
        for kind in
            [DocumentKind::Text, DocumentKind::Markdown, DocumentKind::Html, DocumentKind::Docx, DocumentKind::Csv]
        {
            let bytes = if kind == DocumentKind::Docx { docx(&text) } else { text.clone().into_bytes() };
            if let Ok(extracted) = extract(kind, &bytes) {
                super::pieces::hold(&extracted);
            }
        }
    }
}
