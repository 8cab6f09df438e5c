//! Settings by the names that Kafka gave them: `--set NAME=VALUE` and `--config FILE`.

use std::{fs, num::NonZeroUsize, path::Path, sync::Arc, time::Duration};

use super::Usage;
use crate::{client::ClientConfig, record::Compression, sink::SinkConfig};

type Apply = fn(&mut ClientConfig, &mut SinkConfig, &str) -> Result<(), String>;

/// What is supported.
const KNOWN: [(&str, Apply); 16] = [
    (SERVERS, |c, _, v| {
        c.bootstrap = ClientConfig::new(v).map_err(|e| e.to_string())?.bootstrap;
        Ok(())
    }),
    ("client.id", |c, _, v| {
        c.client_id = Arc::from(v);
        Ok(())
    }),
    ("request.timeout.ms", |c, _, v| wait(v).map(|d| c.request_timeout = d)),
    ("socket.connection.setup.timeout.ms", |c, _, v| wait(v).map(|d| c.setup_timeout = d)),
    ("max.block.ms", |c, s, v| wait(v).map(|d| (c.max_block, s.max_block) = (d, d))),
    ("commit.connections", |_, s, v| count(v).map(|n| s.commit_connections = n)),
    ("transaction.timeout.ms", |_, s, v| millis(v).map(|d| s.transaction_timeout = d)),
    ("delivery.timeout.ms", |_, s, v| wait(v).map(|d| s.delivery_timeout = d)),
    ("linger.ms", |_, s, v| millis(v).map(|d| s.linger = d)),
    ("batch.size", |_, s, v| bytes(v).map(|n| s.batch_bytes = n)),
    ("max.request.size", |_, s, v| bytes(v).map(|n| s.request_bytes = n)),
    ("buffer.memory", |_, s, v| bytes(v).map(|n| s.buffer_bytes = n)),
    ("compression.type", |_, s, v| compression(v).map(|c| s.compression = c)),
    ("acks", |_, _, v| fixed(v, &["all", "-1"], "transactions need acks=all")),
    ("enable.idempotence", |_, _, v| fixed(v, &["true"], "transactions need idempotence")),
    // It belongs to the state: `num_retained` finds it.
    (NUM_RETAINED, |_, _, v| checkpoints(v).map(|_| ())),
];

/// Flink's name for how many checkpoints are kept.
const NUM_RETAINED: &str = "state.checkpoints.num-retained";

/// Names that other clients have and this one has not, with the reason.
const UNSUPPORTED: [(&str, &str); 8] = [
    ("security.protocol", "TLS and SASL are not supported yet"),
    ("ssl.", "TLS is not supported yet"),
    ("sasl.", "SASL is not supported yet"),
    ("transactional.id", "ids come from --transactional-id-prefix"),
    ("max.in.flight.requests.per.connection", "it is 5, which brokers recognise repeats of"),
    ("partitioner.class", "keys are placed as Kafka's Java client does"),
    ("key.serializer", "lines are bytes"),
    ("value.serializer", "lines are bytes"),
];

/// Takes a property that only one command has; `None` for any other.
pub(super) type Own<'a> = dyn FnMut(&str, &str) -> Option<Result<(), Usage>> + 'a;

/// Settings as they were given, the file's before the command line's.
#[derive(Debug, Default)]
pub(super) struct Settings(Vec<Given>);

#[derive(Debug)]
struct Given {
    /// Where it stands, for messages.
    place: String,
    name: String,
    value: String,
}

/// The brokers to begin with.
const SERVERS: &str = "bootstrap.servers";

impl Settings {
    /// # Errors
    /// The file can't be read, or something is not `NAME=VALUE`.
    pub(super) fn read(file: Option<&Path>, set: &[String]) -> Result<Self, Usage> {
        let mut all = Vec::new();
        if let Some(path) = file {
            let name = path.display();
            let text = fs::read_to_string(path).map_err(|e| Usage(format!("--config {name}: {e}")))?;
            for (at, line) in text.lines().enumerate() {
                let line = line.trim();
                if !line.is_empty() && !line.starts_with(['#', '!']) {
                    all.push(given(format!("{name}, line {}: ", at + 1), line)?);
                }
            }
        }
        for setting in set {
            all.push(given(String::new(), setting)?);
        }
        Ok(Self(all))
    }

    /// The cluster, if a setting names one; the command line before the file.
    pub(super) fn bootstrap(&self) -> Option<&str> {
        self.0.iter().rev().find(|given| given.name == SERVERS).map(|given| given.value.as_str())
    }

    /// How many checkpoints are kept, if the settings say so; they were applied without an error.
    pub(super) fn num_retained(&self) -> Option<NonZeroUsize> {
        let named = self.0.iter().rev().find(|given| given.name == NUM_RETAINED)?;
        checkpoints(&named.value).ok()
    }

    /// Applies all but the cluster, which is chosen before: `client` has it. `own` may take what only one command has.
    ///
    /// # Errors
    /// A name that is not supported, or a value that makes no sense, also one that is not used.
    pub(super) fn apply(
        &self,
        client: &mut ClientConfig,
        sink: &mut SinkConfig,
        own: &mut Own<'_>,
    ) -> Result<(), Usage> {
        let chosen = client.bootstrap.clone();
        for Given { place, name, value } in &self.0 {
            let taken = own(name, value).unwrap_or_else(|| set(client, sink, name, value));
            taken.map_err(|Usage(e)| Usage(format!("{place}{e}")))?;
        }
        client.bootstrap = chosen;
        Ok(())
    }
}

fn given(place: String, setting: &str) -> Result<Given, Usage> {
    match setting.split_once('=') {
        Some((name, value)) => {
            Ok(Given { place, name: name.trim().to_owned(), value: value.trim().to_owned() })
        }
        None => Err(Usage(format!("{place}{setting:?} is not NAME=VALUE"))),
    }
}

/// Applies one setting.
pub(super) fn set(
    client: &mut ClientConfig,
    sink: &mut SinkConfig,
    name: &str,
    value: &str,
) -> Result<(), Usage> {
    if let Some((_, apply)) = KNOWN.iter().find(|(known, _)| *known == name) {
        return apply(client, sink, value).map_err(|e| Usage(format!("{name}={value}: {e}")));
    }
    let matches = |known: &str| name == known || (known.ends_with('.') && name.starts_with(known));
    if let Some((_, why)) = UNSUPPORTED.iter().find(|(known, _)| matches(known)) {
        return Err(Usage(format!("{name} is not supported: {why}")));
    }
    let nearest = KNOWN.iter().map(|(known, _)| *known).min_by_key(|known| distance(known, name));
    let nearest = nearest.unwrap_or_default();
    Err(Usage(format!("{name} is no setting of this program; the nearest one is {nearest}")))
}

pub(super) fn millis(value: &str) -> Result<Duration, String> {
    value.parse().map(Duration::from_millis).map_err(|_| "it must be a number of milliseconds".into())
}

/// A time to wait for something. Nothing comes within none.
fn wait(value: &str) -> Result<Duration, String> {
    let time = millis(value)?;
    if time.is_zero() { Err("it must be above 0".into()) } else { Ok(time) }
}

pub(super) fn bytes(value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "it must be a number of bytes above 0".into())
}

fn checkpoints(value: &str) -> Result<NonZeroUsize, String> {
    value.parse().map_err(|_| "it must be a number of checkpoints above 0".into())
}

fn count(value: &str) -> Result<u16, String> {
    let number = value.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "it must be a number above 0".into())
}

fn compression(value: &str) -> Result<Compression, String> {
    match value {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        _ => Err("none and lz4 are supported".into()),
    }
}

fn fixed(value: &str, allowed: &[&str], why: &str) -> Result<(), String> {
    if allowed.contains(&value) { Ok(()) } else { Err(why.into()) }
}

/// How many characters must be changed to make one of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs() -> (ClientConfig, SinkConfig) {
        (ClientConfig::new("a:1").unwrap(), SinkConfig::new("p").unwrap())
    }

    fn one(c: &mut ClientConfig, s: &mut SinkConfig, setting: &str) -> Result<(), Usage> {
        let Given { name, value, .. } = given(String::new(), setting)?;
        set(c, s, &name, &value)
    }

    fn error(setting: &str) -> String {
        let (mut c, mut s) = configs();
        one(&mut c, &mut s, setting).unwrap_err().0
    }

    #[test]
    fn the_cluster_is_chosen_before_and_the_last_setting_counts() {
        let set =
            |all: &[&str]| Settings::read(None, &all.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        let settings =
            set(&["bootstrap.servers=b:2", "linger.ms=1", "bootstrap.servers = c:3", "linger.ms=2"]).unwrap();
        assert_eq!(settings.bootstrap(), Some("c:3"));
        let (mut c, mut s) = configs();
        settings.apply(&mut c, &mut s, &mut |_, _| None).unwrap();
        assert_eq!((&*c.bootstrap[0].0, s.linger.as_millis()), ("a", 2));
        assert!(
            set(&["bootstrap.servers=nonsense"]).unwrap().apply(&mut c, &mut s, &mut |_, _| None).is_err()
        );
        assert!(set(&["x"]).unwrap_err().0.contains("NAME=VALUE"));
    }

    #[test]
    fn every_name_changes_its_setting() {
        let (mut c, mut s) = configs();
        for setting in [
            "bootstrap.servers=b:2",
            "client.id=me",
            "request.timeout.ms=1",
            "socket.connection.setup.timeout.ms=2",
            "max.block.ms=3",
            "commit.connections=10",
            "transaction.timeout.ms=4",
            "delivery.timeout.ms=5",
            "linger.ms=6",
            "batch.size=7",
            "max.request.size=8",
            "buffer.memory=9",
            "compression.type=lz4",
            "acks=all",
            "enable.idempotence=true",
            "state.checkpoints.num-retained=3",
        ] {
            one(&mut c, &mut s, setting).unwrap();
        }
        assert_eq!((&*c.bootstrap[0].0, &*c.client_id), ("b", "me"));
        let times = [c.request_timeout, c.setup_timeout, c.max_block, s.transaction_timeout, s.max_block];
        assert_eq!(times.map(|t| t.as_millis()), [1, 2, 3, 4, 3]);
        assert_eq!(s.commit_connections, 10);
        assert_eq!((s.delivery_timeout.as_millis(), s.linger.as_millis()), (5, 6));
        assert_eq!((s.batch_bytes, s.request_bytes, s.buffer_bytes), (7, 8, 9));
        assert_eq!(s.compression, Compression::Lz4);
    }

    #[test]
    fn the_number_of_kept_checkpoints_is_found_and_the_last_one_counts() {
        let set = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(Settings::read(None, &set(&["linger.ms=1"])).unwrap().num_retained(), None);
        let twice = set(&["state.checkpoints.num-retained=3", "state.checkpoints.num-retained = 5"]);
        assert_eq!(Settings::read(None, &twice).unwrap().num_retained(), NonZeroUsize::new(5));
        assert!(error("state.checkpoints.num-retained=0").contains("above 0"));
    }

    #[test]
    fn what_is_not_supported_says_why_and_what_is_unknown_names_the_nearest() {
        assert!(error("ssl.truststore.location=x").contains("TLS is not supported yet"));
        assert!(error("sasl.jaas.config=secret").contains("SASL"));
        assert!(!error("sasl.jaas.config=secret").contains("secret"));
        assert!(error("linger=5").contains("linger.ms"));
        assert!(error("compresion.type=lz4").contains("compression.type"));
        assert!(error("acks=1").contains("acks=all"));
        assert!(error("batch.size=none").contains("bytes"));
        assert!(error("request.timeout.ms=0").contains("above 0"));
        assert!(error("nonsense").contains("NAME=VALUE"));
    }
}
