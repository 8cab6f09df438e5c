//! A writer in a process of its own, for rows that freeze one: this program again, told by its environment.
//!
//! It opens a transaction, says `open`, waits for a line, writes more, commits, and says `end` with what it was told.

use std::io::Write as _;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use kafka_2pc::client::{Client, ClientConfig};
use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::record::RecordRef;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use crate::bench::within;
use crate::outcome::{Failure, Outcome, Shown, holds};

const ASKED: &str = "PROTOCOL_TESTS_WRITER";
/// The same for a process that commits one prepared transaction, and says `end` with the outcome.
const COMMIT: &str = "PROTOCOL_TESTS_COMMIT";

/// Lets another process commit a committable, which it gets as bytes; what it said.
///
/// # Errors
/// It can't be started, or says nothing.
pub async fn commit(bootstrap: &str, committable: &Committable) -> Result<String, Failure> {
    let bytes: String = committable.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new(std::env::current_exe()?);
    command.env(COMMIT, format!("{bootstrap} {bytes}")).kill_on_drop(true);
    let said = within(command.output()).await??;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let last = said.lines().find(|line| line.starts_with("end"));
    last.map(str::to_owned).ok_or_else(|| Failure::wrong("the process that should commit said nothing"))
}

/// The writer, seen by its parent.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    said: Lines<BufReader<ChildStdout>>,
    orders: std::process::ChildStdin,
}

impl Child {
    /// Starts it.
    ///
    /// # Errors
    /// The program can't be started again.
    pub fn start(
        bootstrap: &str,
        topic: &str,
        id: &TransactionalId,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let asked = format!("{bootstrap} {topic} {id} {}", timeout.as_millis());
        let mut command = Command::new(std::env::current_exe()?);
        command.env(ASKED, asked).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let none = || Failure::wrong("the writer has no pipes");
        let said = BufReader::new(process.stdout.take().ok_or_else(none)?).lines();
        let orders = process.stdin.take().ok_or_else(none)?.into_owned_fd()?.into();
        Ok(Self { process, said, orders })
    }

    /// The next line that begins with `word`.
    ///
    /// # Errors
    /// It ends without one.
    pub async fn until(&mut self, word: &str) -> Result<String, Failure> {
        within(async {
            while let Some(line) = self.said.next_line().await? {
                if line.starts_with(word) {
                    return Ok(line);
                }
            }
            Err(Failure::wrong(format!("the writer ended without a word of {word:?}")))
        })
        .await?
    }

    /// Lets it go on, once it is awake.
    ///
    /// # Errors
    /// It has gone.
    pub fn tell(&mut self) -> Shown {
        Ok(self.orders.write_all(b"go on\n")?)
    }

    /// SIGSTOP.
    ///
    /// # Errors
    /// It has gone.
    pub fn freeze(&self) -> Shown {
        self.signal("-STOP")
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// It has gone.
    pub fn wake(&self) -> Shown {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Shown {
        let number = self.process.id().ok_or_else(|| Failure::wrong("the writer has gone"))?;
        let done = std::process::Command::new("kill").args([signal, &number.to_string()]).status()?;
        holds(done.success(), format!("kill {signal} {number} failed"))
    }
}

/// If this process was started to be a writer, it is one, and then ends. To be called first by every `main` that runs rows.
#[must_use]
pub fn if_asked() -> Option<ExitCode> {
    let (writes, commits) = (std::env::var(ASKED).ok(), std::env::var(COMMIT).ok());
    if writes.is_none() && commits.is_none() {
        return None;
    }
    let work = async {
        match (writes, commits) {
            (Some(asked), _) => write(&asked).await,
            (None, asked) => commit_bytes(&asked.unwrap_or_default()).await,
        }
    };
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(work));
    match done {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(failure) => {
            println!("end {}", Outcome::from(Err(failure)).why());
            Some(ExitCode::FAILURE)
        }
    }
}

async fn commit_bytes(asked: &str) -> Shown {
    let Some((bootstrap, hex)) = asked.split_once(' ') else {
        return Err(Failure::wrong(format!("{asked:?} is not what a committer is told")));
    };
    let digits: Vec<_> = hex.chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
    let bytes = digits.chunks(2).map(byte).collect::<Result<Vec<_>, _>>()?;
    let client = Client::new(ClientConfig::new(bootstrap)?.max_block(Duration::from_secs(20)));
    let resumed = client.resume(Committable::from_bytes(&bytes)?).commit().await?;
    println!("end {:?}", resumed.outcome);
    Ok(())
}

async fn write(asked: &str) -> Shown {
    let [bootstrap, topic, id, timeout] = asked.split(' ').collect::<Vec<_>>()[..] else {
        return Err(Failure::wrong(format!("{asked:?} is not what a writer is told")));
    };
    let client = Client::new(ClientConfig::new(bootstrap)?.max_block(Duration::from_secs(20)));
    let topic = client.topic(topic).await?;
    let builder = client.transactional_producer(TransactionalId::new(id));
    let mut transaction =
        builder.transaction_timeout(Duration::from_millis(timeout.parse()?)).init().await?.begin();
    transaction.send(&topic, Some(0), RecordRef::value(b"zombie before")).await?;
    transaction.flush().await?;
    println!("open");
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await?;
    let sent = transaction.send(&topic, Some(0), RecordRef::value(b"zombie after")).await;
    let flushed = transaction.flush().await;
    match transaction.commit().await {
        Ok(_) => println!("end committed ({sent:?}, {flushed:?})"),
        Err(error) => println!("end refused: {error}"),
    }
    Ok(())
}
