use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

use super::*;
use crate::{
    checkpoint::{CommitStatus, INLINE_STATE_BYTES, InputPosition, ListedCommittable, StateHandle},
    ids::{Identity, TopicId, TransactionalId},
    proto::{
        naming::{IdPrefix, Naming, Ownership},
        pool::Pool,
        resume::Decision,
    },
};

/// A directory of its own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique =
            format!("kafka-2pc-store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(unique))
    }

    fn open(&self) -> Result<DirectoryStore, StoreError> {
        DirectoryStore::open(&self.0, binding())
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = files(&self.0).unwrap().iter().map(|p| name(p).to_owned()).collect();
        names.sort();
        names
    }

    fn committables(&self) -> usize {
        files(&committables_dir(&self.0)).unwrap().len()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn binding() -> Binding {
    let some = |text: &str| Some(text.into());
    Binding {
        job_id: some("job"),
        cluster_id: some("cluster"),
        topic: some("topic"),
        topic_id: None,
        source: some("in.ndjson"),
    }
}

fn committable(id: &str, epoch: i16) -> Committable {
    Committable {
        transactional_id: TransactionalId::new(id),
        identity: Identity::new(7, epoch),
        end_txn_version: Some(5),
        start_ms: Some(1),
        timeout_ms: Some(60_000),
        deadline_ms: Some(60_001),
        cluster_id: Some("cluster".into()),
        partitions: vec![],
    }
}

fn checkpoint(id: u64, committables: Vec<Committable>) -> Checkpoint {
    let listed = |committable| ListedCommittable { committable, status: CommitStatus::Pending };
    let mut input =
        InputPosition { source: "in.ndjson".into(), bytes: 100 * id, lines: id, ..Default::default() };
    input.hash.update(&vec![b'x'; usize::try_from(100 * id).unwrap()]);
    let pool = Pool::new(Naming::Pooled, IdPrefix::new("job").unwrap(), Ownership::new(0, 1).unwrap(), 4);
    let checkpoint = Checkpoint {
        id,
        owner_epoch: 0,
        job_id: "job".into(),
        cluster_id: "cluster".into(),
        topic: "topic".into(),
        topic_id: TopicId([7; 16]),
        operators: Vec::new(),
        committables: committables.into_iter().map(listed).collect(),
        writers: vec![pool.state_to_keep()],
    };
    checkpoint.with_input(&input)
}

fn write(store: &mut DirectoryStore, checkpoint: &Checkpoint) {
    try_write(store, checkpoint).unwrap();
}

fn try_write(store: &mut DirectoryStore, checkpoint: &Checkpoint) -> Result<(), StoreError> {
    store.write_checkpoint(checkpoint, &mut |_| {})
}

#[test]
fn the_newest_checkpoint_comes_back_and_two_are_kept() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    assert_eq!(store.newest().unwrap(), None);
    let mut last = checkpoint(1, vec![committable("job-0-0", 1)]);
    last.committables[0].status = CommitStatus::Decided(Decision::Commit);
    write(&mut store, &last);
    for id in 2..6 {
        last = checkpoint(id, vec![committable("job-0-0", i16::try_from(id).unwrap())]);
        write(&mut store, &last);
    }
    drop(store);
    let store = scratch.open().unwrap();
    assert_eq!(store.newest().unwrap(), Some(last));
    let kept: Vec<_> = scratch.names().into_iter().filter(|n| n.starts_with(CHECKPOINT)).collect();
    assert_eq!(kept, ["checkpoint-00000000000000000004", "checkpoint-00000000000000000005"]);
    assert_eq!(scratch.committables(), 1);
}

#[test]
fn a_second_owner_is_refused_until_the_first_is_gone() {
    let scratch = Scratch::new();
    let first = scratch.open().unwrap();
    let error = scratch.open().unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"));
    drop(first);
    scratch.open().unwrap();
}

#[test]
fn killed_at_any_byte_the_checkpoint_before_is_whole() {
    let scratch = Scratch::new();
    let before = checkpoint(1, vec![committable("job-0-0", 1)]);
    write(&mut scratch.open().unwrap(), &before);
    let bytes = checkpoint(2, vec![committable("job-0-1", 1)]).to_bytes();
    let temporary = scratch.0.join("checkpoint-00000000000000000002.tmp");
    for end in 0..=bytes.len() {
        fs::write(&temporary, &bytes[..end]).unwrap();
        let store = scratch.open().unwrap();
        assert_eq!(store.newest().unwrap().as_ref(), Some(&before), "byte {end}");
        assert!(!temporary.exists(), "byte {end}");
    }
}

#[test]
fn observers_see_half_a_checkpoint_and_then_a_durable_one() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    let dir = scratch.0.clone();
    let mut seen = Vec::new();
    let next = checkpoint(1, vec![committable("job-0-0", 1)]);
    store
        .write_checkpoint(&next, &mut |point| {
            // The committable's own file is there before its checkpoint is.
            let committables = files(&committables_dir(&dir)).unwrap().len();
            seen.push((point.name(), read_newest(&dir).unwrap().is_some(), committables));
        })
        .unwrap();
    assert_eq!(seen, [("store-half", false, 1), ("durable", true, 1)]);
}

#[test]
fn a_process_that_dies_half_way_leaves_the_checkpoint_before() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    write(&mut store, &checkpoint(1, vec![]));
    let dies = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.write_checkpoint(&checkpoint(2, vec![committable("job-0-1", 1)]), &mut |point| {
            assert_ne!(point, StorePoint::Half, "dies here");
        })
    }));
    assert!(dies.is_err());
    drop(store);
    let mut store = scratch.open().unwrap();
    assert_eq!(store.newest().unwrap(), Some(checkpoint(1, vec![])));
    // Its committable is recognised as prepared and never durable.
    let unlisted = store.unlisted_files().unwrap();
    assert_eq!(unlisted.len(), 1);
    assert_eq!(unlisted[0].committable, committable("job-0-1", 1));
    store.forget_committable(&unlisted[0].committable).unwrap();
    assert_eq!(store.unlisted_files().unwrap(), []);
    write(&mut store, &checkpoint(2, vec![]));
}

#[test]
fn state_of_something_else_is_refused_and_says_why() {
    let scratch = Scratch::new();
    write(&mut scratch.open().unwrap(), &checkpoint(1, vec![]));
    let other = |change: fn(&mut Binding)| {
        let mut binding = binding();
        change(&mut binding);
        DirectoryStore::open(&scratch.0, binding).unwrap_err().to_string()
    };
    assert!(other(|b| b.job_id = Some("x".into())).contains("belongs to the job `job`, not to `x`"));
    assert!(other(|b| b.cluster_id = Some("x".into())).contains("cluster `cluster`"));
    assert!(other(|b| b.topic = Some("x".into())).contains("topic `topic`"));
    assert!(other(|b| b.source = Some("x".into())).contains("input `in.ndjson`"));
    DirectoryStore::open(&scratch.0, Binding::default()).unwrap();
    let error =
        try_write(&mut scratch.open().unwrap(), &Checkpoint { topic: "x".into(), ..checkpoint(2, vec![]) });
    assert!(matches!(error, Err(StoreError::Foreign { what: "topic", .. })));
}

#[test]
fn a_newer_release_s_state_is_refused() {
    let scratch = Scratch::new();
    write(&mut scratch.open().unwrap(), &checkpoint(1, vec![]));
    let seal = crate::proto::sealed::Seal { what: "checkpoint", magic: *b"K2PK", newest: 9 };
    let path = scratch.0.join("checkpoint-00000000000000000002");
    fs::write(path, seal.seal(crate::proto::sealed::Fields::default())).unwrap();
    let error = scratch.open().unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }));
    assert!(error.to_string().contains("format 9"), "{error}");
}

#[test]
fn a_damaged_newest_checkpoint_is_an_error_and_never_replaced_by_an_older_one() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    write(&mut store, &checkpoint(1, vec![]));
    write(&mut store, &checkpoint(2, vec![]));
    drop(store);
    let path = scratch.0.join("checkpoint-00000000000000000002");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() - 1], &flipped, b"", b"something else"] {
        fs::write(&path, damaged).unwrap();
        let error = scratch.open().unwrap_err();
        let StoreError::Damaged { older: Some(older), .. } = &error else { panic!("{error}") };
        assert!(older.ends_with("checkpoint-00000000000000000001"));
        let told = error.to_string();
        assert!(told.contains("restore the file from a backup") && told.contains("a second time"), "{told}");
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(scratch.open().unwrap().newest().unwrap(), Some(checkpoint(2, vec![])));
}

#[test]
fn checkpoints_only_go_forward() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    write(&mut store, &checkpoint(5, vec![]));
    for id in [4, 5] {
        let error = try_write(&mut store, &checkpoint(id, vec![])).unwrap_err();
        assert!(matches!(error, StoreError::OutOfOrder { newest: 5, .. }));
    }
}

#[test]
fn prepared_files_survive_checkpoints_that_do_not_list_them_yet() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    write(&mut store, &checkpoint(1, vec![committable("job-0-0", 1)]));
    let early = committable("job-0-1", 1);
    let path = store.keep_committable(&early).unwrap();
    write(&mut store, &checkpoint(2, vec![]));
    assert_eq!(scratch.committables(), 1);
    assert_eq!(read_committable(&path).unwrap(), early);
    write(&mut store, &checkpoint(3, vec![early.clone()]));
    assert_eq!(store.keep_committable(&early).unwrap(), path);
    write(&mut store, &checkpoint(4, vec![]));
    assert_eq!(scratch.committables(), 0);
}

#[test]
fn names_of_committables_are_harmless_and_unique() {
    let name = |id: &str| committable_name(&committable(id, 3));
    assert_eq!(name("../../etc/passwd").matches('/').count(), 0);
    assert_ne!(name("a/b"), name("a_b"));
    assert!(name(&"x".repeat(5000)).len() < 255);
    assert!(name("job-0-1").starts_with("job-0-1.") && name("job-0-1").ends_with(".7.3.committable"));
}

#[test]
fn a_full_device_is_told_apart() {
    let error = StoreError::io("f")(io::Error::from(io::ErrorKind::StorageFull));
    assert!(matches!(error, StoreError::Full { .. }));
    assert!(matches!(StoreError::io("f")(io::Error::other("x")), StoreError::Io { .. }));
}

#[cfg(unix)]
#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    write(&mut store, &checkpoint(1, vec![]));
    // `/dev/full` refuses every byte as a full device does.
    std::os::unix::fs::symlink("/dev/full", scratch.0.join("checkpoint-00000000000000000002.tmp")).unwrap();
    let error = try_write(&mut store, &checkpoint(2, vec![])).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(store.newest().unwrap(), Some(checkpoint(1, vec![])));
    write(&mut store, &checkpoint(2, vec![]));
    assert_eq!(store.newest().unwrap(), Some(checkpoint(2, vec![])));
}

#[cfg(unix)]
#[test]
fn state_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let mut store = scratch.open().unwrap();
    write(&mut store, &checkpoint(1, vec![committable("job-0-0", 1)]));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scratch.0), 0o700);
    for path in files(&scratch.0).unwrap().into_iter().filter(|p| p.is_file()) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    assert_eq!(mode(&files(&committables_dir(&scratch.0)).unwrap()[0]), 0o600);
}

#[tokio::test]
async fn small_state_stays_in_the_handle_and_large_state_gets_a_file_of_its_own() {
    let scratch = Scratch::new();
    let store = scratch.open().unwrap();
    let states = store.states();
    let small = Bytes::from(vec![1; INLINE_STATE_BYTES]);
    let handle = states.put("count", small.clone()).await.unwrap();
    assert_eq!(handle, StateHandle::Inline(small.clone()));
    assert_eq!(states.get(&handle).await.unwrap(), small);
    let large = Bytes::from(vec![1; INLINE_STATE_BYTES + 1]);
    let (first, second) =
        tokio::join!(states.put("../count", large.clone()), states.put("../count", large.clone()));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_ne!(first, second, "each has a name of its own");
    for handle in [first, second] {
        assert_eq!(states.get(&handle).await.unwrap(), large);
    }
    assert_eq!(files(&states_dir(&scratch.0)).unwrap().len(), 2);
}

#[tokio::test]
async fn state_that_is_missing_cut_or_changed_is_told() {
    let scratch = Scratch::new();
    let states = scratch.open().unwrap().states();
    let handle = states.put("count", Bytes::from(vec![1; 20_000])).await.unwrap();
    let path = files(&states_dir(&scratch.0)).unwrap().remove(0);
    let mut flipped = vec![1; 20_000];
    flipped[10_000] = 2;
    for (bytes, why) in [(&[1; 19_999][..], "19999 bytes instead of 20000"), (&flipped, "checksum")] {
        fs::write(&path, bytes).unwrap();
        let error = states.get(&handle).await.unwrap_err();
        assert!(matches!(error, StoreError::BadState { .. }) && error.to_string().contains(why), "{error}");
    }
    fs::remove_file(&path).unwrap();
    let error = states.get(&handle).await.unwrap_err();
    assert!(error.to_string().contains("it is missing"), "{error}");
}
