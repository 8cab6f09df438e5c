//! Foreign clients on the embedded broker: librdkafka and aiokafka (transactions V1 on every profile), Java 4.4 (V2
//! and V1).
//!
//! Needs `~/.cache/kafka-2pc/venv` with `confluent-kafka` and `aiokafka`, and Kafka's tools with their jars in
//! `~/.cache/kafka-2pc/kafka-tools-4.4.0`: `cargo run -p kafka-2pc-protocol-tests --bin kafka-cluster -- fetch` makes
//! both. What is missing is skipped with a message, and an error when `REQUIRE_KAFKA=1`.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod raw;

use std::path::PathBuf;

use kafka_2pc::broker::{Api, Broker, BrokerConfig, Profile};
use raw::{Cluster, batch, unique};
use tokio::process::Command;

fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home = || folder("HOME").unwrap_or_default().join(".cache");
    folder("KAFKA_2PC_CACHE")
        .unwrap_or_else(|| folder("XDG_CACHE_HOME").unwrap_or_else(home).join("kafka-2pc"))
}

fn skip(what: &str) {
    assert!(std::env::var("REQUIRE_KAFKA").is_err(), "{what} is missing and REQUIRE_KAFKA is set");
    eprintln!("SKIPPED: {what} is missing");
}

async fn start(profile: Profile, nodes: usize) -> Broker {
    Broker::start(BrokerConfig { profile, nodes, ..BrokerConfig::default() }).await.unwrap()
}

/// Runs a command to its end and returns what it printed.
async fn run(command: &mut Command) -> String {
    let output = command.kill_on_drop(true).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{command:?}\n{printed}\n{}", text(&output.stderr));
    printed
}

/// Runs a script on every profile, on one or three nodes.
async fn python(script: &str) {
    let python = cache().join("venv/bin/python");
    let imports = Command::new(&python).args(["-c", "import confluent_kafka, aiokafka"]).output().await;
    if !imports.is_ok_and(|output| output.status.success()) {
        return skip("a Python with confluent-kafka and aiokafka");
    }
    for (nodes, profile) in [1, 3, 3, 1, 1, 3].into_iter().zip(Profile::all()) {
        let broker = start(profile, nodes).await;
        broker.create_topic("t", 2).unwrap();
        let path = format!("{}/tests/foreign/{script}", env!("CARGO_MANIFEST_DIR"));
        let printed = run(Command::new(&python).args([&path, &broker.bootstrap(), "t"])).await;
        assert!(printed.trim_end().ends_with(": ok"), "{printed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librdkafka_commits_aborts_reads_and_is_fenced() {
    python("librdkafka.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aiokafka_commits_aborts_and_reads() {
    python("aiokafka_client.py").await;
}

/// A class of Kafka's tools; nothing when they are not there.
fn java(class: &str) -> Option<Command> {
    let jars = cache().join("kafka-tools-4.4.0");
    let java = std::process::Command::new("java").arg("-version").output();
    if !jars.is_dir() || !java.is_ok_and(|output| output.status.success()) {
        skip("Java with Kafka's tools");
        return None;
    }
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(jars.join("*")).arg(class);
    Some(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_produces_in_transactions_and_reads_them() {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let implicit_adds = profile == Profile::kafka_4_4();
        let broker = start(profile, 3).await;
        broker.create_topic("t", 1).unwrap();
        let Some(mut producer) = java("org.apache.kafka.tools.ProducerPerformance") else { return };
        let load = ["--num-records", "1000", "--record-size", "100", "--throughput", "-1"];
        let transactions = ["--transactional-id", "perf", "--transaction-duration-ms", "20"];
        let to = ["--topic", "t", "--bootstrap-server", &broker.bootstrap()];
        run(producer.args(to).args(load).args(transactions)).await;
        assert_eq!(broker.requests(Api::AddPartitionsToTxn) == 0, implicit_adds);
        let Some(mut consumer) = java("org.apache.kafka.tools.consumer.ConsoleConsumer") else { return };
        let from = ["--partition", "0", "--offset", "earliest", "--isolation-level", "read_committed"];
        let printed = run(consumer.args(to).args(from).args(["--max-messages", "1000"])).await;
        assert_eq!(printed.lines().count(), 1000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javas_transactions_command_lists_describes_finds_and_aborts() {
    let broker = start(Profile::kafka_4_4(), 3).await;
    broker.create_topic_on("t", vec![vec![3]]).unwrap();
    let (c, txn) = (Cluster::new(broker.bootstrap()), unique("txn"));
    let pair = c.init(&txn, None).await.unwrap();
    assert_eq!(c.produce(12, &txn, ("t", 0), batch(pair, 0, 1)).await, Ok(0));
    let tool = async |args: &[&str]| {
        let mut command = java("org.apache.kafka.tools.TransactionsCommand")?;
        Some(run(command.args(["--bootstrap-server", &broker.bootstrap()]).args(args)).await)
    };
    let Some(listed) = tool(&["list"]).await else { return };
    let row = |printed: &str, words: &[&str]| {
        printed.lines().any(|line| words.iter().all(|word| line.split_whitespace().any(|w| w == *word)))
    };
    let id = pair.0.to_string();
    assert!(row(&listed, &[&txn, &id, "Ongoing"]), "{listed}");
    let described = tool(&["describe", "--transactional-id", &txn]).await.unwrap();
    assert!(row(&described, &[&txn, &id, "Ongoing", "60000", "t-0"]), "{described}");
    let none = tool(&["find-hanging", "--broker-id", "3", "--max-transaction-timeout", "0"]).await.unwrap();
    assert!(!row(&none, &["t", "0", &id]), "{none}");
    // The commit's marker is lost; an abort closes the transaction.
    broker.stop_node(3).await.unwrap();
    assert_eq!(c.end(5, &txn, pair, true).await.0, 0);
    c.settled(&txn).await;
    broker.start_node(3).await.unwrap();
    let hanging =
        tool(&["find-hanging", "--broker-id", "3", "--max-transaction-timeout", "0"]).await.unwrap();
    assert!(row(&hanging, &["t", "0", &id]), "{hanging}");
    tool(&["abort", "--topic", "t", "--partition", "0", "--start-offset", "0"]).await.unwrap();
    let read = c.fetch("t", 0, 0, 1).await;
    let partition = &read.responses[0].partitions[0];
    assert_eq!(partition.last_stable_offset, 2);
    assert_eq!(partition.aborted_transactions.as_ref().unwrap().len(), 1);
}
