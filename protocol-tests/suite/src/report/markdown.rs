//! The report as Markdown.

use std::fmt::Write as _;

use super::Report;
use crate::outcome::Outcome;
use crate::run::Finding;

pub(super) fn render(report: &Report<'_>) -> String {
    let mut out = String::from("# Conformance\n\n");
    for line in report.summary().lines() {
        let _ = writeln!(out, "- {line}");
    }
    for (title, rows) in report.chapters() {
        let _ = writeln!(out, "\n## {title}\n\n| row | behaviour | {} |", report.arms.join(" | "));
        let _ = writeln!(out, "|---|---|{}", "---|".repeat(report.arms.len()));
        for row in rows {
            let fields: Vec<_> = report.arms.iter().map(|arm| field(report.at(row, arm))).collect();
            let _ = writeln!(out, "| {} | {} | {} |", row.id, cell(&row.behaviour), fields.join(" | "));
        }
    }
    let incidents: Vec<_> = report.incidents().collect();
    if !incidents.is_empty() {
        out.push_str("\n## What went wrong for others\n\n| what | reported | shown by |\n|---|---|---|\n");
    }
    for i in incidents {
        let _ = writeln!(out, "| {} | {} | {} |", cell(&i.seen), cell(&i.sources), cell(&i.shown.join(", ")));
    }
    let remarks: Vec<_> = report.remarks().collect();
    if !remarks.is_empty() {
        out.push_str("\n## Deviations and failures\n\n");
    }
    for f in remarks {
        let _ =
            writeln!(out, "- **{} on {}**, {}: {}", f.row, f.arm, f.outcome.word(), cell(f.outcome.why()));
    }
    out
}

/// One field; what does not belong to an arm is empty.
fn field(finding: Option<&Finding>) -> String {
    let Some(finding) = finding else { return String::new() };
    match &finding.outcome {
        Outcome::Pass => format!("pass, {} ms", finding.millis),
        Outcome::Deviation(why) => {
            format!("deviation: {}", cell(why.split(':').next().unwrap_or_default()))
        }
        Outcome::Fail(_) => "**FAIL**".to_owned(),
        Outcome::NotOffered(why) => format!("not offered: {}", cell(why)),
        Outcome::Awaits(why) => format!("awaits {}", cell(why)),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
