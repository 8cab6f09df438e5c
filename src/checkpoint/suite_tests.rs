//! What every store promises, tested on each of them.

use std::{num::NonZeroUsize, sync::Arc};

use bytes::Bytes;

use crate::{
    checkpoint::{
        Binding, Checkpoint, CommitStatus, INLINE_STATE_BYTES, InputPosition, JobStore, ListedCommittable,
        OperatorState, StateHandle, StateStore, StoreError, StorePoint,
    },
    ids::{Identity, TopicId, TransactionalId},
    proto::{
        committable::Committable,
        naming::{IdPrefix, Naming, Ownership},
        pool::Pool,
        resume::Decision,
    },
};

/// A place in which a store can be opened again and again, and in which a test can look around.
pub(super) trait Place {
    async fn open(&self, binding: Binding) -> Result<Box<dyn JobStore>, StoreError>;

    async fn open_retaining(&self, checkpoints: usize) -> Box<dyn JobStore>;

    /// Gives the store up, as an owner that ends in order does.
    async fn close(&self, store: Box<dyn JobStore>) {
        drop(store);
    }

    /// The owner is gone without a word, and its time is over.
    async fn crash(&self, store: Box<dyn JobStore>) {
        drop(store);
    }

    /// Everything that lies there, sorted: `checkpoint-..`, `committables/..`, `states/..`.
    async fn names(&self) -> Vec<String>;

    async fn read(&self, name: &str) -> Vec<u8>;

    async fn overwrite(&self, name: &str, bytes: &[u8]);

    async fn remove(&self, name: &str);
}

pub(super) fn binding() -> Binding {
    let some = |text: &str| Some(text.into());
    Binding {
        job_id: some("job"),
        cluster_id: some("cluster"),
        topic: some("topic"),
        topic_id: Some(TopicId([7; 16])),
        source: some("in.ndjson"),
    }
}

pub(super) fn committable(id: &str, epoch: i16) -> Committable {
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

pub(super) fn checkpoint(id: u64, committables: &[Committable], states: &[&StateHandle]) -> Checkpoint {
    let listed = |committable: &Committable| ListedCommittable {
        committable: committable.clone(),
        status: CommitStatus::Decided(Decision::Commit),
    };
    let mut input =
        InputPosition { source: "in.ndjson".into(), bytes: 100 * id, lines: id, ..InputPosition::default() };
    input.hash.update(&vec![b'x'; usize::try_from(100 * id).unwrap()]);
    let pool = Pool::new(Naming::Pooled, IdPrefix::new("job").unwrap(), Ownership::new(0, 1).unwrap(), 4);
    let subtasks = states.iter().map(|handle| (*handle).clone()).collect();
    let checkpoint = Checkpoint {
        id,
        owner_epoch: 0,
        job_id: "job".into(),
        cluster_id: "cluster".into(),
        topic: "topic".into(),
        topic_id: TopicId([7; 16]),
        operators: vec![OperatorState { uid: "count".into(), subtasks }],
        committables: committables.iter().map(listed).collect(),
        writers: vec![pool.state_to_keep(), pool.state_to_keep()],
    };
    checkpoint.with_input(&input)
}

async fn write(store: &mut dyn JobStore, checkpoint: &Checkpoint) {
    store.write(checkpoint, &mut |_| {}).await.unwrap();
}

async fn opened(place: &impl Place) -> Box<dyn JobStore> {
    place.open(binding()).await.unwrap()
}

/// State that gets a place of its own.
async fn large(states: &dyn StateStore, label: &str) -> StateHandle {
    let bytes = label.bytes().cycle().take(INLINE_STATE_BYTES + 1).collect::<Vec<_>>();
    states.put(label, bytes.into()).await.unwrap()
}

async fn beginning(place: &impl Place, prefix: &str) -> Vec<String> {
    place.names().await.into_iter().filter(|name| name.starts_with(prefix)).collect()
}

async fn counts(place: &impl Place) -> [usize; 3] {
    let names = place.names().await;
    ["checkpoint-", "committables/", "states/"]
        .map(|prefix| names.iter().filter(|name| name.starts_with(prefix)).count())
}

pub(super) async fn the_newest_checkpoint_comes_back_with_all_that_it_holds(place: &impl Place) {
    let mut store = opened(place).await;
    assert_eq!(store.load().await.unwrap(), None);
    let states = store.states();
    let (small, big) =
        (states.put("small", Bytes::from_static(b"s")).await.unwrap(), large(&*states, "b").await);
    for id in 1..4 {
        write(&mut *store, &checkpoint(id, &[committable("job-0-0", 1)], &[&small, &big])).await;
    }
    drop(states);
    place.close(store).await;
    let mut store = opened(place).await;
    let found = store.load().await.unwrap().unwrap();
    assert_eq!(found.owner_epoch, 1);
    let expected = checkpoint(3, &[committable("job-0-0", 1)], &[&small, &big]);
    assert_eq!(found, Checkpoint { owner_epoch: 1, ..expected });
    let handles = &found.operator("count").unwrap().subtasks;
    assert_eq!(store.states().get(&handles[0]).await.unwrap(), Bytes::from_static(b"s"));
    assert_eq!(store.states().get(&handles[1]).await.unwrap(), vec![b'b'; INLINE_STATE_BYTES + 1]);
    place.close(store).await;
}

pub(super) async fn as_many_checkpoints_are_kept_as_are_wanted(place: &impl Place) {
    let mut id = 0;
    for retained in [2, 3, 1] {
        let mut store = place.open_retaining(retained).await;
        for _ in 0..5 {
            id += 1;
            let epoch = i16::try_from(id).unwrap();
            let state = large(&*store.states(), "x").await;
            write(&mut *store, &checkpoint(id, &[committable("job-0-0", epoch)], &[&state])).await;
        }
        let settled = 1;
        assert_eq!(counts(place).await, [retained, settled, retained]);
        let oldest = format!("checkpoint-{:020}", id + 1 - u64::try_from(retained).unwrap());
        assert!(beginning(place, "checkpoint-").await[0].starts_with(&oldest));
        place.close(store).await;
    }
}

pub(super) async fn a_second_owner_is_refused_until_the_first_one_is_gone(place: &impl Place) {
    let first = opened(place).await;
    let error = place.open(binding()).await.err().unwrap();
    assert!(matches!(&error, StoreError::Locked { holder, .. } if holder.contains("process")), "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    place.close(first).await;
    let second = opened(place).await;
    place.crash(second).await;
    let third = opened(place).await;
    place.close(third).await;
}

pub(super) async fn each_owner_has_a_greater_epoch_and_its_checkpoints_say_so(place: &impl Place) {
    let mut last = 0;
    for id in 1..5 {
        let mut store = opened(place).await;
        let before = store.load().await.unwrap().map_or(0, |checkpoint| checkpoint.owner_epoch);
        // Whatever the job says, the store knows better.
        write(&mut *store, &Checkpoint { owner_epoch: 99, ..checkpoint(id, &[], &[]) }).await;
        let now = store.load().await.unwrap().unwrap().owner_epoch;
        assert!(before == last && now > before && now < 99, "{before} {now}");
        last = now;
        match id % 2 {
            0 => place.close(store).await,
            _ => place.crash(store).await,
        }
        // An owner that writes nothing counts as well.
        place.close(opened(place).await).await;
    }
}

pub(super) async fn state_is_kept_while_a_kept_checkpoint_names_it(place: &impl Place) {
    let mut store = opened(place).await;
    let states = store.states();
    let (once, always) = (large(&*states, "once").await, large(&*states, "always").await);
    write(&mut *store, &checkpoint(1, &[], &[&once, &always])).await;
    write(&mut *store, &checkpoint(2, &[], &[&always])).await;
    assert_eq!(counts(place).await, [2, 0, 2]);
    states.get(&once).await.unwrap();
    // For the next checkpoint, which is in progress.
    let next = large(&*states, "next").await;
    write(&mut *store, &checkpoint(3, &[], &[&always])).await;
    write(&mut *store, &checkpoint(4, &[], &[&always])).await;
    assert_eq!(counts(place).await, [2, 0, 2]);
    assert!(matches!(states.get(&once).await, Err(StoreError::BadState { .. })));
    write(&mut *store, &checkpoint(5, &[], &[&always, &next])).await;
    states.get(&next).await.unwrap();
    drop(states);
    place.close(store).await;
    let store = opened(place).await;
    store.states().get(&next).await.unwrap();
    store.states().get(&always).await.unwrap();
    place.close(store).await;
}

pub(super) async fn state_of_declined_checkpoints_goes_at_once_or_with_the_next_owner(place: &impl Place) {
    let mut store = opened(place).await;
    let states = store.states();
    let (named, declined, left) =
        (large(&*states, "n").await, large(&*states, "d").await, large(&*states, "l").await);
    write(&mut *store, &checkpoint(1, &[], &[&named])).await;
    states.discard(&declined).await.unwrap();
    states.discard(&named).await.unwrap();
    assert_eq!(counts(place).await[2], 2);
    states.get(&named).await.unwrap();
    states.get(&left).await.unwrap();
    drop(states);
    place.crash(store).await;
    let store = opened(place).await;
    assert_eq!(counts(place).await[2], 1);
    store.states().get(&named).await.unwrap();
    assert!(matches!(store.states().get(&left).await, Err(StoreError::BadState { .. })));
    place.close(store).await;
}

pub(super) async fn a_checkpoint_that_names_state_which_is_not_there_is_refused(place: &impl Place) {
    let mut store = opened(place).await;
    let declined = large(&*store.states(), "d").await;
    store.states().discard(&declined).await.unwrap();
    let error = store.write(&checkpoint(1, &[], &[&declined]), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownState { checkpoint: 1, .. }), "{error}");
    assert_eq!(store.load().await.unwrap(), None);
    place.close(store).await;
}

pub(super) async fn state_that_is_missing_cut_or_changed_is_told(place: &impl Place) {
    let store = opened(place).await;
    let states = store.states();
    let handle = large(&*states, "x").await;
    let name = beginning(place, "states/").await.remove(0);
    let mut bytes = place.read(&name).await;
    place.overwrite(&name, &bytes[1..]).await;
    let cut = states.get(&handle).await.unwrap_err();
    assert!(cut.to_string().contains(&format!("{INLINE_STATE_BYTES} bytes instead of")), "{cut}");
    bytes[100] ^= 1;
    place.overwrite(&name, &bytes).await;
    let changed = states.get(&handle).await.unwrap_err();
    assert!(changed.to_string().contains("checksum"), "{changed}");
    place.remove(&name).await;
    let missing = states.get(&handle).await.unwrap_err();
    assert!(missing.to_string().contains("it is missing"), "{missing}");
    for error in [cut, changed, missing] {
        assert!(matches!(error, StoreError::BadState { .. }));
        assert!(error.to_string().contains("restore the file from a backup"), "{error}");
    }
    drop(states);
    place.close(store).await;
}

pub(super) async fn names_of_states_are_harmless_and_unique(place: &impl Place) {
    let store = opened(place).await;
    let states = store.states();
    let long = "x".repeat(5000);
    for label in ["../../etc/passwd", "a/b", "a_b", "a_b", "", &long] {
        let handle = large(&*states, "y").await;
        let other = states.put(label, Bytes::from(vec![1; INLINE_STATE_BYTES + 1])).await.unwrap();
        assert_ne!(handle, other);
        assert_eq!(states.get(&other).await.unwrap(), vec![1; INLINE_STATE_BYTES + 1]);
    }
    let names = beginning(place, "states/").await;
    assert_eq!(names.len(), 12);
    assert!(names.iter().all(|name| name.matches('/').count() == 1 && name.len() < 255), "{names:?}");
    drop(states);
    place.close(store).await;
}

pub(super) async fn prepared_transactions_survive_checkpoints_that_do_not_list_them_yet(place: &impl Place) {
    let mut store = opened(place).await;
    write(&mut *store, &checkpoint(1, &[committable("job-0-0", 1)], &[])).await;
    let early = committable("job-0-1", 1);
    store.keep(&early).await.unwrap();
    store.keep(&early).await.unwrap();
    write(&mut *store, &checkpoint(2, &[], &[])).await;
    assert_eq!(counts(place).await[1], 1);
    assert_eq!(store.unlisted().await.unwrap(), std::slice::from_ref(&early));
    place.crash(store).await;
    let mut store = opened(place).await;
    assert_eq!(store.unlisted().await.unwrap(), std::slice::from_ref(&early));
    write(&mut *store, &checkpoint(3, std::slice::from_ref(&early), &[])).await;
    assert_eq!(store.unlisted().await.unwrap(), []);
    write(&mut *store, &checkpoint(4, &[], &[])).await;
    assert_eq!(counts(place).await[1], 0);
    store.keep(&early).await.unwrap();
    store.recovered().await.unwrap();
    assert_eq!(counts(place).await[1], 0, "recovery has aborted it");
    store.keep(&early).await.unwrap();
    store.forget(&early).await.unwrap();
    store.forget(&early).await.unwrap();
    assert_eq!(counts(place).await[1], 0);
    place.close(store).await;
}

pub(super) async fn an_owner_that_dies_half_way_leaves_the_checkpoint_before(place: &impl Place) {
    let mut store = opened(place).await;
    write(&mut *store, &checkpoint(1, &[], &[])).await;
    let state = large(&*store.states(), "x").await;
    let next = checkpoint(2, &[committable("job-0-1", 1)], &[&state]);
    let mut seen = Vec::new();
    let mut observer = |point| {
        seen.push(point);
        assert_ne!(point, StorePoint::Half, "dies here");
    };
    let dies = std::panic::AssertUnwindSafe(store.write(&next, &mut observer));
    assert!(futures::FutureExt::catch_unwind(dies).await.is_err());
    assert_eq!(seen, [StorePoint::Half]);
    place.crash(store).await;
    let mut store = opened(place).await;
    assert_eq!(store.load().await.unwrap().unwrap().id, 1);
    // Its committable is recognised as prepared and never durable.
    assert_eq!(store.unlisted().await.unwrap(), [committable("job-0-1", 1)]);
    write(&mut *store, &checkpoint(2, &[], &[])).await;
    write(&mut *store, &checkpoint(3, &[], &[])).await;
    assert_eq!(counts(place).await, [2, 1, 0]);
    place.close(store).await;
}

pub(super) async fn an_observer_sees_half_a_checkpoint_and_then_a_durable_one(place: &impl Place) {
    let mut store = opened(place).await;
    let mut seen = Vec::new();
    store.write(&checkpoint(1, &[], &[]), &mut |point| seen.push(point.name())).await.unwrap();
    assert_eq!(seen, ["store-half", "durable"]);
    place.close(store).await;
}

pub(super) async fn state_of_something_else_is_refused_and_says_why(place: &impl Place) {
    let mut store = opened(place).await;
    write(&mut *store, &checkpoint(1, &[], &[])).await;
    let error = store
        .write(&Checkpoint { topic: "x".into(), ..checkpoint(2, &[], &[]) }, &mut |_| {})
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Foreign { what: "topic", .. }), "{error}");
    place.close(store).await;
    type Change = fn(&mut Binding);
    let changes: [(Change, &str); 5] = [
        (|b| b.job_id = Some("x".into()), "belongs to the job `job`, not to `x`"),
        (|b| b.cluster_id = Some("x".into()), "cluster `cluster`"),
        (|b| b.topic = Some("x".into()), "topic `topic`"),
        (|b| b.topic_id = Some(TopicId([8; 16])), "was deleted and created again"),
        (|b| b.source = Some("x".into()), "input `in.ndjson`"),
    ];
    for (change, told) in changes {
        let mut other = binding();
        change(&mut other);
        let error = place.open(other).await.err().unwrap().to_string();
        assert!(error.contains(told), "{error}");
    }
    let any = place.open(Binding::default()).await.unwrap();
    place.close(any).await;
}

pub(super) async fn a_newer_release_s_checkpoint_is_refused(place: &impl Place) {
    let mut store = opened(place).await;
    write(&mut *store, &checkpoint(1, &[], &[])).await;
    place.close(store).await;
    // The kind, the format, the length of the body, a checksum.
    let mut newer = [b"K2PK".as_slice(), &9_u16.to_be_bytes(), &0_u64.to_be_bytes()].concat();
    newer.extend(crc32c::crc32c(&newer).to_be_bytes());
    let name = beginning(place, "checkpoint-").await.remove(0);
    place.overwrite(&name, &newer).await;
    let error = place.open(binding()).await.err().unwrap();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert!(error.to_string().contains("format 9"), "{error}");
}

pub(super) async fn a_damaged_newest_checkpoint_is_never_replaced_by_an_older_one(place: &impl Place) {
    let mut store = opened(place).await;
    write(&mut *store, &checkpoint(1, &[], &[])).await;
    write(&mut *store, &checkpoint(2, &[], &[])).await;
    place.close(store).await;
    let names = beginning(place, "checkpoint-").await;
    let whole = place.read(&names[1]).await;
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() - 1], &flipped, b"", b"something else"] {
        place.overwrite(&names[1], damaged).await;
        let error = place.open(binding()).await.err().unwrap();
        let StoreError::Damaged { older: Some(older), .. } = &error else { panic!("{error}") };
        assert!(older.ends_with(&names[0]), "{}", older.display());
        let told = error.to_string();
        assert!(told.contains("restore the file from a backup") && told.contains("a second time"), "{told}");
    }
    place.overwrite(&names[1], &whole).await;
    let mut store = opened(place).await;
    assert_eq!(store.load().await.unwrap().unwrap().id, 2);
    place.close(store).await;
}

pub(super) async fn checkpoints_only_go_forward(place: &impl Place) {
    let mut store = opened(place).await;
    write(&mut *store, &checkpoint(5, &[], &[])).await;
    for id in [4, 5] {
        let error = store.write(&checkpoint(id, &[], &[]), &mut |_| {}).await.unwrap_err();
        assert!(matches!(error, StoreError::OutOfOrder { newest: 5, .. }), "{error}");
    }
    place.close(store).await;
}

pub(super) async fn many_subtasks_put_state_while_checkpoints_are_written(place: &impl Place) {
    let mut store = opened(place).await;
    let states: Vec<_> = (0..8).map(|_| store.states()).collect();
    for id in 1..4 {
        let puts = states.iter().map(|states: &Arc<dyn StateStore>| large(&**states, "x"));
        let all = futures::future::join_all(puts);
        let between = checkpoint(2 * id, &[], &[]);
        let (handles, written) = futures::future::join(all, store.write(&between, &mut |_| {})).await;
        written.unwrap();
        let handles: Vec<_> = handles.iter().collect();
        write(&mut *store, &checkpoint(2 * id + 1, &[], &handles)).await;
    }
    assert_eq!(counts(place).await, [2, 0, 8]);
    drop(states);
    place.close(store).await;
}

/// Hands the names of all tests to the macro in brackets, behind `$with`.
macro_rules! each_case {
    ([$($run:tt)+] $with:tt) => {
        $($run)+! { $with
            the_newest_checkpoint_comes_back_with_all_that_it_holds
            as_many_checkpoints_are_kept_as_are_wanted
            a_second_owner_is_refused_until_the_first_one_is_gone
            each_owner_has_a_greater_epoch_and_its_checkpoints_say_so
            state_is_kept_while_a_kept_checkpoint_names_it
            state_of_declined_checkpoints_goes_at_once_or_with_the_next_owner
            a_checkpoint_that_names_state_which_is_not_there_is_refused
            state_that_is_missing_cut_or_changed_is_told
            names_of_states_are_harmless_and_unique
            prepared_transactions_survive_checkpoints_that_do_not_list_them_yet
            an_owner_that_dies_half_way_leaves_the_checkpoint_before
            an_observer_sees_half_a_checkpoint_and_then_a_durable_one
            state_of_something_else_is_refused_and_says_why
            a_newer_release_s_checkpoint_is_refused
            a_damaged_newest_checkpoint_is_never_replaced_by_an_older_one
            checkpoints_only_go_forward
            many_subtasks_put_state_while_checkpoints_are_written
        }
    };
}

/// Every test of the suite, on the place that `$place` makes.
macro_rules! suite {
    ($place:expr) => {
        $crate::checkpoint::suite_tests::each_case! { [$crate::checkpoint::suite_tests::cases] ($place) }
    };
}

/// Some tests of the suite, for a store that does not promise everything.
macro_rules! cases {
    (($place:expr) $($case:ident)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $case() {
                $crate::checkpoint::suite_tests::$case(&$place).await;
            }
        )*
    };
}

pub(super) use cases;
pub(super) use each_case;
pub(super) use suite;

pub(super) fn retained(checkpoints: usize) -> NonZeroUsize {
    NonZeroUsize::new(checkpoints).unwrap()
}
