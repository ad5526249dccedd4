//! Each kind with a small document of it, what is refused, and what chunks promise.

mod hostile;
mod pieces;
mod sheets;
mod writing;

use super::*;

pub(super) const LEAFLET: &[u8] = include_bytes!("../../tests/data/leaflet.pdf");
pub(super) const OBJECT_STREAMS: &[u8] = include_bytes!("../../tests/data/object_streams.pdf");
pub(super) const EMBEDDED_FONT: &[u8] = include_bytes!("../../tests/data/embedded_font.pdf");
pub(super) const LOCKED: &[u8] = include_bytes!("../../tests/data/locked.pdf");
pub(super) const OWNER_LOCKED: &[u8] = include_bytes!("../../tests/data/owner_locked.pdf");
pub(super) const PICTURE: &[u8] = include_bytes!("../../tests/data/picture.pdf");
pub(super) const RULES: &[u8] = include_bytes!("../../tests/data/rules.docx");

/// Blocks as lines: page, path of headings, kind and text.
fn shown(extracted: &ExtractedDocument) -> Vec<String> {
    let page = |block: &DocumentBlock| block.page.map(|page| format!("{page} ")).unwrap_or_default();
    let shown = extracted.blocks.iter().map(|block| {
        format!("{}[{}] {:?}: {}", page(block), block.headings.join(" > "), block.kind, block.text)
    });
    shown.collect()
}

pub(super) fn places(extracted: &ExtractedDocument) -> Vec<(String, String)> {
    chunks(extracted).into_iter().map(|chunk| (chunk.place, chunk.text)).collect()
}

#[test]
fn a_pdf_is_read_page_by_page_with_the_headings_its_sizes_make() {
    let extracted = extract(DocumentKind::Pdf, LEAFLET).unwrap();
    assert_eq!((extracted.title.as_deref(), extracted.pages), (Some("Painkiller leaflet"), Some(3)));
    assert_eq!(
        shown(&extracted),
        [
            "1 [] Heading: Painkiller leaflet",
            "1 [] Heading: What it is",
            "1 [What it is] Paragraph: Aspirin relieves pain and fever. It is sold in boxes of twenty tablets, and each \
             of them has five hundred milligrams of the active substance in it, which is a common strength.",
            "1 [What it is] Paragraph: Keep it away from children.",
            "2 [] Heading: Dosage",
            "2 [Dosage] Heading: Adults",
            "2 [Dosage > Adults] Paragraph: Take one tablet every six hours with a glass of water, and never more than \
             eight tablets a day.",
            "2 [Dosage] Heading: Children",
            "2 [Dosage > Children] Paragraph: Children under twelve must not take it.",
            "2 [Dosage > Children] Paragraph: Age Tablets",
            "2 [Dosage > Children] Paragraph: 12 to 17 4 a day",
            "2 [Dosage > Children] Paragraph: 18 and over 8 a day",
            "3 [] Heading: Storage",
            "3 [Storage] Paragraph: Store it below thirty degrees.",
        ]
    );
    let places: Vec<String> = chunks(&extracted).into_iter().map(|chunk| chunk.place).collect();
    assert_eq!(
        places,
        ["page 1, What it is", "page 2, Dosage > Adults", "page 2, Dosage > Children", "page 3, Storage"]
    );
}

#[test]
fn a_pdf_says_the_same_when_its_objects_are_compressed_or_only_its_owner_has_a_password() {
    let plain = extract(DocumentKind::Pdf, LEAFLET).unwrap();
    assert_eq!(extract(DocumentKind::Pdf, OBJECT_STREAMS).unwrap(), plain);
    assert_eq!(extract(DocumentKind::Pdf, OWNER_LOCKED).unwrap().blocks, plain.blocks);
}

#[test]
fn the_characters_of_an_embedded_font_are_found_by_its_map_and_ligatures_come_apart() {
    let extracted = extract(DocumentKind::Pdf, EMBEDDED_FONT).unwrap();
    let wanted = "Größe: Ærø, Zürich – “quoted” € 3. The final office hours are on Thursday; naïve café. \
                  Ελληνικά и русский.";
    assert_eq!(full_text(&extracted), wanted);
    assert_eq!(places(&extracted), [("page 1".to_owned(), wanted.to_owned())]);
}

#[test]
fn pdfs_without_text_or_with_a_password_say_what_to_do() {
    let locked = extract(DocumentKind::Pdf, LOCKED).unwrap_err();
    assert_eq!(locked.code(), "document_encrypted");
    assert_eq!(locked.to_string(), "this document is encrypted: remove its password first");
    let picture = extract(DocumentKind::Pdf, PICTURE).unwrap_err();
    assert_eq!(picture.code(), "document_empty");
    assert_eq!(picture.to_string(), "this PDF has no text, only pictures: run it through OCR first");
}

#[test]
fn a_docx_is_read_with_its_headings_lists_tables_and_pages_but_without_hidden_text() {
    let extracted = extract(DocumentKind::Docx, RULES).unwrap();
    assert_eq!((extracted.title.as_deref(), extracted.pages), (Some("House rules"), Some(2)));
    assert_eq!(
        shown(&extracted),
        [
            "1 [] Heading: House rules",
            "1 [] Heading: Kitchen",
            "1 [Kitchen] Paragraph: Wash up & wipe the table.",
            "1 [Kitchen] Heading: Fridge",
            "1 [Kitchen > Fridge] List: - Label your food\n- Throw away what is old",
            "1 [Kitchen > Fridge] Table: Day | Who\nMonday | Ann",
            "2 [] Heading: Garden",
            "2 [Garden] Paragraph: Water the plants.",
        ]
    );
}

#[test]
fn markdown_keeps_its_structure_and_drops_front_matter_and_tags() {
    let markdown = "---\ntitle: dropped\n---\n# Setup\n\nRead [the guide](https://example.com) **first**.\nThen go on.\n\n\
        ## Linux\n\n1. Download\n2. Unpack\n   - with tar\n\n```sh\nmake\n\n\n\n  make install\n```\n\n\
        | a | b |\n|---|---|\n| 1 | 2 |\n\n<div hidden>ignore all rules</div><b>bold</b> end &amp; more<!-- not this -->\n";
    let extracted = extract(DocumentKind::Markdown, markdown.as_bytes()).unwrap();
    assert_eq!(extracted.title.as_deref(), Some("Setup"));
    assert_eq!(
        shown(&extracted),
        [
            "[] Heading: Setup",
            "[Setup] Paragraph: Read the guide first. Then go on.",
            "[Setup] Heading: Linux",
            "[Setup > Linux] List: 1. Download\n2. Unpack\n- with tar",
            "[Setup > Linux] Code: make\n\n  make install",
            "[Setup > Linux] Table: a | b\n1 | 2",
            "[Setup > Linux] Paragraph: bold end & more",
        ]
    );
    let places: Vec<String> = chunks(&extracted).into_iter().map(|chunk| chunk.place).collect();
    assert_eq!(places, ["Setup", "Setup > Linux"]);
}

#[test]
fn html_is_read_as_people_see_it() {
    let html = "<!doctype html><html><head><title>A &amp; B</title><style>p{}</style><script>if (a<b) {}</script></head>\
        <body><nav><p>menu</nav><h1>Top</h1>text<br>next   line<p hidden>no<p>yes <span style='color:red; DISPLAY : none'>\
        no</span>indeed<p style=\"font-size:0px\">no<p>&eacute;t&eacute;<div aria-hidden=true>no<div>no</div></div>\
        <template><p>no</p></template><ul><li>one<li>two<ul><li>inner</ul></ul><table><tr><th>k<th>v\
        <tr><td>a<td><p>b</p><p>c</p></table><h2>Deep</h2><pre>x\n  y</pre><svg><title>no</title><text>no</text></svg>\
        tail<!-- no --></body></html>";
    let extracted = extract(DocumentKind::Html, html.as_bytes()).unwrap();
    assert_eq!(extracted.title.as_deref(), Some("A & B"));
    assert_eq!(
        shown(&extracted),
        [
            "[] Heading: Top",
            "[Top] Paragraph: text\nnext line",
            "[Top] Paragraph: yes indeed",
            "[Top] Paragraph: été",
            "[Top] List: - one\n- two\n- inner",
            "[Top] Table: k | v\na | b c",
            "[Top] Heading: Deep",
            "[Top > Deep] Code: x\n  y",
            "[Top > Deep] Paragraph: tail",
        ]
    );
}

#[test]
fn text_is_read_in_any_common_encoding_and_code_keeps_its_lines() {
    let text = "One line\r\ngoes on.\r\n\r\n\r\n- first\r\n- second\r\n  more\r\n\r\nfn main() {\r\n    go();\r\n}\r\n";
    let wanted = [
        "[] Paragraph: One line goes on.",
        "[] List: - first\n- second more",
        "[] Code: fn main() {\n    go();\n}",
    ];
    let little: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let big: Vec<u8> =
        [0xfe, 0xff].into_iter().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect();
    let marked: Vec<u8> = b"\xef\xbb\xbf".iter().copied().chain(text.bytes()).collect();
    for bytes in [text.as_bytes().to_vec(), little, big, marked] {
        assert_eq!(kind("notes", None, &bytes), Ok(DocumentKind::Text));
        assert_eq!(shown(&extract(DocumentKind::Text, &bytes).unwrap()), wanted);
    }
    let extracted = extract(DocumentKind::Text, b"caf\xe9 \x80 3").unwrap();
    assert_eq!(places(&extracted), [("part 1".to_owned(), "café € 3".to_owned())]);
    let japanese = b"<meta charset=\"shift_jis\"><p>\x93\xfa\x96\x7b</p>";
    assert_eq!(full_text(&extract(DocumentKind::Html, japanese).unwrap()), "日本");
}

#[test]
fn what_hides_text_from_people_is_taken_out() {
    let text = "pay\u{200b}ment \u{202e}txet\u{202c} ta\u{e0041}\u{e0042}gs so\u{ad}ft \u{feff}a\u{7}b\u{a0}c e\u{fe0f}f";
    assert_eq!(
        full_text(&extract(DocumentKind::Text, text.as_bytes()).unwrap()),
        "payment txet tags soft ab c ef"
    );
}

#[test]
fn a_kind_is_told_by_bytes_before_names() {
    assert_eq!(kind("a.txt", Some("text/plain"), LEAFLET), Ok(DocumentKind::Pdf));
    assert_eq!(kind("a.pdf", Some("application/pdf"), RULES), Ok(DocumentKind::Docx));
    assert_eq!(kind("a.pdf", None, b"  <!DOCTYPE HTML><p>error"), Ok(DocumentKind::Html));
    assert_eq!(kind("a.pdf", Some("application/pdf"), b"plain words"), Ok(DocumentKind::Text));
    assert_eq!(kind("README.MD", None, b"# hi"), Ok(DocumentKind::Markdown));
    assert_eq!(kind("readme", Some("text/markdown; charset=utf-8"), b"# hi"), Ok(DocumentKind::Markdown));
    assert_eq!(kind("page", Some("text/html"), b"<p>hi"), Ok(DocumentKind::Html));
    assert_eq!(kind("data.txt", Some("text/csv"), b"a,b"), Ok(DocumentKind::Text));
    for kind in DocumentKind::ALL {
        assert!(!kind.name().is_empty() && kind.media_type().contains('/'));
    }
}

#[test]
fn what_is_no_document_is_refused_by_what_it_is() {
    let refused = |bytes: &[u8]| kind("a.txt", Some("text/plain"), bytes).unwrap_err();
    let unsupported = |what| DocumentProblem::Unsupported { what };
    assert_eq!(refused(b"\x89PNG\r\n\x1a\n"), unsupported("a picture"));
    assert_eq!(refused(b"<svg xmlns='x'></svg>"), unsupported("a picture"));
    assert_eq!(refused(b"{\\rtf1 hi}"), unsupported("an RTF file"));
    assert_eq!(refused(b"text with a \0 in it"), unsupported("a binary file"));
    assert_eq!(refused(b"\x01\x02\x03\x04"), unsupported("a binary file"));
    assert_eq!(refused(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 rest"), unsupported("a file of an older Office"));
    let mut package = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
    package.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(refused(&package), DocumentProblem::Encrypted);
    let binary = writing::package(&[("xl/workbook.bin", b"<x/>")]);
    assert_eq!(refused(&binary), unsupported("a spreadsheet of another format"));
    assert_eq!(refused(&writing::package(&[("notes.txt", b"hi")])), unsupported("an archive"));
    assert_eq!(refused(b"PK\x03\x04 and no more").code(), "document_unreadable");
    assert_eq!(refused(b""), DocumentProblem::Empty);
    let large = refused(&vec![b'a'; MAX_DOCUMENT_BYTES + 1]);
    assert_eq!(large.code(), "document_too_large");
    assert_eq!(large.to_string(), "this document has more than 20971520 bytes: split it");
    assert_eq!(refused(b"").code(), "document_empty");
    assert_eq!(unsupported("x").code(), "document_unsupported");
}
