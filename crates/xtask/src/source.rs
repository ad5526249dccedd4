//! The sources of all crates, read once: which file is which module, and which modules are tests.

mod rust;

use std::collections::BTreeSet;
use std::path::Path;

use walkdir::WalkDir;

pub(crate) use rust::{DeclaredName, RustFile, Token};

/// One file under the `src` of a crate.
pub(crate) struct SourceFile {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) crate_name: String,
    /// The folder of the program or library: `crates/NAME/src`, or a folder under its `bin`.
    pub(crate) base: String,
    /// The names of the modules from the top; none for `lib.rs` and `main.rs`.
    pub(crate) module: Vec<String>,
    pub(crate) rust: RustFile,
    /// The whole file exists only in tests. Known once all files have been read.
    is_test: bool,
}

impl SourceFile {
    /// None for a file that is not under the `src` of a crate.
    pub(crate) fn new(path: &str, rust: RustFile) -> Option<Self> {
        let (crate_name, within) = path.strip_prefix("crates/")?.split_once("/src/")?;
        let mut parts: Vec<&str> = within.strip_suffix(".rs")?.split('/').collect();
        let mut base = format!("crates/{crate_name}/src");
        if parts.first() == Some(&"bin") && parts.len() > 1 {
            let program: Vec<&str> = parts.drain(..2).collect();
            base = format!("{base}/{}", program.join("/"));
        }
        if parts.last().is_some_and(|last| matches!(*last, "lib" | "main" | "mod")) {
            parts.pop();
        }
        let module = parts.into_iter().map(str::to_owned).collect();
        Some(Self {
            path: path.to_owned(),
            crate_name: crate_name.to_owned(),
            base,
            module,
            rust,
            is_test: false,
        })
    }

    /// Whether the line is test code, because of its file or of the module it stands in.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.rust.is_test(line)
    }

    /// Whether the whole file exists only in tests.
    pub(crate) fn is_test(&self) -> bool {
        self.is_test
    }

    /// The name of the file without its folder.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The files of all crates.
pub(crate) struct SourceTree {
    pub(crate) files: Vec<SourceFile>,
}

/// Modules that exist only in tests, with the base that they belong to.
type TestModules = BTreeSet<(String, Vec<String>)>;

impl SourceTree {
    pub(crate) fn new(mut files: Vec<SourceFile>) -> Self {
        let mut test_modules = TestModules::new();
        for file in &files {
            for module in file.rust.modules.iter().filter(|module| module.is_test && module.inline.is_none())
            {
                let mut path = file.module.clone();
                path.push(module.declaration.name.clone());
                test_modules.insert((file.base.clone(), path));
            }
        }
        for file in &mut files {
            file.is_test = is_test_file(file, &test_modules);
        }
        Self { files }
    }

    /// Reads every crate under the root.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        for entry in WalkDir::new(root.join("crates")).sort_by_file_name() {
            let entry = entry.map_err(|error| format!("cannot walk the crates: {error}"))?;
            let path = relative_path(root, entry.path());
            if !path.ends_with(".rs") || !path.contains("/src/") {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
            let rust = RustFile::parse(&path, &text).map_err(|error| format!("{path}: {error}"))?;
            files.extend(SourceFile::new(&path, rust));
        }
        Ok(Self::new(files))
    }

    /// The names of all crates.
    pub(crate) fn crate_names(&self) -> BTreeSet<&str> {
        self.files.iter().map(|file| file.crate_name.as_str()).collect()
    }
}

fn is_test_file(file: &SourceFile, test_modules: &TestModules) -> bool {
    let above = (1..=file.module.len()).filter_map(|depth| file.module.get(..depth));
    let mut above = above.map(|module| (file.base.clone(), module.to_vec()));
    file.path.contains("/tests/")
        || file.file_name() == "tests.rs"
        || above.any(|module| test_modules.contains(&module))
}

pub(crate) fn relative_path(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile::new(path, RustFile::parse(path, text).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_a_module_of_its_crate_or_program() {
        let modules = |path: &str| (file(path, "").base, file(path, "").module.join("::"));
        let of = |base: &str, module: &str| (base.to_owned(), module.to_owned());
        assert_eq!(modules("crates/a/src/lib.rs"), of("crates/a/src", ""));
        assert_eq!(modules("crates/a/src/b/c.rs"), of("crates/a/src", "b::c"));
        assert_eq!(modules("crates/a/src/b/mod.rs"), of("crates/a/src", "b"));
        assert_eq!(modules("crates/a/src/bin/x/main.rs"), of("crates/a/src/bin/x", ""));
        assert_eq!(modules("crates/a/src/bin/x/y.rs"), of("crates/a/src/bin/x", "y"));
        let rust = RustFile::parse("crates/a/tests/it/main.rs", "").unwrap();
        assert!(SourceFile::new("crates/a/tests/it/main.rs", rust).is_none());
    }

    #[test]
    fn a_module_of_tests_takes_its_files_with_it() {
        let tree = SourceTree::new(vec![
            file("crates/a/src/run.rs", "#[cfg(test)]\nmod machine;\nfn f() {}"),
            file("crates/a/src/run/machine.rs", ""),
            file("crates/a/src/run/machine/turns.rs", ""),
            file("crates/a/src/run/tests.rs", ""),
            file("crates/a/src/machine.rs", ""),
        ]);
        let tests: Vec<bool> = tree.files.iter().map(SourceFile::is_test).collect();
        assert_eq!(tests, [false, true, true, true, false]);
    }

    #[test]
    fn comments_blanks_and_tests_are_no_code() {
        let text = "//! Doc.\n\n/// Doc.\nfn f() -> &'static str { // comment\n    \"one\n\n    three\"\n}\n\n/* x */\n\
                    #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n#[derive(Debug)]\nstruct S;\n";
        assert_eq!(file("crates/a/src/b.rs", text).rust.count_code(), 6);
        assert_eq!(file("crates/a/src/tests.rs", text).rust.count_code(), 0);
    }
}
