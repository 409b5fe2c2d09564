//! What will change in a configuration, known before anything does.

use std::path::{Path, PathBuf};

use similar::TextDiff;

use crate::document::{Document, ParseError, Server};
use crate::file::{Configuration, FileError};

/// Why a configuration stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is not what its name says.
    #[error("{}: {source}", file.display())]
    Parse {
        /// The file.
        file: PathBuf,
        /// Why.
        source: ParseError,
    },
}

/// What will change in a configuration.
#[derive(Debug)]
pub struct Plan {
    configuration: Configuration,
    servers: Vec<Server>,
    new: String,
    backup: Backup,
}

/// What becomes of the backup.
#[derive(Debug)]
enum Backup {
    Stays,
    Becomes(String),
    Goes,
}

impl Plan {
    /// The gateway before the servers that the client starts and `wanted` chooses by name. `lro` is the program, as the client
    /// shall start it. `servers` are the keys under which servers stand. The backup has the text as it was without any
    /// gateway.
    ///
    /// # Errors
    ///
    /// The file is not what its name says, or its backup cannot be read.
    pub fn set_up(
        configuration: Configuration,
        servers: &[&[&str]],
        lro: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, SetupError> {
        let document = parse(&configuration, servers, lro)?;
        let new = document.with_gateway(lro, wanted);
        let bare = document.without_gateway();
        let has_gateway =
            || Document::parse(&bare, configuration.is_toml(), servers, lro).is_ok_and(|bare| bare.has_gateway());
        let backup = match before(&configuration, &document, servers, lro)? {
            Some(_) => Backup::Stays,
            // A gateway of another name is left in the text: the backup is of the time before it.
            None if configuration.backup()?.is_some() && has_gateway() => Backup::Stays,
            None => Backup::Becomes(bare),
        };
        let servers = document.servers().to_vec();
        Ok(Self { servers, new, backup, configuration })
    }

    /// No gateway before any server. A file that is as it was set up gets the bytes of its backup. From a file that was changed
    /// since, only the gateway goes, and the backup stays. `lro` is the program that runs.
    ///
    /// # Errors
    ///
    /// The file is not what its name says, or its backup cannot be read.
    pub fn undo(configuration: Configuration, servers: &[&[&str]], lro: &Path) -> Result<Self, SetupError> {
        let document = parse(&configuration, servers, lro)?;
        let (new, backup) = match before(&configuration, &document, servers, lro)? {
            Some(text) => (text, Backup::Goes),
            None => (document.without_gateway(), Backup::Stays),
        };
        let servers = document.servers().to_vec();
        Ok(Self { servers, new, backup, configuration })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        self.configuration.file()
    }

    /// The servers of the file, as it is.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Whether the file will have another text.
    pub fn changes(&self) -> bool {
        self.new != self.configuration.text()
    }

    /// What changes, as a unified diff without context: other lines may have secrets.
    pub fn difference(&self) -> String {
        let name = self.file().display().to_string();
        TextDiff::from_lines(self.configuration.text(), &self.new)
            .unified_diff()
            .context_radius(0)
            .header(&name, &name)
            .to_string()
    }

    /// Changes the file. Its backup is there before.
    ///
    /// # Errors
    ///
    /// The file was changed after it was read, or a file cannot be written.
    pub fn carry_out(&self) -> Result<(), SetupError> {
        if let Backup::Becomes(text) = &self.backup {
            self.configuration.back_up(text)?;
        }
        self.configuration.replace(&self.new)?;
        if let Backup::Goes = self.backup {
            self.configuration.remove_backup()?;
        }
        Ok(())
    }

    /// The backup that there is once the plan is carried out.
    pub fn backup(&self) -> Option<PathBuf> {
        let file = self.configuration.backup_file();
        match self.backup {
            Backup::Becomes(_) => Some(file),
            Backup::Stays => file.exists().then_some(file),
            Backup::Goes => None,
        }
    }
}

fn parse<'a>(configuration: &'a Configuration, servers: &[&[&str]], lro: &Path) -> Result<Document<'a>, SetupError> {
    Document::parse(configuration.text(), configuration.is_toml(), servers, lro)
        .map_err(|source| SetupError::Parse { file: configuration.file().to_owned(), source })
}

/// The text of the backup, if the file is exactly what setting up made of it.
fn before(
    configuration: &Configuration,
    document: &Document<'_>,
    servers: &[&[&str]],
    lro: &Path,
) -> Result<Option<String>, SetupError> {
    let (Some((program, names)), Some(backup)) = (document.gateway(), configuration.backup()?) else { return Ok(None) };
    let was = Document::parse(backup.text(), configuration.is_toml(), servers, lro).ok();
    let made = was.map(|was| was.with_gateway(&program, |name| names.contains(name)));
    Ok((made.as_deref() == Some(configuration.text())).then(|| backup.text().to_owned()))
}
