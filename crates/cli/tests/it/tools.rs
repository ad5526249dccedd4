//! Every app.toml that the pages about tools and memory show is one that apps can have, and trailhead has the tools it is known for.

use std::path::Path;
use std::sync::Arc;

use protocol::SystemClock;
use tools::Catalog;

use crate::world::APPS;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Pages, with how many app files each shows at least.
const PAGES: [(&str, usize); 3] = [("tools.md", 3), ("memory.md", 1), ("context.md", 1)];

/// The blocks of a page whose first line says that they are an app.toml.
fn app_files(page: &str) -> Vec<String> {
    let blocks = page.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.filter(|block| block.starts_with("# app.toml\n")).map(str::to_owned).collect()
}

/// The names of an app's tools in the order the model sees them, or what is wrong with its folder.
fn tool_names(apps: &Path, app: &str) -> Result<Vec<String>, String> {
    let apps = app::load_all(apps).map_err(|problem| problem.to_string())?;
    let app = apps.values().find(|other| other.id.as_str() == app).expect("the app is there");
    let registry =
        Catalog::builtin(Arc::new(SystemClock)).registry(app, &[]).map_err(|problem| problem.to_string())?;
    Ok(registry.specs().iter().map(|spec| spec.name.clone()).collect())
}

/// An app with this app.toml and the record types of trailhead.
fn load(app_file: &str) -> Result<Vec<String>, String> {
    let apps = tempfile::tempdir().unwrap();
    let app = apps.path().join("example");
    std::fs::create_dir(&app).unwrap();
    std::fs::write(app.join("app.toml"), app_file).unwrap();
    std::fs::write(app.join("instructions.md"), "Help.").unwrap();
    std::os::unix::fs::symlink(Path::new(APPS).join("trailhead/records"), app.join("records")).unwrap();
    tool_names(apps.path(), "example")
}

#[test]
fn every_app_file_of_the_pages_is_accepted() {
    let mut files = Vec::new();
    for (page, least) in PAGES {
        let shown = app_files(&std::fs::read_to_string(Path::new(DOCS).join(page)).unwrap());
        assert!(shown.len() >= least, "{page} shows {} app files", shown.len());
        files.extend(shown);
    }
    for file in files {
        let names = load(&file).unwrap_or_else(|problem| panic!("{problem}\n\n{file}"));
        for declared in file.lines().filter_map(|line| line.strip_prefix("[tool.")?.strip_suffix(']')) {
            assert!(names.iter().any(|name| name == declared), "{declared} is not among {names:?}");
        }
    }
}

#[test]
fn an_app_file_with_a_mistake_is_refused_with_its_line() {
    let problem = load("# app.toml\n[tool.findParts]\nrecord = \"parts\"\ndoes = \"search\"\n").unwrap_err();
    assert!(problem.contains("app.toml:3:") && problem.contains("part"), "{problem}");
    let problem = load("# app.toml\ntools = [\"markdwon\"]\n").unwrap_err();
    assert!(problem.contains("app.toml:2:") && problem.contains("markdown"), "{problem}");
}

#[test]
fn trailhead_has_its_sixteen_tools_and_two_that_write_down_what_it_knows() {
    let mut names = tool_names(Path::new(APPS), "trailhead").unwrap();
    names.sort_unstable();
    let expected = [
        "addEvidence",
        "createEmergingPart",
        "createMarkdownFile",
        "createPartAssessment",
        "createProposal",
        "getPartDetails",
        "listEvidence",
        "listMarkdown",
        "listPartAssessments",
        "listRecentActions",
        "readMarkdown",
        "save_memory",
        "searchParts",
        "undoAction",
        "updatePartAttributes",
        "updateProposal",
        "update_profile",
        "writeMarkdownSection",
    ];
    assert_eq!(names, expected);
}
