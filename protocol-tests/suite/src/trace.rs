//! What a client could see of a row, so that two brokers can be compared.
//!
//! A trace is the ordered list of calls with their outcomes, and of the answers that decided something: API, version and
//! error of the transactional APIs. Answers that only ask for patience are left out: how many there are is a matter of
//! timing. Equal lines that follow one another are one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::code::ErrorCode;

use crate::tap::{Answer, Tap};

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A call of the row's body, and how it ended.
    Call(String),
    /// An answer.
    Answer(String),
}

/// The trace of one row on one broker.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    lines: Vec<Line>,
    read: usize,
    /// A Produce was told to come again: what was under way behind it is out of order, and comes again as well.
    behind: bool,
    private: Option<String>,
}

const TRACED: [Api; 6] = [
    Api::InitProducerId,
    Api::AddPartitionsToTxn,
    Api::AddOffsetsToTxn,
    Api::TxnOffsetCommit,
    Api::Produce,
    Api::EndTxn,
];

/// UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, COORDINATOR_LOAD_IN_PROGRESS,
/// COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
/// CONCURRENT_TRANSACTIONS, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID.
const PATIENCE: [i16; 12] = [3, 5, 6, 7, 14, 15, 16, 19, 20, 51, 100, 103];

/// OUT_OF_ORDER_SEQUENCE_NUMBER.
const OUT_OF_ORDER: i16 = 45;

impl Trace {
    /// Notes a call and its outcome, after the answers that came before it ended.
    pub fn call(&self, tap: &Tap, call: &str, outcome: impl fmt::Display) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.catch_up(tap);
        inner.push(Line::Call(format!("{call}: {outcome}")));
    }

    /// The row's trace depends on timing or on chance by its nature, so it is not compared; `why` says why.
    pub fn keep_private(&self, why: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).private = Some(why.to_owned());
    }

    /// All lines up to now; `None` if they are not to be compared.
    #[must_use]
    pub fn lines(&self, tap: &Tap) -> Option<Vec<Line>> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.catch_up(tap);
        inner.private.is_none().then(|| inner.lines.clone())
    }
}

impl Inner {
    fn catch_up(&mut self, tap: &Tap) {
        let answers = tap.answers();
        for answer in &answers[self.read..] {
            if !self.is_behind(answer) {
                line(answer).into_iter().for_each(|line| self.push(line));
            }
        }
        self.read = answers.len();
    }

    /// Whether it was refused because one before it was told to come again, which is a matter of timing as well.
    fn is_behind(&mut self, answer: &Answer) -> bool {
        if answer.api != Api::Produce {
            return false;
        }
        let has = |which: &dyn Fn(i16) -> bool| answer.codes.iter().any(|code| which(*code));
        self.behind = match (has(&is_patience), has(&|code| code == OUT_OF_ORDER)) {
            (true, _) => true,
            (false, out_of_order) => self.behind && out_of_order,
        };
        self.behind
    }

    fn push(&mut self, line: Line) {
        if self.lines.last() != Some(&line) {
            self.lines.push(line);
        }
    }
}

fn is_patience(code: i16) -> bool {
    PATIENCE.contains(&code)
}

/// The line of an answer, if it belongs into a trace.
fn line(answer: &Answer) -> Option<Line> {
    if !TRACED.contains(&answer.api) || answer.codes.iter().copied().any(is_patience) {
        return None;
    }
    let mut codes: Vec<_> = answer.codes.iter().map(|code| ErrorCode::from_code(*code).name()).collect();
    codes.dedup();
    Some(Line::Answer(format!("{} {} {}", answer.api.name(), answer.version, codes.join(" "))))
}

/// Where two traces part, in words; `None` if they agree.
#[must_use]
pub fn difference(embedded: &[Line], real: &[Line]) -> Option<String> {
    if embedded == real {
        return None;
    }
    let same = embedded.iter().zip(real).take_while(|(one, other)| one == other).count();
    let at = |lines: &[Line]| lines.get(same).map_or_else(|| "the end".to_owned(), Line::to_string);
    Some(format!("the traces part after {same} lines: embedded {:?}, real {:?}", at(embedded), at(real)))
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Call(text) | Self::Answer(text)) = self;
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(api: Api, codes: &[i16]) -> Answer {
        Answer::of(api, 4, codes)
    }

    #[test]
    fn only_answers_that_decide_something_are_lines() {
        assert_eq!(line(&answer(Api::Metadata, &[0])), None);
        assert_eq!(line(&answer(Api::EndTxn, &[51])), None);
        assert_eq!(
            line(&answer(Api::EndTxn, &[48])),
            Some(Line::Answer("EndTxn 4 INVALID_TXN_STATE".into()))
        );
        assert_eq!(line(&answer(Api::Produce, &[0, 0])), Some(Line::Answer("Produce 4 NONE".into())));
    }

    #[test]
    fn what_is_out_of_order_behind_what_comes_again_is_no_line() {
        let lines = |answers: &[(Api, i16)]| {
            let mut inner = Inner::default();
            let kept = answers.iter().filter(|(api, code)| !inner.is_behind(&answer(*api, &[*code])));
            kept.map(|(_, code)| *code).collect::<Vec<_>>()
        };
        let produce = |code| (Api::Produce, code);
        assert_eq!(lines(&[produce(6), produce(45), (Api::EndTxn, 48), produce(45), produce(0)]), [48, 0]);
        assert_eq!(lines(&[produce(0), produce(45), produce(0)]), [0, 45, 0], "without such a reason");
        assert_eq!(lines(&[produce(6), produce(0), produce(45)]), [0, 45], "that is over");
    }

    #[test]
    fn the_first_difference_is_named() {
        let lines = |texts: &[&str]| texts.iter().map(|t| Line::Call((*t).into())).collect::<Vec<_>>();
        assert_eq!(difference(&lines(&["a", "b"]), &lines(&["a", "b"])), None);
        let told = difference(&lines(&["a", "b"]), &lines(&["a"])).unwrap_or_default();
        assert!(told.contains("after 1 lines") && told.contains("the end"), "{told}");
    }
}
