//! `rondo compact`: the database written anew, so that nothing of what was removed is left in it.

use std::io::Write as _;

use store::sqlite;

use crate::CommandResult;
use crate::audit::require_database;
use crate::config::Config;

pub(crate) fn compact(config: &Config) -> CommandResult {
    require_database(&config.data)?;
    let (before, after) =
        sqlite::compact(&config.data).map_err(|error| format!("{}: {error}", config.data.display()))?;
    writeln!(std::io::stdout(), "the database has {after} bytes; before, it had {before}")?;
    Ok(())
}
