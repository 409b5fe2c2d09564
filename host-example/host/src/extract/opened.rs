//! The files that a question is about, while other threads copy them from their bucket or verify them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use lro_reading::Section;

use super::beside::Beside;
use super::{ExtractError, QuestionError, component};
use crate::ahead::{Ahead, Arrival, Giver, Incoming, ahead};
use crate::store::directory::Directory;
use crate::store::{Copying, FileRecord, Files, Offload, Reader, StoreError};

/// The files that a question is about. Nothing that is read of them may be given out before [`Opened::end`] has succeeded.
#[derive(Default)]
pub(super) struct Opened {
    /// The files, as a component is asked about them.
    pub(super) sources: Vec<component::Source>,
    readers: Vec<Arc<Reader>>,
    /// Those of the offloads.
    directories: Vec<Directory>,
    /// What comes of the files of each directory; nothing if they are here.
    arrivals: Vec<Vec<Arrival>>,
    copying: Vec<Beside<Result<Box<Copying>, StoreError>>>,
    /// Dropped before `verifying`, which waits for it.
    ahead: Option<Ahead>,
    verifying: Option<Beside<Result<(), StoreError>>>,
}

/// The only file that a question is about.
pub(super) struct Only<'a> {
    pub(super) reader: &'a Reader,
    pub(super) directory: &'a Directory,
    pub(super) source: &'a component::Source,
}

impl Opened {
    /// Opens files of one or several offloads. Other threads begin to copy the offloads that are not here, and to verify the files
    /// of the others.
    pub(super) fn open(files: &[(&Offload, &FileRecord)]) -> Result<Self, ExtractError> {
        let mut opened = Self::default();
        // Each once, in the order in which turns to copy are taken.
        let offloads: BTreeMap<&Path, &Offload> = files.iter().map(|(offload, _)| (offload.path(), *offload)).collect();
        for (path, offload) in &offloads {
            let of_offload = files.iter().filter(|(other, _)| other.path() == *path);
            opened.add(offload, of_offload.map(|(_, file)| *file))?;
        }
        let source = |(offload, file): &(&Offload, &FileRecord)| {
            let directory = (0..).zip(offloads.keys()).find(|(_, path)| **path == offload.path());
            component::Source { directory: directory.map_or(0, |(number, _)| number), ..(*file).into() }
        };
        opened.sources = files.iter().map(source).collect();
        if opened.copying.len() < offloads.len() {
            opened.begin_to_verify();
        }
        Ok(opened)
    }

    fn add<'a>(&mut self, offload: &Offload, files: impl Iterator<Item = &'a FileRecord>) -> Result<(), ExtractError> {
        match offload.files()? {
            Files::Here(directory) => {
                for file in files {
                    self.readers.push(Arc::new(offload.open_in(&directory, &file.name)?));
                }
                self.directories.push(directory);
                self.arrivals.push(Vec::new());
            }
            Files::InBucket(copying) => {
                for file in files {
                    self.readers.push(Arc::new(copying.reader(file)?));
                }
                self.directories.push(copying.directory()?);
                self.arrivals.push(copying.arrivals());
                let fetching = Beside::start("lro-copy", || copying.fetch());
                let no_thread = QuestionError::Answer("no thread could be started to copy the files");
                self.copying.push(fetching.ok_or(no_thread)?);
            }
        }
        Ok(())
    }

    /// An only file is read once, for both.
    fn begin_to_verify(&mut self) {
        let readers = self.readers.clone();
        // Several files may be read at the same time, and one could wait for another.
        let giver = match readers.as_slice() {
            [only] => {
                let (giver, ahead) = ahead(&only.record().name, only.record().digest_from);
                self.ahead = Some(ahead);
                giver
            }
            _ => Giver::nobody(),
        };
        self.verifying = Beside::start("lro-verify", move || match readers.as_slice() {
            [only] => only.verify_and_give(giver),
            several => several.iter().try_for_each(|reader| reader.verify()),
        });
    }

    /// Waits until the bucket has answered about each offload that is copied.
    pub(super) fn wait(&self) {
        for first in self.arrivals.iter().filter_map(|of_offload| of_offload.first()) {
            first.wait_behind(0, 1);
        }
    }

    /// Whether an offload is being copied.
    pub(super) fn is_copying(&self) -> bool {
        !self.copying.is_empty()
    }

    /// The only file, if it is here and not on its way.
    pub(super) fn only(&self) -> Option<Only<'_>> {
        match (self.readers.as_slice(), self.directories.as_slice(), self.sources.as_slice()) {
            ([reader], [directory], [source]) if !self.is_copying() => Some(Only { reader, directory, source }),
            _ => None,
        }
    }

    /// The first file.
    pub(super) fn first(&self) -> Option<Arc<Reader>> {
        self.readers.first().cloned()
    }

    /// The directories of the sources.
    pub(super) fn directories(&self) -> Result<Vec<File>, StoreError> {
        self.directories.iter().map(Directory::to_file).collect()
    }

    /// What the other threads read, for the next call.
    pub(super) fn incoming(&mut self) -> Incoming {
        Incoming { ahead: self.ahead.take(), arrivals: self.arrivals.clone() }
    }

    /// Waits until all that was copied or read is known to be as the records of the offloads say, and keeps the copies.
    pub(super) fn end(self) -> Result<(), ExtractError> {
        let Self { readers, directories, copying, ahead, verifying, .. } = self;
        drop(ahead);
        match verifying {
            Some(verifying) => verifying.end()??,
            None => readers.iter().try_for_each(|reader| reader.verify())?,
        }
        // A system may refuse to rename a directory of which something is open.
        drop((readers, directories));
        for copying in copying {
            copying.end()??.keep()?;
        }
        Ok(())
    }
}
