//! Static binaries for every machine, built on any of them.
//!
//! Rust brings musl and a linker (`rust-lld`). The C code of SQLite, AWS-LC and mimalloc is compiled by zig, which is
//! fetched from `PyPI` once. No other cross compiler is needed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::machine::DistMachine;
use crate::cargo::{build, cargo, succeeds};
use crate::real;

/// The folder of builds. It is not `target`, because cargo would write into `target/dist`, which has the results.
const BUILD: &str = "target/dist-build";

/// Makes sure that the standard library and the C compiler for a machine are there. The error says what to do.
pub(crate) fn install(root: &Path, machine: DistMachine) -> Result<(), String> {
    real::install(root, &real::ZIG)?;
    let target = machine.target();
    if standard_library(root, target)?.is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    if succeeds(rustup.current_dir(root).args(["target", "add", target])) {
        return Ok(());
    }
    Err(format!("there is no standard library for {target}; run `rustup target add {target}`"))
}

fn standard_library(root: &Path, target: &str) -> Result<PathBuf, String> {
    let rustc = Command::new("rustc").current_dir(root).args(["--print", "sysroot"]).output();
    let rustc = rustc.map_err(|error| format!("rustc does not start: {error}"))?;
    let sysroot = String::from_utf8_lossy(&rustc.stdout);
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib"))
}

/// Linker flags that make the binary smaller: equal functions are kept once, and relocations are packed.
const SMALLER: &str = "-Clink-arg=--icf=all -Clink-arg=--pack-dyn-relocs=relr";

/// Builds the binary for a machine.
pub(crate) fn build_program(root: &Path, machine: DistMachine, epoch: u64) -> Result<PathBuf, String> {
    let target = machine.target();
    let [compiler, archiver] = write_wrappers(root, machine)?;
    let mut command = cargo(root, &[]);
    // The lints have their own build.
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    command.env("CARGO_TARGET_DIR", root.join(BUILD)).env("SOURCE_DATE_EPOCH", epoch.to_string());
    let (lower, upper) = (target.replace('-', "_"), target.replace('-', "_").to_uppercase());
    command.env(format!("CC_{lower}"), compiler).env(format!("AR_{lower}"), archiver);
    command.env(format!("CARGO_TARGET_{upper}_LINKER"), "rust-lld");
    command.env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), format!("{} {SMALLER}", remapping(root)));
    // Neither cmake nor a library of this machine.
    command.env("AWS_LC_SYS_CMAKE_BUILDER", "0").env("AWS_LC_SYS_USE_SYSTEM", "0");
    let args = ["--locked", "--profile", "dist", "--target", target, "--package", "cli", "--bin", "rondo"];
    let built = build(&mut command, &args, ["rondo"]);
    built.map(|[path]| path).ok_or_else(|| format!("the binary for {target} cannot be built"))
}

/// Compiler flags that replace the folders of this machine in messages of panics.
#[expect(clippy::disallowed_methods, reason = "it is cargo's setting, not one of the server")]
fn remapping(root: &Path) -> String {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let registry = cargo.or(home).unwrap_or_default().join("registry/src");
    format!("--remap-path-prefix={}=rondo --remap-path-prefix={}=crates", root.display(), registry.display())
}

/// Writes the C compiler and the archiver for a machine as scripts, because other programs want one path for each.
fn write_wrappers(root: &Path, machine: DistMachine) -> Result<[PathBuf; 2], String> {
    let zig = real::folder(root, &real::ZIG).join("ziglang/zig");
    let folder = root.join(BUILD).join("zig");
    let unwritable = |error: std::io::Error| format!("cannot write {}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(unwritable)?;
    let scripts = [("cc", compiler_script(&zig, &folder, machine)), ("ar", archiver_script(&zig))];
    let write = |(name, text): (&str, String)| {
        let path = folder.join(format!("{}-{name}", machine.name()));
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok::<_, std::io::Error>(path)
    };
    let [compiler, archiver] = scripts.map(write);
    Ok([compiler.map_err(unwritable)?, archiver.map_err(unwritable)?])
}

/// Zig refuses Rust's spelling of a target, which other programs add. Its check for undefined behaviour needs a library
/// that Rust does not link.
fn compiler_script(zig: &Path, folder: &Path, machine: DistMachine) -> String {
    format!(
        "#!/bin/sh\nfor argument; do shift; case $argument in --target=*) ;; *) set -- \"$@\" \"$argument\" ;; esac; done\n\
         export ZIG_GLOBAL_CACHE_DIR='{cache}' ZIG_LOCAL_CACHE_DIR='{cache}'\n\
         exec '{}' cc -target {} -fno-sanitize=undefined \"$@\"\n",
        zig.display(),
        machine.zig_target(),
        cache = folder.join("cache").display(),
    )
}

fn archiver_script(zig: &Path) -> String {
    format!("#!/bin/sh\nexec '{}' ar \"$@\"\n", zig.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_not_told_rusts_target() {
        let folder = tempfile::tempdir().unwrap();
        let echo = Path::new("/bin/echo");
        let script = compiler_script(echo, folder.path(), DistMachine::Aarch64);
        let output =
            Command::new("sh").args(["-c", &script, "cc", "-O2", "--target=x", "a b.c"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "cc -target aarch64-linux-musl -fno-sanitize=undefined -O2 a b.c\n");
    }
}
