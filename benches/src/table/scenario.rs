//! What runs: a broker, a workload, and who runs it.

use std::time::Duration;

use kafka_2pc_bench_child::{Codec, Job, Workload};
use kafka_2pc_benches::null::{Pace, Settings};

use crate::options::Size;

/// A client in one of its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Contender {
    Ours,
    /// One copy, one checksum, one write.
    Floor,
    /// rust-rdkafka's `BaseProducer`.
    Base,
    /// The same with batches of 1 MB.
    Tuned,
    /// rust-rdkafka's `FutureProducer`.
    Future,
    /// Transactions of librdkafka without the slices of 100 ms of the wrapper's flush.
    Raw,
    Krafka,
    Rskafka,
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "kafka-2pc",
            Self::Floor => "floor",
            Self::Base => "BaseProducer",
            Self::Tuned => "BaseProducer, 1 MB",
            Self::Future => "FutureProducer",
            Self::Raw => "librdkafka",
            Self::Krafka => "krafka",
            Self::Rskafka => "rskafka",
        }
    }

    /// The word for its program.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Self::Ours => "kafka-2pc",
            Self::Floor => "floor",
            Self::Base | Self::Tuned => "base",
            Self::Future => "future",
            Self::Raw => "raw",
            Self::Krafka => "krafka",
            Self::Rskafka => "rskafka",
        }
    }

    pub(crate) fn is_peer(self) -> bool {
        !matches!(self, Self::Ours | Self::Floor)
    }
}

/// One thing that several clients do in each round.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) id: &'static str,
    pub(crate) broker: Settings,
    pub(crate) job: Job,
    pub(crate) contenders: Vec<Contender>,
}

/// Answers of the broker that is far, and of the one that works on one request at a time.
pub(crate) const DELAY: Duration = Duration::from_millis(5);
pub(crate) const SERIAL: Duration = Duration::from_millis(2);

/// The scenario of this name.
pub(crate) fn scenario(id: &'static str, size: Size) -> Scenario {
    use Contender::{Base, Floor, Future, Krafka, Ours, Raw, Rskafka, Tuned};
    let small = size.pick(100_000, 1_000_000);
    let large = size.pick(30_000, 300_000);
    let everybody = [Ours, Floor, Base, Tuned, Future, Krafka, Rskafka];
    let produce =
        |partitions, record_bytes, records| Job { partitions, record_bytes, records, ..Job::default() };
    let transactions = |partitions, records| Job {
        workload: Workload::Transactions,
        partitions,
        records,
        transactions: size.pick(10, 60),
        ..Job::default()
    };
    let turns = |partitions, records| Job { workload: Workload::Turns, ..transactions(partitions, records) };
    let two_phase = |workload, transactions| Job { workload, records: 1, transactions, ..Job::default() };
    let at = |pace, level| Settings { pace, transaction_version: level, ..Settings::default() };
    let (instant, delay, serial) = (Pace::Instant, Pace::Delay(DELAY), Pace::Serial(SERIAL));
    let counts = size.pick(8, 40);
    let (job, broker, contenders): (Job, Settings, &[Contender]) = match id {
        "100B-1p" => (produce(1, 100, small), at(instant, 2), &everybody),
        "100B-12p" => (produce(12, 100, small), at(instant, 2), &everybody),
        "1KiB-1p" => (produce(1, 1024, large), at(instant, 2), &everybody),
        "1KiB-12p" => (produce(12, 1024, large), at(instant, 2), &everybody),
        "lz4" => (Job { codec: Codec::Lz4, ..produce(1, 100, small) }, at(instant, 2), &[Ours, Base, Krafka]),
        "serial-12p" => (produce(12, 100, small), at(serial, 2), &[Ours, Base, Tuned, Krafka]),
        "memory" => (Job { buffer_bytes: 8 << 20, ..produce(12, 100, small) }, at(instant, 2), &[Ours]),
        "txn-v2-1" => (transactions(1, 1), at(delay, 2), &[Ours, Raw, Krafka]),
        "txn-v2-12" => (transactions(12, 1200), at(delay, 2), &[Ours, Raw, Krafka]),
        "txn-v2-64" => (transactions(64, 1200), at(delay, 2), &[Ours, Raw, Krafka]),
        "txn-v1-1" => (transactions(1, 1), at(delay, 1), &[Ours, Raw, Krafka]),
        "txn-v1-12" => (transactions(12, 1200), at(delay, 1), &[Ours, Raw, Krafka]),
        "txn-v1-64" => (transactions(64, 1200), at(delay, 1), &[Ours, Raw]),
        "turns-v1-1" => (turns(1, 1), at(delay, 1), &[Ours]),
        "turns-v1-12" => (turns(12, 1200), at(delay, 1), &[Ours]),
        "turns-v1-64" => (turns(64, 1200), at(delay, 1), &[Ours]),
        "serial-turns-v1" => (turns(12, 1200), at(serial, 1), &[Ours, Raw]),
        "serial-v2" => (transactions(12, 1200), at(serial, 2), &[Ours, Raw, Krafka]),
        "serial-v1" => (transactions(12, 1200), at(serial, 1), &[Ours, Raw, Krafka]),
        "prepare" => (two_phase(Workload::Prepare, counts), at(delay, 2), &[Ours]),
        "resume" => (two_phase(Workload::Resume, counts), at(delay, 2), &[Ours]),
        "fan-out" => (two_phase(Workload::FanOut, 64), at(serial, 2), &[Ours]),
        "hand-over-v2" => (two_phase(Workload::HandOver, 20), at(instant, 2), &[Ours]),
        "hand-over-v1" => (two_phase(Workload::HandOver, 20), at(instant, 1), &[Ours]),
        "commits" => (
            Job { transactions: size.pick(200, 3000), ..transactions(1, 1) },
            at(instant, 2),
            &[Ours, Raw, Krafka],
        ),
        _ => unreachable!("{id}: rows name scenarios that there are"),
    };
    let broker = Settings { partitions: job.partitions, ..broker };
    Scenario { id, broker, job, contenders: contenders.to_vec() }
}
