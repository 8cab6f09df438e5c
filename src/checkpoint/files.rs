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

/// A name for a file that says what is in it: what could not stand in a file name is replaced, and a checksum of the
/// whole text keeps apart what became equal.
pub(super) fn readable_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let readable: String = text.chars().take(80).map(plain).collect();
    format!("{readable}.{:08x}", crc32c::crc32c(text.as_bytes()))
}

/// Writes under a temporary name, syncs, and gives the file its own name. The caller syncs the directory. `half` is
/// called with half of the bytes written.
pub(super) fn write_whole(path: &Path, bytes: &[u8], half: &mut dyn FnMut()) -> Result<(), StoreError> {
    let temporary = path.with_file_name(format!("{}{TEMPORARY}", name(path)));
    let mut write = || {
        let mut file = options().create(true).truncate(true).open(&temporary)?;
        let (first, second) = bytes.split_at(bytes.len() / 2);
        file.write_all(first)?;
        half();
        file.write_all(second)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        // What is left of it only takes space; the next start removes it, too.
        let _ = fs::remove_file(&temporary);
        StoreError::io(path)(error)
    })
}

/// Removes a file. None being there is fine.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(unix)]
pub(super) fn options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

pub(super) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(StoreError::io(dir))
}

#[cfg(unix)]
pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    let sync = || File::open(dir)?.sync_all();
    sync().map_err(|source| StoreError::NotSynced { path: dir.to_owned(), source })
}

/// Directories cannot be opened for syncing here; the file system orders the rename itself.
#[cfg(not(unix))]
pub(super) fn sync_dir(_dir: &Path) -> Result<(), StoreError> {
    Ok(())
}
