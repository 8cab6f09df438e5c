//! What came of it: a table for people, an object for programs.

use std::{io, time::Duration};

use comfy_table::{CellAlignment, Table, modifiers::UTF8_ROUND_CORNERS, presets::UTF8_BORDERS_ONLY};
use serde_json::{Value, json};

use super::{
    stage::{Mood, has_colors},
    tally::Counts,
};
use crate::cli::{
    Context, Exit,
    latency::{Latencies, Percentiles},
};

/// Everything that was counted and measured.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) counts: Counts,
    /// How often the writer was killed.
    pub(super) kills: u64,
    /// Transactions that recoveries committed.
    pub(super) resumed: u64,
    /// Transactions that recoveries aborted.
    pub(super) aborted: u64,
    pub(super) checkpoints: u64,
    pub(super) prepare: Latencies,
    pub(super) commit: Latencies,
    pub(super) visibility: Latencies,
    pub(super) seconds: f64,
    /// True without the data set.
    pub(super) made_up: bool,
}

impl Report {
    /// How the program ends.
    pub(super) fn exit(&self) -> Exit {
        match (self.counts.is_exactly_once(), self.counts.out_of_order) {
            (false, _) => Exit::Lost,
            (true, 0) => Exit::Done,
            (true, _) => Exit::Failed,
        }
    }

    /// Prints it as the command line asks.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(super) fn print(&self, context: &Context) -> io::Result<()> {
        if context.json() {
            return context.print(self.json().to_string());
        }
        context.print(self.table().to_string())?;
        let mood = if self.exit() == Exit::Done { Mood::Good } else { Mood::Bad };
        context.print(mood.paint(&self.verdict(), has_colors(&io::stdout())))
    }

    fn json(&self) -> Value {
        json!({
            "in": self.counts.input,
            "visible": self.counts.visible,
            "duplicated": self.counts.duplicated,
            "lost": self.counts.lost,
            "unknown": self.counts.unknown,
            "out_of_order": self.counts.out_of_order,
            "resumed": self.resumed,
            "aborted": self.aborted,
            "kills": self.kills,
            "checkpoints": self.checkpoints,
            "prepare_ms": milliseconds(&self.prepare),
            "commit_ms": milliseconds(&self.commit),
            "visibility_ms": milliseconds(&self.visibility),
            "seconds": (self.seconds * 10.0).round() / 10.0,
            "made_up": self.made_up,
        })
    }

    fn table(&self) -> Table {
        let counts = &self.counts;
        let mut table = Table::new();
        table.load_preset(UTF8_BORDERS_ONLY).apply_modifier(UTF8_ROUND_CORNERS);
        let mut row =
            |what: &str, left: String, right: String| _ = table.add_row([what.to_owned(), left, right]);
        let mut number = |what: &str, number| row(what, String::new(), grouped(number));
        number("records in", counts.input);
        number("visible", counts.visible);
        number("duplicated", counts.duplicated);
        number("lost", counts.lost);
        if counts.unknown > 0 {
            number("never written", counts.unknown);
        }
        if counts.out_of_order > 0 {
            number("out of order", counts.out_of_order);
        }
        row("", String::new(), String::new());
        let mut number = |what: &str, number| row(what, String::new(), grouped(number));
        number("kill -9", self.kills);
        number("transactions resumed", self.resumed);
        number("transactions aborted", self.aborted);
        number("checkpoints", self.checkpoints);
        row("", String::new(), String::new());
        row("latency", "p50".to_owned(), "p99".to_owned());
        for (what, latencies) in
            [("prepare", &self.prepare), ("commit", &self.commit), ("visibility", &self.visibility)]
        {
            let shown = |of: fn(Percentiles) -> Duration| {
                latencies.percentiles().map_or_else(|| "-".to_owned(), |all| time(of(all)))
            };
            row(what, shown(|all| all.p50), shown(|all| all.p99));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn verdict(&self) -> String {
        let counts = &self.counts;
        match self.exit() {
            Exit::Done => format!(
                "Exactly once: all {} records are there, each once and in order, in spite of {} kill -9 ({:.0} s).",
                grouped(counts.input),
                self.kills,
                self.seconds
            ),
            Exit::Failed => {
                format!("Exactly once, but {} records are out of order.", grouped(counts.out_of_order))
            }
            Exit::Usage | Exit::Lost | Exit::Undecidable => format!(
                "NOT exactly once: {} lost, {} duplicated, {} never written.",
                grouped(counts.lost),
                grouped(counts.duplicated),
                grouped(counts.unknown)
            ),
        }
    }
}

/// 1234567 as 1,234,567.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three figures are enough.
fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        _ if ms < 10.0 => format!("{ms:.2} ms"),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ => format!("{ms:.0} ms"),
    }
}

fn milliseconds(latencies: &Latencies) -> Value {
    let ms = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    latencies.percentiles().map_or(Value::Null, |all| json!({ "p50": ms(all.p50), "p99": ms(all.p99) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let all = [0, 999, 1000, 100_000, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "100,000", "1,234,567"]);
    }

    #[test]
    fn times_have_three_figures() {
        let all = [1_234, 45_678, 123_456].map(|us| time(Duration::from_micros(us)));
        assert_eq!(all, ["1.23 ms", "45.7 ms", "123 ms"]);
    }

    #[test]
    fn a_loss_a_duplicate_and_an_unknown_record_end_in_3() {
        let exit = |counts| Report { counts, ..Report::default() }.exit();
        assert_eq!(exit(Counts::default()), Exit::Done);
        assert_eq!(exit(Counts { lost: 1, ..Counts::default() }), Exit::Lost);
        assert_eq!(exit(Counts { duplicated: 1, ..Counts::default() }), Exit::Lost);
        assert_eq!(exit(Counts { unknown: 1, ..Counts::default() }), Exit::Lost);
        assert_eq!(exit(Counts { out_of_order: 1, ..Counts::default() }), Exit::Failed);
    }

    #[test]
    fn the_object_has_the_keys_that_scripts_read() {
        let counts = Counts { input: 5, visible: 5, duplicated: 1, lost: 1, ..Counts::default() };
        let json = Report { counts, resumed: 2, aborted: 3, ..Report::default() }.json();
        let values =
            ["in", "visible", "duplicated", "lost", "resumed", "aborted"].map(|key| json[key].as_u64());
        assert_eq!(values, [5, 5, 1, 1, 2, 3].map(Some));
        assert_eq!(json["prepare_ms"], Value::Null);
    }
}
