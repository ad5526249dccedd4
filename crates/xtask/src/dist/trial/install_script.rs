//! The trial of `install.sh`: it installs what a server on loopback has, and refuses what has another sum.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::loopback::LoopbackServer;
use super::{expect_in, run, run_refused};

/// Lets the script of a repository install from a folder with archives and `SHA256SUMS`.
pub(crate) fn try_install_script(root: &Path, releases: &Path) -> Result<(), String> {
    let home = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let installed = home.path().join(".local/bin/rondo");
    let changed = serve(releases.to_owned(), |name, content| {
        Some(if name == "SHA256SUMS" { with_other_sums(&content) } else { content })
    })?;
    let refused = run_refused(&mut script(root, home.path(), &changed))?;
    expect_in(&refused, "nothing was installed")?;
    let missing = serve(releases.to_owned(), |_, _| None)?;
    let refused = run_refused(&mut script(root, home.path(), &missing))?;
    expect_in(&refused, "cannot download")?;
    if home.path().join(".local").exists() {
        return Err("install.sh has written something although it failed".into());
    }
    let good = serve(releases.to_owned(), |_, content| Some(content))?;
    // The second time is an upgrade.
    for _ in 0..2 {
        let said = run(&mut script(root, home.path(), &good))?;
        expect_in(&said, "installed")?;
        expect_in(&run(Command::new(&installed).arg("--version"))?, "rondo ")?;
    }
    let prefix = home.path().join("a prefix");
    run(script(root, home.path(), &good).env("RONDO_PREFIX", &prefix))?;
    run(Command::new(prefix.join("bin/rondo")).arg("--version")).map(drop)
}

fn script(root: &Path, home: &Path, server: &LoopbackServer) -> Command {
    let mut script = Command::new("sh");
    script.arg(root.join("packaging/install.sh")).env_clear();
    script.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home).env("RONDO_BASE_URL", server.url());
    script
}

/// Serves the files of a folder, each as `change` makes it. No content is a missing file.
fn serve(
    folder: PathBuf,
    change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>> + Send + 'static,
) -> Result<LoopbackServer, String> {
    LoopbackServer::start(move |path| {
        let name = path.trim_start_matches('/');
        let content = std::fs::read(folder.join(name)).ok().and_then(|content| change(name, content));
        match content {
            Some(content) => (200, "application/octet-stream", content),
            None => (404, "text/plain", Vec::new()),
        }
    })
}

/// Returns these names with sums that no file has.
fn with_other_sums(sums: &[u8]) -> Vec<u8> {
    let sums = String::from_utf8_lossy(sums);
    let names = sums.lines().filter_map(|line| line.split_whitespace().nth(1));
    names.map(|name| format!("{}  {name}\n", "0".repeat(64))).collect::<String>().into_bytes()
}
