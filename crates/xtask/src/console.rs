//! The web console: whether the files in the repository are what its sources make, and its tests in a browser.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{build_for_tests, succeeds};
use crate::debian::runs;

const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// The packages that were installed, so that another list installs again.
const STAMP: &str = "node_modules/.installed";

/// Makes sure that the packages of the console are there. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    let has = |program: &str| {
        let mut asked = Command::new(program);
        let status = asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if let Some(missing) = ["node", "npm"].into_iter().find(|program| !has(program)) {
        return Err(format!("there is no {missing}; install Node.js 20.19 or newer"));
    }
    install_browser()?;
    let folder = root.join("console");
    let read =
        |path: PathBuf| fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    let wanted = read(folder.join("package-lock.json"))?;
    if read(folder.join(STAMP)).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    println!("installing the packages of the console: 60 MB");
    // Not `ci`, which refuses a lock file without the packages for other systems.
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    npm.current_dir(&folder);
    if !succeeds(&mut npm) {
        return Err("npm could not install the packages; look at what it says above".into());
    }
    fs::write(folder.join(STAMP), wanted).map_err(|error| format!("{STAMP}: {error}"))
}

/// Makes sure that there is a browser. Root gets Debian's package; the error tells others to install it.
pub(crate) fn install_browser() -> Result<(), String> {
    let is_there = || BROWSERS.iter().any(|path| Path::new(path).exists());
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_there() && is_root {
        println!("installing Debian's package chromium: 100 MB, once");
        let apt = |words: &[&str]| {
            runs(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").args(words))
        };
        // An old list of packages may name files that are gone.
        let _installing_says_more = apt(&["update"]);
        let _is_looked_for_below = apt(&["install", "--yes", "--no-install-recommends", "chromium"]);
    }
    if is_there() {
        Ok(())
    } else {
        Err("there is no Chromium; install Debian's package chromium".to_owned())
    }
}

/// Builds the console again and compares, checks its types, and tries it in a browser with the binary of the tests.
pub(crate) fn test(root: &Path) -> bool {
    let folder = root.join("console");
    let mut types = Command::new("npm");
    let typed = succeeds(types.args(["run", "--silent", "check"]).current_dir(&folder));
    let same = is_reproduced(root).inspect_err(|why| eprintln!("error: {why}")).is_ok();
    let Some([program]) = build_for_tests(root, ["rondo"]) else { return false };
    let mut tests = Command::new("npm");
    tests.args(["run", "--silent", "test"]).current_dir(&folder).env("RONDO_BINARY", program);
    let tried = succeeds(&mut tests);
    typed && same && tried
}

/// Whether the sources make the files in `console/dist`.
fn is_reproduced(root: &Path) -> Result<(), String> {
    let (folder, fresh) = (root.join("console"), root.join("target/console-dist"));
    let mut vite = Command::new("npm");
    vite.args(["run", "--silent", "build", "--", "--logLevel", "error", "--emptyOutDir", "--outDir"]);
    if !succeeds(vite.arg(&fresh).current_dir(&folder)) {
        return Err("the console cannot be built".into());
    }
    let (committed, made) = (contents(&folder.join("dist"))?, contents(&fresh)?);
    let differing = made.iter().find(|(name, bytes)| committed.get(*name) != Some(*bytes));
    let extra = committed.keys().find(|name| !made.contains_key(*name));
    match differing.map(|(name, _)| name).or(extra) {
        None => Ok(()),
        Some(name) => Err(format!(
            "console/dist/{name} is not what the sources make; run `npm run build` in console and commit dist"
        )),
    }
}

/// The files of a folder and of the folders in it, by their paths.
fn contents(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            files.extend(
                contents(&path)?.into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            );
        } else {
            files.insert(name, fs::read(&path).map_err(unreadable)?);
        }
    }
    Ok(files)
}
