//! Folders of documents on a real disk: what is taken, and what is refused without harm to the rest.

use std::os::unix::fs::symlink;

use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let app = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = app.path().join("documents").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    app
}

fn names(look: &KnowledgeFolder) -> Vec<&str> {
    look.files.iter().map(|file| file.name.as_str()).collect()
}

#[test]
fn files_are_named_by_their_path_in_the_folder_and_hidden_ones_are_left_alone() {
    let app = folder(&[
        ("prices.csv", "a"),
        ("handbook/b.md", "b"),
        ("handbook/a.md", "c"),
        (".git/x.md", "d"),
        (".hidden", "e"),
    ]);
    let look = KnowledgeFolder::of_app(app.path());
    assert_eq!(names(&look), ["handbook/a.md", "handbook/b.md", "prices.csv"]);
    assert_eq!((look.problems.len(), look.is_partial), (0, false));
    assert_eq!(look.files[0].read().unwrap(), b"c");
    let none = tempfile::tempdir().unwrap();
    assert_eq!(KnowledgeFolder::of_app(none.path()), KnowledgeFolder::default());
}

#[test]
fn a_link_out_of_the_folder_is_refused_and_a_link_within_it_is_a_file() {
    let elsewhere = folder(&[("secret.md", "secret")]);
    let app = folder(&[("real.md", "real"), (".data/kept.md", "kept")]);
    let documents = app.path().join("documents");
    symlink(elsewhere.path().join("documents/secret.md"), documents.join("file.md")).unwrap();
    symlink(elsewhere.path().join("documents"), documents.join("folder")).unwrap();
    symlink(&documents, documents.join("circle")).unwrap();
    symlink(documents.join(".data/kept.md"), documents.join("within.md")).unwrap();
    symlink("nowhere.md", documents.join("gone.md")).unwrap();
    let look = KnowledgeFolder::of_app(app.path());
    assert_eq!(names(&look), ["real.md", "within.md"]);
    let problems: Vec<String> = look.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("circle: it is no regular file")), "{problems:?}");
    assert!(look.is_partial, "a file that is away for a moment is not taken for removed");
    let linked = tempfile::tempdir().unwrap();
    symlink(elsewhere.path().join("documents"), linked.path().join("documents")).unwrap();
    let look = KnowledgeFolder::of_app(linked.path());
    assert_eq!((look.files.len(), look.problems.len()), (0, 1));
    assert!(look.problems[0].message.contains("leads out"), "{}", look.problems[0]);
}

#[test]
fn what_is_beyond_a_limit_is_named_and_the_rest_is_served() {
    let many: Vec<(String, &str)> =
        (0..MAX_KNOWLEDGE_FILES + 2).map(|number| (format!("{number:04}.md"), "x")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let app = folder(&many);
    let look = KnowledgeFolder::of_app(app.path());
    assert_eq!((look.files.len(), look.problems.len(), look.is_partial), (MAX_KNOWLEDGE_FILES, 2, false));
    assert!(look.problems[0].to_string().contains("more than 500 documents"), "{}", look.problems[0]);

    let app = folder(&[("a.md", "x"), ("z.md", "x")]);
    let documents = app.path().join("documents");
    let large = |name: &str, bytes: u64| File::create(documents.join(name)).unwrap().set_len(bytes).unwrap();
    large("large.pdf", MAX_KNOWLEDGE_FILE_BYTES + 1);
    for number in 0..11 {
        large(&format!("part{number:02}.txt"), MAX_KNOWLEDGE_FILE_BYTES - 1);
    }
    let deep = documents.join("1/2/3/4/5/6/7/8/9");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("deep.md"), "x").unwrap();
    let look = KnowledgeFolder::of_app(app.path());
    let problems: Vec<String> = look.problems.iter().map(ToString::to_string).collect();
    let says = |words: &str| problems.iter().filter(|problem| problem.contains(words)).count();
    assert_eq!(
        (says("larger than 20 MiB"), says("more than 200 MiB"), says("8 folders")),
        (1, 1, 1),
        "{problems:?}"
    );
    assert_eq!(look.files.len(), 12, "{:?}", names(&look));
}

#[test]
fn a_folder_with_too_many_entries_is_named_and_nothing_counts_as_removed() {
    let app = folder(&[("a.md", "x"), ("many/0.md", "x")]);
    for number in 0..MAX_ENTRIES {
        fs::write(app.path().join(format!("documents/many/.{number}")), "").unwrap();
    }
    let look = KnowledgeFolder::of_app(app.path());
    assert_eq!((names(&look), look.is_partial), (vec!["a.md"], true));
    assert!(look.problems[0].to_string().contains("more than 5000 entries"), "{}", look.problems[0]);
}
