//! A strict reader of Prometheus' text format 0.0.4.

use std::collections::{BTreeMap, BTreeSet};

/// Everything of one answer.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Sample {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

impl Scrape {
    /// Each family has one HELP, then one TYPE, then samples of its name alone, none of them twice.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.is_empty() && !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        let (mut all, mut families, mut seen) = (Self::default(), BTreeSet::new(), BTreeSet::new());
        let (mut helped, mut family): (Option<&str>, Option<(&str, &str)>) = (None, None);
        for line in text.lines().filter(|line| !line.is_empty()) {
            let wrong = |why: &str| Err(format!("{why}: {line}"));
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let Some((name, _)) = rest.split_once(' ') else { return wrong("no text") };
                (helped, family) = (Some(name), None);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let Some((name, kind)) = rest.split_once(' ') else { return wrong("no type") };
                if !["counter", "gauge", "histogram"].contains(&kind) {
                    return wrong("no such type");
                }
                if helped.take() != Some(name) || !families.insert(name) {
                    return wrong("no HELP before it, or there twice");
                }
                family = Some((name, kind));
            } else {
                let Some(family) = family else { return wrong("no TYPE before it") };
                let sample = sample(line).ok_or_else(|| format!("no sample: {line}"))?;
                if !belongs(&sample.name, family)
                    || !seen.insert((sample.name.clone(), sample.labels.clone()))
                {
                    return wrong("of another family, or there twice");
                }
                all.samples.push(sample);
            }
        }
        Ok(all)
    }

    /// The values of this metric together.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.samples.iter().filter(|sample| sample.name == name).map(|sample| sample.value).sum()
    }

    /// That of one subtask.
    pub(super) fn of(&self, name: &str, subtask: &str) -> f64 {
        let of = |sample: &&Sample| sample.name == name && sample.label("subtask") == Some(subtask);
        self.samples.iter().filter(of).map(|sample| sample.value).sum()
    }
}

fn belongs(name: &str, (family, kind): (&str, &str)) -> bool {
    match (kind, name.strip_prefix(family)) {
        ("histogram", Some(end)) => ["_bucket", "_sum", "_count"].contains(&end),
        (_, end) => end == Some(""),
    }
}

fn sample(line: &str) -> Option<Sample> {
    let name: String = line.chars().take_while(|c| c.is_ascii_alphanumeric() || "_:".contains(*c)).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = &line[name.len()..];
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = value.strip_prefix(' ')?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// The labels up to the closing brace, and what comes behind it.
fn labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        let (name, behind) = rest.split_once("=\"")?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let (mut value, mut chars) = (String::new(), behind.char_indices());
        let end = loop {
            match chars.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    same @ ('\\' | '"') => same,
                    _ => return None,
                }),
                (_, c) => value.push(c),
            }
        };
        labels.insert(name.to_owned(), value).is_none().then_some(())?;
        rest = &behind[end..];
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        rest = rest.strip_prefix(',')?;
    }
}

#[test]
fn what_is_not_the_format_is_refused() {
    let head = "# HELP a b\n# TYPE a counter\n";
    let good = Scrape::parse(&format!("{head}a{{b=\"c\\\"\\\\\",d=\"\"}} 1.5\n")).expect("it is right");
    assert_eq!((good.sum("a"), good.samples[0].label("b")), (1.5, Some("c\"\\")));
    for wrong in
        ["a 1", "a x\n", "b 1\n", "a{b=c} 1\n", "a{b=\"c\" 1\n", "a 1\na 1\n", "a{b=\"\\x\"} 1\n", "a  1\n"]
    {
        assert!(Scrape::parse(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
    assert!(Scrape::parse("a 1\n").is_err() && Scrape::parse("# TYPE a gauge\na 1\n").is_err());
}
