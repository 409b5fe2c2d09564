//! What will change in a configuration, known before anything does.

use std::path::{Path, PathBuf};

use similar::TextDiff;

use crate::document::{Document, ParseError, Server, State};
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
    servers: Vec<(Server, bool)>,
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
    /// shall start it. `servers` are the keys under which servers stand. The backup has the text as it was before it was set up:
    /// with gateways that somebody else has put there.
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
        let parsed = |text| parse(text, &configuration, servers, lro);
        let document = parsed(configuration.text())?;
        let kept = configuration.backup()?;
        let before = kept.as_ref().and_then(|kept| parsed(kept.text()).ok());
        let (bare, is_kept) = without_own(&document, before.as_ref());
        // A gateway of another name is left in the text: the backup is of the time before it.
        let is_older = |before: &Document<'_>| {
            let is_new = |server: &&Server| before.counterpart(server).is_some_and(|was| !was.resembles_gateway);
            let has_new =
                |bare: Document<'_>| bare.servers().iter().filter(is_new).any(|server| server.resembles_gateway);
            parse(&bare, &configuration, servers, lro).is_ok_and(has_new)
        };
        let backup = match is_kept || before.as_ref().is_some_and(is_older) {
            true => Backup::Stays,
            false => Backup::Becomes(bare),
        };
        let changes = |server: &Server| server.state == State::Started && wanted(&server.name);
        let new = document.with_gateway(lro, changes);
        let servers = document.servers().iter().map(|server| (server.clone(), changes(server))).collect();
        Ok(Self { servers, new, backup, configuration })
    }

    /// No gateway before any server, but for those that the backup has already. A file that is as it was set up gets the bytes
    /// of its backup. From a file that was changed since, only the gateway goes, and the backup stays. Without a backup, those
    /// gateways go that have the form of what setting up writes. `lro` is the program that runs.
    ///
    /// # Errors
    ///
    /// The file is not what its name says, or its backup cannot be read.
    pub fn undo(configuration: Configuration, servers: &[&[&str]], lro: &Path) -> Result<Self, SetupError> {
        let parsed = |text| parse(text, &configuration, servers, lro);
        let document = parsed(configuration.text())?;
        let kept = configuration.backup()?;
        let before = kept.as_ref().and_then(|kept| parsed(kept.text()).ok());
        let (new, is_kept) = without_own(&document, before.as_ref());
        let backup = if is_kept { Backup::Goes } else { Backup::Stays };
        let changes = |server: &Server| is_own(server, before.as_ref());
        let servers = document.servers().iter().map(|server| (server.clone(), changes(server))).collect();
        Ok(Self { servers, new, backup, configuration })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        self.configuration.file()
    }

    /// The servers of the file, as it is, and whether the gateway comes before each or goes.
    pub fn servers(&self) -> &[(Server, bool)] {
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

/// A text of a configuration: its own, or that of its backup.
fn parse<'a>(
    text: &'a str,
    configuration: &Configuration,
    servers: &[&[&str]],
    lro: &Path,
) -> Result<Document<'a>, SetupError> {
    Document::parse(text, configuration.is_toml(), servers, lro)
        .map_err(|source| SetupError::Parse { file: configuration.file().to_owned(), source })
}

/// Whether setting up has put the gateway before a server. `before` is the backup: where there is none, or it does not have the
/// server, the form has to tell.
fn is_own(server: &Server, before: Option<&Document<'_>>) -> bool {
    server.state == State::Behind
        && match before.and_then(|before| before.counterpart(server)) {
            Some(was) => was.state == State::Started,
            None => server.begins_as_set_up,
        }
}

/// The text without the gateways that setting up has put there, and whether it is that of the backup: if the file is exactly what
/// setting up made of it.
fn without_own(document: &Document<'_>, before: Option<&Document<'_>>) -> (String, bool) {
    let own = |server: &Server| is_own(server, before);
    if let (Some(before), Some(first)) = (before, document.servers().iter().find(|server| own(server))) {
        let is_behind = |was: &Server| document.counterpart(was).is_some_and(own);
        if before.with_gateway(Path::new(&first.command), is_behind) == document.text {
            return (before.text.to_owned(), true);
        }
    }
    (document.without_gateway(own), false)
}
