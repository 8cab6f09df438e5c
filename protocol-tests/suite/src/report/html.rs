//! The report as one page that needs nothing else.

use std::fmt::Write as _;

use super::Report;
use crate::outcome::Outcome;
use crate::run::Finding;

const STYLE: &str = "
body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#1b1f24}
table{border-collapse:collapse;margin:0 0 2em}
th,td{border:1px solid #d0d7de;padding:3px 8px;text-align:left;vertical-align:top}
th{position:sticky;top:0;background:#f6f8fa}
td.b{max-width:34em}
.pass{background:#dafbe1}.deviation{background:#fff8c5}.fail{background:#ffcecb;font-weight:600}
.not,.awaits{background:#f6f8fa;color:#656d76}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,.not,.awaits{background:#161b22}
td,th{border-color:#30363d}.pass{background:#12351d}.deviation{background:#3b2e00}.fail{background:#5a1e1e}}
";

pub(super) fn render(report: &Report<'_>) -> String {
    let mut out = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Conformance</title><style>{STYLE}</style><h1>Conformance</h1><ul>"
    );
    for line in report.summary().lines() {
        let _ = write!(out, "<li>{}", text(line));
    }
    out.push_str("</ul>");
    for (title, rows) in report.chapters() {
        let _ = write!(out, "<h2>{}</h2><table><tr><th>row<th>behaviour", text(title));
        for arm in &report.arms {
            let _ = write!(out, "<th>{}", text(arm));
        }
        for row in rows {
            let _ = write!(out, "<tr><td>{}<td class=b>{}", text(&row.id), text(&row.behaviour));
            for arm in &report.arms {
                out.push_str(&field(report.at(row, arm)));
            }
        }
        out.push_str("</table>");
    }
    out.push_str(&incidents(report));
    let remarks: Vec<_> = report.remarks().collect();
    if !remarks.is_empty() {
        out.push_str("<h2>Deviations and failures</h2><ul>");
        for f in remarks {
            let _ = write!(
                out,
                "<li><b>{} on {}</b>, {}: {}",
                text(&f.row),
                text(&f.arm),
                f.outcome.word(),
                text(f.outcome.why())
            );
        }
        out.push_str("</ul>");
    }
    out
}

fn incidents(report: &Report<'_>) -> String {
    let rows = report.incidents().map(|i| {
        let shown = i.shown.join(", ");
        format!("<tr><td class=b>{}<td>{}<td>{}", text(&i.seen), text(&i.sources), text(&shown))
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    format!("<h2>What went wrong for others</h2><table><tr><th>what<th>reported<th>shown by{rows}</table>")
}

fn field(finding: Option<&Finding>) -> String {
    let Some(finding) = finding else { return "<td>".to_owned() };
    let class = match &finding.outcome {
        Outcome::Pass => "pass",
        Outcome::Deviation(_) => "deviation",
        Outcome::Fail(_) => "fail",
        Outcome::NotOffered(_) => "not",
        Outcome::Awaits(_) => "awaits",
    };
    let shown = match &finding.outcome {
        Outcome::Pass => format!("pass<br><small>{} ms</small>", finding.millis),
        other => other.word().to_owned(),
    };
    format!("<td class={class} title=\"{}\">{shown}", text(finding.outcome.why()))
}

fn text(raw: &str) -> String {
    raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
