//! What the launcher promises: the cluster is the one that was started, does what it is told, and leaves nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{self, Expected, KafkaCluster, KafkaError, Spec};

use crate::versions;

type Outcome = Result<(), Failure>;

pub(crate) fn cases() -> Vec<Case> {
    let v2 = Spec::default;
    let three = || Spec::default().nodes(3);
    let mut cases: Vec<_> = versions()
        .into_iter()
        .map(|spec| Case::nodes("a_cluster_says_its_own_id_and_level", spec, own_id_and_level))
        .collect();
    cases.extend([
        Case::nodes("another_cluster_on_the_port_is_refused", v2(), other_id),
        Case::nodes("something_else_on_the_port_is_never_ready", v2(), not_kafka),
        Case::nodes("a_node_that_loses_its_port_is_named_with_its_errors", v2(), lost_port),
        Case::nodes("a_killed_node_is_down_until_it_is_started", v2(), kill_and_start),
        Case::nodes("the_transaction_level_changes_while_the_cluster_runs", v2(), level_changes),
        Case::nodes("a_property_that_kafka_refuses_is_told", v2(), bad_property),
        Case::nodes("nothing_outlives_the_process_that_started_it", v2(), nothing_outlives),
        Case::nodes("a_coordinator_moves_when_its_node_is_killed", three(), coordinator_killed),
        Case::nodes("a_coordinator_moves_when_its_node_is_frozen", three(), coordinator_frozen),
    ]);
    cases
}

fn own_id_and_level(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    Failure::unless_equal("what is missing", kafka::prove(&cluster.expected())?, None)?;
    let level = kafka::transaction_version(cluster.bootstrap().as_str())?;
    Failure::unless_equal("transaction.version", level, i16::from(cluster.spec().transaction_version))
}

fn other_id(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    let expected = Expected { cluster_id: "AAAAAAAAAAAAAAAAAAAAAQ".into(), ..cluster.expected() };
    match kafka::prove(&expected) {
        Err(KafkaError::OtherCluster { found, .. }) => {
            Failure::unless_equal("the id found", found.as_str(), cluster.cluster_id())
        }
        other => Err(Failure::of(format!("another cluster was taken for ours: {other:?}"))),
    }
}

fn not_kafka(ground: &Ground) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut socket, _) = listener.accept()?;
        socket.write_all(b"220 mail.example ESMTP\r\n")
    });
    let mut expected = ground.cluster()?.expected();
    expected.nodes.insert(1, address);
    let missing = kafka::prove(&expected)?;
    server.join().map_err(|_| Failure::of("the server panicked"))??;
    Failure::unless(missing.is_some(), "a mail server was taken for Kafka")
}

fn lost_port(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    cluster.kill(1)?;
    let thief = TcpListener::bind(cluster.address(1))?;
    cluster.start_node(1)?;
    let told = cluster.wait_ready();
    drop(thief);
    match told {
        Err(KafkaError::NodeDied { node: 1, trouble, .. }) => Failure::unless(
            trouble.contains("Address already in use"),
            format!("no word of the port: {trouble}"),
        ),
        other => Err(Failure::of(format!("the stolen port was not noticed: {other:?}"))),
    }
}

fn kill_and_start(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    cluster.kill(1)?;
    Failure::unless(TcpStream::connect(cluster.address(1)).is_err(), "a killed node still listens")?;
    Failure::unless(cluster.coordinator("anything").is_err(), "a dead cluster named a coordinator")?;
    cluster.start_node(1)?;
    let again = cluster.start_node(1);
    Failure::unless(
        matches!(again, Err(KafkaError::BadNode { node: 1, .. })),
        "a running node was started again",
    )?;
    cluster.wait_ready()?;
    Failure::unless_equal("the coordinator", cluster.coordinator("anything")?, 1)
}

fn level_changes(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    for level in [1, 0, 2] {
        cluster.set_feature(level)?;
        Failure::unless_equal(
            "transaction.version",
            kafka::transaction_version(ground.bootstrap())?,
            level.into(),
        )?;
    }
    Ok(())
}

fn bad_property(_: &Ground) -> Outcome {
    match KafkaCluster::start(Spec::default().extra("num.io.threads", "none")) {
        Err(KafkaError::FormatFailed { trouble, .. } | KafkaError::NodeDied { trouble, .. }) => {
            Failure::unless(trouble.contains("num.io.threads"), format!("no word of the property: {trouble}"))
        }
        other => Err(Failure::of(format!("a nonsensical property was accepted: {other:?}"))),
    }
}

/// The program is killed as an impatient user would do it; it has no chance to tidy up.
fn nothing_outlives(_: &Ground) -> Outcome {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kafka-cluster"))
        .arg("up")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let mut stdin = program.stdin.take().ok_or_else(|| Failure::of("no standard input"))?;
    let mut lines =
        BufReader::new(program.stdout.take().ok_or_else(|| Failure::of("no standard output"))?).lines();
    let mut next = || lines.next().ok_or_else(|| Failure::of("kafka-cluster ended"))?.map_err(Failure::from);
    let bootstrap = next()?;
    writeln!(stdin, "logs")?;
    let log = std::path::PathBuf::from(next()?);
    TcpStream::connect(&bootstrap)?;

    program.kill()?;
    program.wait()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(&bootstrap).is_ok() || log.exists() {
        Failure::unless(Instant::now() < deadline, format!("{bootstrap} or {} is left", log.display()))?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn coordinator_killed(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    let id = ground.fresh("moving");
    let before = cluster.coordinator(&id)?;
    cluster.kill(before)?;
    cluster.wait_ready()?;
    let after = cluster.coordinator(&id)?;
    Failure::unless(after != before, format!("node {before} is dead and still coordinates"))?;
    cluster.start_node(before)?;
    cluster.wait_ready().map_err(Failure::from)
}

fn coordinator_frozen(ground: &Ground) -> Outcome {
    let cluster = ground.cluster()?;
    let id = ground.fresh("freezing");
    let before = cluster.coordinator(&id)?;
    cluster.pause(before)?;
    cluster.wait_ready()?;
    let after = cluster.coordinator(&id)?;
    cluster.cont(before)?;
    Failure::unless(after != before, format!("node {before} is frozen and still coordinates"))?;
    cluster.wait_ready().map_err(Failure::from)
}
