//! The program as a process, and an embedded broker for it to talk to.

use std::{error::Error, path::PathBuf, process::Stdio};

use kafka_2pc::{
    broker::{Broker, BrokerConfig, Profile},
    client::{Client, ClientConfig, Prepared, Transaction},
    ids::TransactionalId,
    proto::committable::Committable,
    record::RecordRef,
};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A broker, a client of it, and a directory of its own.
pub(crate) struct Stage {
    pub(crate) broker: Broker,
    pub(crate) client: Client,
    dir: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Runs the program with these arguments, and nothing of our environment that it would read.
pub(crate) async fn program(args: Vec<String>) -> Result<Ran, Box<dyn Error>> {
    crashing(args, None).await
}

/// The same, and it kills itself at this point.
async fn crashing(args: Vec<String>, point: Option<&str>) -> Result<Ran, Box<dyn Error>> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kafka-2pc"));
    command.args(args).env_remove("KAFKA_BOOTSTRAP").stdin(Stdio::null());
    command.envs(point.map(|point| ("KAFKA_2PC_CRASH", point)));
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    Ok(Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

/// The JSON values on the lines of the output.
pub(crate) fn json_lines(out: &str) -> Vec<serde_json::Value> {
    out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

impl Stage {
    pub(crate) async fn new(profile: Profile, nodes: usize) -> Result<Self, Box<dyn Error>> {
        let broker = Broker::start(BrokerConfig { nodes, profile, ..BrokerConfig::default() }).await?;
        let client = Client::new(ClientConfig::new(&broker.bootstrap())?);
        let dir = std::env::temp_dir().join(format!(
            "kafka-2pc-program-{}-{}",
            std::process::id(),
            broker.cluster_id()
        ));
        std::fs::create_dir_all(&dir)?;
        Ok(Self { broker, client, dir })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Runs the program against this broker; words are separated by blanks.
    pub(crate) async fn run(&self, words: &str) -> Result<Ran, Box<dyn Error>> {
        self.run_to(words, None).await
    }

    /// The same, and it kills itself at this point.
    pub(crate) async fn run_to(&self, words: &str, point: Option<&str>) -> Result<Ran, Box<dyn Error>> {
        let mut args: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        args.extend(["--bootstrap".to_owned(), self.broker.bootstrap()]);
        crashing(args, point).await
    }

    /// An open transaction with these values on partition 0 and on, one each.
    pub(crate) async fn open(
        &self,
        topic: &str,
        id: &str,
        values: &[&str],
    ) -> Result<Transaction, Box<dyn Error>> {
        let topic = self.client.topic(topic).await?;
        let producer = self.client.transactional_producer(TransactionalId::new(id)).init().await?;
        let mut transaction = producer.begin();
        for (value, partition) in values.iter().zip((0..topic.partitions()).cycle()) {
            transaction.send(&topic, Some(partition), RecordRef::value(value.as_bytes())).await?;
        }
        transaction.flush().await?;
        Ok(transaction)
    }

    /// A prepared transaction in a file.
    pub(crate) async fn prepared(
        &self,
        topic: &str,
        id: &str,
        values: &[&str],
    ) -> Result<(Committable, String), Box<dyn Error>> {
        let Prepared::Ready(committable) = self.open(topic, id, values).await?.prepare().await? else {
            return Err("nothing was prepared".into());
        };
        let path = self.path(&format!("{id}.committable"));
        std::fs::write(&path, committable.to_bytes())?;
        Ok((committable, path.display().to_string()))
    }
}
