//! Spreadsheets and CSV files: rows as text with their header, as people see them, and within bounds.

use super::writing::package;
use super::*;

pub(super) const PRICES: &[u8] = include_bytes!("../../../tests/data/prices.xlsx");

const CONTENT: &str = "<Relationships><Relationship Id=\"r1\" \
    Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" \
    Target=\"worksheets/sheet1.xml\"/></Relationships>";
const ROOT: &str = "<Relationships><Relationship Id=\"r1\" \
    Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" \
    Target=\"xl/workbook.xml\"/></Relationships>";
const WORKBOOK: &str =
    "<workbook><sheets><sheet name=\"One\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>";

/// A workbook of one sheet with these rows, and these shared strings.
fn xlsx(rows: &str, strings: &str) -> Vec<u8> {
    let sheet = format!("<worksheet><sheetData>{rows}</sheetData></worksheet>");
    package(&[
        ("_rels/.rels", ROOT.as_bytes()),
        ("xl/workbook.xml", WORKBOOK.as_bytes()),
        ("xl/_rels/workbook.xml.rels", CONTENT.as_bytes()),
        ("xl/sharedStrings.xml", strings.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}

fn inline(place: &str, text: &str) -> String {
    format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
}

#[test]
fn a_workbook_is_read_as_people_see_it() {
    assert_eq!(kind("prices.xlsx", None, PRICES), Ok(DocumentKind::Xlsx));
    let extracted = extract(DocumentKind::Xlsx, PRICES).unwrap();
    pieces::hold(&extracted);
    let text = |text: &str| text.to_owned();
    assert_eq!(
        places(&extracted),
        [
            (text("Prices, row 1"), text("Prices\nPrice list of the ski rental")),
            (
                text("Prices, rows 4-7"),
                text(
                    "Prices\nArticle | Per day | Per week | Valid from | Note\n\
                     Touring ski | 35.5 | 180 | 2026-12-01 | with skins & crampons\n\
                     Snow shoes | 12 | 60 | 2026-12-01\n\
                     Avalanche set | 19.9 | | 2027-01-15 | beacon, probe and shovel\n\
                     All together | 67.4"
                )
            ),
            (
                text("Hours, rows 2-3"),
                text(
                    "Hours\nDay | Opens | Longest tour | Open\nSaturday | 07:30 | 30:00:00 | TRUE\n\
                     Sunday | 2026-12-06 09:15 | #DIV/0! | FALSE"
                )
            ),
        ],
        "without the hidden sheet and the chart"
    );
}

#[test]
fn every_piece_of_a_long_table_repeats_the_header() {
    let rows: String = (1..=120)
        .map(|number| format!("Hut {number};{};\"Valley {number}; north\"\n", number * 10))
        .collect();
    let csv = format!("Name;Beds;Where\n{rows}");
    assert_eq!(kind("huts.csv", None, csv.as_bytes()), Ok(DocumentKind::Csv));
    let extracted = extract(DocumentKind::Csv, csv.as_bytes()).unwrap();
    pieces::hold(&extracted);
    let pieces = places(&extracted);
    assert!(pieces.len() > 3, "{pieces:?}");
    let mut next = 2;
    for (place, text) in &pieces {
        assert!(text.starts_with("Name | Beds | Where\nHut "), "{text}");
        assert!(text.len() <= TARGET_CHUNK_BYTES);
        let rows = place.strip_prefix("rows ").or(place.strip_prefix("row ")).unwrap();
        let (first, last) = rows.split_once('-').unwrap_or((rows, rows));
        assert_eq!(first.parse(), Ok(next), "{place}");
        next = last.parse::<usize>().unwrap() + 1;
        assert_eq!(text.lines().count(), next - first.parse::<usize>().unwrap() + 1);
    }
    assert_eq!(next, 122);
    assert!(pieces[0].1.contains("Hut 1 | 10 | Valley 1; north"), "{}", pieces[0].1);
}

#[test]
fn csv_is_read_with_any_delimiter_and_in_any_encoding() {
    let read = |bytes: &[u8]| places(&extract(DocumentKind::Csv, bytes).unwrap());
    let wanted = [("row 2".to_owned(), "Name | Größe\nAnna | 3,5".to_owned())];
    for text in [
        "Name;Größe\nAnna;3,5\n",
        "Name\tGröße\r\nAnna\t3,5",
        "Name,Größe\nAnna,\"3,5\"",
        "sep=|\nName|Größe\nAnna|3,5",
    ] {
        assert_eq!(read(text.as_bytes()), wanted, "{text}");
    }
    assert_eq!(read(b"Name;Gr\xf6\xdfe\nAnna;3,5\n"), wanted, "Windows-1252");
    let marked: Vec<u8> = b"\xef\xbb\xbf".iter().copied().chain("Name;Größe\nAnna;3,5".bytes()).collect();
    assert_eq!(read(&marked), wanted);
    assert_eq!(read(b"milk\nbread\n"), [("rows 1-2".to_owned(), "milk\nbread".to_owned())], "one column");
    assert_eq!(read(b"only,a header\n"), [("row 1".to_owned(), "only | a header".to_owned())]);
    let ragged = read(b"List of huts\n\nName,Beds\nA,1,extra\n,2\n");
    assert_eq!(
        ragged,
        [
            ("row 1".to_owned(), "List of huts".to_owned()),
            ("rows 3-4".to_owned(), "Name | Beds | C\nA | 1 | extra\n| 2".to_owned()),
        ]
    );
    assert_eq!(extract(DocumentKind::Csv, b";;\n;;\n"), Err(DocumentProblem::Empty));
    assert_eq!(kind("t.tsv", None, b"a\tb"), Ok(DocumentKind::Csv));
    assert_eq!(kind("upload", Some("text/csv; charset=utf-8"), b"a,b"), Ok(DocumentKind::Csv));
}

#[test]
fn a_row_that_is_too_long_for_a_piece_has_the_title_before_each_cell() {
    let answer = "The hut has water all year. ".repeat(80);
    let csv = format!("Question,Answer,Author\nIs there water?,\"{answer}\",Ann\nBeds?,12,Ben\n");
    let extracted = extract(DocumentKind::Csv, csv.as_bytes()).unwrap();
    pieces::hold(&extracted);
    let pieces = places(&extracted);
    assert!(pieces[0].1.starts_with("Question: Is there water?"), "{pieces:?}");
    assert!(pieces[..pieces.len() - 1].iter().all(|(place, _)| place == "row 2"), "{pieces:?}");
    assert!(pieces.iter().any(|(_, text)| text.ends_with("Author: Ann")), "{pieces:?}");
    assert_eq!(pieces.last().unwrap().1, "Question | Answer | Author\nBeds? | 12 | Ben");
}

#[test]
fn a_workbook_that_lies_about_itself_costs_no_more_than_it_has() {
    let strings = "<sst count=\"1\" uniqueCount=\"99999999999999\"><si><t>kept</t></si></sst>";
    let shared = "<row r=\"1\"><c r=\"A1\" t=\"s\"><v>0</v></c></row>";
    let extracted = extract(DocumentKind::Xlsx, &xlsx(shared, strings)).unwrap();
    assert_eq!(places(&extracted), [("One, row 1".to_owned(), "One\nkept".to_owned())]);
    let corners = format!(
        "<row r=\"1\">{}</row><row r=\"1048576\">{}</row>",
        inline("A1", "first"),
        inline("XFD1048576", "last")
    );
    let extracted = extract(DocumentKind::Xlsx, &xlsx(&corners, "<sst></sst>")).unwrap();
    assert_eq!(full_text(&extracted), "One\nfirst\nlast", "no cells are made between them");
    let beyond = format!("<row r=\"1\">{}</row>", inline("ZZZZ1", "x"));
    let problem = extract(DocumentKind::Xlsx, &xlsx(&beyond, "<sst></sst>")).unwrap_err();
    assert_eq!(problem, DocumentProblem::TooLarge { what: "columns", limit: 16_384 });
    let missing = "<row r=\"1\"><c r=\"A1\" t=\"s\"><v>7</v></c></row>";
    let problem = extract(DocumentKind::Xlsx, &xlsx(missing, "<sst></sst>")).unwrap_err();
    assert_eq!(problem.code(), "document_unreadable");
}

#[test]
fn a_workbook_that_inflates_without_end_is_refused() {
    let half = " ".repeat(33 * 1024 * 1024);
    let (rows, strings) = (format!("{half}<row/>"), format!("<sst>{half}</sst>"));
    let bomb = xlsx(&rows, &strings);
    assert!(bomb.len() < 1024 * 1024);
    assert_eq!(
        extract(DocumentKind::Xlsx, &bomb),
        Err(DocumentProblem::part_too_large()),
        "both parts together"
    );
}

#[test]
fn too_many_rows_and_too_long_cells_are_refused() {
    let rows = "1\n".repeat(100_001);
    let problem = extract(DocumentKind::Csv, rows.as_bytes()).unwrap_err();
    assert_eq!(problem, DocumentProblem::TooLarge { what: "rows", limit: 100_000 });
    let cells = "a,b,c,d,e,f,g,h,i,j,k,l\n".repeat(90_000);
    let problem = extract(DocumentKind::Csv, cells.as_bytes()).unwrap_err();
    assert_eq!(problem, DocumentProblem::TooLarge { what: "cells", limit: 1_000_000 });
    let long = format!("a,{}\n", "x".repeat(128 * 1024 + 1));
    let problem = extract(DocumentKind::Csv, long.as_bytes()).unwrap_err();
    assert_eq!(problem, DocumentProblem::TooLarge { what: "bytes in a cell", limit: 128 * 1024 });
}
