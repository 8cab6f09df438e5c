//! One job: an input, a topic, a state, and the `pipe` that is started again and again until the input is through.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::foreign::{Library, Reading};
use kafka_2pc_protocol_tests::harness::{Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{self, ListedTransaction};
use kafka_2pc_protocol_tests::program::{Ended, Invocation, Program, Running, Trace};
use tempfile::TempDir;

use crate::{Outcome, input, older_state};

/// How long a pipe may take that nobody disturbs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What a job pipes and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) records: u64,
    /// Records per second.
    pub(crate) rate: u64,
    pub(crate) interval_ms: u64,
    /// Further options of `pipe`.
    pub(crate) options: &'a [&'a str],
}

#[derive(Debug)]
pub(crate) struct Job<'a> {
    ground: &'a Ground,
    program: Program,
    /// Where the program is told that the cluster is.
    pub(crate) bootstrap: String,
    pub(crate) topic: String,
    pub(crate) prefix: String,
    records: u64,
    options: Vec<String>,
    /// Where its state is, if not in a directory of its own.
    pub(crate) place: Option<String>,
    /// Further names in the environment of the program.
    pub(crate) environment: Vec<(&'static str, String)>,
    folder: TempDir,
    starts: Cell<u32>,
}

/// A `pipe` that runs, and where it leaves its trace.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) running: Running,
    pub(crate) trace: PathBuf,
}

/// How an attempt ended, and what it did before.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) ended: Ended,
    pub(crate) trace: Trace,
}

impl<'a> Job<'a> {
    /// A job with a topic of three partitions.
    pub(crate) fn new(ground: &'a Ground, plan: &Plan<'_>) -> Result<Self, Failure> {
        let topic = ground.topic("flights", 3)?;
        Self::on(ground, plan, topic, ground.fresh("job"))
    }

    /// A job on a topic that exists, with this prefix of its transactional ids.
    pub(crate) fn on(
        ground: &'a Ground,
        plan: &Plan<'_>,
        topic: String,
        prefix: String,
    ) -> Result<Self, Failure> {
        let Plan { records, rate, interval_ms, options } = *plan;
        let folder = tempfile::tempdir()?;
        input::write(&folder.path().join("input"), records)?;
        let (rate, interval) = (rate.to_string(), format!("{interval_ms}ms"));
        let own = ["--rate", &rate, "--checkpoint-interval", &interval];
        let options = own.iter().chain(options).map(|word| (*word).to_owned()).collect();
        let (program, starts) = (Program::ensure()?, Cell::new(0));
        let bootstrap = ground.bootstrap().to_owned();
        let (place, environment) = (None, Vec::new());
        let job = Self {
            ground,
            program,
            bootstrap,
            topic,
            prefix,
            records,
            options,
            place,
            environment,
            folder,
            starts,
        };
        Ok(job)
    }

    /// The same job on a copy of its input and its state, as they are now.
    pub(crate) fn copy(&self) -> Result<Self, Failure> {
        let (folder, starts) = (tempfile::tempdir()?, Cell::new(100));
        older_state::copy(self.folder.path(), folder.path())?;
        let (bootstrap, topic, prefix) = (self.bootstrap.clone(), self.topic.clone(), self.prefix.clone());
        let (program, options) = (self.program.clone(), self.options.clone());
        let (place, environment) = (self.place.clone(), self.environment.clone());
        Ok(Self { program, bootstrap, topic, prefix, options, folder, starts, place, environment, ..*self })
    }

    pub(crate) fn input(&self) -> PathBuf {
        self.folder.path().join("input")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// What `--state` is told.
    fn place(&self) -> String {
        self.place.clone().unwrap_or_else(|| self.state().display().to_string())
    }

    /// Runs a command that looks at the state, which may be somebody's.
    pub(crate) fn look(&self, words: &[&str]) -> Result<Ended, Failure> {
        let place = self.place();
        let mut command = self.program.invoke(words.iter().copied().chain(["--state", &place]));
        for (name, value) in &self.environment {
            command = command.env(name, value);
        }
        Ok(command.run(PATIENCE)?.expect(0)?)
    }

    /// Starts the pipe.
    pub(crate) fn start(&self) -> Result<Attempt, Failure> {
        self.start_with(&[], None)
    }

    /// Starts the pipe with further options; it kills itself when it comes to that point for that time.
    pub(crate) fn start_with(
        &self,
        options: &[&str],
        crash: Option<(&str, u64)>,
    ) -> Result<Attempt, Failure> {
        self.start_under(&[], options, crash)
    }

    /// The same with further names in its environment.
    pub(crate) fn start_under(
        &self,
        environment: &[(&str, &str)],
        options: &[&str],
        crash: Option<(&str, u64)>,
    ) -> Result<Attempt, Failure> {
        let number = self.starts.get();
        self.starts.set(number + 1);
        let trace = self.folder.path().join(format!("trace-{number}"));
        let (input, state) = (self.input().display().to_string(), self.place());
        let words = ["pipe", "--topic", &self.topic, "--input", &input, "--state", &state, "--json"];
        let whereto = ["--bootstrap", &self.bootstrap, "--transactional-id-prefix", &self.prefix];
        let all = words.iter().chain(&whereto).chain(options).map(|word| (*word).to_owned());
        let mut pipe = self.program.invoke(all.chain(self.options.iter().cloned()));
        pipe = pipe.env("KAFKA_2PC_TRACE", trace.display());
        for (name, value) in &self.environment {
            pipe = pipe.env(name, value);
        }
        for (name, value) in environment {
            pipe = pipe.env(name, value);
        }
        if let Some((point, nth)) = crash {
            pipe = pipe.env("KAFKA_2PC_CRASH", format_args!("{point}:{nth}"));
        }
        Ok(Attempt::new(pipe.start()?, trace))
    }

    /// Runs the pipe until it kills itself at `point`, and makes sure that it died there and of that.
    pub(crate) fn crash(&self, point: &str, nth: u64) -> Result<Past, Failure> {
        self.start_with(&[], Some((point, nth)))?.past(PATIENCE)?.died_at(point, nth)
    }

    /// Runs the pipe to the end of its input, which it must reach by itself.
    pub(crate) fn finish(&self) -> Result<Past, Failure> {
        self.start()?.finished(PATIENCE)
    }

    /// Runs another command of the program against the same cluster.
    pub(crate) fn command(&self, words: &[&str]) -> Invocation {
        let whereto = ["--bootstrap", &self.bootstrap];
        self.program.invoke(words.iter().chain(&whereto).copied())
    }

    /// Foreign committed readers find every line of the input exactly once and in order.
    pub(crate) fn verify(&self) -> Outcome {
        let (venv, input) = (self.ground.foreign()?, self.input());
        for library in Library::ALL {
            let reading = Reading::committed(library, self.ground.bootstrap(), &self.topic);
            let found = venv.compare(&reading, &input)?;
            let exact = found.is_exact() && found.records == self.records;
            Failure::unless(exact, format!("{library:?} of {} records: {found:?}", self.records))?;
        }
        Ok(())
    }

    /// The coordinators' transactions of this job, in whatever state.
    pub(crate) fn transactions(&self) -> Result<Vec<ListedTransaction>, Failure> {
        Ok(kafka::transactions(self.ground.bootstrap(), &self.prefix)?)
    }

    /// Ids of this job that are in one of these states.
    pub(crate) fn ids_in(&self, states: &[&str]) -> Result<BTreeSet<String>, Failure> {
        let mut all = self.transactions()?;
        all.retain(|transaction| states.contains(&transaction.state.as_str()));
        Ok(all.into_iter().map(|transaction| transaction.transactional_id).collect())
    }

    /// Waits until the coordinators list no transaction of this job that is open.
    pub(crate) fn expect_nothing_open(&self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        loop {
            let open = self.ids_in(&OPEN)?;
            if open.is_empty() {
                return Ok(());
            }
            Failure::unless(Instant::now() < deadline, format!("still open after {limit:?}: {open:?}"))?;
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The files of the committables that the job keeps, the oldest first.
    pub(crate) fn committables(&self) -> Result<Vec<PathBuf>, Failure> {
        committables(&self.state())
    }

    /// The transactional ids of these committables: their files' names begin with them.
    pub(crate) fn committed_ids(&self) -> Result<Vec<String>, Failure> {
        Ok(self.committables()?.iter().filter_map(|path| id_of(path)).collect())
    }
}

/// States of a transaction that pins the last stable offset.
pub(crate) const OPEN: [&str; 4] = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"];

impl Past {
    /// Itself, if it killed itself at `point`.
    pub(crate) fn died_at(self, point: &str, nth: u64) -> Result<Self, Failure> {
        if !self.ended.was_killed() {
            return Err(self.ended.strange(&format!("it did not die of SIGKILL at {point}:{nth}")).into());
        }
        let last = self.trace.last().map(|passage| (passage.point.as_str(), passage.number));
        Failure::unless_equal("the last step of the trace", last, Some((point, nth)))?;
        Ok(self)
    }
}

/// The files of the committables in a state, the oldest first.
pub(crate) fn committables(state: &Path) -> Result<Vec<PathBuf>, Failure> {
    files(&state.join("committables"))
}

/// The transactional id of a committable's file, whose name begins with it.
pub(crate) fn id_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    name.split('.').next().map(str::to_owned)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A running job removes files while we look.
        let Ok(metadata) = entry.metadata() else { continue };
        all.push((metadata.modified()?, entry.path()));
    }
    all.sort();
    Ok(all.into_iter().map(|(_, path)| path).collect())
}

impl Attempt {
    pub(crate) fn new(running: Running, trace: PathBuf) -> Self {
        Self { running, trace }
    }

    /// The trace up to now.
    pub(crate) fn trace(&self) -> Result<Trace, Failure> {
        Ok(Trace::read(&self.trace)?)
    }

    /// Kills it.
    pub(crate) fn kill(self) -> Result<Past, Failure> {
        let ended = self.running.kill()?;
        Ok(Past { ended, trace: Trace::read(&self.trace)? })
    }

    /// Waits for its end.
    pub(crate) fn past(self, limit: Duration) -> Result<Past, Failure> {
        let ended = self.running.wait(limit);
        let trace = Trace::read(&self.trace)?;
        let last = trace.passages.iter().rev().take(8).rev();
        let told = || last.map(|p| format!("\n  {} {} {}", p.at_ms, p.point, p.number)).collect::<String>();
        let ended = ended.map_err(|e| Failure::of(format!("{e}\nthe end of its trace:{}", told())))?;
        Ok(Past { ended, trace })
    }

    /// Waits for its end, which must be the end of the input, and a good one.
    pub(crate) fn finished(self, limit: Duration) -> Result<Past, Failure> {
        let past = self.past(limit)?;
        let ended = past.ended.expect(0)?;
        let report = ended.json()?;
        if report["finished"] != true {
            return Err(ended.strange("it did not finish its input").into());
        }
        Ok(Past { ended, trace: past.trace })
    }

    /// Waits until its trace shows this many passages of a point.
    pub(crate) fn wait_for(&mut self, point: &str, passages: usize, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        while self.trace()?.count(point) < passages {
            let ended = self.running.ended_within(Duration::ZERO)?;
            let over = ended || Instant::now() >= deadline;
            let told = || format!("{point} was not passed {passages} times:\n{}", self.running.output());
            if over && self.trace()?.count(point) < passages {
                return Err(Failure::of(told()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
