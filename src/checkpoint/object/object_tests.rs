use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStoreExt, local::LocalFileSystem, memory::InMemory, path::Path};

use super::{
    faulty::{Fate, Faulty},
    *,
};
use crate::{
    checkpoint::{
        INLINE_STATE_BYTES,
        suite_tests::{Place, binding, checkpoint, committable, retained, suite},
    },
    ids::Moment,
};

const PREFIX: &str = "jobs/one";

/// A place in an object store.
struct Objects {
    store: Arc<dyn ObjectStore>,
    _dir: Option<tempfile::TempDir>,
}

impl Objects {
    fn in_memory() -> Self {
        Self { store: Arc::new(InMemory::new()), _dir: None }
    }

    fn local() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalFileSystem::new_with_prefix(dir.path()).unwrap().with_fsync(true);
        Self { store: Arc::new(store), _dir: Some(dir) }
    }

    /// Where the name of the suite lies.
    fn location(name: &str) -> Path {
        let folder = if name.contains('/') { "" } else { "checkpoints/" };
        Path::from(format!("{PREFIX}/{folder}{name}"))
    }

    async fn open(&self) -> Result<ObjectCheckpointStore, StoreError> {
        open(&self.store, "one").await
    }
}

async fn open(store: &Arc<dyn ObjectStore>, holder: &str) -> Result<ObjectCheckpointStore, StoreError> {
    let holder = format!("process {holder}").into();
    let config = ObjectStoreConfig { binding: binding(), holder, ..ObjectStoreConfig::new(PREFIX) };
    ObjectCheckpointStore::open(Arc::clone(store), config).await
}

impl Place for Objects {
    async fn open(&self, binding: Binding) -> Result<Box<dyn JobStore>, StoreError> {
        let config = ObjectStoreConfig { binding, ..ObjectStoreConfig::new(PREFIX) };
        Ok(Box::new(ObjectCheckpointStore::open(Arc::clone(&self.store), config).await?))
    }

    async fn open_retaining(&self, checkpoints: usize) -> Box<dyn JobStore> {
        let num_retained = retained(checkpoints);
        let config = ObjectStoreConfig { num_retained, ..ObjectStoreConfig::new(PREFIX) };
        Box::new(ObjectCheckpointStore::open(Arc::clone(&self.store), config).await.unwrap())
    }

    async fn close(&self, mut store: Box<dyn JobStore>) {
        store.close().await.unwrap();
    }

    async fn names(&self) -> Vec<String> {
        let all: Vec<ObjectMeta> = self.store.list(Some(&Path::from(PREFIX))).try_collect().await.unwrap();
        let below =
            |meta: &ObjectMeta| meta.location.as_ref()[PREFIX.len() + 1..].replace("checkpoints/", "");
        let mut names: Vec<_> = all.iter().map(below).collect();
        names.sort();
        names
    }

    async fn read(&self, name: &str) -> Vec<u8> {
        self.store.get(&Self::location(name)).await.unwrap().bytes().await.unwrap().into()
    }

    async fn overwrite(&self, name: &str, bytes: &[u8]) {
        self.store.put(&Self::location(name), Bytes::copy_from_slice(bytes).into()).await.unwrap();
    }

    async fn remove(&self, name: &str) {
        self.store.delete(&Self::location(name)).await.unwrap();
    }
}

mod in_memory {
    use super::*;
    suite!(Objects::in_memory());
}

mod local_files {
    use super::*;
    suite!(Objects::local());
}

/// The time since the clock was started.
fn since(clock: &Clock) -> Duration {
    clock.now().since(Moment::default())
}

async fn write(store: &mut ObjectCheckpointStore, checkpoint: &Checkpoint) -> Result<(), StoreError> {
    store.write(checkpoint, &mut |_| {}).await
}

async fn newest(store: &mut ObjectCheckpointStore) -> u64 {
    store.load().await.unwrap().map_or(0, |checkpoint| checkpoint.id)
}

/// What a job does: state, a prepared transaction, and a checkpoint with both, again and again. The number of the last
/// checkpoint that it knows to be durable.
async fn work(
    store: Result<ObjectCheckpointStore, StoreError>,
    ids: Range<u64>,
) -> (u64, Result<ObjectCheckpointStore, StoreError>) {
    let mut durable = ids.start - 1;
    let all = async {
        let mut store = store?;
        for id in ids {
            let states = store.states();
            let handle = states.put("x", Bytes::from(vec![7; INLINE_STATE_BYTES + 1])).await?;
            let transaction = committable("job-0-0", i16::try_from(id).unwrap());
            store.keep(&transaction).await?;
            let declined = states.put("x", Bytes::from(vec![8; INLINE_STATE_BYTES + 1])).await?;
            // Tried again later if it fails.
            drop(states.discard(&declined).await);
            write(&mut store, &checkpoint(id, &[transaction], &[&handle])).await?;
            durable = id;
        }
        Ok(store)
    };
    let ended = all.await;
    (durable, ended)
}

/// Everything is there that the newest checkpoint needs, and nothing else once others are written.
async fn sound(place: &Objects, durable: u64) {
    let mut store = place.open().await.unwrap();
    let newest = store.load().await.unwrap();
    let found = newest.as_ref().map_or(0, |checkpoint| checkpoint.id);
    assert!(found == durable || found == durable + 1, "{found} after {durable}");
    for handle in newest.iter().flat_map(|checkpoint| &checkpoint.operator("count").unwrap().subtasks) {
        assert_eq!(store.states().get(handle).await.unwrap(), vec![7; INLINE_STATE_BYTES + 1]);
    }
    for unlisted in store.unlisted().await.unwrap() {
        assert_eq!(unlisted.identity.epoch.0, i16::try_from(found + 1).unwrap());
        store.forget(&unlisted).await.unwrap();
    }
    for id in found + 1..found + 4 {
        write(&mut store, &checkpoint(id, &[], &[])).await.unwrap();
    }
    let mut names = place.names().await;
    names.retain(|name| name != "probes/conditional-put");
    let folders = names.iter().map(|name| name.split('/').next().unwrap());
    let rest: Vec<_> = folders.filter(|folder| !folder.starts_with("checkpoint-")).collect();
    assert_eq!((rest, names.len()), (vec!["heads"], 3), "{names:?}");
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn killed_between_any_two_requests_nothing_is_lost_and_nothing_is_left() {
    for requests in 0.. {
        let place = Objects::in_memory();
        let before = work(place.open().await, 1..3).await;
        before.1.unwrap().close().await.unwrap();
        let (dying, passed) = Faulty::dying_after(&place.store, requests);
        let dying: Arc<dyn ObjectStore> = dying;
        let (durable, ended) = work(open(&dying, "two").await, 3..5).await;
        let over = ended.is_ok() && passed.load(Ordering::Relaxed) <= requests;
        drop(ended);
        sound(&place, durable).await;
        if over {
            assert!(durable == 4 && requests > 30, "{requests} requests");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_any_request_loses_nothing_and_the_job_can_go_on_after_loading() {
    for lost in 0.. {
        let place = Objects::in_memory();
        let passed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&passed);
        let faulty: Arc<dyn ObjectStore> =
            Faulty::new(&place.store, move |_, _| match count.fetch_add(1, Ordering::Relaxed) == lost {
                true => Fate::Unanswered,
                false => Fate::Answered,
            });
        let mut store = match open(&faulty, "one").await {
            Ok(store) => store,
            Err(_) => open(&faulty, "one").await.unwrap(),
        };
        let mut durable = 0;
        while durable < 4 {
            let next = durable + 1;
            let listed = [committable("job-0-0", i16::try_from(next).unwrap())];
            match write(&mut store, &checkpoint(next, &listed, &[])).await {
                Ok(()) => durable = next,
                Err(error) => {
                    let uncertain = matches!(error, StoreError::Uncertain { .. });
                    durable = newest(&mut store).await;
                    assert!(durable + 1 == next || (durable == next && uncertain), "{durable}, {error}");
                }
            }
        }
        let requests = passed.swap(usize::MAX / 2, Ordering::Relaxed);
        assert_eq!(newest(&mut store).await, 4);
        store.close().await.unwrap();
        sound(&place, 4).await;
        if requests <= lost {
            assert!(lost > 20, "{lost} requests");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_after_an_uncertain_checkpoint_before_it_is_loaded() {
    let place = Objects::in_memory();
    let armed = Arc::new(AtomicUsize::new(0));
    let on = Arc::clone(&armed);
    let faulty: Arc<dyn ObjectStore> = Faulty::new(&place.store, move |what, at| {
        let hit = what == "put" && at.as_ref().contains("heads") && on.load(Ordering::Relaxed) == 1;
        if hit { Fate::Unanswered } else { Fate::Answered }
    });
    let mut store = open(&faulty, "one").await.unwrap();
    armed.store(1, Ordering::Relaxed);
    let error = write(&mut store, &checkpoint(1, &[], &[])).await.unwrap_err();
    assert!(matches!(error, StoreError::Uncertain { .. }), "{error}");
    armed.store(0, Ordering::Relaxed);
    // A sign of life in between keeps what was completed.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let error = write(&mut store, &checkpoint(2, &[], &[])).await.unwrap_err();
    assert!(error.to_string().contains("must be loaded first"), "{error}");
    assert_eq!(newest(&mut store).await, 1);
    let again = write(&mut store, &checkpoint(1, &[], &[])).await.unwrap_err();
    assert!(matches!(again, StoreError::OutOfOrder { newest: 1, .. }), "{again}");
    write(&mut store, &checkpoint(2, &[], &[])).await.unwrap();
    assert_eq!(newest(&mut store).await, 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_still_on_its_way_when_the_job_loads_never_counts() {
    let place = Objects::in_memory();
    let slow = Arc::new(AtomicUsize::new(0));
    let on = Arc::clone(&slow);
    let faulty: Arc<dyn ObjectStore> = Faulty::new(&place.store, move |what, at| {
        let hit = what == "put" && at.as_ref().contains("heads") && on.load(Ordering::Relaxed) == 1;
        if hit { Fate::Held } else { Fate::Answered }
    });
    let mut store = open(&faulty, "one").await.unwrap();
    write(&mut store, &checkpoint(1, &[], &[])).await.unwrap();
    let heads = Heads::new(Bucket::new(Arc::clone(&place.store), PREFIX, None));
    let before = heads.highest().await.unwrap().unwrap();
    // The network keeps the request of a sender that has given up.
    slow.store(1, Ordering::Relaxed);
    let first = checkpoint(2, &[], &[]);
    assert!(tokio::time::timeout(Duration::from_millis(1), write(&mut store, &first)).await.is_err());
    slow.store(0, Ordering::Relaxed);
    let names = place.names().await;
    let attempt = names.iter().find(|name| name.starts_with(&format!("checkpoint-{:020}", 2))).unwrap();
    let mut late = Numbered { number: before.number + 1, head: before.head };
    late.head.kept.push(attempt.as_str().into());
    // The job is told that checkpoint 2 is not complete, and aborts what belongs to it. Now the request arrives.
    assert_eq!(newest(&mut store).await, 1);
    assert!(matches!(heads.advance(&late).await.unwrap(), Advanced::Found(_)));
    assert_eq!(newest(&mut store).await, 1);
    write(&mut store, &checkpoint(2, &[], &[])).await.unwrap();
    assert_eq!(newest(&mut store).await, 2);
    assert!(!heads.highest().await.unwrap().unwrap().head.kept.contains(&attempt.as_str().into()));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_arrives_before_the_next_sign_of_life_counts_and_the_job_must_load() {
    let place = Objects::in_memory();
    let mut store = place.open().await.unwrap();
    write(&mut store, &checkpoint(1, &[], &[])).await.unwrap();
    let heads = Heads::new(store.bucket.clone());
    let mut late = heads.highest().await.unwrap().unwrap();
    let attempt: Arc<str> = attempt_name(2, 1, 99).into();
    let bytes = checkpoint(2, &[], &[]).to_bytes_of(1);
    store.bucket.put(Folder::Checkpoints, &attempt, bytes.into()).await.unwrap();
    late.number += 1;
    late.head.kept.push(attempt);
    assert!(matches!(heads.advance(&late).await.unwrap(), Advanced::Done));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let error = write(&mut store, &checkpoint(2, &[], &[])).await.unwrap_err();
    assert!(matches!(error, StoreError::Uncertain { .. }), "{error}");
    assert_eq!(newest(&mut store).await, 2);
    write(&mut store, &checkpoint(3, &[], &[])).await.unwrap();
    assert_eq!(newest(&mut store).await, 3);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_asleep_is_fenced_at_its_next_checkpoint_and_spoils_nothing() {
    let place = Objects::in_memory();
    let asleep = Arc::new(AtomicUsize::new(0));
    let on = Arc::clone(&asleep);
    let gated = Faulty::new(&place.store, move |_, at| {
        let hit = on.load(Ordering::Relaxed) == 1 && at.as_ref().contains("heads");
        if hit { Fate::Held } else { Fate::Answered }
    });
    let sleepy: Arc<dyn ObjectStore> = Arc::clone(&gated) as _;
    let mut first = open(&sleepy, "one").await.unwrap();
    for id in 1..3 {
        write(&mut first, &checkpoint(id, &[], &[])).await.unwrap();
    }
    asleep.store(1, Ordering::Relaxed);
    let waited = Clock::start();
    let mut second = open(&place.store, "two").await.unwrap();
    assert!(since(&waited) >= Duration::from_secs(10));
    let state = second.states().put("x", Bytes::from(vec![7; 20_000])).await.unwrap();
    // Many heads later the number that the first one wants to create is free again.
    for id in 3..9 {
        write(&mut second, &checkpoint(id, &[], &[&state])).await.unwrap();
    }
    asleep.store(0, Ordering::Relaxed);
    gated.gate.send_replace(true);
    let error = write(&mut first, &checkpoint(3, &[], &[])).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Fenced { epoch: 1, by: 2, holder, .. } if &**holder == "process two")
    );
    let told = error.to_string();
    assert!(told.contains("taken it over") && told.contains("this job must stop"), "{told}");
    for error in [
        first.load().await.unwrap_err(),
        first.states().put("x", Bytes::from(vec![7; 20_000])).await.unwrap_err(),
        first.forget(&committable("job-0-0", 1)).await.unwrap_err(),
        first.close().await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    }
    drop(first);
    assert_eq!(newest(&mut second).await, 8);
    write(&mut second, &checkpoint(9, &[], &[&state])).await.unwrap();
    second.states().get(&state).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_falls_asleep_while_it_takes_stock_removes_nothing_of_its_successor() {
    let place = Objects::in_memory();
    let (_, before) = work(place.open().await, 1..2).await;
    before.unwrap().close().await.unwrap();
    let reads = AtomicUsize::new(0);
    let gated = Faulty::new(&place.store, move |what, at| {
        let read = what == "get" && at.as_ref().contains("checkpoints");
        if read && reads.fetch_add(1, Ordering::Relaxed) > 0 { Fate::Held } else { Fate::Answered }
    });
    let sleepy: Arc<dyn ObjectStore> = Arc::clone(&gated) as _;
    let (second, third) = tokio::join!(open(&sleepy, "two"), async {
        let mut third = open(&place.store, "three").await.unwrap();
        let state = third.states().put("x", Bytes::from(vec![7; INLINE_STATE_BYTES + 1])).await.unwrap();
        write(&mut third, &checkpoint(2, &[], &[&state])).await.unwrap();
        let next = third.states().put("x", Bytes::from(vec![7; INLINE_STATE_BYTES + 1])).await.unwrap();
        gated.gate.send_replace(true);
        (third, [state, next])
    });
    let error = write(&mut second.unwrap(), &checkpoint(2, &[], &[])).await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    let (mut third, handles) = third;
    for handle in &handles {
        third.states().get(handle).await.unwrap();
    }
    assert_eq!(newest(&mut third).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_challenger_is_refused_as_soon_as_the_owner_gives_a_sign_of_life() {
    let place = Objects::in_memory();
    let mut first = open(&place.store, "one").await.unwrap();
    for id in 1..4 {
        let asked = Clock::start();
        let error = open(&place.store, "two").await.unwrap_err();
        assert!(matches!(&error, StoreError::Locked { holder, .. } if &**holder == "process one"), "{error}");
        assert!(since(&asked) < Duration::from_secs(10));
        write(&mut first, &checkpoint(id, &[], &[])).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_was_given_up_is_free_at_once_and_a_closed_store_writes_nothing() {
    let place = Objects::in_memory();
    let mut first = open(&place.store, "one").await.unwrap();
    write(&mut first, &checkpoint(1, &[], &[])).await.unwrap();
    first.close().await.unwrap();
    first.close().await.unwrap();
    let error = write(&mut first, &checkpoint(2, &[], &[])).await.unwrap_err();
    assert!(matches!(error, StoreError::Closed { .. }), "{error}");
    let asked = Clock::start();
    let mut second = open(&place.store, "two").await.unwrap();
    assert_eq!((since(&asked), newest(&mut second).await), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn of_several_challengers_one_takes_over() {
    let place = Objects::in_memory();
    for dead in [false, true] {
        let first = open(&place.store, "one").await;
        match (dead, first) {
            (true, first) => drop(first),
            (false, first) => first.unwrap().close().await.unwrap(),
        }
        let names = ["a", "b", "c", "d"];
        let all = join_all(names.iter().map(|name| open(&place.store, name))).await;
        let (won, lost): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 3));
        assert!(lost.iter().all(|lost| matches!(lost, Err(StoreError::Locked { .. }))), "{lost:?}");
        for won in won {
            won.unwrap().close().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_longer_lease_of_owner_and_challenger_counts() {
    let place = Objects::in_memory();
    let patient =
        ObjectStoreConfig { lease_duration: Duration::from_secs(60), ..ObjectStoreConfig::new(PREFIX) };
    drop(ObjectCheckpointStore::open(Arc::clone(&place.store), patient.clone()).await.unwrap());
    let asked = Clock::start();
    drop(place.open().await.unwrap());
    assert!(since(&asked) >= Duration::from_secs(60));
    let asked = Clock::start();
    drop(ObjectCheckpointStore::open(Arc::clone(&place.store), patient).await.unwrap());
    assert!(since(&asked) >= Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_for_a_while_does_not_cost_the_state() {
    let place = Objects::in_memory();
    let away = Arc::new(AtomicUsize::new(0));
    let on = Arc::clone(&away);
    let faulty: Arc<dyn ObjectStore> =
        Faulty::new(&place.store, move |_, _| match on.load(Ordering::Relaxed) {
            1 => Fate::Refused,
            _ => Fate::Answered,
        });
    let mut store = open(&faulty, "one").await.unwrap();
    away.store(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    away.store(0, Ordering::Relaxed);
    write(&mut store, &checkpoint(1, &[], &[])).await.unwrap();
    assert!(matches!(place.open().await, Err(StoreError::Locked { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_damaged_or_newer_is_told() {
    let place = Objects::in_memory();
    let mut store = place.open().await.unwrap();
    store.close().await.unwrap();
    let head = place.names().await.into_iter().find(|name| name.starts_with("heads/")).unwrap();
    let whole = place.read(&head).await;
    place.overwrite(&head, &whole[..whole.len() - 1]).await;
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let mut newer = whole.clone();
    newer[5] = 9;
    let end = newer.len() - 4;
    let checksum = crc32c::crc32c(&newer[..end]).to_be_bytes();
    newer[end..].copy_from_slice(&checksum);
    place.overwrite(&head, &newer).await;
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    place.overwrite(&head, &whole).await;
    place.open().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_states_in_one_store_do_not_touch_each_other() {
    let place = Objects::in_memory();
    let mut one = place.open().await.unwrap();
    let other = ObjectStoreConfig::new("jobs/one-more");
    let mut two = ObjectCheckpointStore::open(Arc::clone(&place.store), other).await.unwrap();
    for id in 1..5 {
        write(&mut one, &checkpoint(id, &[], &[])).await.unwrap();
        write(&mut two, &checkpoint(10 * id, &[], &[])).await.unwrap();
    }
    assert_eq!((newest(&mut one).await, newest(&mut two).await), (4, 40));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_removed_is_removed_after_the_next_checkpoint() {
    let place = Objects::in_memory();
    let stuck = Arc::new(AtomicUsize::new(0));
    let on = Arc::clone(&stuck);
    let log = Arc::new(Mutex::new(0));
    let count = Arc::clone(&log);
    let faulty: Arc<dyn ObjectStore> = Faulty::new(&place.store, move |what, _| {
        if what == "delete" && on.load(Ordering::Relaxed) == 1 {
            *count.lock().unwrap() += 1;
            return Fate::Refused;
        }
        Fate::Answered
    });
    let (_, store) = work(open(&faulty, "one").await, 1..3).await;
    let mut store = store.unwrap();
    stuck.store(1, Ordering::Relaxed);
    for id in 3..6 {
        write(&mut store, &checkpoint(id, &[], &[])).await.unwrap();
    }
    assert!(*log.lock().unwrap() > 3);
    let count = |names: Vec<String>, what: &str| names.iter().filter(|name| name.starts_with(what)).count();
    for (what, there) in [("checkpoint-", 5), ("states/", 2), ("committables/", 1)] {
        assert_eq!(count(place.names().await, what), there, "{what}");
    }
    stuck.store(0, Ordering::Relaxed);
    write(&mut store, &checkpoint(6, &[], &[])).await.unwrap();
    for (what, there) in [("checkpoint-", 2), ("states/", 0), ("committables/", 0), ("heads/", 1)] {
        assert_eq!(count(place.names().await, what), there, "{what}");
    }
}
