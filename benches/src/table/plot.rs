//! The ratios as a picture, by hand: bars on a logarithmic scale, with the goals beside them.

use std::fmt::Write;

use crate::{
    report::{Mark, Row, short},
    rows::Goal,
};

const LEFT: f64 = 330.0;
const WIDTH: f64 = 400.0;
const LINE: f64 = 22.0;
const TOP: f64 = 66.0;

/// Colours for a light page and for a dark one.
const STYLE: &str = "text{font:12px sans-serif;fill:#24292f}.h{font-size:14px;font-weight:bold}.s{fill:#57606a}\
.met{fill:#2da44e}.stretch{fill:#1a7f37}.missed{fill:#cf222e}.axis{stroke:#8c959f;stroke-width:1}\
.goal{stroke:#24292f;stroke-width:2}.range{stroke:#57606a;stroke-width:1}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}.goal{stroke:#e6edf3}.range{stroke:#9198a1}\
.met{fill:#2ea043}.stretch{fill:#3fb950}.missed{fill:#f85149}}";

/// Draws each row that compares with somebody. Bars to the left of 1 are less than the other's; how many bars are good to
/// the right (rates) says the row.
pub(crate) fn svg(rows: &[Row], note: &str) -> String {
    let rows: Vec<&Row> =
        rows.iter().filter(|row| row.what.contains(" / ") && row.goal != Goal::Shown).collect();
    let height = TOP + LINE * rows.len() as f64 + 16.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {height:.0}\" role=\"img\" \
         aria-label=\"kafka-2pc beside other clients\">\n<style>{STYLE}</style>\n\
         <text class=\"h\" x=\"8\" y=\"20\">kafka-2pc beside others: median of paired ratios, smallest to largest</text>\n\
         <text class=\"s\" x=\"8\" y=\"38\">{}</text>\n",
        escaped(note)
    );
    for tick in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0] {
        let x = place(tick);
        // Writing to a string does not fail.
        _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke-dasharray=\"{}\"/>\
             <text class=\"s\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{tick}</text>",
            TOP - 8.0,
            height - 12.0,
            if tick == 1.0 { "none" } else { "2 4" },
            TOP - 12.0
        );
    }
    for (at, row) in rows.iter().enumerate() {
        bar(&mut out, row, TOP + LINE * at as f64);
    }
    out.push_str("</svg>\n");
    out
}

fn bar(out: &mut String, row: &Row, y: f64) {
    let Ok(sample) = &row.values else { return };
    let (value, one) = (place(sample.median()), place(1.0));
    let class = match row.mark() {
        Mark::Stretch => "stretch",
        Mark::Met => "met",
        Mark::Missed | Mark::Shown | Mark::NotMeasured => "missed",
    };
    let goal = match row.goal {
        Goal::AtMost(must, _) | Goal::AtLeast(must, _) => place(must),
        Goal::Shown => one,
    };
    _ = writeln!(
        out,
        "<text x=\"8\" y=\"{:.0}\">{} {}</text>\
         <rect class=\"{class}\" x=\"{:.1}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"14\"/>\
         <line class=\"range\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{:.0}\" y2=\"{:.0}\"/>\
         <line class=\"goal\" x1=\"{goal:.1}\" x2=\"{goal:.1}\" y1=\"{:.0}\" y2=\"{:.0}\"/>\
         <text x=\"792\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
        y + 11.0,
        row.id,
        escaped(&row.what),
        value.min(one),
        (value - one).abs().max(1.0),
        place(sample.min()),
        place(sample.max()),
        y + 7.0,
        y + 7.0,
        y - 2.0,
        y + 16.0,
        y + 11.0,
        short(sample.median())
    );
}

/// Where a ratio is, from 0.05 to 10.
fn place(ratio: f64) -> f64 {
    let (low, high) = (0.05_f64.ln(), 10.0_f64.ln());
    LEFT + WIDTH * ((ratio.max(1e-9).ln() - low) / (high - low)).clamp(0.0, 1.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_comparisons_with_a_goal_are_drawn() {
        let rows = [
            Row::measured("P1", "CPU, x / a & b".into(), Goal::AtMost(0.5, 0.3), vec![0.7]),
            Row::measured("P1", "CPU alone".into(), Goal::AtMost(0.5, 0.3), vec![0.7]),
            Row::measured("P1", "CPU, y / c".into(), Goal::Shown, vec![0.7]),
        ];
        let drawn = svg(&rows, "two <cores>");
        assert_eq!(drawn.matches("<rect").count(), 1);
        assert!(
            drawn.contains("a &amp; b") && drawn.contains("two &lt;cores&gt;") && drawn.contains("missed")
        );
    }

    #[test]
    fn one_lies_between_less_and_more() {
        assert!(place(0.2) < place(1.0) && place(1.0) < place(4.0));
        assert_eq!(place(1e9), LEFT + WIDTH);
    }
}
