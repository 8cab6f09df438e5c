//! Runs rows on arms.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kafka_2pc::broker::BrokerConfig;
use kafka_2pc_protocol_tests::kafka::{KafkaCluster, Spec};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::arm::Arm;
use crate::bench::{Bench, World};
use crate::outcome::{Failure, Outcome, Shown, equal};
use crate::rows;
use crate::table::{Entry, Need, Where};
use crate::trace::{Line, difference};

/// How long one row may take.
const LIMIT: Duration = Duration::from_secs(180);

/// One field of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The row.
    pub row: String,
    /// The arm.
    pub arm: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

/// Runs rows, and keeps one real cluster at a time.
#[derive(Debug, Default)]
pub struct Runner {
    cluster: Mutex<Option<(Spec, Started)>>,
    /// Traces of the embedded broker.
    traces: Mutex<BTreeMap<RowAndProfile, Option<Vec<Line>>>>,
}

type Started = Result<Arc<KafkaCluster>, Failure>;
type RowAndProfile = (String, String);

/// What a body left behind.
struct Run {
    shown: Shown,
    trace: Option<Vec<Line>>,
}

impl Runner {
    /// Runs one row on one arm that it [belongs to](Arm::is_for).
    pub fn run(&self, row: &Entry, arm: &Arm) -> Finding {
        let finding =
            |outcome, millis| Finding { row: row.id.clone(), arm: arm.to_string(), outcome, millis };
        if let Some(capability) = &row.awaits {
            return finding(Outcome::Awaits(capability.clone()), 0);
        }
        if let Some(lacking) = arm.lacks(row) {
            return finding(Outcome::NotOffered(lacking), 0);
        }
        let world = match self.world(row, arm) {
            Ok(world) => world,
            Err(failure) => return finding(Outcome::from(Err(failure)), 0),
        };
        // The start of a cluster is no row's time.
        let started = Instant::now();
        let run = self.body(row, arm, world);
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let compared = run.shown.and_then(|()| self.compare(row, arm, run.trace));
        self.mend(arm);
        finding(Outcome::from(compared), millis)
    }

    /// The trace of a row of both worlds is that of the embedded broker.
    fn compare(&self, row: &Entry, arm: &Arm, trace: Option<Vec<Line>>) -> Shown {
        if row.place != Where::Both {
            return Ok(());
        }
        let key = |profile: &str| (row.id.clone(), profile.to_owned());
        if let Arm::Embedded(profile) = arm {
            lock(&self.traces).insert(key(profile.name), trace);
            return Ok(());
        }
        let Some(twin) = arm.twin() else { return Ok(()) };
        let key = key(twin.name);
        if !lock(&self.traces).contains_key(&key) {
            let twin = Arm::Embedded(twin);
            let run = self.body(row, &twin, self.world(row, &twin)?);
            run.shown?;
            lock(&self.traces).insert(key.clone(), run.trace);
        }
        match (lock(&self.traces).get(&key), trace) {
            (Some(Some(embedded)), Some(real)) => {
                difference(embedded, &real).map_or(Ok(()), |told| Err(Failure::Wrong(told)))
            }
            _ => Ok(()),
        }
    }

    /// Runs a row of an embedded arm twice more: where the clock jumps, what a client sees does not depend on the machine.
    ///
    /// # Errors
    /// It does, or the row fails.
    pub fn repeats(&self, row: &Entry, arm: &Arm) -> Shown {
        let once = || {
            let run = self.body(row, arm, self.world(row, arm)?);
            match run.shown {
                Ok(()) => Ok(run.trace),
                Err(failure @ Failure::Wrong(_)) => Err(failure),
                Err(Failure::Deviation { .. } | Failure::NotOffered(_) | Failure::Missing(_)) => Ok(None),
            }
        };
        let told = match (once()?, once()?) {
            (Some(one), Some(other)) => difference(&one, &other),
            (None, _) | (_, None) => None,
        };
        told.map_or(Ok(()), |told| Err(Failure::Wrong(format!("{} is not the same twice: {told}", row.id))))
    }

    fn body(&self, row: &Entry, arm: &Arm, (runtime, world): (Runtime, World)) -> Run {
        let Some(test) = rows::named(&row.id) else {
            return Run { shown: Err(Failure::wrong("the row has no test")), trace: None };
        };
        let bench = Bench::new(arm.clone(), world);
        let (_running, mut overdue) = watchdog();
        // A panic is one row's failure, and not the end of the run.
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                let late = || Failure::wrong(format!("not done after {} s", LIMIT.as_secs()));
                tokio::select! {
                    shown = tokio::time::timeout(LIMIT, (test.body)(&bench)) => {
                        shown.map_err(|_| late())??;
                        // A row that was spared what it is about has shown nothing.
                        equal("planned faults that did not happen", bench.tap.to_come(), 0)
                    }
                    Ok(()) = &mut overdue => Err(late()),
                }
            })
        }));
        let shown = shown.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            Err(Failure::wrong(format!("panicked: {text}")))
        });
        let trace = bench.trace.lines(&bench.tap);
        drop(bench);
        runtime.shutdown_timeout(Duration::from_secs(5));
        Run { shown, trace }
    }

    /// What the arm's bench stands on. Embedded brokers belong to one row, and share its one thread and its clock, which
    /// jumps from one timer to the next when nobody has anything to do.
    fn world(&self, row: &Entry, arm: &Arm) -> Result<(Runtime, World), Failure> {
        let alone = || Builder::new_current_thread().enable_all().start_paused(true).build();
        Ok(match arm {
            Arm::Unit => (alone()?, World::None),
            Arm::Embedded(profile) => {
                let mut config = BrokerConfig { profile: profile.clone(), ..BrokerConfig::default() };
                if row.needs.contains(&Need::ThreeNodes) {
                    config.nodes = 3;
                }
                if row.needs.contains(&Need::QuickSweep) {
                    config.sweep_interval = Duration::from_millis(50);
                }
                let alone = alone()?;
                let world = alone.block_on(World::start(config))?;
                (alone, world)
            }
            Arm::Given(given) => (parallel()?, World::Given(given.bootstrap.clone())),
            Arm::Real(spec) => {
                let with = |spec: Spec, (name, value): (&str, &str)| spec.extra(name, value);
                let spec = row.properties().into_iter().fold(spec.clone(), with);
                (parallel()?, World::Real(self.cluster(&spec)?))
            }
        })
    }

    /// The cluster of this spec; the one before it is stopped. A start that failed is remembered: it would fail again.
    fn cluster(&self, spec: &Spec) -> Started {
        let mut kept = lock(&self.cluster);
        if let Some((_, started)) = kept.as_ref().filter(|(of, _)| of == spec) {
            return started.clone();
        }
        *kept = None;
        let started = KafkaCluster::start(spec.clone()).map(Arc::new).map_err(|e| {
            if e.is_missing() {
                Failure::Missing(e.to_string())
            } else {
                Failure::Wrong(format!("{spec}: {e}"))
            }
        });
        *kept = Some((spec.clone(), started.clone()));
        started
    }

    /// Brings back what a row killed. A cluster that does not come back is given up.
    fn mend(&self, arm: &Arm) {
        if !matches!(arm, Arm::Real(_)) {
            return;
        }
        let mut kept = lock(&self.cluster);
        let well = kept.as_ref().is_none_or(|(_, started)| match started {
            Ok(cluster) => cluster.restore().is_ok(),
            Err(_) => true,
        });
        if !well {
            *kept = None;
        }
    }
}

/// Speaks up when a body takes too long by the clock on the wall: one that never lets a clock in memory jump would go on for
/// ever. It goes with the first of the two.
fn watchdog() -> (std::sync::mpsc::Sender<()>, oneshot::Receiver<()>) {
    let (running, over) = std::sync::mpsc::channel();
    let (late, overdue) = oneshot::channel();
    std::thread::spawn(move || {
        if over.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // Otherwise nobody listens any more.
            let _ = late.send(());
        }
    });
    (running, overdue)
}

fn parallel() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Where what a run found is kept, so that arms can be run one after the other and reported together.
#[must_use]
pub fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    target.join("conformance")
}

/// Keeps the findings of an arm.
///
/// # Errors
/// They can't be written.
pub fn keep(arm: &Arm, findings: &[Finding]) -> Result<(), Failure> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    let name: String =
        arm.to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    fs::write(folder.join(format!("{name}.json")), serde_json::to_vec_pretty(findings)?)?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
