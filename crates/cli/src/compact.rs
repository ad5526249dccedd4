//! `rondo compact`: the database written anew, so that nothing of what was removed is left in it.

use store::sqlite;

use crate::audit::{require_database, require_sqlite};
use crate::config::Config;
use crate::{CommandResult, print};

pub(crate) fn compact(config: &Config) -> CommandResult {
    require_sqlite(config, "use VACUUM FULL to give space back")?;
    require_database(&config.data)?;
    let (before, after) =
        sqlite::compact(&config.data).map_err(|error| format!("{}: {error}", config.data.display()))?;
    print(&format!("the database has {after} bytes; before, it had {before}\n"))
}
