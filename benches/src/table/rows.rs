//! The rows: which number of which scenario, and what it has to be.

use kafka_2pc_bench_child::Outcome;
use kafka_2pc_benches::null::{Counters, Pace};
use kafka_protocol::messages::ApiKey;

use crate::{real::ROWS, run::Measured, scenario::Contender};

/// What is to be reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// At most the first, better the second.
    AtMost(f64, f64),
    /// At least the first, better the second.
    AtLeast(f64, f64),
    /// Told for comparison.
    Shown,
}

/// One number of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Metric {
    CpuPerMillion,
    RecordsPerSecond,
    PeakMegabytes,
    /// The median of these times, in answers of the broker.
    RoundTrips(&'static str),
    /// The median of these times over the median of those.
    Times(&'static str, &'static str),
    CommitsPerSecond,
    CpuMsPerCommit,
    /// Requests between the batches of two transactions, but those for evidence.
    Between,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) of: Contender,
    pub(crate) metric: Metric,
    pub(crate) against: Option<Contender>,
    pub(crate) goal: Goal,
}

impl Goal {
    /// `None` where there is nothing to reach.
    pub(crate) fn is_met(self, value: f64) -> Option<(bool, bool)> {
        match self {
            Self::AtMost(must, stretch) => Some((value <= must, value <= stretch)),
            Self::AtLeast(must, stretch) => Some((value >= must, value >= stretch)),
            Self::Shown => None,
        }
    }
}

impl Metric {
    /// Its value; NaN where the run did not tell it.
    pub(crate) fn of(self, run: &Measured) -> f64 {
        let outcome: &Outcome = &run.outcome;
        let ms = |name: &str| outcome.numbers.get(name).copied().unwrap_or(f64::NAN);
        match self {
            Self::CpuPerMillion => outcome.cpu_per_million(),
            Self::RecordsPerSecond => outcome.records_per_second(),
            Self::PeakMegabytes => outcome.peak_bytes as f64 / 1e6,
            Self::RoundTrips(name) => ms(name) / run.answer_ms(),
            Self::Times(name, other) => ms(name) / ms(other),
            Self::CommitsPerSecond => outcome.commits_per_second(),
            Self::CpuMsPerCommit => outcome.cpu_ms_per_commit(),
            Self::Between => between(&run.counters),
        }
    }
}

impl Measured {
    fn answer_ms(&self) -> f64 {
        match self.pace {
            Pace::Instant => f64::NAN,
            Pace::Delay(time) | Pace::Serial(time) => time.as_secs_f64() * 1e3,
        }
    }
}

/// How many requests stand between two requests with batches, on average; evidence is asked for in the background.
fn between(counters: &Counters) -> f64 {
    let is_batch = |api: &ApiKey| *api == ApiKey::Produce;
    let journal = &counters.journal;
    let first = journal.iter().position(is_batch).unwrap_or(0);
    let last = journal.iter().rposition(is_batch).unwrap_or(0);
    let inside = &journal[first.min(journal.len())..last];
    let gaps = inside.iter().filter(|api| is_batch(api)).count();
    let others = inside.iter().filter(|api| !is_batch(api) && **api != ApiKey::DescribeTransactions);
    others.count() as f64 / gaps as f64
}

/// All rows that run against the null broker, in the order of the table.
pub(crate) const SPECS: &[Spec] = {
    use Contender::{Base, Floor, Future, Krafka, Raw, Rskafka, Tuned};
    use Goal::{AtLeast, AtMost, Shown};
    use Metric::{
        Between, CommitsPerSecond, CpuMsPerCommit, CpuPerMillion, PeakMegabytes, RecordsPerSecond,
        RoundTrips, Times,
    };
    const fn own(
        id: &'static str,
        what: &'static str,
        scenario: &'static str,
        metric: Metric,
        goal: Goal,
    ) -> Spec {
        Spec { id, what, scenario, of: Contender::Ours, metric, against: None, goal }
    }
    const fn vs(
        id: &'static str,
        scenario: &'static str,
        metric: Metric,
        peer: Contender,
        goal: Goal,
    ) -> Spec {
        Spec { against: Some(peer), ..own(id, "", scenario, metric, goal) }
    }
    const fn peer(id: &'static str, of: Contender, scenario: &'static str, metric: Metric) -> Spec {
        Spec { of, ..own(id, "", scenario, metric, Shown) }
    }
    const TXN: Metric = RoundTrips("transaction");
    &[
        own("P1", "CPU s per million", "100B-1p", CpuPerMillion, Shown),
        vs("P1", "100B-1p", CpuPerMillion, Base, AtMost(0.50, 0.34)),
        vs("P1", "100B-1p", CpuPerMillion, Tuned, AtMost(0.75, 0.5)),
        own("P2", "CPU s per million", "100B-12p", CpuPerMillion, Shown),
        vs("P2", "100B-12p", CpuPerMillion, Base, AtMost(0.35, 0.15)),
        own("P3", "CPU s per million", "1KiB-1p", CpuPerMillion, Shown),
        own("P3", "CPU s per million", "1KiB-12p", CpuPerMillion, Shown),
        vs("P3", "1KiB-1p", CpuPerMillion, Base, AtMost(0.65, 0.48)),
        vs("P3", "1KiB-12p", CpuPerMillion, Base, AtMost(0.50, 0.31)),
        vs("P4", "100B-1p", CpuPerMillion, Krafka, AtMost(0.25, 0.11)),
        vs("P4", "100B-1p", CpuPerMillion, Future, AtMost(0.25, 0.11)),
        vs("P4", "100B-12p", CpuPerMillion, Krafka, AtMost(0.25, 0.11)),
        vs("P4", "100B-12p", CpuPerMillion, Future, AtMost(0.25, 0.11)),
        vs("P4", "1KiB-1p", CpuPerMillion, Krafka, AtMost(0.35, 0.2)),
        vs("P4", "1KiB-1p", CpuPerMillion, Future, AtMost(0.35, 0.2)),
        vs("P4", "1KiB-12p", CpuPerMillion, Krafka, AtMost(0.35, 0.2)),
        vs("P4", "1KiB-12p", CpuPerMillion, Future, AtMost(0.35, 0.2)),
        vs("P4", "100B-1p", CpuPerMillion, Rskafka, Shown),
        vs("P4", "1KiB-1p", CpuPerMillion, Rskafka, Shown),
        vs("P5", "100B-1p", CpuPerMillion, Floor, AtMost(4.0, 2.4)),
        vs("P5", "100B-12p", CpuPerMillion, Floor, AtMost(4.0, 2.4)),
        vs("P5", "1KiB-1p", CpuPerMillion, Floor, AtMost(2.5, 2.0)),
        vs("P5", "1KiB-12p", CpuPerMillion, Floor, AtMost(2.5, 2.0)),
        vs("P6", "lz4", CpuPerMillion, Base, AtMost(0.65, 0.47)),
        vs("P6", "lz4", CpuPerMillion, Krafka, AtMost(0.30, 0.17)),
        vs("P7", "serial-12p", RecordsPerSecond, Base, AtLeast(3.0, 5.7)),
        vs("P7", "serial-12p", RecordsPerSecond, Tuned, AtLeast(2.0, 3.6)),
        own("P8", "peak MB, buffer of 8 MiB", "memory", PeakMegabytes, AtMost(20.0, 12.0)),
        own("T1", "round trips, V2", "txn-v2-1", TXN, AtMost(2.5, 2.2)),
        own("T1", "round trips, V2", "txn-v2-12", TXN, AtMost(2.5, 2.2)),
        own("T1", "round trips, V2", "txn-v2-64", TXN, AtMost(2.5, 2.2)),
        own("T1", "round trips, V1", "txn-v1-1", TXN, AtMost(3.5, 3.2)),
        own("T1", "round trips, V1", "txn-v1-12", TXN, AtMost(3.5, 3.2)),
        own("T1", "round trips, V1", "txn-v1-64", TXN, AtMost(3.5, 3.2)),
        own("T1", "V1, two ids in turn", "turns-v1-1", TXN, AtMost(3.5, 3.2)),
        own("T1", "V1, two ids in turn", "turns-v1-12", TXN, AtMost(3.5, 3.2)),
        own("T1", "V1, two ids in turn", "turns-v1-64", TXN, AtMost(3.5, 3.2)),
        peer("T1", Raw, "txn-v2-12", TXN),
        peer("T1", Krafka, "txn-v2-12", TXN),
        peer("T1", Raw, "txn-v1-12", TXN),
        peer("T1", Krafka, "txn-v1-12", TXN),
        own("T2", "round trips, V2", "serial-v2", TXN, AtMost(2.7, 2.35)),
        own("T2", "round trips, V1", "serial-v1", TXN, AtMost(3.8, 3.5)),
        own("T2", "V1, two ids in turn", "serial-turns-v1", TXN, AtMost(3.8, 3.5)),
        vs("T2", "serial-turns-v1", TXN, Raw, AtMost(0.3, 0.23)),
        vs("T2", "serial-v2", TXN, Raw, AtMost(0.3, 0.15)),
        vs("T2", "serial-v1", TXN, Raw, AtMost(0.3, 0.23)),
        peer("T2", Raw, "serial-v2", TXN),
        peer("T2", Krafka, "serial-v2", TXN),
        own("T3", "prepare, acknowledged before", "prepare", RoundTrips("acknowledged"), AtMost(1.5, 1.1)),
        own("T3", "prepare, nothing acknowledged", "prepare", RoundTrips("fresh"), AtMost(2.5, 2.1)),
        own("T4", "commit, coordinator known", "resume", RoundTrips("known"), AtMost(1.3, 1.1)),
        own("T4", "commit, coordinator unknown", "resume", RoundTrips("unknown"), AtMost(2.5, 2.1)),
        own(
            "T5",
            "64 commits at once / one by one",
            "fan-out",
            Times("parallel", "sequential"),
            AtMost(0.2, 0.13),
        ),
        own("T6", "requests before the next batch, V2", "hand-over-v2", Between, AtMost(0.0, 0.0)),
        own("T6", "the same, V1: AddPartitions", "hand-over-v1", Between, AtMost(1.0, 1.0)),
        vs("T7", "commits", CommitsPerSecond, Raw, AtLeast(2.5, 5.0)),
        vs("T7", "commits", CpuMsPerCommit, Raw, AtMost(0.5, 0.32)),
        own("T7", "commits/s, one record", "commits", CommitsPerSecond, Shown),
        peer("T7", Raw, "commits", CommitsPerSecond),
        peer("T7", Krafka, "commits", CommitsPerSecond),
    ]
};

/// The names of all rows, also of those that are not measured against the null broker.
pub(crate) fn ids() -> Vec<&'static str> {
    let mut ids: Vec<_> = SPECS.iter().map(|spec| spec.id).collect();
    ids.extend(ROWS.iter().flat_map(|(_, real)| real.iter().copied()));
    ids.extend(["E1", "E2", "E3", "T8"]);
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Spec {
    /// What it says, in words.
    pub(crate) fn text(&self) -> String {
        let metric = match self.metric {
            Metric::CpuPerMillion => "CPU",
            Metric::RecordsPerSecond => "records/s",
            Metric::PeakMegabytes => "memory",
            Metric::RoundTrips(_) => "round trips",
            Metric::Times(..) => "time",
            Metric::CommitsPerSecond => "commits/s",
            Metric::CpuMsPerCommit => "CPU per commit",
            Metric::Between => "requests",
        };
        match (self.what, self.against) {
            ("", Some(peer)) => format!("{metric}, {} / {}", self.scenario, peer.name()),
            ("", None) => format!("  {}: {metric}, {}", self.of.name(), self.scenario),
            (what, _) => format!("{what} ({})", self.scenario),
        }
    }
}
