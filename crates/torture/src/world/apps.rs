//! The apps of the world, which stand as folders beside this crate's source. Tools and records are the same for all.

use std::path::Path;

use crate::stage::TortureError;

pub(super) const APPS: [&str; 3] = ["alpha", "beta", "gamma"];

/// The word that stands in the files for the address of the tools.
const ADDRESS: &str = "TOOLS";

const FILES: [(&str, &str); 9] = [
    ("alpha/app.toml", include_str!("../../apps/alpha/app.toml")),
    ("alpha/instructions.md", include_str!("../../apps/alpha/instructions.md")),
    ("alpha/title.md", include_str!("../../apps/alpha/title.md")),
    ("alpha/extract.md", include_str!("../../apps/alpha/extract.md")),
    ("beta/app.toml", include_str!("../../apps/beta/app.toml")),
    ("beta/instructions.md", include_str!("../../apps/beta/instructions.md")),
    ("beta/summarise.md", include_str!("../../apps/beta/summarise.md")),
    ("gamma/app.toml", include_str!("../../apps/gamma/app.toml")),
    ("gamma/instructions.md", include_str!("../../apps/gamma/instructions.md")),
];

const SHARED: [(&str, &str); 3] = [
    ("tools/outside.toml", include_str!("../../apps/shared/tools.toml")),
    ("tools/arguments.json", include_str!("../../apps/shared/arguments.json")),
    ("records/note.json", include_str!("../../apps/shared/note.json")),
];

/// Writes all apps into the folder, with the address of their tools.
pub(super) fn write(folder: &Path, tools: &str) -> Result<(), TortureError> {
    for (name, text) in FILES {
        put(&folder.join(name), text)?;
    }
    for app in APPS {
        for (name, text) in SHARED {
            put(&folder.join(app).join(name), &text.replace(ADDRESS, tools))?;
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), TortureError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(path, text)?)
}
