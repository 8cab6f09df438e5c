//! What the program writes into `KAFKA_2PC_TRACE`: a line before each step that a crash can hit.

use std::path::Path;

use super::ProgramError;

/// One line of a trace: `MILLISECONDS PROCESS POINT [NUMBER]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The process.
    pub process: u32,
    /// The step.
    pub point: String,
    /// How often this process has come there; of `checkpoint` its id; 0 if the line has none.
    pub number: u64,
}

/// The steps of one process in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its lines; one that the death of the process cut short is left out.
    pub passages: Vec<Passage>,
}

/// What a process was doing when its trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing yet.
    Start,
    /// Reading and writing records.
    Write,
    /// Flushing, so that every record is acknowledged.
    Prepare,
    /// Making the checkpoint durable.
    Store,
    /// Ending transactions that are durable.
    Commit,
    /// Recovering from an earlier death.
    Recovery,
}

impl Trace {
    /// Reads a trace. A file that is not there is an empty one: the process died before its first step.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn read(path: &Path) -> Result<Self, ProgramError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(ProgramError::io(format!("read {}", path.display()))(e)),
        };
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, ProgramError> {
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let passage = |line: &str| {
            passage(line).ok_or_else(|| ProgramError::Strange {
                what: "a line of a trace is not understood".into(),
                output: line.into(),
            })
        };
        Ok(Self { passages: whole.lines().map(passage).collect::<Result<_, _>>()? })
    }

    /// How often it passed a point.
    pub fn count(&self, point: &str) -> usize {
        self.passages.iter().filter(|passage| passage.point == point).count()
    }

    /// The last line.
    pub fn last(&self) -> Option<&Passage> {
        self.passages.last()
    }

    /// True when recovery found a transaction to commit or to abort.
    pub fn recovery_worked(&self) -> bool {
        self.count("recovery-commit") + self.count("leftover-abort") > 0
    }

    /// What the process was doing at its end. Records are written and sent while a commit runs, so such lines are looked through
    /// until a line of the cycle tells where it stands.
    pub fn phase(&self) -> Phase {
        let passing = ["write", "flush", "checkpoint"];
        let cycle = |passage: &&Passage| !passing.contains(&passage.point.as_str());
        let point = |passage: &Passage| passage.point.clone();
        let last = self.last().map(point).unwrap_or_default();
        match self.passages.iter().rev().find(cycle).map(point).unwrap_or_default().as_str() {
            "prepare" => Phase::Prepare,
            "prepared" | "store-half" => Phase::Store,
            "durable" | "endtxn-sent" => Phase::Commit,
            "endtxn-answered" if last == "endtxn-answered" => Phase::Commit,
            "recovery" | "recovery-commit" | "leftover-abort" => Phase::Recovery,
            "" if last.is_empty() => Phase::Start,
            _ => Phase::Write,
        }
    }
}

fn passage(line: &str) -> Option<Passage> {
    let mut words = line.split_whitespace();
    let passage = Passage {
        at_ms: words.next()?.parse().ok()?,
        process: words.next()?.parse().ok()?,
        point: words.next()?.to_owned(),
        number: words.next().map_or(Some(0), |number| number.parse().ok())?,
    };
    words.next().is_none().then_some(passage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(points: &[&str]) -> Trace {
        let text: String = points.iter().map(|point| format!("1700000000000 7 {point}\n")).collect();
        Trace::parse(&text).unwrap()
    }

    #[test]
    fn lines_are_read_and_a_cut_one_is_left_out() {
        let trace = Trace::parse("1700000000000 7 write 12\n1700000000001 7 flu").unwrap();
        let read = Passage { at_ms: 1_700_000_000_000, process: 7, point: "write".into(), number: 12 };
        assert_eq!(trace.passages, [read]);
        assert!(Trace::parse("write\n").is_err());
    }

    #[test]
    fn the_end_of_a_trace_tells_the_phase() {
        for (points, phase) in [
            (&[][..], Phase::Start),
            (&["recovery"][..], Phase::Recovery),
            (&["recovery", "leftover-abort 1"], Phase::Recovery),
            (&["recovery", "recovered"], Phase::Write),
            (&["recovered", "write 1", "flush 1"], Phase::Write),
            (&["write 1", "prepare", "flush 1"], Phase::Prepare),
            (&["prepare", "flush 1", "prepared 1"], Phase::Store),
            (&["prepared 1", "store-half 1"], Phase::Store),
            (&["durable 1", "checkpoint 4", "write 9"], Phase::Commit),
            (&["endtxn-sent 1", "write 9"], Phase::Commit),
            (&["endtxn-sent 1", "endtxn-answered 1"], Phase::Commit),
            (&["endtxn-answered 1", "write 9"], Phase::Write),
        ] {
            assert_eq!(after(points).phase(), phase, "{points:?}");
        }
    }
}
