//! Every target on every input that is kept, and on mutations of them: fuzzing for those without a C++ compiler.

use std::{
    collections::BTreeSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use kafka_2pc::wire::guard::sample::{Choices, Seeded};
use kafka_2pc_fuzz::targets::{ALL, Target};

/// Mutations per target, spread over its inputs.
const MUTATIONS: usize = 3000;
/// Inputs that are larger are slow.
const LARGEST: usize = 4096;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The files in a folder, in order; none if there is no such folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files
}

fn inputs(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let kept = ["corpus", "cases"].into_iter().flat_map(|kind| files(&folder(kind).join(target.0)));
    kept.map(|path| (path.clone(), fs::read(path).expect("it can be read"))).collect()
}

/// What was wrong, behind the panic that said so.
fn give(target: &Target, input: &[u8], what: &str) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| target.1(input))).map_err(|_| {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} breaks a promise on {what}: {hex}", target.0)
    })
}

#[test]
fn every_input_that_is_kept_passes() {
    let mut broken = Vec::new();
    for target in &ALL {
        let told =
            |(path, input): (PathBuf, Vec<u8>)| give(target, &input, &path.display().to_string()).err();
        broken.extend(inputs(target).into_iter().filter_map(told));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn mutations_of_what_is_kept_pass() {
    let (mut choices, mut broken) = (Seeded(7), Vec::new());
    for target in &ALL {
        let inputs: Vec<_> = inputs(target).into_iter().filter(|(_, i)| i.len() <= LARGEST).collect();
        for round in 0..MUTATIONS {
            let (path, input) = &inputs[round % inputs.len()];
            let mutated = mutated(input, &mut choices);
            if let Err(told) = give(target, &mutated, &format!("a mutation of {}", path.display())) {
                // The others of one target are likely to be the same.
                broken.push(told);
                break;
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The bytes with one to four of them changed, left out, doubled, or cut off.
fn mutated(input: &[u8], choices: &mut Seeded) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=choices.below(4) {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let Some(at) = (len > 0).then(|| choices.below(len) as usize) else { return bytes };
        match choices.below(16) {
            0 => _ = bytes.remove(at),
            1 => bytes.insert(at, bytes[at]),
            2 => bytes.truncate(at),
            3 => bytes[at] = 0xff,
            4 => bytes[at] = 0,
            5..=9 => bytes[at] ^= 1 << choices.below(8),
            _ => bytes[at] = choices.below(256).to_be_bytes()[3],
        }
    }
    bytes
}

#[test]
fn targets_files_and_folders_belong_together() {
    let names: BTreeSet<_> = ALL.iter().map(|target| target.0.to_owned()).collect();
    let stems = |name: &str| -> BTreeSet<String> {
        files(&folder(name))
            .iter()
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("corpus"), names);
    assert!(stems("cases").is_subset(&names));
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    for target in &ALL {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{}.rs\"", target.0)), "{}", target.0);
        assert!(!inputs(target).is_empty(), "{} has no seed", target.0);
    }
}
