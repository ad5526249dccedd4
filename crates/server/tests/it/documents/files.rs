//! Files to upload, made on the spot.

/// A PDF with a line of text on each of its pages.
pub(super) fn pdf(pages: &[&str]) -> Vec<u8> {
    let page = |number: usize| 4 + 2 * number;
    let kids: String = (0..pages.len()).map(|number| format!("{} 0 R ", page(number))).collect();
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        format!("<</Type/Pages/Kids[{kids}]/Count {}>>", pages.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
    ];
    for (number, text) in pages.iter().enumerate() {
        let content = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents {} 0 R>>",
            page(number) + 1
        ));
        objects.push(format!("<</Length {}>>\nstream\n{content}\nendstream", content.len()));
    }
    let mut file = String::from("%PDF-1.4\n");
    let mut places = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        places.push(file.len());
        file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", number + 1));
    }
    let table = file.len();
    let size = objects.len() + 1;
    let entries: String = places.iter().map(|place| format!("{place:010} 00000 n \n")).collect();
    file.push_str(&format!(
        "xref\n0 {size}\n0000000000 65535 f \n{entries}trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n"
    ));
    file.into_bytes()
}
