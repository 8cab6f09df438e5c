//! The documents: the commands that they name exist, with these options, and their links lead somewhere.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use clap::{Parser, error::ErrorKind};

use super::Cli;

/// The words of every command of this program in a line of shell.
fn commands(line: &str) -> Vec<Vec<&str>> {
    let line = line.split(" #").next().unwrap_or_default();
    let parts = line.split(['|', ';', '&', '>']);
    let words = parts.map(|part| part.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first() == Some(&"kafka-2pc")).collect()
}

/// A page in two parts: lines of shell, those that go on with a backslash as one, and lines that are no code.
fn parts(page: &str) -> (Vec<String>, Vec<String>) {
    let (mut shell, mut prose, mut fence) = (Vec::new(), Vec::new(), None);
    for line in page.replace("\\\n", " ").lines() {
        match (fence, line.trim().strip_prefix("```")) {
            (None, Some(language)) => fence = Some(language == "sh"),
            (Some(_), Some(_)) => fence = None,
            (Some(true), None) => shell.push(line.to_owned()),
            (Some(false), None) => {}
            (None, None) => prose.push(line.to_owned()),
        }
    }
    (shell, prose)
}

fn pages() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    let guide = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let all =
        guide.filter(|path| path.extension().is_some_and(|e| e == "md")).chain([root.join("README.md")]);
    all.map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

/// Where the links of a line lead, in both forms: `[text](target)` and `[name]: target`.
fn links(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let named = line.starts_with('[').then(|| line.split_once("]: ")).flatten().map(|(_, target)| target);
    inline.chain(named).filter(|target| !target.contains("://")).collect()
}

/// The anchors of a page's headings, as they are made of their text.
fn anchors(prose: &[String]) -> Vec<String> {
    let headings = prose.iter().filter(|line| line.starts_with('#'));
    let slug = |heading: &String| {
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        heading.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>()
    };
    headings.map(slug).map(|slug| slug.replace(' ', "-")).collect()
}

#[test]
fn every_command_in_the_documents_exists_with_its_options() {
    let mut seen = 0;
    for (path, page) in pages() {
        for line in parts(&page).0 {
            for words in commands(&line) {
                seen += 1;
                match Cli::try_parse_from(words) {
                    Ok(_) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => {}
                    Err(error) => panic!("{}: {line}\n{error}", path.display()),
                }
            }
        }
    }
    assert!(seen >= 15, "{seen} commands were found");
}

#[test]
fn every_link_in_the_documents_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let mut seen = 0;
    for (path, page) in &pages {
        for line in parts(page).1 {
            for target in links(&line) {
                seen += 1;
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let place = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                let place =
                    place.canonicalize().unwrap_or_else(|e| panic!("{}: {target}: {e}", path.display()));
                let known = pages.get(&place).map(|page| anchors(&parts(page).1));
                let found = anchor.is_empty() || known.is_none_or(|all| all.iter().any(|a| a == anchor));
                assert!(found, "{}: {target}: there is no such heading", path.display());
            }
        }
    }
    assert!(seen >= 50, "{seen} links were found");
}

#[test]
fn commands_and_links_are_found() {
    let cat = vec!["kafka-2pc", "cat", "--topic", "t"];
    assert_eq!(commands("kafka-2pc cat --topic t | sort | uniq -d   # nothing"), [cat]);
    assert_eq!(commands("cargo build && kafka-2pc demo > out"), [["kafka-2pc", "demo"]]);
    assert!(Cli::try_parse_from(["kafka-2pc", "txn", "undo"]).is_err());
    let (shell, prose) = parts("a\n```sh\nb \\\n  c\n```\nd\n```\ne\n```\n");
    assert_eq!((shell, prose), (vec!["b    c".to_owned()], vec!["a".to_owned(), "d".to_owned()]));
    assert_eq!(links("see [a](b.md#c), [d](#e) and [f](https://g.h)"), ["b.md#c", "#e"]);
    assert_eq!(links("[a b]: c.md"), ["c.md"]);
    assert_eq!(anchors(&["## A partition (KAFKA-1), `x`".to_owned()]), ["a-partition-kafka-1-x"]);
}
