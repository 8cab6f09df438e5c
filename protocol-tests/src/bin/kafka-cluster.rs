//! Runs real Apache Kafka in the foreground: `kafka-cluster up` prints the bootstrap servers when the cluster is ready, and the
//! cluster lives until standard input closes or the program is interrupted or killed.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use kafka_2pc_protocol_tests::foreign::Venv;
use kafka_2pc_protocol_tests::kafka::{JarSet, Jars, KafkaCluster, KafkaError, Spec, Tools, Topic};

const USAGE: &str = "\
usage: kafka-cluster up [OPTIONS]      run a cluster; commands are read from standard input, its end stops the cluster
       kafka-cluster fetch [VERSION]   fetch the jars of a version, the tools' too; without one those of 4.4.0 and the foreign clients
       kafka-cluster tools VERSION BOOTSTRAP CLASS [ARGS..]   run one of Kafka's own tools

options of up
  --version V              Kafka's version: 4.4.0, 4.0.2, 3.9.2, 3.5.2, ...  (4.4.0)
  --nodes N                1 to 4  (1)
  --transaction-version L  level of the feature transaction.version: 0, 1, 2  (2; always 0 on Kafka 3)
  --property NAME=VALUE    one more server property; may be repeated
  --topic NAME[:COUNT]     create a topic of COUNT partitions (1); may be repeated
  --ignore-stdin           do not read commands: run until interrupted or killed (for scripts that start it with &)

commands on standard input, each answered by one line, `ok` or `error: ...`
  kill N | start N | pause N | cont N      crash, start, freeze, continue node N
  ready                                    wait until the live nodes are a working cluster
  coordinator ID                           the node that coordinates transactional.id ID
  feature L                                set transaction.version
  topic NAME[:COUNT]                       create a topic
  bootstrap | id | logs                    addresses, cluster id, log files
  quit

environment: KAFKA_KEEP=1 keeps data and logs, KAFKA_2PC_DIR says where they are made, KAFKA_2PC_CACHE where jars are kept";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["up", options @ ..] => up(options),
        ["fetch"] => fetch("4.4.0").and_then(|()| Venv::ensure().map(drop).map_err(|e| e.to_string())),
        ["fetch", version] => fetch(version),
        ["tools", version, bootstrap, class, rest @ ..] => tools(version, bootstrap, class, rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("kafka-cluster: {why}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, Default)]
struct Options {
    spec: Spec,
    topics: Vec<Topic>,
    ignore_stdin: bool,
}

fn up(options: &[&str]) -> Result<(), String> {
    let options = parse(options)?;
    eprintln!("starting {}", options.spec);
    let cluster = KafkaCluster::start(options.spec).map_err(|e| e.to_string())?;
    for topic in &options.topics {
        cluster.create_topic(topic).map_err(|e| e.to_string())?;
    }
    say(&cluster.bootstrap());
    if options.ignore_stdin {
        // No signal is handled: when this process dies, its watchdog stops the cluster.
        loop {
            std::thread::park();
        }
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["quit"] => break,
            words => match command(&cluster, words) {
                Ok(answer) => say(&answer),
                Err(why) => say(&format!("error: {}", why.replace('\n', " | "))),
            },
        }
    }
    Ok(())
}

fn parse(words: &[&str]) -> Result<Options, String> {
    let mut options = Options::default();
    let (mut nodes, mut level, mut properties) = (1, None, Vec::new());
    let mut words = words.iter().copied();
    while let Some(name) = words.next() {
        if name == "--ignore-stdin" {
            options.ignore_stdin = true;
            continue;
        }
        let value =
            words.next().ok_or_else(|| format!("{name}: a value is missing, or there is no such option"))?;
        match name {
            "--version" => options.spec = Spec::new(value),
            "--nodes" => nodes = number(value)?,
            "--transaction-version" => level = Some(number(value)?),
            "--property" => properties.push(value.split_once('=').ok_or(format!("{value}: no ="))?),
            "--topic" => options.topics.push(topic(value)?),
            _ => return Err(format!("{name}: no such option\n{USAGE}")),
        }
    }
    options.spec.nodes = nodes;
    if let Some(level) = level {
        options.spec.transaction_version = level;
    }
    for (name, value) in properties {
        options.spec.extra.insert(name.into(), value.into());
    }
    Ok(options)
}

fn command(cluster: &KafkaCluster, words: &[&str]) -> Result<String, String> {
    let ok = |done: Result<(), KafkaError>| done.map(|()| "ok".to_owned()).map_err(|e| e.to_string());
    match words {
        ["kill", node] => ok(cluster.kill(number(node)?)),
        ["start", node] => ok(cluster.start_node(number(node)?)),
        ["pause", node] => ok(cluster.pause(number(node)?)),
        ["cont", node] => ok(cluster.cont(number(node)?)),
        ["ready"] => ok(cluster.wait_ready()),
        ["coordinator", id] => {
            cluster.coordinator(id).map(|node| node.to_string()).map_err(|e| e.to_string())
        }
        ["feature", level] => ok(cluster.set_feature(number(level)?)),
        ["topic", wanted] => ok(cluster.create_topic(&topic(wanted)?)),
        ["bootstrap"] => Ok(cluster.bootstrap()),
        ["id"] => Ok(cluster.cluster_id().to_owned()),
        ["logs"] => {
            let logs = (1..=cluster.spec().nodes).map(|node| cluster.log(node).display().to_string());
            Ok(logs.collect::<Vec<_>>().join(" "))
        }
        _ => Err(format!("{}: no such command", words.join(" "))),
    }
}

fn number(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("{text}: not a small number"))
}

fn topic(text: &str) -> Result<Topic, String> {
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let count = count.parse().map_err(|_| format!("{text}: not NAME:COUNT"))?;
    Ok(Topic::new(name, count))
}

fn fetch(version: &str) -> Result<(), String> {
    for set in [JarSet::Server, JarSet::Tools] {
        let jars = Jars::ensure(version, set).map_err(|e| e.to_string())?;
        say(&jars.folder().display().to_string());
    }
    Ok(())
}

fn tools(version: &str, bootstrap: &str, class: &str, arguments: &[&str]) -> Result<(), String> {
    let tools = Tools::new(version, bootstrap).map_err(|e| e.to_string())?;
    let output = tools.run(class, arguments).map_err(|e| e.to_string())?;
    print!("{}", output.stdout);
    Ok(())
}

/// A line on standard output, at once: a script waits for it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that has gone away is no reason to stop the cluster.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
