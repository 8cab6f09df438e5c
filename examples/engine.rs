//! A toy engine with a sink of two subtasks: it writes the numbers from 0 on into a topic, exactly once. Kill it at
//! any moment, and run it again: it goes on.
//!
//! ```text
//! cargo run --example engine -- localhost:9092 TOPIC DIR COUNT
//! ```
//! Its checkpoint is one file in DIR. Only one engine may run on a DIR at a time; a real one takes a lock.

use std::{
    collections::BTreeSet,
    error::Error,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use kafka_2pc::{
    client::{Client, ClientConfig, Topic},
    proto::{
        committable::Committable,
        pool::WriterState,
        recovery::CommitStatus,
        resume::{Decision, First, Outcome},
        settle::{SettleError, Settled},
    },
    record::RecordRef,
    sink::{Committed, Sink, SinkConfig, SinkState, SinkWriter},
};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SUBTASKS: u32 = 2;
const RECORDS_PER_CHECKPOINT: u64 = 100;

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, topic, dir, count] = &args[..] else {
        return Err("usage: engine BOOTSTRAP TOPIC DIR COUNT".into());
    };
    run(bootstrap, topic, Path::new(dir), count.parse()?).await
}

/// Runs until `count` numbers are visible in the topic.
pub(crate) async fn run(bootstrap: &str, topic: &str, dir: &Path, count: u64) -> Result<()> {
    let mut engine = Engine::start(bootstrap, topic, dir).await?;
    while engine.position < count {
        engine.wait_for_ids().await?;
        engine.write((engine.position + RECORDS_PER_CHECKPOINT).min(count)).await?;
        engine.checkpoint().await?;
        while let Some(done) = engine.background.try_join_next() {
            engine.done(done?)?;
        }
    }
    while let Some(done) = engine.background.join_next().await {
        engine.done(done?)?;
    }
    // It lists nothing any more: the next run has nothing to commit.
    engine.checkpoint().await
}

struct Engine {
    dir: PathBuf,
    topic: Topic,
    sink: Sink,
    writers: Vec<SinkWriter>,
    /// The next number to be written.
    position: u64,
    checkpoint: u64,
    /// What the next checkpoint lists: everything that is prepared, until it is settled.
    listed: Vec<(Committable, CommitStatus)>,
    background: JoinSet<Done>,
}

/// What came to its end in the background.
enum Done {
    Committed(Committed),
    Settled(Box<Committable>, std::result::Result<Settled, SettleError>),
}

impl Engine {
    /// Restores the checkpoint, and recovers: what it lists is committed, what it does not is aborted.
    async fn start(bootstrap: &str, topic: &str, dir: &Path) -> Result<Self> {
        let client = Client::new(ClientConfig::new(bootstrap)?);
        let topic = client.topic(topic).await?;
        let sink = Sink::new(client, Arc::new(SinkConfig::new("engine")?), vec![topic.clone()]);
        let (position, state) = load(dir)?;
        let (writers, report) = sink.recover(SUBTASKS, state.clone(), &|_| {}).await?;
        println!("recovered: {} resumed, {} aborted", report.resumed.len(), report.aborted.len());
        let (listed, background) = (Vec::new(), JoinSet::new());
        let (dir, checkpoint) = (dir.to_owned(), state.checkpoint);
        let mut engine = Self { dir, topic, sink, writers, position, checkpoint, listed, background };
        for (committable, _) in state.committables {
            // Decided is not settled yet. Those that hang are retired already, and stay listed.
            if !report.hanging.iter().any(|h| h.identity == committable.identity) {
                engine.settle(committable.clone());
            }
            engine.listed.push((committable, CommitStatus::Decided(Decision::Commit)));
        }
        Ok(engine)
    }

    /// A writer whose ids are all in use gets one back when a commit is settled and a checkpoint has dropped it.
    async fn wait_for_ids(&mut self) -> Result<()> {
        while self.writers.iter().any(SinkWriter::is_exhausted) {
            if let Some(done) = self.background.join_next().await {
                self.done(done?)?;
            }
            self.checkpoint().await?;
        }
        Ok(())
    }

    async fn write(&mut self, until: u64) -> Result<()> {
        while self.position < until {
            let writer = usize::try_from(self.position)? % self.writers.len();
            let value = self.position.to_string();
            self.writers[writer].write(&self.topic, None, RecordRef::value(value.as_bytes())).await?;
            self.position += 1;
        }
        Ok(())
    }

    /// Prepare, make durable, notify: in this order.
    async fn checkpoint(&mut self) -> Result<()> {
        self.checkpoint += 1;
        let mut prepared = Vec::new();
        for writer in &mut self.writers {
            // On an error nothing of this checkpoint may be stored: end, and start from the one before.
            prepared.extend(writer.prepare_commit(self.checkpoint).await?);
        }
        println!("prepared {}", self.checkpoint);
        self.listed.extend(prepared.iter().map(|c| (c.clone(), CommitStatus::Pending)));
        let state = SinkState {
            checkpoint: self.checkpoint,
            committables: self.listed.clone(),
            writers: self.writers.iter().map(SinkWriter::snapshot).collect(),
        };
        store(&self.dir, self.position, &state)?;
        println!("durable {}", self.checkpoint);
        let ids: BTreeSet<_> = self.listed.iter().map(|(c, _)| c.transactional_id.clone()).collect();
        self.writers.iter_mut().for_each(|writer| writer.durable(&ids));
        for committable in prepared {
            let committer = self.sink.committer();
            self.background.spawn(async move {
                Done::Committed(committer.commit_one(committable, First::EndTxn).await)
            });
        }
        Ok(())
    }

    fn settle(&mut self, committable: Committable) {
        let committer = self.sink.committer();
        self.background.spawn(async move {
            let settled = committer.settle(&committable).await;
            Done::Settled(Box::new(committable), settled)
        });
    }

    /// Tells the writers what became of their transactions; each looks at its own ids only.
    fn done(&mut self, done: Done) -> Result<()> {
        match done {
            Done::Committed(committed) => {
                let (Ok(resumed), committable) = (&committed.result, &committed.committable) else {
                    return Err(committed.story().into());
                };
                if !matches!(resumed.outcome, Outcome::Committed | Outcome::AlreadyCommitted(_)) {
                    return Err(committed.story().into());
                }
                println!("committed {}", committable.transactional_id);
                self.writers.iter_mut().for_each(|writer| writer.decided(committable, resumed));
                for (_, status) in self.listed.iter_mut().filter(|(c, _)| c == committable) {
                    *status = CommitStatus::Decided(Decision::Commit);
                }
                self.settle(committed.committable);
            }
            Done::Settled(c, Ok(Settled { gone })) if !gone.is_empty() => {
                return Err(format!("LOST: the topic of {} was deleted", c.transactional_id).into());
            }
            Done::Settled(c, Ok(_)) => {
                self.writers.iter_mut().for_each(|writer| writer.settled(&c));
                self.listed.retain(|(listed, _)| *listed != *c);
            }
            Done::Settled(_, Err(SettleError::Hanging(hanging))) => {
                eprintln!("{hanging}: readers stall there until it is repaired");
                self.writers.iter_mut().for_each(|writer| writer.retire((*hanging).clone()));
            }
            Done::Settled(c, Err(SettleError::Pending { .. })) => self.settle(*c),
            Done::Settled(c, Err(SettleError::Denied { .. })) => {
                self.writers.iter_mut().for_each(|writer| writer.avoid(&c.transactional_id));
                self.listed.retain(|(listed, _)| *listed != *c);
            }
        }
        Ok(())
    }
}

/// Checkpoint, position, committables with whether they are pending, writers.
type Stored = (u64, u64, Vec<(Vec<u8>, bool)>, Vec<Vec<u8>>);

/// The position and the sink's state of the last checkpoint; the beginning of everything if there is none.
fn load(dir: &Path) -> Result<(u64, SinkState)> {
    let bytes = match fs::read(dir.join("checkpoint")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((0, SinkState::default())),
        bytes => bytes?,
    };
    let (checkpoint, position, committables, writers): Stored = serde_json::from_slice(&bytes)?;
    let mut state = SinkState { checkpoint, ..SinkState::default() };
    for (bytes, pending) in committables {
        let decided = CommitStatus::Decided(Decision::Commit);
        let status = if pending { CommitStatus::Pending } else { decided };
        state.committables.push((Committable::from_bytes(&bytes)?, status));
    }
    for bytes in writers {
        state.writers.push(WriterState::from_bytes(&bytes)?);
    }
    Ok((position, state))
}

/// Replaces the checkpoint. When this returns, not even a power loss undoes it.
fn store(dir: &Path, position: u64, state: &SinkState) -> Result<()> {
    let committables = state.committables.iter();
    let committables = committables.map(|(c, status)| (c.to_bytes(), *status == CommitStatus::Pending));
    let writers = state.writers.iter().map(WriterState::to_bytes).collect();
    let stored: Stored = (state.checkpoint, position, committables.collect(), writers);
    let temporary = dir.join("checkpoint.tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(&stored)?)?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join("checkpoint"))?;
    Ok(File::open(dir)?.sync_all()?)
}
