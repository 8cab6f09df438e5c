use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;

use super::*;
use crate::checkpoint::{
    INLINE_STATE_BYTES, StateHandle,
    files::Change,
    suite_tests::{Place, binding, checkpoint, committable, retained, suite},
};

/// A directory of its own, removed at the end.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn open(&self) -> Result<DirectoryStore, StoreError> {
        DirectoryStore::open(self.dir(), binding())
    }

    fn open_on(&self, disk: Disk) -> Result<DirectoryStore, StoreError> {
        DirectoryStore::open_on(disk, self.dir(), binding())
    }
}

impl Place for Scratch {
    async fn open(&self, binding: Binding) -> Result<Box<dyn JobStore>, StoreError> {
        Ok(Box::new(DirectoryStore::open(self.dir(), binding)?))
    }

    async fn open_retaining(&self, checkpoints: usize) -> Box<dyn JobStore> {
        Box::new(self.open().unwrap().num_retained(retained(checkpoints)))
    }

    async fn names(&self) -> Vec<String> {
        let below = |prefix: &str, dir: &Path| -> Vec<_> {
            files(dir).unwrap().iter().map(|path| format!("{prefix}{}", name(path))).collect()
        };
        let mut names = below("", &self.dir());
        names.extend(below("committables/", &committables_dir(&self.dir())));
        names.extend(below("states/", &states_dir(&self.dir())));
        names.sort();
        names
    }

    async fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir().join(name)).unwrap()
    }

    async fn overwrite(&self, name: &str, bytes: &[u8]) {
        fs::write(self.dir().join(name), bytes).unwrap();
    }

    async fn remove(&self, name: &str) {
        fs::remove_file(self.dir().join(name)).unwrap();
    }
}

mod suite {
    use super::*;
    suite!(Scratch::new());
}

fn write(store: &mut DirectoryStore, checkpoint: &Checkpoint) -> Result<(), StoreError> {
    store.write_checkpoint(checkpoint, &mut |_| {})
}

fn id(store: &DirectoryStore) -> Option<u64> {
    store.newest().unwrap().map(|checkpoint| checkpoint.id)
}

/// A disk that asks about every change.
fn asking(before: impl Fn(Change, &Path) -> io::Result<()> + Send + Sync + 'static) -> Disk {
    Disk { before: Some(Arc::new(before)) }
}

/// A disk that makes `changes`, and none after: the process dies there.
fn dying_after(changes: usize) -> (Disk, Arc<AtomicUsize>) {
    let refused = Arc::new(AtomicUsize::new(0));
    let (left, count) = (AtomicUsize::new(changes), Arc::clone(&refused));
    let disk = asking(move |_, _| {
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => {
                count.fetch_add(1, Ordering::Relaxed);
                Err(io::Error::other("dead"))
            }
        }
    });
    (disk, refused)
}

/// What a job does: state, a prepared transaction, and a checkpoint with both, again and again. The number of the
/// last checkpoint that it knows to be durable.
async fn work(
    store: Result<DirectoryStore, StoreError>,
    ids: std::ops::Range<u64>,
) -> (u64, Option<StoreError>) {
    let mut durable = ids.start - 1;
    let all = async || {
        let mut store = store?;
        for id in ids {
            let states = store.states();
            let handle = states.put("x", Bytes::from(vec![7; INLINE_STATE_BYTES + 1])).await?;
            let transaction = committable("job-0-0", i16::try_from(id).unwrap());
            store.keep_committable(&transaction)?;
            let declined = states.put("x", Bytes::from(vec![8; INLINE_STATE_BYTES + 1])).await?;
            states.discard(&declined).await?;
            write(&mut store, &checkpoint(id, &[transaction], &[&handle]))?;
            durable = id;
        }
        Ok(())
    };
    let error = all().await.err();
    (durable, error)
}

/// Everything is there that the newest checkpoint needs, and nothing else once another one is written.
async fn sound(scratch: &Scratch, durable: u64) {
    let mut store = scratch.open().unwrap();
    let newest = store.newest().unwrap();
    let found = newest.as_ref().map_or(0, |checkpoint| checkpoint.id);
    assert!(found == durable || found == durable + 1, "{found} after {durable}");
    let handles: Vec<StateHandle> = newest
        .iter()
        .flat_map(|checkpoint| &checkpoint.operator("count").unwrap().subtasks)
        .cloned()
        .collect();
    for handle in &handles {
        assert_eq!(store.states().get(handle).await.unwrap(), vec![7; INLINE_STATE_BYTES + 1]);
    }
    for unlisted in store.unlisted_files().unwrap() {
        assert_eq!(unlisted.committable.identity.epoch.0, i16::try_from(found + 1).unwrap());
    }
    store.recovered().await.unwrap();
    assert_eq!(store.unlisted_files().unwrap(), []);
    for id in found + 1..found + 4 {
        write(&mut store, &checkpoint(id, &[], &[])).unwrap();
    }
    let names = scratch.names().await;
    let rest = names.iter().filter(|name| name.contains('/') || name.contains("tmp"));
    assert_eq!(rest.count(), 0, "{names:?}");
}

#[tokio::test]
async fn killed_between_any_two_changes_of_files_nothing_is_lost_and_nothing_is_left() {
    for changes in 0.. {
        let scratch = Scratch::new();
        let before = work(scratch.open(), 1..3).await;
        assert!(before.1.is_none(), "{before:?}");
        let (disk, refused) = dying_after(changes);
        let (durable, error) = work(scratch.open_on(disk), 3..5).await;
        sound(&scratch, durable).await;
        if refused.load(Ordering::Relaxed) == 0 {
            assert!(error.is_none() && durable == 4 && changes > 60, "{error:?}, {changes} changes");
            return;
        }
    }
}

#[tokio::test]
async fn killed_during_the_very_first_checkpoint_a_job_begins_anew() {
    for changes in 0.. {
        let scratch = Scratch::new();
        let (disk, refused) = dying_after(changes);
        let (durable, _) = work(scratch.open_on(disk), 1..2).await;
        sound(&scratch, durable).await;
        if refused.load(Ordering::Relaxed) == 0 {
            return;
        }
    }
}

#[tokio::test]
async fn a_device_that_is_full_at_any_change_loses_nothing_and_the_job_can_go_on() {
    for full in 0.. {
        let scratch = Scratch::new();
        work(scratch.open(), 1..3).await;
        let passed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&passed);
        let disk = asking(move |change, _| {
            let takes_space =
                matches!(change, Change::Create | Change::Write | Change::Sync | Change::MakeDir);
            if takes_space && count.fetch_add(1, Ordering::Relaxed) == full {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            Ok(())
        });
        let (durable, error) = work(scratch.open_on(disk.clone()), 3..5).await;
        if passed.load(Ordering::Relaxed) <= full {
            assert!(error.is_none() && full > 30, "{error:?}, {full} changes");
            return;
        }
        // A full device while the owner's epoch is written down is no reason to stop.
        assert!(error.is_none() || matches!(error, Some(StoreError::Full { .. })), "{error:?}");
        let (again, error) = work(scratch.open_on(disk), durable + 1..6).await;
        assert!(error.is_none() && again == 5, "{error:?}");
        sound(&scratch, 5).await;
    }
}

#[tokio::test]
async fn what_could_not_be_removed_is_removed_after_the_next_checkpoint() {
    let scratch = Scratch::new();
    let failing = Arc::new(AtomicUsize::new(0));
    let stuck = Arc::clone(&failing);
    let disk = asking(move |change, _| {
        if change == Change::Remove && stuck.load(Ordering::Relaxed) > 0 {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(())
    });
    let mut store = scratch.open_on(disk).unwrap();
    failing.store(1, Ordering::Relaxed);
    for id in 1..5 {
        let state = store.states().put("x", Bytes::from(vec![7; 20_000])).await.unwrap();
        let transaction = committable("job-0-0", i16::try_from(id).unwrap());
        write(&mut store, &checkpoint(id, &[transaction], &[&state])).unwrap();
    }
    let count = |names: Vec<String>, what: &str| names.iter().filter(|name| name.starts_with(what)).count();
    for what in ["checkpoint-", "states/", "committables/"] {
        assert_eq!(count(scratch.names().await, what), 4, "{what}");
    }
    failing.store(0, Ordering::Relaxed);
    write(&mut store, &checkpoint(5, &[], &[])).unwrap();
    for (what, left) in [("checkpoint-", 2), ("states/", 1), ("committables/", 0)] {
        assert_eq!(count(scratch.names().await, what), left, "{what}");
    }
}

#[test]
fn a_file_has_its_name_only_when_it_is_synced_and_nothing_goes_before_the_name_is() {
    let scratch = Scratch::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let disk = asking(move |change, path: &Path| {
        seen.lock().unwrap().push((change, name(path).to_owned()));
        Ok(())
    });
    let mut store = scratch.open_on(disk).unwrap();
    for id in 1..3 {
        write(&mut store, &checkpoint(id, &[], &[])).unwrap();
    }
    log.lock().unwrap().clear();
    write(&mut store, &checkpoint(3, &[], &[])).unwrap();
    let (third, temporary) = (checkpoint_name(3), format!("{}.tmp", checkpoint_name(3)));
    let expected = [
        (Change::Create, &temporary),
        (Change::Write, &temporary),
        (Change::Write, &temporary),
        (Change::Sync, &temporary),
        (Change::Rename, &third),
        (Change::SyncDir, &"state".to_owned()),
        (Change::Remove, &checkpoint_name(1)),
    ];
    assert_eq!(*log.lock().unwrap(), expected.map(|(change, name)| (change, name.clone())));
}

#[test]
fn killed_at_any_byte_the_checkpoint_before_is_whole() {
    let scratch = Scratch::new();
    write(&mut scratch.open().unwrap(), &checkpoint(1, &[committable("job-0-0", 1)], &[])).unwrap();
    let bytes = checkpoint(2, &[committable("job-0-1", 1)], &[]).to_bytes();
    let temporary = scratch.dir().join(format!("{}.tmp", checkpoint_name(2)));
    for end in 0..=bytes.len() {
        fs::write(&temporary, &bytes[..end]).unwrap();
        let store = scratch.open().unwrap();
        assert_eq!(id(&store), Some(1), "byte {end}");
        assert!(!temporary.exists(), "byte {end}");
    }
}

#[test]
fn a_committable_has_its_file_before_its_checkpoint_is_durable() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    let dir = scratch.dir();
    let mut seen = Vec::new();
    let mut observer = |point: StorePoint| {
        let committables = files(&committables_dir(&dir)).unwrap().len();
        seen.push((point.name(), read_newest(&dir).unwrap().is_some(), committables));
    };
    store.write_checkpoint(&checkpoint(1, &[committable("job-0-0", 1)], &[]), &mut observer).unwrap();
    assert_eq!(seen, [("store-half", false, 1), ("durable", true, 1)]);
}

#[test]
fn a_checkpoint_whose_name_could_not_be_synced_is_not_acted_on_before_it_is() {
    let scratch = Scratch::new();
    let broken = Arc::new(AtomicUsize::new(0));
    let on = Arc::clone(&broken);
    let disk = asking(move |change, path: &Path| match change {
        Change::SyncDir if on.load(Ordering::Relaxed) == 1 && path.join(checkpoint_name(2)).exists() => {
            Err(io::Error::other("broken"))
        }
        _ => Ok(()),
    });
    let mut store = scratch.open_on(disk.clone()).unwrap();
    write(&mut store, &checkpoint(1, &[], &[])).unwrap();
    broken.store(1, Ordering::Relaxed);
    let mut seen = Vec::new();
    let error = store.write_checkpoint(&checkpoint(2, &[], &[]), &mut |point| seen.push(point)).unwrap_err();
    assert!(matches!(error, StoreError::NotSynced { .. }), "{error}");
    assert_eq!(seen, [StorePoint::Half]);
    let load = |store: &mut DirectoryStore| store.load().now_or_never().unwrap();
    assert!(matches!(load(&mut store), Err(StoreError::NotSynced { .. })));
    drop(store);
    // Nor does the next owner act on it.
    assert!(matches!(scratch.open_on(disk.clone()), Err(StoreError::NotSynced { .. })));
    broken.store(0, Ordering::Relaxed);
    let mut store = scratch.open_on(disk).unwrap();
    assert_eq!(load(&mut store).unwrap().unwrap().id, 2);
    let again = write(&mut store, &checkpoint(2, &[], &[])).unwrap_err();
    assert!(matches!(again, StoreError::OutOfOrder { newest: 2, .. }), "{again}");
}

#[test]
fn a_state_directory_that_is_new_is_durable_before_anything_in_it() {
    let scratch = Scratch::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let disk = asking(move |change, path: &Path| {
        seen.lock().unwrap().push((change, path.to_owned()));
        Ok(())
    });
    let (above, dir) = (scratch.dir(), scratch.dir().join("below"));
    drop(DirectoryStore::open_on(disk, dir.clone(), binding()).unwrap());
    let outside = scratch.dir().parent().unwrap().to_owned();
    let expected = [(Change::MakeDir, dir), (Change::SyncDir, outside), (Change::SyncDir, above)];
    assert_eq!(log.lock().unwrap()[..3], expected);
}

#[test]
fn an_owner_whose_lock_did_not_hold_is_stopped_by_the_epoch() {
    let scratch = Scratch::new();
    let mut first = scratch.open().unwrap();
    write(&mut first, &checkpoint(1, &[], &[])).unwrap();
    // As on a file system without working locks: somebody else can take the lock.
    fs::remove_file(scratch.dir().join("lock")).unwrap();
    let mut second = scratch.open().unwrap();
    let error = write(&mut first, &checkpoint(2, &[], &[])).unwrap_err();
    assert!(matches!(error, StoreError::Fenced { epoch: 1, by: 2, .. }), "{error}");
    assert!(error.to_string().contains("this job must stop"), "{error}");
    write(&mut second, &checkpoint(2, &[], &[])).unwrap();
    assert_eq!(second.newest().unwrap().unwrap().owner_epoch, 2);
}

#[test]
fn state_of_the_first_release_is_taken_over() {
    let scratch = Scratch::new();
    write(&mut scratch.open().unwrap(), &checkpoint(1, &[], &[])).unwrap();
    fs::remove_file(scratch.dir().join(OWNER)).unwrap();
    fs::remove_dir(states_dir(&scratch.dir())).unwrap();
    let store = scratch.open().unwrap();
    assert_eq!((id(&store), store.owner_epoch()), (Some(1), 2));
}

#[test]
fn a_damaged_owner_is_told() {
    let scratch = Scratch::new();
    drop(scratch.open().unwrap());
    fs::write(scratch.dir().join(OWNER), b"K2POx").unwrap();
    let error = scratch.open().unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { path, .. } if path.ends_with(OWNER)), "{error}");
}

#[test]
fn names_of_committables_are_harmless_and_unique() {
    let name = |id: &str| committable_name(&committable(id, 3));
    assert_eq!(name("../../etc/passwd").matches('/').count(), 0);
    assert_ne!(name("a/b"), name("a_b"));
    assert!(name(&"x".repeat(5000)).len() < 255);
    assert!(name("job-0-1").starts_with("job-0-1.") && name("job-0-1").ends_with(".7.3.committable"));
}

#[cfg(unix)]
#[test]
fn a_device_that_refuses_every_byte_leaves_the_checkpoint_before() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    write(&mut store, &checkpoint(1, &[], &[])).unwrap();
    // `/dev/full` refuses every byte as a full device does.
    let temporary = scratch.dir().join(format!("{}.tmp", checkpoint_name(2)));
    std::os::unix::fs::symlink("/dev/full", temporary).unwrap();
    let error = write(&mut store, &checkpoint(2, &[], &[])).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(id(&store), Some(1));
    write(&mut store, &checkpoint(2, &[], &[])).unwrap();
    assert_eq!(id(&store), Some(2));
}

#[cfg(unix)]
#[tokio::test]
async fn state_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    let handle = store.states().put("x", Bytes::from(vec![7; 20_000])).await.unwrap();
    write(&mut store, &checkpoint(1, &[committable("job-0-0", 1)], &[&handle])).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dirs = [scratch.dir(), committables_dir(&scratch.dir()), states_dir(&scratch.dir())];
    for dir in dirs {
        assert_eq!(mode(&dir), 0o700);
        for path in files(&dir).unwrap().into_iter().filter(|p| p.is_file()) {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
}
