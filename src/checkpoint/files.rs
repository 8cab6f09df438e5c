//! Files that are whole or not there, readable by their owner alone.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::error::StoreError;

/// What the name of a file ends with until the file is whole.
pub(super) const TEMPORARY: &str = ".tmp";

/// Every file in `dir`; none if there is no such directory.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().map_err(StoreError::io(dir))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io(dir)(error)),
    }
}

/// The last part of a path; empty where it is no text.
pub(super) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// A change to the file system. Whatever happens between two of them, a crash or a full device, loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    MakeDir,
    Create,
    Write,
    Sync,
    Rename,
    SyncDir,
    Remove,
}

/// Everything that changes files goes through here.
#[derive(Clone, Default)]
pub(super) struct Disk {
    /// Asked before each change, and may refuse it.
    #[cfg(test)]
    pub(super) before: Option<std::sync::Arc<Before>>,
}

#[cfg(test)]
type Before = dyn Fn(Change, &Path) -> io::Result<()> + Send + Sync;

impl Disk {
    #[cfg(test)]
    fn pass(&self, change: Change, path: &Path) -> io::Result<()> {
        self.before.as_ref().map_or(Ok(()), |before| before(change, path))
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests refuse changes")]
    fn pass(&self, _: Change, _: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Writes under a temporary name, syncs, gives the file its own name, and syncs the directory. `half` is called
    /// with half of the bytes written.
    ///
    /// After [`StoreError::NotSynced`] a power loss may take the file away again; after every other error it is not
    /// there.
    pub(super) fn write_whole(
        &self,
        path: &Path,
        bytes: &[u8],
        half: &mut dyn FnMut(),
    ) -> Result<(), StoreError> {
        let temporary = path.with_file_name(format!("{}{TEMPORARY}", name(path)));
        let mut write = || {
            self.pass(Change::Create, &temporary)?;
            let mut file = options().create(true).truncate(true).open(&temporary)?;
            let (first, second) = bytes.split_at(bytes.len() / 2);
            self.pass(Change::Write, &temporary)?;
            file.write_all(first)?;
            half();
            self.pass(Change::Write, &temporary)?;
            file.write_all(second)?;
            self.pass(Change::Sync, &temporary)?;
            file.sync_all()?;
            self.pass(Change::Rename, path)?;
            fs::rename(&temporary, path)
        };
        write().map_err(|error| {
            // What is left of it only takes space; the next start removes it, too.
            let _ = self.remove(&temporary);
            StoreError::io(path)(error)
        })?;
        self.sync_dir(parent(path))
    }

    /// Removes a file. None being there is fine.
    pub(super) fn remove(&self, path: &Path) -> Result<(), StoreError> {
        match self.pass(Change::Remove, path).and_then(|()| fs::remove_file(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Makes a directory and those above it, and makes their names durable.
    pub(super) fn make_dir(&self, dir: &Path) -> Result<(), StoreError> {
        let new = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
        let missing: Vec<_> = dir.ancestors().take_while(new).collect();
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        self.pass(Change::MakeDir, dir).and_then(|()| builder.create(dir)).map_err(StoreError::io(dir))?;
        missing.into_iter().rev().try_for_each(|made| match self.sync_dir(parent(made)) {
            // What may be written into need not be readable, and then cannot be synced.
            Err(StoreError::NotSynced { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                Ok(())
            }
            synced => synced,
        })
    }

    /// Makes the names in a directory durable. Where directories cannot be opened for that, the file system orders
    /// renames itself.
    pub(super) fn sync_dir(&self, dir: &Path) -> Result<(), StoreError> {
        let sync = || {
            self.pass(Change::SyncDir, dir)?;
            if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
        };
        sync().map_err(|source| StoreError::NotSynced { path: dir.to_owned(), source })
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How files are opened for writing.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
