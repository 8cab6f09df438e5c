//! Rounds: a broker and a child process for each run, in another order each time.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use kafka_2pc_bench_child::{Job, Outcome, Workload};
use kafka_2pc_benches::null::{Check, Counters, NullBroker, Pace, Settings};

use crate::{
    options::Options,
    scenario::{Contender, Scenario},
};

/// After this time a child is ended.
const PATIENCE: Duration = Duration::from_secs(180);

/// What one run of one client gave, and what the broker saw of it.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    pub(crate) counters: Counters,
    pub(crate) pace: Pace,
}

/// The programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) client: PathBuf,
    pub(crate) codec: PathBuf,
    /// `None` where nobody built it.
    pub(crate) peers: Option<PathBuf>,
}

/// Runs by client, one a round; or why there are none.
pub(crate) type Runs = BTreeMap<Contender, Result<Vec<Measured>, String>>;

impl Programs {
    /// Our own stand beside this program; that of the peers may be elsewhere.
    pub(crate) fn find(options: &Options) -> Result<Self> {
        let here = std::env::current_exe()?;
        let folder = here.parent().context("this program is in no folder")?.to_owned();
        let beside = folder.join("bench-peers");
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/target/release/bench-peers");
        let found = || [beside, built].into_iter().find(|path| path.is_file());
        let peers = options.peers.clone().or_else(found);
        let programs = Self { client: folder.join("bench-client"), codec: folder.join("bench-codec"), peers };
        ensure!(
            programs.client.is_file(),
            "build all programs of the package: cargo build --release -p kafka-2pc-benches"
        );
        Ok(programs)
    }

    fn of(&self, contender: Contender) -> Result<&Path> {
        let program = if contender.is_peer() { self.peers.as_ref() } else { Some(&self.client) };
        program.map(PathBuf::as_path).context("bench-peers is not built, see benches/README.md")
    }
}

/// All rounds of a scenario.
pub(crate) fn rounds(scenario: &Scenario, programs: &Programs, options: &Options) -> Runs {
    let began = Instant::now();
    let mut runs = Runs::new();
    for contender in &scenario.contenders {
        // What a broker would not take is not worth measuring.
        let checked = check(scenario, *contender, programs, options);
        runs.insert(*contender, checked.map(|()| Vec::new()).map_err(|error| format!("{error:#}")));
    }
    let count = scenario.contenders.len();
    for round in 0..options.rounds {
        for turn in 0..count {
            let contender = scenario.contenders[(round + turn) % count];
            let Some(Ok(done)) = runs.get_mut(&contender) else { continue };
            match once(scenario, contender, programs, options) {
                Ok(measured) => done.push(measured),
                Err(error) => _ = runs.insert(contender, Err(format!("{error:#}"))),
            }
        }
    }
    eprintln!("{}: {:.1} s", scenario.id, began.elapsed().as_secs_f64());
    runs
}

/// A short run whose every byte is looked at.
fn check(scenario: &Scenario, contender: Contender, programs: &Programs, options: &Options) -> Result<()> {
    let broker = Settings { pace: Pace::Instant, check: Check::Everything, ..scenario.broker.clone() };
    let job = match scenario.job.workload {
        Workload::Produce => Job { records: scenario.job.records.min(20_000), ..scenario.job.clone() },
        _ => Job { transactions: scenario.job.transactions.min(5), ..scenario.job.clone() },
    };
    // The floor has no records, only their bytes.
    if contender != Contender::Floor {
        on_null(&Scenario { broker, job, ..scenario.clone() }, contender, programs, options)?;
    }
    Ok(())
}

fn once(
    scenario: &Scenario,
    contender: Contender,
    programs: &Programs,
    options: &Options,
) -> Result<Measured> {
    on_null(scenario, contender, programs, options)
}

fn on_null(
    scenario: &Scenario,
    contender: Contender,
    programs: &Programs,
    options: &Options,
) -> Result<Measured> {
    let broker = NullBroker::start(scenario.broker.clone())?;
    let job = Job { bootstrap: broker.bootstrap(), ..scenario.job.clone() };
    let outcome = child(programs.of(contender)?, &settings(job, contender, options)?)?;
    let counters = broker.counters();
    let faults = counters.faults();
    ensure!(faults.is_empty(), "{}: {}", contender.name(), faults.join("; "));
    ensure!(
        counters.records >= outcome.records,
        "{}: {} records arrived of {}",
        contender.name(),
        counters.records,
        outcome.records
    );
    Ok(Measured { outcome, counters, pace: scenario.broker.pace })
}

/// The job as this client gets it.
pub(crate) fn settings(job: Job, contender: Contender, options: &Options) -> Result<Job> {
    let batch_bytes = if contender == Contender::Tuned { 1_000_000 } else { job.batch_bytes };
    Ok(Job { client: contender.client().into(), batch_bytes, runtime: options.runtime.parse()?, ..job })
}

/// Runs a client to its end.
pub(crate) fn child(program: &Path, job: &Job) -> Result<Outcome> {
    let name = || format!("{} {}", program.display(), job.words().join(" "));
    let mut child = Command::new(program)
        .args(job.words())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(name)?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("it does not end: {}", name());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}: {}", output.status, name());
    Outcome::parse(&String::from_utf8_lossy(&output.stdout))
}
