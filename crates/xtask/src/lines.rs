//! How large the workspace is and how its parts hang together, by crate.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::source::{SourceFile, SourceTree};
use crate::tidy::cycles::{self, TwoWayPair};
use crate::tidy::type_names::{self, TypePlace};

/// Crates that are never shipped: tests, benchmarks and chores.
const NOT_SHIPPED: [&str; 4] = ["bench", "testkit", "torture", "xtask"];

/// The counts of one crate, tests left out.
#[derive(Debug, Default, PartialEq, Eq)]
struct CrateSize {
    /// Lines without comments and blanks.
    code: usize,
    files: usize,
    largest: TypeSize,
    two_way_pairs: usize,
    /// Names of its visible types that other types have, too.
    duplicates: usize,
}

/// The methods of a type, but for those of traits.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct TypeSize {
    methods: usize,
    visible_methods: usize,
    name: String,
}

/// The findings in all crates at once.
struct WorkspaceFindings<'t> {
    duplicates: BTreeMap<&'t str, Vec<TypePlace<'t>>>,
    pairs: Vec<TwoWayPair>,
}

impl<'t> WorkspaceFindings<'t> {
    fn of(tree: &'t SourceTree) -> Self {
        Self { duplicates: type_names::duplicates(tree), pairs: cycles::pairs(tree) }
    }
}

/// The table of all crates as text.
pub(crate) fn table(root: &Path) -> Result<String, String> {
    Ok(render(&SourceTree::read(root)?))
}

fn render(tree: &SourceTree) -> String {
    let mut text = format!(
        "{:<10} {:>7} {:>6} {:>8} {:>8} {:<22} {:>7} {:>10}\n",
        "crate", "code", "files", "methods", "visible", "of the largest type", "two-way", "duplicates"
    );
    let findings = WorkspaceFindings::of(tree);
    let (mut shipped, mut all) = (CrateSize::default(), CrateSize::default());
    for name in tree.crate_names() {
        let size = measure(tree, &findings, name);
        let _ = writeln!(text, "{}", row(name, &size));
        if !NOT_SHIPPED.contains(&name) {
            add(&mut shipped, &size);
        }
        add(&mut all, &size);
    }
    let _ = writeln!(text, "{}\n{}", row("shipped", &shipped), row("all", &all));
    let types: usize = findings.duplicates.values().map(Vec::len).sum();
    let _ = writeln!(text, "\n{} names stand for {types} types", findings.duplicates.len());
    for pair in &findings.pairs {
        let _ = writeln!(
            text,
            "{}: {} and {} import each other",
            pair.crate_name, pair.first.from, pair.first.to
        );
    }
    text
}

fn row(name: &str, size: &CrateSize) -> String {
    let CrateSize { code, files, largest, two_way_pairs, duplicates } = size;
    let TypeSize { methods, visible_methods, name: largest } = largest;
    format!(
        "{name:<10} {code:>7} {files:>6} {methods:>8} {visible_methods:>8} {largest:<22} {two_way_pairs:>7} {duplicates:>10}"
    )
}

fn add(sum: &mut CrateSize, size: &CrateSize) {
    sum.code += size.code;
    sum.files += size.files;
    sum.two_way_pairs += size.two_way_pairs;
    sum.duplicates += size.duplicates;
    if size.largest.methods > sum.largest.methods {
        sum.largest = size.largest.clone();
    }
}

fn measure(tree: &SourceTree, findings: &WorkspaceFindings<'_>, crate_name: &str) -> CrateSize {
    let files: Vec<&SourceFile> =
        tree.files.iter().filter(|file| file.crate_name == crate_name && !file.is_test()).collect();
    let mut types: BTreeMap<&str, TypeSize> = BTreeMap::new();
    for file in &files {
        for method in file.rust.methods.iter().filter(|method| !file.rust.is_test(method.line)) {
            let size = types.entry(&method.type_name).or_default();
            size.name.clone_from(&method.type_name);
            size.methods += 1;
            size.visible_methods += usize::from(method.is_visible);
        }
    }
    let places = findings.duplicates.values().flatten();
    CrateSize {
        code: files.iter().map(|file| file.rust.count_code()).sum(),
        files: files.len(),
        largest: types.into_values().max_by_key(|size| size.methods).unwrap_or_default(),
        two_way_pairs: findings.pairs.iter().filter(|pair| pair.crate_name == crate_name).count(),
        duplicates: places.filter(|place| place.crate_name == crate_name).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::RustFile;

    #[test]
    fn a_crate_is_measured_without_its_tests() {
        let file =
            |path: &str, text: &str| SourceFile::new(path, RustFile::parse(path, text).unwrap()).unwrap();
        let tree = SourceTree::new(vec![
            file("crates/store/src/lib.rs", "mod a;\nmod b;\npub struct Row;"),
            file(
                "crates/store/src/a.rs",
                "use crate::b::B;\n\n// x\npub struct A;\nimpl A {\npub fn f() {}\nfn g() {}\n}",
            ),
            file("crates/store/src/b.rs", "use crate::a::A;\npub struct B;"),
            file("crates/store/src/a/tests.rs", "fn t() {}"),
            file("crates/bench/src/main.rs", "pub struct Row;"),
        ]);
        let largest = TypeSize { methods: 2, visible_methods: 1, name: "A".into() };
        let expected = CrateSize { code: 11, files: 3, largest, two_way_pairs: 1, duplicates: 1 };
        assert_eq!(measure(&tree, &WorkspaceFindings::of(&tree), "store"), expected);
        let table = render(&tree);
        assert!(
            table.contains("1 names stand for 2 types") && table.contains("a and b import each other"),
            "{table}"
        );
    }
}
