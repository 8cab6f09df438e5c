//! A table with bars, for a terminal.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::breakdown::{Breakdown, label, told};

/// How wide the bars are together.
const WIDTH: usize = 36;
/// Eighths of a block.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The table, and what it is of.
pub(super) fn draw(breakdown: &Breakdown) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["", "STEP p50", "p99", "SINCE TRIGGER p50", "p99", ""]);
    let bars = breakdown.bars();
    let whole = bars.last().map_or(Duration::ZERO, |(_, end)| *end);
    for (phase, (from, to)) in breakdown.phases.iter().zip(&bars) {
        table.add_row([
            label(phase.stage).to_owned(),
            told(phase.step.p50),
            told(phase.step.p99),
            told(phase.since_trigger.p50),
            told(phase.since_trigger.p99),
            bar(*from, *to, whole),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let given_up = match breakdown.given_up {
        0 => String::new(),
        n => format!(", and {n} that were given up"),
    };
    format!("{} checkpoints{given_up}\n{}", breakdown.checkpoints, table.trim_fmt())
}

/// A bar from one time to another, of a line that is as long as all.
fn bar(from: Duration, to: Duration, whole: Duration) -> String {
    let eighths = |time: Duration| {
        let share = if whole.is_zero() { 0.0 } else { time.as_secs_f64() / whole.as_secs_f64() };
        (share * (WIDTH * 8) as f64).round() as usize
    };
    let (from, to) = (eighths(from), eighths(to));
    // Blocks can't begin within a cell; and what took any time is seen.
    let cell = from / 8;
    let length = (to - (cell * 8).min(to)).max(1);
    format!("{}{}{}", " ".repeat(cell), "█".repeat(length / 8), PARTS[length % 8])
}

#[cfg(test)]
mod tests {
    use super::{super::samples::checkpoints, *};

    #[test]
    fn bars_follow_each_other() {
        let ms = Duration::from_millis;
        assert_eq!(bar(ms(0), ms(50), ms(100)), "█".repeat(18));
        assert_eq!(bar(ms(50), ms(100), ms(100)), format!("{}{}", " ".repeat(18), "█".repeat(18)));
        assert_eq!(bar(ms(100), ms(100), ms(100)), format!("{}▏", " ".repeat(36)), "it is seen");
        assert_eq!(bar(ms(0), ms(0), ms(0)), "▏");
    }

    #[test]
    fn every_phase_has_a_row() {
        let text = draw(&Breakdown::of(&checkpoints(200)));
        assert!(text.starts_with("200 checkpoints, and 1 that were given up\n"), "{text}");
        let durable = text.lines().find(|line| line.contains("durable")).unwrap();
        let cells: Vec<_> = durable.split_whitespace().take(9).collect();
        assert_eq!(cells.join(" "), "durable 5.0 ms 5.0 ms 115 ms 213 ms");
        assert_eq!(text.lines().count(), 2 + 8);
    }
}
