//! The commands that the documents name exist, with these options.

use std::{fs, path::Path};

use clap::{Parser, error::ErrorKind};

use super::Cli;

/// What a command line does not get from the shell: the words of every command of this program in it.
fn commands(line: &str) -> Vec<Vec<&str>> {
    let line = line.split(" #").next().unwrap_or_default();
    let parts = line.split(['|', ';', '&', '>']).map(str::trim);
    let words = parts.map(|part| part.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first() == Some(&"kafka-2pc")).collect()
}

/// The lines of shell in a page, those that go on with a backslash as one.
fn shell(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in page.replace("\\\n", " ").lines() {
        match (inside, line.trim()) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => lines.push(line.to_owned()),
            (false, _) => {}
        }
    }
    lines
}

fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let all =
        guide.filter(|path| path.extension().is_some_and(|e| e == "md")).chain([root.join("README.md")]);
    all.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn every_command_in_the_documents_exists_with_its_options() {
    let mut seen = 0;
    for (path, page) in pages() {
        for line in shell(&page) {
            for words in commands(&line) {
                seen += 1;
                match Cli::try_parse_from(words) {
                    Ok(_) => {}
                    Err(error)
                        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {}
                    Err(error) => panic!("{path}: {line}\n{error}"),
                }
            }
        }
    }
    assert!(seen >= 15, "{seen} commands were found");
}

#[test]
fn commands_are_found_among_what_a_shell_knows() {
    assert_eq!(
        commands("kafka-2pc cat --topic t | sort | uniq -d   # nothing"),
        [["kafka-2pc", "cat", "--topic", "t"]]
    );
    assert_eq!(commands("cargo build && kafka-2pc demo > out"), [["kafka-2pc", "demo"]]);
    assert_eq!(shell("a\n```sh\nb \\\n  c\n```\nd"), ["b    c"]);
    assert!(Cli::try_parse_from(["kafka-2pc", "txn", "undo"]).is_err());
}
