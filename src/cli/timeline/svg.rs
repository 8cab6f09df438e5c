//! A picture: the median checkpoint as a waterfall, and the newest checkpoints as columns.

use std::{fmt::Write as _, time::Duration};

use super::breakdown::{Breakdown, label, told};
use crate::checkpoint::timeline::Stage;

const WIDTH: f64 = 960.0;
/// Where the bars and columns lie.
const LEFT: f64 = 170.0;
const RIGHT: f64 = 740.0;
const ROW: f64 = 26.0;
const COLUMNS_HEIGHT: f64 = 180.0;
/// As many columns as can be told apart.
const COLUMNS: usize = 140;
/// The picture, which needs nothing else.
pub(super) fn draw(breakdown: &Breakdown) -> String {
    let rows = breakdown.phases.len() as f64 * ROW;
    let (bars, columns) = (88.0, 88.0 + rows + 92.0);
    let height = columns + COLUMNS_HEIGHT + 44.0;
    let mut svg = Svg::new(WIDTH, height);
    svg.text((24.0, 34.0), "title", "Where the time of a checkpoint goes");
    let given_up = match breakdown.given_up {
        0 => String::new(),
        n => format!(", {n} given up"),
    };
    let told = format!(
        "{} checkpoints{given_up}. Bars: medians since the trigger; lines: to the 99th percentile.",
        breakdown.checkpoints
    );
    svg.text((24.0, 56.0), "note", &told);
    svg.text((RIGHT + 90.0, bars - 8.0), "head end", "step p50");
    svg.text((RIGHT + 180.0, bars - 8.0), "head end", "step p99");
    waterfall(&mut svg, breakdown, bars);
    history(&mut svg, breakdown, columns);
    svg.end()
}

fn waterfall(svg: &mut Svg, breakdown: &Breakdown, top: f64) {
    let longest = breakdown.phases.iter().map(|phase| phase.since_trigger.p99).max().unwrap_or_default();
    let scale = Scale::new(longest, RIGHT - LEFT);
    let bottom = top + breakdown.phases.len() as f64 * ROW;
    for (at, time) in scale.ticks() {
        svg.line((LEFT + at, top), (LEFT + at, bottom), "grid");
        svg.text((LEFT + at, bottom + 16.0), "tick middle", &time);
    }
    for ((n, phase), (from, to)) in (0..).zip(&breakdown.phases).zip(breakdown.bars()) {
        let y = top + f64::from(n) * ROW;
        let (from, to) = (LEFT + scale.at(from), LEFT + scale.at(to));
        let late = (LEFT + scale.at(phase.since_trigger.p99)).max(to);
        svg.text((LEFT - 12.0, y + 17.0), "label end", label(phase.stage));
        svg.rect((from, y + 5.0), ((to - from).max(1.5), ROW - 10.0), color(phase.stage));
        svg.line((to, y + ROW / 2.0), (late, y + ROW / 2.0), "whisker");
        svg.line((late, y + 8.0), (late, y + ROW - 8.0), "whisker");
        svg.text((RIGHT + 90.0, y + 17.0), "number end", &told(phase.step.p50));
        svg.text((RIGHT + 180.0, y + 17.0), "number end", &told(phase.step.p99));
    }
}

/// The newest checkpoints, each a column of its phases. Those far above all others are cut off.
fn history(svg: &mut Svg, breakdown: &Breakdown, top: f64) {
    let newest = &breakdown.history[breakdown.history.len().saturating_sub(COLUMNS)..];
    svg.text(
        (24.0, top - 24.0),
        "subtitle",
        &format!("The newest {} checkpoints, oldest left", newest.len()),
    );
    let mut totals: Vec<Duration> = newest.iter().map(|phases| phases.iter().sum()).collect();
    totals.sort_unstable();
    // Most of them decide the height.
    let usual = totals.get(totals.len() * 95 / 100).copied().unwrap_or_default();
    let highest = totals.last().copied().unwrap_or_default().min(usual * 2);
    let scale = Scale::new(highest, COLUMNS_HEIGHT);
    let bottom = top + COLUMNS_HEIGHT;
    for (at, time) in scale.ticks() {
        svg.line((LEFT, bottom - at), (WIDTH - 40.0, bottom - at), "grid");
        svg.text((LEFT - 12.0, bottom - at + 4.0), "tick end", &time);
    }
    let space = (WIDTH - 40.0 - LEFT) / newest.len().max(24) as f64;
    for (n, phases) in newest.iter().enumerate() {
        let x = LEFT + n as f64 * space;
        let mut reached = Duration::ZERO;
        for (phase, took) in breakdown.phases.iter().zip(phases) {
            let (from, to) = (scale.at(reached), scale.at(reached + *took));
            reached += *took;
            let (from, to) = (from.min(COLUMNS_HEIGHT), to.min(COLUMNS_HEIGHT));
            if to - from >= 0.05 {
                svg.rect((x, bottom - to), ((space * 0.85).max(1.0), to - from), color(phase.stage));
            }
        }
        if scale.at(reached) > COLUMNS_HEIGHT {
            svg.text((x + space * 0.4, top - 4.0), "cut middle", "▲");
        }
    }
    let cut = "▲ taller than the picture";
    if newest.iter().any(|phases| scale.at(phases.iter().sum()) > COLUMNS_HEIGHT) {
        svg.text((WIDTH - 40.0, top - 24.0), "note end", cut);
    }
    svg.line((LEFT, bottom), (WIDTH - 40.0, bottom), "axis");
}

/// Okabe and Ito's colors, which everybody can tell apart, and greys for what takes no time as a rule.
fn color(stage: Stage) -> &'static str {
    match stage {
        Stage::AtSource => "#56B4E9",
        Stage::AtOperator => "#CC79A7",
        Stage::AtSink => "#0072B2",
        Stage::Prepared => "#E69F00",
        Stage::Acknowledged => "#BBBBBB",
        Stage::Durable => "#D55E00",
        Stage::Committed => "#F0E442",
        Stage::Visible => "#009E73",
        Stage::Notified | Stage::Triggered | Stage::GivenUp => "#777777",
    }
}

/// Times on a line of some length.
struct Scale {
    whole: Duration,
    length: f64,
    step: Duration,
}

impl Scale {
    /// For times up to this one.
    fn new(longest: Duration, length: f64) -> Self {
        let longest = longest.max(Duration::from_micros(10));
        let mut step = Duration::from_micros(1);
        // 1, 2, 5, 10, 20, ..
        for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
            if step * 6 >= longest {
                break;
            }
            step = step.mul_f64(factor);
        }
        let steps = longest.as_nanos().div_ceil(step.as_nanos());
        Self { whole: step * u32::try_from(steps).unwrap_or(1), length, step }
    }

    fn at(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.whole.as_secs_f64() * self.length
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        let ticks = (0..=8).map(|n| self.step * n).take_while(|time| *time <= self.whole);
        ticks.map(|time| (self.at(time), if time.is_zero() { "0".to_owned() } else { told(time) }))
    }
}

/// What is drawn so far.
struct Svg(String);

impl Svg {
    fn new(width: f64, height: f64) -> Self {
        let style = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:13px;fill:#222}\
                     .title{font-size:20px;font-weight:600}.subtitle{font-size:15px;font-weight:600}\
                     .note,.tick,.head{fill:#666;font-size:12px}.cut{fill:#D55E00;font-size:8px}\
                     .number{font-variant-numeric:tabular-nums}.end{text-anchor:end}.middle{text-anchor:middle}\
                     .grid{stroke:#e4e4e4}.axis{stroke:#888}.whisker{stroke:#444;stroke-width:1.2}";
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<style>{style}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        ))
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        // Writing into a string does not fail.
        _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>");
    }

    fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        _ = writeln!(
            self.0,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{fill}\"/>"
        );
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        _ = writeln!(
            self.0,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{super::samples::checkpoints, *};

    /// Whether tags are closed in turn, and values quoted; not more of XML than is written here.
    fn is_well_formed(text: &str) -> bool {
        let (mut open, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find('<') {
            let Some(end) = rest[at..].find('>') else { return false };
            let (before, tag) = (&rest[..at], &rest[at + 1..at + end]);
            rest = &rest[at + end + 1..];
            let entities = before.split('&').skip(1);
            if !entities.into_iter().all(|e| ["amp;", "lt;", "gt;"].iter().any(|known| e.starts_with(known)))
            {
                return false;
            }
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return false;
                }
                continue;
            }
            let inner = tag.trim_end_matches('/');
            let values = inner.split('"').count();
            let names = inner.split('"').step_by(2).skip(1).filter(|between| !between.is_empty());
            if values % 2 == 0 || !names.into_iter().all(|between| between.starts_with(' ')) {
                return false;
            }
            if !tag.ends_with('/') {
                open.extend(inner.split(' ').next());
            }
        }
        open.is_empty() && rest.trim().is_empty()
    }

    #[test]
    fn pictures_are_well_formed() {
        assert!(is_well_formed("<a b=\"c\"><d/>x &amp; y</a>"));
        for wrong in ["<a>", "<a><b></a></b>", "<a b=\"c>", "<a>x & y</a>", "<a>x < y</a>"] {
            assert!(!is_well_formed(wrong), "{wrong}");
        }
        for count in [1, 2, 200, 1_000] {
            let svg = draw(&Breakdown::of(&checkpoints(count)));
            assert!(is_well_formed(&svg), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn ticks_are_round_and_reach_over_the_longest_time() {
        for us in [0, 1, 7, 99, 1_234, 87_654, 999_999, 60_000_000] {
            let longest = Duration::from_micros(us);
            let scale = Scale::new(longest, 100.0);
            let ticks: Vec<_> = scale.ticks().collect();
            assert!((3..=8).contains(&ticks.len()), "{us}: {ticks:?}");
            assert!(scale.whole >= longest && (ticks.last().unwrap().0 - 100.0).abs() < 0.01, "{us}");
        }
        let told: Vec<_> = Scale::new(Duration::from_millis(87), 1.0).ticks().map(|(_, told)| told).collect();
        assert_eq!(told, ["0", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms"]);
    }
}
