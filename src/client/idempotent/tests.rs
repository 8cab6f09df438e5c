use std::time::Duration;

use futures::FutureExt;

use super::*;
use crate::{client::ClientConfig, net::TcpConnector};

fn builder() -> IdempotentBuilder {
    let router = Router::new(ClientConfig::new("localhost:1").unwrap(), Arc::new(TcpConnector));
    IdempotentBuilder::new(Arc::new(router))
}

#[test]
fn a_batch_lingers_no_longer_because_another_partition_waits_for_its_turn() {
    let topic = Topic::sample("t", 2);
    let builder = builder().linger(Duration::ZERO);
    let shared = Shared::new(builder.router, builder.config);
    let put = |partition| {
        let mut desk = shared.desk();
        desk.accumulator.append(&topic, Some(partition), &RecordRef::value(b"v")).unwrap();
        shared.left_on(&mut desk);
    };
    let is_woken = || shared.wake.notified().now_or_never().is_some();
    put(0);
    assert!(is_woken());
    // It is closed and waits for its turn.
    let first = shared.take();
    assert_eq!(first.batches.len(), 1);
    assert_eq!(shared.lingers_until(), None);
    put(0);
    assert!(!is_woken(), "behind the one that waits");
    assert_eq!(shared.take().batches.len(), 0);
    assert_eq!(shared.lingers_until(), None);
    // The other partition could leave at once.
    put(1);
    assert!(is_woken(), "nobody comes for it");
}

#[test]
fn what_was_open_when_the_runtime_ended_is_told() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let topic = Topic::sample("t", 1);
    let first = runtime();
    let (producer, delivery) = first.block_on(async {
        let producer = builder().linger(Duration::from_secs(3600)).start();
        let delivery = producer.try_send_tracked(&topic, Some(0), RecordRef::value(b"v")).unwrap();
        (producer, delivery)
    });
    drop(first);
    let second = runtime();
    let flushed = second.block_on(producer.flush()).unwrap_err();
    assert_eq!((flushed.records, flushed.unknown, flushed.cause.kind), (1, 0, CauseKind::Dropped));
    let told = delivery.stored().now_or_never().expect("told by now").unwrap_err();
    assert_eq!(told, flushed.cause);
    assert_eq!(second.block_on(producer.close()), Ok(()), "it is told once");
}

#[tokio::test]
async fn records_that_cannot_be_compressed_are_told_whoever_closed_them() {
    let topic = Topic::sample("t", 1);
    let spoiled = |linger: Duration| {
        let builder = builder().linger(linger);
        let shared = Shared::new(builder.router, builder.config);
        let mut desk = shared.desk();
        let place = desk.accumulator.append(&topic, Some(0), &RecordRef::value(b"v")).unwrap();
        desk.accumulator.spoil(place);
        drop(desk);
        shared
    };
    // The task, for they have lingered.
    let shared = spoiled(Duration::ZERO);
    assert!(shared.take().batches.is_empty());
    let told = shared.counted().unwrap_err();
    assert_eq!((told.records, told.unknown, told.cause.kind), (1, 0, CauseKind::Refused));
    // The task that ends.
    let shared = spoiled(Duration::from_secs(3600));
    assert!(shared.leave().batches.is_empty());
    assert_eq!(shared.counted().unwrap_err().records, 1);
    // A flush.
    let shared = spoiled(Duration::from_secs(3600));
    drop(shared.flush());
    assert_eq!(shared.counted().unwrap_err(), told);
    assert_eq!(shared.counted(), Ok(()));
}

#[tokio::test]
async fn who_does_nothing_but_send_lets_the_task_have_each_batch() {
    let topic = Topic::sample("t", 1);
    let producer = builder().batch_size(2048).linger(Duration::from_secs(3600)).start();
    let mut most = 0;
    for tracked in [false, true] {
        for _ in 0..40 {
            let record = RecordRef::value(&[7; 1024]);
            if tracked {
                drop(producer.send_tracked(&topic, Some(0), record).await.unwrap());
            } else {
                producer.send(&topic, Some(0), record).await.unwrap();
            }
            most = most.max(producer.handle.shared.desk().accumulator.closed_count());
        }
    }
    assert_eq!(most, 1, "batches on the desk");
}

/// A memory of 64 KiB has room for a value of this size and one of [`SMALL`], but not for one of [`MIDDLE`].
const LARGE: usize = 64_000;
const MIDDLE: usize = 2000;
const SMALL: usize = 100;

struct Memory {
    shared: Shared,
    topic: Topic,
}

impl Memory {
    fn new() -> Self {
        let builder = builder().buffer_memory(64 << 10);
        Self { shared: Shared::new(builder.router, builder.config), topic: Topic::sample("t", 1) }
    }

    fn send(&self, bytes: usize) -> Take<'_, ()> {
        Take::new(&self.shared, &self.topic, Some(0), RecordRef::value(&[0; LARGE][..bytes]), |_, _| ())
    }

    /// What was closed is stored, but for so many bytes.
    fn store(&self, left: usize) {
        let closed: usize = self.shared.take().batches.iter().map(|sealed| sealed.batch.len()).sum();
        self.shared.link.free(closed - left);
    }
}

fn waits(send: &mut Take<'_, ()>) -> bool {
    // The first time it may let the task have a turn.
    let mut sent = || send.now_or_never().map(Result::unwrap);
    sent().or_else(sent).is_none()
}

#[test]
fn who_waits_for_memory_is_not_overtaken() {
    let memory = Memory::new();
    assert!(!waits(&mut memory.send(MIDDLE)));
    let (mut large, mut middle, mut small) = (memory.send(LARGE), memory.send(MIDDLE), memory.send(SMALL));
    assert!(waits(&mut large));
    assert!(waits(&mut middle) && waits(&mut small), "there is room, but they came later");
    memory.store(1);
    assert!(waits(&mut middle), "there is room for one of them");
    assert!(!waits(&mut large));
    assert!(waits(&mut middle));
    memory.store(0);
    assert!(!waits(&mut middle) && !waits(&mut small));
    assert_eq!(memory.shared.desk().line.before(None, 0), 0, "they are held on to, and keep nothing back");
}

#[test]
fn who_came_first_and_does_nothing_keeps_nobody_from_the_rest() {
    let memory = Memory::new();
    assert!(!waits(&mut memory.send(MIDDLE)));
    let mut large = memory.send(LARGE);
    assert!(waits(&mut large));
    memory.store(1);
    assert!(!waits(&mut memory.send(SMALL)), "there is room for both");
    let mut middle = memory.send(MIDDLE);
    assert!(waits(&mut middle));
    memory.store(0);
    memory.shared.link.free(1);
    assert!(!waits(&mut middle), "memory is empty");
}

#[test]
fn who_gives_up_makes_way() {
    let memory = Memory::new();
    assert!(!waits(&mut memory.send(MIDDLE)));
    let mut large = memory.send(LARGE);
    assert!(waits(&mut large));
    let freed = memory.shared.link.listen();
    let mut middle = memory.send(MIDDLE);
    assert!(waits(&mut middle));
    drop(large);
    assert!(freed.now_or_never().is_some(), "the next one is told");
    assert!(!waits(&mut middle));
    assert_eq!(memory.shared.desk().line.before(None, 0), 0, "nobody is left in line");
}

#[cfg(feature = "lz4")]
mod compressed {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        task::{Context, Wake, Waker},
    };

    use super::*;
    use crate::record::Compression;

    #[test]
    fn what_compression_saves_is_for_who_waits() {
        let builder =
            builder().buffer_memory(64 << 10).linger(Duration::from_secs(3600)).compression(Compression::Lz4);
        let memory =
            Memory { shared: Shared::new(builder.router, builder.config), topic: Topic::sample("t", 1) };
        // More is under way than is open, and is not answered.
        memory.shared.link.hold(40_000);
        assert!(!waits(&mut memory.send(20_000)));
        let mut middle = memory.send(10_000);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert!(waits(&mut middle) && middle.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        drop(memory.shared.flush());
        assert!(woken.0.load(Ordering::Relaxed), "what was open takes less now, and nobody tells");
        assert!(!waits(&mut middle));
    }

    /// Whether a future was told to look again.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
