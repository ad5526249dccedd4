//! Knowledge of models: the catalogue in the data folder if it is newer than the built-in one.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::civil::Date;
use model::Catalogue;
use model::known_models::MAX_CATALOGUE_BYTES;

/// The catalogue's name in the data folder.
pub(crate) const CATALOGUE_FILE: &str = "catalogue.toml";
/// Days after which a catalogue is called old.
const OLD_DAYS: i32 = 365;

/// The catalogue of models, and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelKnowledge {
    pub(crate) catalogue: Arc<Catalogue>,
    /// The file that it was read from; none if it is the built-in one.
    file: Option<PathBuf>,
    /// Why a file that is there is not used.
    pub(crate) problem: Option<String>,
}

impl Default for ModelKnowledge {
    fn default() -> Self {
        Self { catalogue: Catalogue::built_in(), file: None, problem: None }
    }
}

impl ModelKnowledge {
    /// The newer one of the catalogue in the data folder and the built-in one. A file that cannot be used is no reason
    /// not to start.
    pub(crate) fn of_folder(data: &Path) -> Self {
        let built_in = Self::default();
        let file = data.join(CATALOGUE_FILE);
        match read(&file) {
            Ok(None) => built_in,
            Ok(Some(catalogue)) if catalogue.checked_on > built_in.catalogue.checked_on => {
                Self { catalogue: Arc::new(catalogue), file: Some(file), problem: None }
            }
            Ok(Some(_)) => built_in,
            Err(reason) => {
                let problem = format!(
                    "{}: {reason}; the built-in catalogue is used until `rondo models update` installs another",
                    file.display()
                );
                Self { problem: Some(problem), ..built_in }
            }
        }
    }

    /// Which one it is, for people.
    pub(crate) fn origin(&self) -> String {
        let place =
            self.file.as_ref().map_or_else(|| "built in".to_owned(), |file| file.display().to_string());
        format!("as of {}, {place}", self.catalogue.checked_on)
    }

    /// Whether its author has not compared it with what providers say for a long time.
    pub(crate) fn is_old(&self, today: Date) -> bool {
        self.catalogue.checked_on.until(today).is_ok_and(|age| age.get_days() > OLD_DAYS)
    }
}

fn read(file: &Path) -> Result<Option<Catalogue>, String> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let text = read_catalogue(opened)?;
    Catalogue::parse(&text).map(Some).map_err(|error| error.to_string())
}

/// As much of it as a catalogue may have, and a byte more, which the rules then find too long.
pub(crate) fn read_catalogue(source: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let most = MAX_CATALOGUE_BYTES as u64 + 1;
    source.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())
}
