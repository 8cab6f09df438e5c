//! A node's server properties.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::ports::PortBlock;
use super::spec::Spec;

/// The text of `server.properties` of one node; the spec's own properties win over ours.
pub(crate) fn server(spec: &Spec, ports: &PortBlock, node: u8, data: &Path) -> String {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |name: &str, value: String| all.insert(name.to_owned(), value);
    for (name, value) in FIXED {
        set(name, (*value).to_owned());
    }

    let voters: Vec<_> = (1..=spec.nodes).map(|n| format!("{n}@127.0.0.1:{}", ports.controller(n))).collect();
    set("node.id", node.to_string());
    // Static voters: every node is formatted alike, without the options of dynamic quorums.
    set("controller.quorum.voters", voters.join(","));
    let (broker, controller) = (ports.broker(node), ports.controller(node));
    set("listeners", format!("PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}"));
    set("log.dirs", data.display().to_string());

    let replicas = spec.replicas();
    let in_sync = replicas.saturating_sub(1).max(1);
    for name in [
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    ] {
        set(name, replicas.to_string());
    }
    for name in ["min.insync.replicas", "transaction.state.log.min.isr"] {
        set(name, in_sync.to_string());
    }

    all.extend(spec.extra.iter().map(|(name, value)| (name.clone(), value.clone())));
    all.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string can not fail.
        let _ = writeln!(text, "{name}={value}");
        text
    })
}

/// Partitions of `__transaction_state`: few, so that coordinators load fast and every one is proven ready.
pub(crate) const TRANSACTION_PARTITIONS: u32 = 6;

const FIXED: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    ("auto.create.topics.enable", "false"),
    ("num.partitions", "1"),
    // Records keep whatever timestamp a test gives them, and stay.
    ("log.retention.ms", "-1"),
    ("transaction.state.log.num.partitions", "6"),
    // Timed out transactions are aborted within half a second, instead of ten: tests see it happen.
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
    // Kafka's default, which is what users have.
    ("transaction.max.timeout.ms", "900000"),
    // A dead node is noticed within three seconds, instead of nine.
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "5"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    // Small: several nodes share a machine with the tests.
    ("num.network.threads", "2"),
    ("num.io.threads", "4"),
    ("background.threads", "2"),
    ("num.recovery.threads.per.data.dir", "1"),
    ("log.cleaner.dedupe.buffer.size", "16777216"),
    ("log.index.size.max.bytes", "1048576"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_the_spec_win() {
        let ports = PortBlock::take(1500).unwrap();
        let spec = Spec::default().nodes(3).extra("num.partitions", "9").extra("my.own", "x");
        let text = server(&spec, &ports, 2, Path::new("/data"));
        let lines: Vec<_> = text.lines().collect();
        for line in [
            "num.partitions=9",
            "my.own=x",
            "node.id=2",
            "min.insync.replicas=2",
            "default.replication.factor=3",
        ] {
            assert!(lines.contains(&line), "{line} in {text}");
        }
        assert!(!lines.contains(&"num.partitions=1"));
        assert!(
            lines
                .contains(&format!("transaction.state.log.num.partitions={TRANSACTION_PARTITIONS}").as_str())
        );
    }
}
