//! Documents written by the tests.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A zip archive of these files.
pub(super) fn package(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A DOCX with this body.
pub(super) fn docx(body: &str) -> Vec<u8> {
    let xml = format!("<?xml version=\"1.0\"?><w:document><w:body>{body}</w:body></w:document>");
    package(&[("word/document.xml", xml.as_bytes())])
}

/// A PDF of one page that draws this, compressed `layers` times.
pub(super) fn pdf(content: &[u8], layers: usize) -> Vec<u8> {
    let mut data = content.to_vec();
    for _ in 0..layers {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&data).unwrap();
        data = encoder.finish().unwrap();
    }
    let filters = "/FlateDecode ".repeat(layers);
    let mut pdf = format!(
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
         3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F \
         <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> >> >> >>endobj\n\
         4 0 obj<</Length {}/Filter[{filters}]>>stream\n",
        data.len()
    )
    .into_bytes();
    pdf.extend(data);
    pdf.extend(b"\nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF");
    pdf
}
