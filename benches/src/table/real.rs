//! The rows that need a real Kafka: records a second, commits a second, and the sink as a job.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use kafka_2pc_bench_child::{Job, Outcome, Workload};
use kafka_2pc_benches::cluster::{Cluster, kafka_cluster};

use crate::{
    options::Options,
    report::Row,
    rows::Goal,
    run::{Programs, child, settings},
    scenario::Contender,
};

/// What the rows write to, and how little of it is kept: with some gigabytes of it in the page cache the fastest client is
/// half as fast, whether it is on the disk by then or not.
const UP: [&str; 14] = [
    "--topic",
    "bench-1:1",
    "--topic",
    "bench-12:12",
    "--property",
    "log.segment.bytes=16777216",
    "--property",
    "log.retention.bytes=16777216",
    "--property",
    "log.retention.check.interval.ms=1000",
    "--property",
    "log.segment.delete.delay.ms=500",
    "--property",
    "log.initial.task.delay.ms=1000",
];

/// The rows on a cluster at level 2, and those of them that are another thing below it.
pub(crate) const ROWS: [(Option<&str>, &[&str]); 2] =
    [(None, &["P9", "S2", "S3", "S4", "S5", "S9"]), (Some("1"), &["S5", "S9"])];

/// Rows on real Kafka, or why they are missing. A cluster that is not ours stays as it is: at its level.
pub(crate) fn rows(options: &Options, programs: &Programs) -> Vec<Row> {
    let mut rows = Vec::new();
    for (level, ids) in ROWS {
        let wanted: Vec<_> = ids.iter().copied().filter(|id| options.wants(id)).collect();
        let missing = |reason: String| -> Vec<Row> {
            wanted.iter().map(|id| Row::missing(id, String::new(), reason.clone())).collect()
        };
        match &options.real {
            _ if wanted.is_empty() => {}
            None if level.is_none() => rows.extend(missing("needs real Kafka: --real start".into())),
            Some(real) if level.is_none() || real == "start" => {
                match on_cluster(real, level, &wanted, options, programs) {
                    Ok(found) => rows.extend(found),
                    Err(error) => rows.extend(missing(format!("{error:#}"))),
                }
            }
            None | Some(_) => {}
        }
    }
    rows
}

fn on_cluster(
    real: &str,
    level: Option<&str>,
    wanted: &[&'static str],
    options: &Options,
    programs: &Programs,
) -> Result<Vec<Row>> {
    let level_option = level.into_iter().flat_map(|level| ["--transaction-version", level]);
    let up: Vec<_> = UP.into_iter().chain(level_option).collect();
    let cluster = Cluster::start(real, &up)?;
    let runner = Runner { options, programs, bootstrap: &cluster.bootstrap, is_v1: level == Some("1") };
    let mut rows = Vec::new();
    for id in wanted {
        match runner.rows(id) {
            Ok(some) => rows.extend(some),
            Err(error) => rows.push(Row::missing(id, String::new(), format!("{error:#}"))),
        }
    }
    Ok(rows)
}

struct Runner<'a> {
    options: &'a Options,
    programs: &'a Programs,
    bootstrap: &'a str,
    is_v1: bool,
}

impl Runner<'_> {
    fn rows(&self, id: &'static str) -> Result<Vec<Row>> {
        match id {
            "P9" => {
                let mut rows = self.throughput(1, Goal::AtLeast(1.6, 2.0), Goal::AtLeast(3.0, 4.0))?;
                rows.extend(self.throughput(12, Goal::AtLeast(1.8, 2.5), Goal::AtLeast(4.0, 6.0))?);
                Ok(rows)
            }
            "S2" => {
                let runs = self.sink(1_000, self.options.size.pick(3_000, 10_000))?;
                let of = |name: &str| runs.iter().map(|run| run.numbers[name]).collect();
                let what = |p: &str| format!("durable to settled, 1,000/s, {p}, ms");
                Ok(vec![
                    Row::measured(id, what("p50"), Goal::AtMost(10.0, 5.0), of("settled_p50")),
                    Row::measured(id, what("p99"), Goal::AtMost(25.0, 15.0), of("settled_p99")),
                ])
            }
            "S3" => {
                let runs = self.sink(0, self.options.size.pick(200_000, 2_000_000))?;
                let values = runs.iter().map(Outcome::cpu_per_million).collect();
                let what = "sink at full rate, CPU s per million".into();
                Ok(vec![Row::measured(id, what, Goal::AtMost(0.6, 0.3), values)])
            }
            "S4" => {
                let runs = self.sink(10_000, self.options.size.pick(20_000, 100_000))?;
                let values = runs.iter().map(|run| run.peak_bytes as f64 / f64::from(1 << 20)).collect();
                let what = "sink at 10,000/s, peak MiB".into();
                Ok(vec![Row::measured(id, what, Goal::AtMost(40.0, 20.0), values)])
            }
            "S5" => {
                let runs = self.sink(1_000, self.options.size.pick(5_000, 10_000))?;
                let values = runs.iter().map(|run| run.numbers["requests"]).collect();
                let goal = if self.is_v1 { Goal::AtMost(4.0, 3.1) } else { Goal::AtMost(3.0, 2.0) };
                Ok(vec![Row::measured(id, self.at("requests by checkpoint without Produce"), goal, values)])
            }
            _ => self.commits(id),
        }
    }

    fn run(&self, job: Job, contender: Contender) -> Result<Outcome> {
        let job = Job { bootstrap: self.bootstrap.to_owned(), ..job };
        let peers = self.programs.peers.as_ref().context("bench-peers is not built, see benches/README.md");
        let program = if contender.is_peer() { peers? } else { &self.programs.client };
        child(program, &settings(job, contender, self.options)?)
    }

    /// A job of the sink, once a round.
    fn sink(&self, per_second: u32, records: u64) -> Result<Vec<Outcome>> {
        let job = Job {
            workload: Workload::Sink,
            topic: "bench-1".into(),
            record_bytes: 90,
            per_second,
            records,
            ..Job::default()
        };
        (0..self.options.rounds).map(|_| self.run(job.clone(), Contender::Ours)).collect()
    }

    fn commits(&self, id: &'static str) -> Result<Vec<Row>> {
        let job = Job {
            workload: Workload::Pool,
            topic: "bench-1".into(),
            records: 1,
            transactions: self.options.size.pick(200, 2000),
            ..Job::default()
        };
        let peers =
            Job { workload: Workload::Transactions, transactions: job.transactions / 4, ..job.clone() };
        let (mut own, mut raw) = (Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            own.push(self.run(job.clone(), Contender::Ours)?);
            raw.push(self.run(peers.clone(), Contender::Raw)?);
        }
        let rate = |runs: &[Outcome]| runs.iter().map(Outcome::commits_per_second).collect();
        let cpu = |runs: &[Outcome]| runs.iter().map(Outcome::cpu_ms_per_commit).collect();
        let own_goal = Goal::AtLeast(400.0, 1000.0);
        Ok(vec![
            Row::measured(id, self.at("commits/s of one sink, pool of 4"), own_goal, rate(&own)),
            Row::measured(id, "  CPU ms per commit".into(), Goal::Shown, cpu(&own)),
            Row::measured(id, "  librdkafka, one id".into(), Goal::Shown, rate(&raw)),
            Row::measured(id, "  librdkafka, CPU ms per commit".into(), Goal::Shown, cpu(&raw)),
        ])
    }

    /// What is measured, and where that makes a difference.
    fn at(&self, what: &str) -> String {
        if self.is_v1 { format!("{what}, V1") } else { what.to_owned() }
    }

    fn throughput(&self, partitions: i32, base: Goal, java: Goal) -> Result<Vec<Row>> {
        let job = Job {
            topic: format!("bench-{partitions}"),
            partitions,
            records: self.options.size.pick(200_000, 1_000_000),
            ..Job::default()
        };
        // A broker that has done nothing yet is slow.
        self.run(job.clone(), Contender::Ours)?;
        let mut runs = <[Vec<Outcome>; 3]>::default();
        for round in 0..self.options.rounds {
            for turn in 0..runs.len() {
                let who = (round + turn) % runs.len();
                runs[who].push(match who {
                    0 => self.run(job.clone(), Contender::Ours)?,
                    1 => self.run(job.clone(), Contender::Base)?,
                    _ => self.java(&job)?,
                });
            }
        }
        let [own, base_runs, java_runs] = runs;
        let ratios = |of: fn(&Outcome) -> f64, peer: &[Outcome]| {
            own.iter().zip(peer).map(|(ours, peer)| of(ours) / of(peer)).collect()
        };
        let rate = Outcome::records_per_second;
        let cpu = Outcome::cpu_per_million;
        let places = format!("{partitions}p");
        let row = |what: &str, goal, values| Row::measured("P9", what.to_owned(), goal, values);
        Ok(vec![
            row(&format!("records/s, real, {places}"), Goal::Shown, own.iter().map(rate).collect()),
            row(&format!("records/s, real, {places} / BaseProducer"), base, ratios(rate, &base_runs)),
            row(&format!("records/s, real, {places} / ProducerPerformance"), java, ratios(rate, &java_runs)),
            row("  CPU s per million", Goal::Shown, own.iter().map(cpu).collect()),
            row("  CPU / BaseProducer", Goal::Shown, ratios(cpu, &base_runs)),
            row("  CPU / ProducerPerformance, JVM included", Goal::Shown, ratios(cpu, &java_runs)),
        ])
    }

    /// Java's own measure of its rate; the processor time is that of the whole program.
    fn java(&self, job: &Job) -> Result<Outcome> {
        let (records, bytes) = (job.records.to_string(), job.record_bytes.to_string());
        let properties = [
            ("acks", "all".to_owned()),
            ("enable.idempotence", "true".to_owned()),
            ("batch.size", job.batch_bytes.to_string()),
            ("linger.ms", job.linger.as_millis().to_string()),
            ("buffer.memory", job.buffer_bytes.to_string()),
        ];
        let output = Command::new("bash")
            .env("LC_ALL", "C")
            .args(["-c", "TIMEFORMAT='cpu_s %U %S'; time \"$@\"", "bash"])
            .arg(kafka_cluster()?)
            .args(["tools", "4.4.0", self.bootstrap, "org.apache.kafka.tools.ProducerPerformance"])
            .args(["--topic", &job.topic, "--num-records", &records, "--record-size", &bytes])
            .args(["--throughput", "-1", "--producer-props"])
            .arg(format!("bootstrap.servers={}", self.bootstrap))
            .args(properties.map(|(name, value)| format!("{name}={value}")))
            .stdin(Stdio::null())
            .output()?;
        let (told, timed) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let (rate, cpu_s) = rate(&told).zip(cpu_seconds(&timed)).with_context(|| format!("{told}{timed}"))?;
        let wall_s = job.records as f64 / rate;
        Ok(Outcome { wall_s, cpu_s, ..Outcome::default() }.records(job.records))
    }
}

/// The last rate that ProducerPerformance tells: that of all records.
fn rate(told: &str) -> Option<f64> {
    told.lines().rev().find_map(|line| {
        let rate = line.split(", ").find_map(|part| part.split_once(" records/sec"))?.0;
        rate.trim().parse().ok()
    })
}

/// User and system time, as bash tells it.
fn cpu_seconds(timed: &str) -> Option<f64> {
    let line = timed.lines().rev().find_map(|line| line.strip_prefix("cpu_s "))?;
    line.split(' ').map(|seconds| seconds.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_java_and_bash_tell_is_read() {
        let told = "5 records sent, 1.0 records/sec (0.10 MB/sec), 3 ms avg\n\
                    200000 records sent, 268456.4 records/sec (25.60 MB/sec), 60.44 ms avg latency\n";
        assert_eq!((rate(told), rate("Exception")), (Some(268_456.4), None));
        let timed = "SLF4J: no logger\ncpu_s 3.250 0.500\n";
        assert_eq!((cpu_seconds(timed), cpu_seconds("cpu_s x 1")), (Some(3.75), None));
    }
}
