//! Looking at the state in a directory without owning it, also beside a running job.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    directory_read::{
        ReadError, checkpoints, committables_dir, read_checkpoint, read_committable, read_owner, states_dir,
    },
    directory_states::read_state,
    error::StoreError,
    files::{files, name},
    handle::StateHandle,
    names::{COMMITTABLE, STATE},
    state::Checkpoint,
};

/// A checkpoint's file, or object.
#[derive(Debug)]
pub struct CheckpointFile {
    /// The number in its name.
    pub id: u64,
    /// The file; the URL of an object.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When it was written, if the file system tells.
    pub modified: Option<SystemTime>,
    /// What is in it, or why it cannot be read.
    pub checkpoint: Result<Checkpoint, StoreError>,
}

/// Something in a state that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// What was read of a state, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// How many checkpoints were read.
    pub checkpoints: usize,
    /// How many states of subtasks that checkpoints name, beside them, were read.
    pub states: usize,
    /// How many files of committables were read.
    pub committables: usize,
    /// Files of states that no checkpoint names: of a checkpoint in progress, or left by a crash.
    pub unnamed: usize,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// Every checkpoint in `dir`, oldest first. One that a running job removes meanwhile is not among them.
///
/// # Errors
/// [`StoreError::Io`].
pub fn read_checkpoints(dir: &Path) -> Result<Vec<CheckpointFile>, StoreError> {
    let mut found = Vec::new();
    for (id, path) in checkpoints(dir)? {
        let checkpoint = match read_checkpoint(&path) {
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.map_err(|error| error.of(&path, None)),
        };
        let metadata = fs::metadata(&path).ok();
        found.push(CheckpointFile {
            id,
            bytes: metadata.as_ref().map_or(0, fs::Metadata::len),
            modified: metadata.and_then(|metadata| metadata.modified().ok()),
            path,
            checkpoint,
        });
    }
    Ok(found)
}

/// Reads everything in `dir` and compares it with its checksums.
///
/// # Errors
/// [`StoreError::Io`] if a directory cannot be read; faults of files are in the result.
pub fn verify(dir: &Path) -> Result<Verified, StoreError> {
    let mut verified = Verified::default();
    let mut named = BTreeSet::new();
    if let Err(error) = read_owner(dir) {
        verified.fault(dir.join("owner"), &error);
    }
    for file in read_checkpoints(dir)? {
        verified.checkpoints += 1;
        match &file.checkpoint {
            Ok(checkpoint) => {
                verified.check_id(&file, checkpoint);
                named.extend(checkpoint.stored_states().cloned());
                verified.states_of(dir, &file.path, checkpoint);
            }
            Err(error) => verified.fault(file.path, error),
        }
    }
    for path in files(&states_dir(dir))? {
        verified.unnamed += usize::from(name(&path).ends_with(STATE) && !named.contains(name(&path)));
    }
    for path in files(&committables_dir(dir))?.into_iter().filter(|path| name(path).ends_with(COMMITTABLE)) {
        match read_committable(&path) {
            Ok(_) => verified.committables += 1,
            Err(_) if !path.exists() => {}
            Err(error) => verified.fault(path, &error),
        }
    }
    verified.faults.dedup();
    Ok(verified)
}

impl Verified {
    fn states_of(&mut self, dir: &Path, file: &Path, checkpoint: &Checkpoint) {
        for operator in &checkpoint.operators {
            for (subtask, handle) in operator.subtasks.iter().enumerate() {
                let StateHandle::Stored { name, .. } = handle else { continue };
                let path = states_dir(dir).join(&**name);
                match read_state(&path, handle) {
                    Ok(_) => self.states += 1,
                    // The job has removed both meanwhile.
                    Err(_) if !file.exists() => return,
                    Err(error) => {
                        let of = format!(
                            "checkpoint {}, operator `{}`, subtask {subtask}",
                            checkpoint.id, operator.uid
                        );
                        self.faults.push(Fault { path, why: format!("{} ({of})", fault(&error)) });
                    }
                }
            }
        }
    }

    /// The name of a checkpoint says its number.
    pub(super) fn check_id(&mut self, file: &CheckpointFile, checkpoint: &Checkpoint) {
        if checkpoint.id != file.id {
            let why = format!("it holds checkpoint {}", checkpoint.id);
            self.faults.push(Fault { path: file.path.clone(), why });
        }
    }

    pub(super) fn fault(&mut self, path: PathBuf, error: &StoreError) {
        self.faults.push(Fault { path, why: fault(error) });
    }
}

/// What is wrong, without the path and the advice that the error's own text has.
fn fault(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { cause, .. } | StoreError::Newer { cause, .. } => cause.to_string(),
        StoreError::BadState { why, .. } => why.clone(),
        StoreError::Io { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::checkpoint::{
        Binding, CheckpointStore, DirectoryStore, INLINE_STATE_BYTES,
        suite_tests::{checkpoint, committable},
    };

    #[tokio::test]
    async fn each_fault_is_named_and_what_is_whole_is_counted() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        let mut store = DirectoryStore::open(dir, Binding::default()).unwrap();
        let states = store.states();
        let put = async || states.put("x", Bytes::from(vec![7; INLINE_STATE_BYTES + 1])).await.unwrap();
        let (first, second) = (put().await, put().await);
        put().await;
        let listed = [committable("job-0-0", 1)];
        store.write(&checkpoint(1, &listed, &[&first]), &mut |_| {}).await.unwrap();
        store.write(&checkpoint(2, &listed, &[&first, &second]), &mut |_| {}).await.unwrap();
        let whole = verify(dir).unwrap();
        let expected = Verified { checkpoints: 2, states: 3, committables: 1, unnamed: 1, faults: vec![] };
        assert_eq!(whole, expected);

        let files = read_checkpoints(dir).unwrap();
        assert_eq!(files.iter().map(|file| file.id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(files[1].bytes, fs::metadata(&files[1].path).unwrap().len());
        let StateHandle::Stored { name: state, .. } = &second else { panic!("{second:?}") };
        let state = states_dir(dir).join(&**state);
        let committable = super::files(&committables_dir(dir)).unwrap().remove(0);
        for path in [&files[0].path, &state, &committable, &dir.join("owner")] {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
            let found = verify(dir).unwrap().faults;
            assert_eq!(found.iter().map(|fault| &fault.path).collect::<Vec<_>>(), [path]);
            fs::write(path, bytes).unwrap();
        }
        fs::rename(&state, state.with_extension("gone")).unwrap();
        let found = verify(dir).unwrap().faults;
        assert_eq!(found[0].why, "it is missing (checkpoint 2, operator `count`, subtask 1)");
        fs::rename(&files[1].path, files[1].path.with_file_name("checkpoint-00000000000000000009")).unwrap();
        assert_eq!(verify(dir).unwrap().faults[0].why, "it holds checkpoint 2");
    }
}
