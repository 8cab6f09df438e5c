//! The times of all checkpoints, taken together.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    checkpoint::timeline::{CheckpointTimes, Stage},
    cli::latency::{Latencies, Percentiles},
};

/// What is told of, in the order in which a checkpoint passes it; the trigger is the beginning of all.
const STAGES: [Stage; 9] = [
    Stage::AtSource,
    Stage::AtOperator,
    Stage::AtSink,
    Stage::Prepared,
    Stage::Acknowledged,
    Stage::Durable,
    Stage::Notified,
    Stage::Committed,
    Stage::Visible,
];

/// Where the time went.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Breakdown {
    /// How many complete checkpoints there are.
    pub(super) checkpoints: usize,
    /// How many were given up.
    pub(super) given_up: usize,
    /// Those stages that any checkpoint passed.
    pub(super) phases: Vec<Phase>,
    /// Of each checkpoint, the oldest first: how long each of `phases` took; nothing for one that it did not pass.
    pub(super) history: Vec<Vec<Duration>>,
}

/// One stage, over all checkpoints that passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) stage: Stage,
    /// How many passed it.
    pub(super) checkpoints: usize,
    /// From the stage before until the last subtask had passed this one.
    pub(super) step: Percentiles,
    /// From the trigger until then.
    pub(super) since_trigger: Percentiles,
}

impl Breakdown {
    /// Of these checkpoints; only those that are complete count.
    pub(super) fn of(all: &[CheckpointTimes]) -> Self {
        let complete: Vec<_> =
            all.iter().filter(|times| times.since_trigger(Stage::Durable).is_some()).collect();
        let steps: Vec<_> = complete.iter().map(|times| steps(times)).collect();
        let passed = |stage| steps.iter().any(|steps| steps.iter().any(|(s, _, _)| *s == stage));
        let stages: Vec<_> = STAGES.into_iter().filter(|stage| passed(*stage)).collect();
        let took = |steps: &Steps, stage: Stage| {
            steps.iter().find(|(s, _, _)| *s == stage).map_or(Duration::ZERO, |(_, step, _)| *step)
        };
        Self {
            checkpoints: complete.len(),
            given_up: all.iter().filter(|times| times.last(Stage::GivenUp).is_some()).count(),
            phases: stages.iter().filter_map(|stage| phase(*stage, &steps)).collect(),
            history: steps
                .iter()
                .map(|steps| stages.iter().map(|stage| took(steps, *stage)).collect())
                .collect(),
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let ms = |time: Duration| time.as_micros() as f64 / 1000.0;
        let both = |p: &Percentiles| json!({ "p50": ms(p.p50), "p99": ms(p.p99) });
        let phase = |phase: &Phase| {
            json!({
                "phase": phase.stage.name(),
                "checkpoints": phase.checkpoints,
                "step_ms": both(&phase.step),
                "since_trigger_ms": both(&phase.since_trigger),
            })
        };
        json!({
            "checkpoints": self.checkpoints,
            "given_up": self.given_up,
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
        })
    }

    /// Where the bar of each phase begins and ends: at the medians since the trigger. They are of different checkpoints, so
    /// that one may be before the last.
    pub(super) fn bars(&self) -> Vec<(Duration, Duration)> {
        let mut reached = Duration::ZERO;
        let mut bars = Vec::new();
        for phase in &self.phases {
            let end = phase.since_trigger.p50.max(reached);
            bars.push((reached, end));
            reached = end;
        }
        bars
    }
}

type Steps = Vec<(Stage, Duration, Duration)>;

/// The stages that a checkpoint passed, each with its time since the one before and since the trigger.
fn steps(times: &CheckpointTimes) -> Steps {
    let (mut before, mut steps) = (0, Vec::new());
    for stage in STAGES {
        if let Some(since) = times.since_trigger(stage) {
            // Subtasks run side by side: one may be told late what another has done early.
            let (step, at) = ((since - before).max(0), since.max(0));
            steps.push((stage, micros(step), micros(at)));
            before = before.max(since);
        }
    }
    steps
}

fn micros(us: i64) -> Duration {
    Duration::from_micros(us.unsigned_abs())
}

fn phase(stage: Stage, all: &[Steps]) -> Option<Phase> {
    let (mut step, mut since) = (Latencies::default(), Latencies::default());
    for (_, took, at) in all.iter().flatten().filter(|(s, _, _)| *s == stage) {
        step.push(*took);
        since.push(*at);
    }
    let checkpoints = step.count();
    Some(Phase { stage, checkpoints, step: step.percentiles()?, since_trigger: since.percentiles()? })
}

/// A time for people.
pub(super) fn told(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1_000 => format!("{us} µs"),
        us @ 1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        us @ 10_000..1_000_000 => format!("{} ms", us / 1_000),
        us => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// What a phase is called for people.
pub(super) fn label(stage: Stage) -> &'static str {
    match stage {
        Stage::Triggered => "trigger",
        Stage::AtSource => "barrier at sources",
        Stage::AtOperator => "barrier at operators",
        Stage::AtSink => "barrier at sinks",
        Stage::Prepared => "prepared (flushed)",
        Stage::Acknowledged => "all acknowledged",
        Stage::Durable => "durable",
        Stage::Notified => "notified",
        Stage::Committed => "committed (EndTxn)",
        Stage::Visible => "visible (settled)",
        Stage::GivenUp => "given up",
    }
}

#[cfg(test)]
mod tests {
    use super::{super::samples::checkpoints, *};

    fn ms(p: Percentiles) -> (u128, u128) {
        (p.p50.as_millis(), p.p99.as_millis())
    }

    #[test]
    fn quantiles_are_of_all_complete_checkpoints() {
        // Checkpoint n is prepared 10 + n ms after its trigger, durable 5 ms later, committed 20 ms later.
        let all = checkpoints(200);
        let b = Breakdown::of(&all);
        assert_eq!((b.checkpoints, b.given_up, b.history.len()), (200, 1, 200));
        let of = |stage| *b.phases.iter().find(|phase| phase.stage == stage).unwrap();
        assert_eq!(ms(of(Stage::Prepared).since_trigger), (110, 208));
        assert_eq!((ms(of(Stage::Durable).step), ms(of(Stage::Durable).since_trigger)), ((5, 5), (115, 213)));
        // Every second one had records.
        assert_eq!(of(Stage::Committed).checkpoints, 100);
        assert_eq!(ms(of(Stage::Committed).step), (20, 20));
        assert!(!b.phases.iter().any(|phase| phase.stage == Stage::AtOperator), "there are none");
        let json = b.json();
        assert_eq!((&json["checkpoints"], &json["phases"][2]["phase"]), (&200.into(), &"prepared".into()));
        assert_eq!(json["phases"][2]["since_trigger_ms"], serde_json::json!({"p50": 110.0, "p99": 208.0}));
    }

    #[test]
    fn bars_never_go_back() {
        let bars = Breakdown::of(&checkpoints(20)).bars();
        assert!(bars.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert!(bars.iter().all(|(from, to)| from <= to));
    }

    #[test]
    fn times_read_well() {
        let texts = [0, 999, 1_234, 43_210, 1_234_567].map(|us| told(micros(us)));
        assert_eq!(texts, ["0 µs", "999 µs", "1.2 ms", "43 ms", "1.2 s"]);
    }
}
