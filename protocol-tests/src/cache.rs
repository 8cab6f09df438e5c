//! What is fetched once and kept between runs: jars, the Python environment, and which ports are taken.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The folder that holds everything fetched: `KAFKA_2PC_CACHE`, else `kafka-2pc` in the user's cache folder.
pub(crate) fn folder() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("KAFKA_2PC_CACHE")
        .or_else(|| of("XDG_CACHE_HOME").map(|cache| cache.join("kafka-2pc")))
        .or_else(|| of("HOME").map(|home| home.join(".cache/kafka-2pc")))
        .unwrap_or_else(|| std::env::temp_dir().join("kafka-2pc-cache"))
}

/// A lock on a file. The kernel gives it back when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits until no other process holds `path`.
    pub(crate) fn wait(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { _file: file })
    }

    /// Takes `path`, or says `None` at once when somebody else holds it.
    pub(crate) fn attempt(path: &Path) -> io::Result<Option<Self>> {
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}
