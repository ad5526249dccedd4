//! `rondo help`, and the same below each command that has others. Clap's own `help` takes no `--help`, so this one stands
//! in its place.

use clap::{Arg, ArgMatches, Command};

const NAME: &str = "help";
const WANTED: &str = "wanted";

/// The command line. One that asks for help, or is wrong, ends the process with what there is to say.
pub(crate) fn matches(program: Command) -> ArgMatches {
    let program = with_help(program.disable_help_subcommand(true));
    let matches = program.clone().get_matches();
    match explained_command(&matches) {
        // `rondo help chat` is `rondo chat --help`.
        Some(path) => {
            let name = program.get_name().to_owned();
            program.get_matches_from([name].into_iter().chain(path).chain(["--help".to_owned()]))
        }
        None => matches,
    }
}

fn with_help(command: Command) -> Command {
    if !command.has_subcommands() {
        return command;
    }
    let names = Arg::new(WANTED).value_name("COMMAND").num_args(0..).help("The command to explain");
    let help = Command::new(NAME).about("Explain a command, or list all commands").arg(names);
    command.mut_subcommands(with_help).subcommand(help)
}

/// Which command is to be explained, as a path from the top.
fn explained_command(mut matches: &ArgMatches) -> Option<Vec<String>> {
    let mut path = Vec::new();
    while let Some((name, inner)) = matches.subcommand() {
        if name == NAME {
            path.extend(inner.get_many::<String>(WANTED).into_iter().flatten().cloned());
            return Some(path);
        }
        path.push(name.to_owned());
        matches = inner;
    }
    None
}
