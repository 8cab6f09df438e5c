use super::*;
use crate::{client::ClientConfig, net::TcpConnector};

const MIB: usize = 1 << 20;

/// Not by the clock, whatever else the machine does.
const HOUR: Duration = Duration::from_secs(3600);

fn accumulator(settings: Settings) -> Accumulator {
    let router = Router::new(ClientConfig::new("localhost:1").unwrap(), Arc::new(TcpConnector));
    Accumulator::new(Arc::new(router), settings, Arc::default())
}

/// Takes records of 1 KiB for the partitions in turn until none is taken, or all were.
fn fill(records: &mut Accumulator, topic: &Topic, most: usize) -> (usize, Result<(), TrySendError>) {
    let value = [7; 1024];
    for taken in 0..most {
        let partition = (taken % topic.partitions().unsigned_abs() as usize) as i32;
        if let Err(e) = records.append(topic, Some(partition), &RecordRef::value(&value)) {
            return (taken, Err(e));
        }
    }
    (most, Ok(()))
}

fn bytes(batches: &[Sealed]) -> usize {
    batches.iter().map(|sealed| sealed.batch.len()).sum()
}

#[test]
fn a_batch_goes_on_growing_while_one_before_it_waits_for_its_turn() {
    let topic = Topic::sample("t", 2);
    let mut records = accumulator(Settings { linger: Duration::ZERO, ..Settings::default() });
    let record = RecordRef::value(b"v");
    records.append(&topic, Some(0), &record).unwrap();
    records.close_lingering().unwrap();
    let first = records.closed().unwrap();
    for _ in 0..3 {
        records.append(&topic, Some(0), &record).unwrap();
        records.append(&topic, Some(1), &record).unwrap();
        records.close_lingering().unwrap();
    }
    // Partition 1 had nobody before the first of its own.
    let second = records.closed().unwrap();
    assert_eq!(second.iter().map(|s| (s.partition.partition, s.batch.count())).collect::<Vec<_>>(), [(1, 1)]);
    drop((first, second));
    records.close_lingering().unwrap();
    let grown = records.closed().unwrap();
    let counts: Vec<_> = grown.iter().map(|s| (s.partition.partition, s.batch.count())).collect();
    assert_eq!(counts, [(0, 3), (1, 2)], "what could not leave has become one batch");
}

#[test]
fn a_flush_and_a_full_batch_do_not_wait_for_a_turn() {
    let topic = Topic::sample("t", 1);
    let mut records = accumulator(Settings { batch_bytes: 4096, linger: HOUR, ..Settings::default() });
    assert_eq!(fill(&mut records, &topic, 10), (10, Ok(())));
    let full = records.closed().unwrap();
    assert_eq!(full.iter().map(|s| s.batch.count()).collect::<Vec<_>>(), [3, 3, 3]);
    records.close_all().unwrap();
    assert_eq!(records.closed().unwrap()[0].batch.count(), 1);
}

#[test]
fn twelve_open_batches_leave_when_they_are_all_that_fills_the_memory() {
    let topic = Topic::sample("t", 12);
    let mut records = accumulator(Settings { buffer_bytes: MIB, linger: HOUR, ..Settings::default() });
    let (taken, full) = fill(&mut records, &topic, 2000);
    assert_eq!(full, Err(TrySendError::Full));
    let left = records.closed().unwrap();
    assert_eq!(left.len(), 12, "none of 128 KiB is full");
    assert_eq!(left.iter().map(|s| s.batch.count() as usize).sum::<usize>(), taken);
    assert!(bytes(&left) <= MIB && bytes(&left) > MIB - 2048);
    records.link.free(bytes(&left));
    assert_eq!(fill(&mut records, &topic, 100), (100, Ok(())));
}

#[test]
fn batches_that_have_hardly_begun_stay_open_while_more_is_under_way() {
    let topic = Topic::sample("t", 12);
    let mut records = accumulator(Settings { buffer_bytes: MIB, linger: HOUR, ..Settings::default() });
    assert_eq!(fill(&mut records, &topic, 2000).1, Err(TrySendError::Full));
    let mut left = records.closed().unwrap();
    // One of twelve was stored: what takes its place is a twelfth of twelve batches.
    let stored = left.pop().unwrap();
    records.link.free(stored.batch.len());
    let (taken, full) = fill(&mut records, &topic, 2000);
    assert_eq!((full, records.closed().is_none()), (Err(TrySendError::Full), true));
    assert!(taken > 0);
    // With nothing under way any more they leave as soon as they fill the memory by themselves.
    records.link.free(bytes(&left));
    assert_eq!(fill(&mut records, &topic, 2000).1, Err(TrySendError::Full));
    assert_eq!(records.closed().unwrap().len(), 12);
}

#[test]
fn what_has_lingered_leaves_while_more_is_under_way_that_nobody_acknowledges() {
    let topic = Topic::sample("t", 2);
    let settings = Settings {
        buffer_bytes: 40 << 10,
        batch_bytes: 16 << 10,
        linger: Duration::ZERO,
        ..Settings::default()
    };
    let mut records = accumulator(settings);
    let value = [7; 1024];
    records.append(&topic, Some(1), &RecordRef::value(&value)).unwrap();
    // Partition 0 has no leader.
    while records.append(&topic, Some(0), &RecordRef::value(&value)).is_ok() {}
    let left: Vec<_> = records.closed().unwrap().iter().map(|s| s.partition.partition).collect();
    assert_eq!(left, [0, 0, 1]);
}

#[test]
fn the_partitioner_is_asked_where_no_partition_is_named() {
    let topic = Topic::sample("t", 12);
    let fives = Partitioner::custom(|_: &Topic, _: &RecordRef<'_>| Some(5));
    let mut records = accumulator(Settings { partitioner: fives, ..Settings::default() });
    let record = RecordRef { key: Some(b"key"), ..RecordRef::value(b"v") };
    let mut partition = |named| records.append(&topic, named, &record).unwrap().partition;
    assert_eq!((partition(None), partition(Some(2))), (5, 2));
    let beyond = Partitioner::custom(|topic: &Topic, _: &RecordRef<'_>| Some(topic.partitions()));
    let mut records = accumulator(Settings { partitioner: beyond, ..Settings::default() });
    let refused = records.append(&topic, None, &record).unwrap_err();
    assert!(matches!(refused, TrySendError::Record(SendError::NoSuchPartition { partition: 12, .. })));
}

#[test]
fn what_is_open_is_counted_however_many_batches_were_closed() {
    let topic = Topic::sample("t", 2);
    let mut records = accumulator(Settings { batch_bytes: 4096, linger: HOUR, ..Settings::default() });
    records.append(&topic, Some(1), &RecordRef::value(&[7; 3000])).unwrap();
    for _ in 0..300 {
        records.append(&topic, Some(0), &RecordRef::value(&[7; 1024])).unwrap();
        for sealed in records.closed().unwrap_or_default() {
            records.link.free(sealed.batch.len());
        }
    }
    let open = |n: usize| records.topics[0].partitions[n].open.as_ref().map_or(0, |o| o.builder.len_bytes());
    assert!(records.open_bytes >= open(0) + open(1) - 122, "{} {} {}", records.open_bytes, open(0), open(1));
}

#[test]
fn the_memory_is_bounded() {
    let topic = Topic::sample("t", 64);
    let settings =
        Settings { batch_bytes: 4096, buffer_bytes: 64 << 10, linger: HOUR, ..Settings::default() };
    let mut records = accumulator(settings);
    let mut most = 0;
    for lane in 1..64 {
        // One partition gets and stores batch after batch while others get little.
        _ = records.append(&topic, Some(lane), &RecordRef::value(&[7; 3000]));
        for _ in 0..200 {
            _ = records.append(&topic, Some(0), &RecordRef::value(&[7; 1024]));
            let open = |lane: &Lane| lane.open.as_ref().map_or(0, |o| o.builder.len_bytes());
            let held = records.topics[0].partitions.iter().map(open).sum::<usize>() + records.link.unacked();
            most = most.max(held);
            for sealed in records.closed().unwrap_or_default() {
                records.link.free(sealed.batch.len());
            }
        }
    }
    assert!(most <= (64 << 10) + 64 * 61, "{most} bytes are held where {} may be", 64 << 10);
}

#[test]
fn the_partitioner_is_asked_once_for_each_record() {
    use std::sync::atomic::AtomicU32;
    let topic = Topic::sample("t", 2);
    let asked = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&asked);
    let turns = Partitioner::custom(move |_: &Topic, _: &RecordRef<'_>| {
        Some((counts.fetch_add(1, Ordering::Relaxed) % 2) as i32)
    });
    let mut records =
        accumulator(Settings { partitioner: turns, buffer_bytes: 1500, linger: HOUR, ..Settings::default() });
    let mut taken = Vec::new();
    for _ in 0..6 {
        // As `send` does: again as soon as memory is free.
        loop {
            match records.append(&topic, None, &RecordRef::value(&[7; 1024])) {
                Ok(place) => break taken.push(place.partition),
                Err(TrySendError::Full) => {
                    records.closed().unwrap_or_default().iter().for_each(|s| records.link.free(s.batch.len()))
                }
                Err(e) => panic!("{e}"),
            }
        }
    }
    assert_eq!((asked.load(Ordering::Relaxed), taken), (6, vec![0, 1, 0, 1, 0, 1]));
}

#[test]
fn a_record_that_no_batch_takes_leaves_nothing_behind() {
    use crate::record::HeaderRef;
    let topic = Topic::sample("t", 1);
    let no_bound =
        Settings { request_bytes: usize::MAX, batch_bytes: usize::MAX, linger: HOUR, ..Settings::default() };
    let mut records = accumulator(no_bound);
    // 2 GiB, by one MiB that stands there again and again.
    let mib = vec![7; MIB];
    let headers = vec![HeaderRef { key: b"", value: Some(&mib) }; 2048];
    let huge = RecordRef { headers: &headers, ..RecordRef::value(b"v") };
    let refused = records.append(&topic, None, &huge).unwrap_err();
    assert!(matches!(refused, TrySendError::Record(SendError::Seal(_))), "{refused}");
    assert_eq!(records.lingers_until(), None);
    records.close_all().unwrap();
    records.append(&topic, None, &RecordRef::value(b"v")).unwrap();
    // Memory is short for so much as soon as anything is there.
    assert_eq!(records.append(&topic, None, &huge).unwrap_err(), TrySendError::Full);
    assert_eq!(records.closed().unwrap()[0].batch.count(), 1);
}
