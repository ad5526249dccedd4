//! A user's Markdown files as the outside asks for them.

use protocol::{FileVersionView, FileView, Page, Principal, Scope};
use store::{FileRow, MAX_FILE_BYTES, ThingVersion, Write};

use crate::records::Terms;
use crate::{Error, Service};

impl Service {
    /// All files of the user in an app by path, without their contents.
    pub async fn files(&self, principal: &Principal, app: &str) -> Result<Page<FileView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        Ok(Page { data: self.store().file_sizes(&scope).await?, next: None })
    }

    pub async fn file(&self, principal: &Principal, (app, path): (&str, &str)) -> Result<FileView, Error> {
        let scope = self.file_scope(principal, (app, path))?;
        Ok(view(self.store().file(&scope, path).await?))
    }

    /// The versions of a file, the present one first.
    pub async fn file_versions(
        &self,
        principal: &Principal,
        (app, path): (&str, &str),
    ) -> Result<Page<FileVersionView>, Error> {
        let scope = self.file_scope(principal, (app, path))?;
        let versions = self.store().file_versions(&scope, path).await?;
        Ok(Page { data: versions.into_iter().map(version_view).collect(), next: None })
    }

    /// Makes the file, or replaces all of it.
    pub async fn put_file(
        &self,
        principal: &Principal,
        (app, path): (&str, &str),
        content: String,
        terms: Terms,
    ) -> Result<FileView, Error> {
        let scope = self.file_scope(principal, (app, path))?;
        if content.len() > MAX_FILE_BYTES {
            return Err(Error::TooLarge { field: "content", limit: MAX_FILE_BYTES });
        }
        let expected = self.expected_version(&scope, path, &terms).await?;
        let write = Write::File { path: path.to_owned(), content: Some(content), expected };
        match self.store().put_file(&scope, write, terms.once).await {
            Err(store::Error::Changed(message)) => {
                // One file more is what is refused if the version was right.
                let is_right = self.store().file_version(&scope, path).await? == expected;
                Err(Error::Conflict { code: if is_right { "files_full" } else { "changed" }, message })
            }
            done => done?.map(view).ok_or(Error::NotFound { what: "file" }),
        }
    }

    /// Under a key that was used before, a file that is gone is gone once more.
    pub async fn delete_file(
        &self,
        principal: &Principal,
        (app, path): (&str, &str),
        terms: Terms,
    ) -> Result<(), Error> {
        let scope = self.file_scope(principal, (app, path))?;
        let gone = match self.store().file(&scope, path).await {
            Ok(_) => false,
            Err(store::Error::NotFound(_)) if terms.once.is_some() => true,
            Err(error) => return Err(error.into()),
        };
        let expected = self.expected_version(&scope, path, &terms).await?;
        let write = Write::File { path: path.to_owned(), content: None, expected };
        match self.store().put_file(&scope, write, terms.once).await {
            Err(store::Error::Changed(_)) if gone => Err(Error::NotFound { what: "file" }),
            done => {
                done?;
                self.world().sweeper.sweep(); // it is gone from everywhere, not from the list alone
                Ok(())
            }
        }
    }

    /// The version that a change is meant for: the one it names, or else the present one.
    async fn expected_version(&self, scope: &Scope, path: &str, terms: &Terms) -> Result<u64, Error> {
        match terms.expected {
            Some(expected) => Ok(expected),
            None => Ok(self.store().file_version(scope, path).await?),
        }
    }

    /// The scope that the file is in. A path that no file can have is refused.
    fn file_scope(&self, principal: &Principal, (app, path): (&str, &str)) -> Result<Scope, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        tools::files::check_path(path).map_err(|message| Error::invalid("path", message))?;
        Ok(scope)
    }
}

fn view(row: FileRow) -> FileView {
    let FileRow { path, version, content, updated_at } = row;
    FileView { path, version, bytes: content.len() as u64, content: Some(content), updated_at }
}

fn version_view(version: ThingVersion) -> FileVersionView {
    let ThingVersion { version, contents, updated_at, action } = version;
    FileVersionView { version, deleted: contents.is_none(), content: contents, updated_at, action_id: action }
}
