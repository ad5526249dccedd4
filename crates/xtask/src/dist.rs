//! `cargo xtask dist`: everything that people need to install Rondo without a compiler, in `target/dist`.
//!
//! The packages are written here, without a daemon and without other programs. Equal sources make equal bytes.

mod certificates;
mod checksums;
mod contents;
mod deb;
mod file_tree;
mod image;
mod machine;
mod sbom;
mod source_date;
mod toolchain;
mod trial;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use flate2::Compression;
use serde_json::Value;

use crate::cargo::{build_for_tests, cargo};
use contents::{PackedProgram, SharedLibrary};
use deb::DebFacts;
use image::ImageFacts;
use machine::DistMachine;
use sbom::SbomFacts;

/// The folder of the results.
const OUTPUT: &str = "target/dist";

/// Bytes that a binary may have.
const MAX_PROGRAM: usize = 40_000_000;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Packages that a static binary needs: the maintainer scripts make a user, and HTTPS needs certificates.
const DEPENDS: &str = "passwd, ca-certificates";

/// Builds, packs and tries everything, or the binaries of the named machines.
pub(crate) fn run(root: &Path, names: &[String]) -> bool {
    let machines: Vec<DistMachine> = DistMachine::ALL
        .into_iter()
        .filter(|machine| names.is_empty() || names.iter().any(|name| name == machine.name()))
        .collect();
    if machines.len() < names.len() {
        eprintln!("error: the machines are x86_64 and aarch64");
        return false;
    }
    report_outcome(make_all(root, &machines))
}

/// Why the packages cannot be tried here, with a remedy.
pub(crate) fn obstacle() -> Option<String> {
    let of_machine =
        DistMachine::of_host().is_none().then(|| "there are packages for x86_64 and aarch64 only".to_owned());
    of_machine.or_else(trial::obstacle)
}

/// Packs the binary that the tests of the workspace have built, and tries all packages.
pub(crate) fn test(root: &Path) -> bool {
    let Some([program]) = build_for_tests(root, ["rondo"]) else { return false };
    report_outcome(pack_for_tests(root, &program))
}

fn report_outcome(outcome: Result<(), String>) -> bool {
    outcome.inspect_err(|why| eprintln!("error: {why}")).is_ok()
}

fn make_all(root: &Path, machines: &[DistMachine]) -> Result<(), String> {
    let mut release = Release::begin(root, root.join(OUTPUT), Compression::best())?;
    for machine in machines {
        toolchain::install(root, *machine)?;
        let program = release.run_timed("build", machine.target(), |release| {
            toolchain::build_program(root, *machine, release.epoch)
        })?;
        let packed = PackedProgram::read(root, *machine, &program)?;
        check_size(&packed)?;
        release.add_packages(&packed)?;
    }
    release.add_sbom(root, &DistMachine::ALL.map(DistMachine::target))?;
    release.add_file("install.sh", &read(&root.join("packaging/install.sh"))?)?;
    release.add_sums()?;
    match trial::obstacle() {
        None => release.try_all(root, machines)?,
        Some(why) => println!("NOT TRIED: {why}"),
    }
    release.report();
    Ok(())
}

fn check_size(packed: &PackedProgram) -> Result<(), String> {
    let size = packed.program.len();
    if size <= MAX_PROGRAM {
        return Ok(());
    }
    let target = packed.machine.target();
    Err(format!("the binary for {target} has {size} bytes, more than {MAX_PROGRAM}; look at [profile.dist]"))
}

fn pack_for_tests(root: &Path, program: &Path) -> Result<(), String> {
    let machine = DistMachine::of_host().ok_or("there are packages for x86_64 and aarch64 only")?;
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let stripped = strip(program, folder.path());
    let mut packed = PackedProgram::read(root, machine, &stripped)?;
    packed.libraries = shared_libraries(&stripped)?;
    let mut release = Release::begin(root, folder.path().join("dist"), Compression::fast())?;
    release.add_packages(&packed)?;
    drop(packed);
    // The packages of this platform are on the disk, because the tests were built with them.
    release.add_sbom(root, &[&format!("{}-unknown-linux-gnu", machine.name())])?;
    release.add_sums()?;
    release.try_all(root, &[machine])?;
    release.report();
    Ok(())
}

/// A copy of a program without names for debuggers, which is several times smaller. The program itself if that fails.
fn strip(program: &Path, folder: &Path) -> PathBuf {
    let stripped = folder.join("rondo");
    let mut strip = Command::new("strip");
    let status = strip.arg("-o").arg(&stripped).arg(program).status();
    if status.is_ok_and(|status| status.success()) { stripped } else { program.to_owned() }
}

/// The libraries that a program loads, as `ldd` lists them.
fn shared_libraries(program: &Path) -> Result<Vec<SharedLibrary>, String> {
    let ldd =
        Command::new("ldd").arg(program).output().map_err(|error| format!("cannot run ldd: {error}"))?;
    let list = String::from_utf8_lossy(&ldd.stdout);
    library_paths(&list).into_iter().map(|path| Ok((path.to_owned(), read(Path::new(path))?))).collect()
}

/// The paths in the output of `ldd`: after an arrow, or at the beginning of a line.
fn library_paths(list: &str) -> Vec<&str> {
    let words = list.lines().filter_map(|line| {
        let line = line.split_once("=> ").map_or(line, |(_, path)| path);
        line.split_whitespace().next()
    });
    words.filter(|word| word.starts_with('/')).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The files of a release as they are made.
struct Release {
    folder: PathBuf,
    epoch: u64,
    created: String,
    level: Compression,
    /// Name and SHA-256 sum of each file.
    sums: Vec<(String, String)>,
    /// Lines of the table: work, subject, bytes and time.
    steps: Vec<(&'static str, String, Option<usize>, Duration)>,
}

impl Release {
    /// Begins with an empty folder.
    fn begin(root: &Path, folder: PathBuf, level: Compression) -> Result<Self, String> {
        let epoch = source_date::epoch(root)?;
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let created = source_date::rfc3339(epoch);
        Ok(Self { folder, epoch, created, level, sums: Vec::new(), steps: Vec::new() })
    }

    /// Does some work and notes how long it took.
    fn run_timed<T>(
        &mut self,
        work: &'static str,
        subject: &str,
        perform: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        println!("{work} {subject}");
        let begin = Instant::now();
        let outcome = perform(self)?;
        self.steps.push((work, subject.to_owned(), None, begin.elapsed()));
        Ok(outcome)
    }

    /// Makes a file and notes its size, its sum and how long it took.
    fn make(
        &mut self,
        name: &str,
        content: impl FnOnce(&Self) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let begin = Instant::now();
        let content = content(self)?;
        let path = self.folder.join(name);
        std::fs::write(&path, &content)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        self.sums.push((name.to_owned(), checksums::sha256(&content)));
        self.steps.push(("pack", name.to_owned(), Some(content.len()), begin.elapsed()));
        Ok(())
    }

    fn add_file(&mut self, name: &str, content: &[u8]) -> Result<(), String> {
        self.make(name, |_| Ok(content.to_vec()))
    }

    /// Adds the archive, the Debian package and the image of one binary.
    fn add_packages(&mut self, packed: &PackedProgram) -> Result<(), String> {
        let architecture = packed.machine.short_name();
        let unwritable = |error: std::io::Error| format!("cannot pack: {error}");
        self.make(&format!("{}.tar.gz", packed.machine.archive_name()), |release| {
            let tar = packed.archive_files().tar(release.epoch).map_err(unwritable)?;
            file_tree::gzip(&tar, release.level).map_err(unwritable)
        })?;
        self.make(&deb_name(packed.machine), |release| {
            let facts = DebFacts { version: VERSION, architecture, depends: DEPENDS };
            deb::package(&facts, &packed.deb_files(), release.epoch, release.level).map_err(unwritable)
        })?;
        self.make(&image_name(packed.machine), |release| {
            let (created, epoch) = (release.created.as_str(), release.epoch);
            let facts = ImageFacts { version: VERSION, architecture, created, epoch };
            image::archive(&facts, &packed.image_files(), release.level).map_err(unwritable)
        })
    }

    /// Adds the list of all libraries in the binaries for these platforms.
    fn add_sbom(&mut self, root: &Path, platforms: &[&str]) -> Result<(), String> {
        let metadata = cargo_metadata(root, platforms)?;
        let lock = read(&root.join("Cargo.lock"))?;
        self.make(&format!("rondo-{VERSION}.cdx.json"), |release| {
            let lock = String::from_utf8_lossy(&lock);
            let facts = SbomFacts { version: VERSION, created: &release.created, lock: &lock };
            let list = sbom::sbom(&metadata, &facts)?;
            serde_json::to_vec_pretty(&list).map_err(|error| format!("cannot write the list: {error}"))
        })
    }

    fn add_sums(&mut self) -> Result<(), String> {
        self.make("SHA256SUMS", |release| Ok(checksums::sums(&release.sums).into_bytes()))
    }

    /// Installs every package as a user would.
    fn try_all(&mut self, root: &Path, machines: &[DistMachine]) -> Result<(), String> {
        for machine in machines {
            let emulator = match trial::emulator(root, *machine) {
                Ok(emulator) => emulator,
                Err(why) => {
                    println!("NOT TRIED: {}: {why}", machine.target());
                    continue;
                }
            };
            let (package, image) = (deb_name(*machine), image_name(*machine));
            self.run_timed("try", &package, |release| {
                trial::try_deb(&release.folder.join(&package), *machine, &emulator)
            })?;
            self.run_timed("try", &image, |release| {
                trial::try_image(&read(&release.folder.join(&image))?, &emulator)
            })?;
            if DistMachine::of_host() == Some(*machine) {
                self.run_timed("try", "install.sh", |release| {
                    trial::try_install_script(root, &release.folder)
                })?;
            }
        }
        Ok(())
    }

    fn report(&self) {
        println!("\n{:<6} {:<34} {:>10} {:>9}", "step", "file", "size", "time");
        for (work, subject, bytes, time) in &self.steps {
            let size = bytes.map(|bytes| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10));
            println!(
                "{work:<6} {subject:<34} {:>10} {:>7.1} s",
                size.unwrap_or_default(),
                time.as_secs_f64()
            );
        }
        println!("in {}", self.folder.display());
    }
}

fn deb_name(machine: DistMachine) -> String {
    format!("rondo_{VERSION}_{}.deb", machine.short_name())
}

fn image_name(machine: DistMachine) -> String {
    format!("rondo-{VERSION}-image-{}.tar", machine.short_name())
}

/// Cargo's description of all packages for these platforms.
fn cargo_metadata(root: &Path, platforms: &[&str]) -> Result<Value, String> {
    let mut command = cargo(root, &["metadata", "--locked", "--format-version", "1"]);
    for platform in platforms {
        command.args(["--filter-platform", platform]);
    }
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_in_the_output_of_ldd() {
        let list = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x2)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x3)\n\tlibgone.so => not found\n";
        assert_eq!(library_paths(list), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(library_paths("\tstatically linked\n").is_empty());
    }
}
