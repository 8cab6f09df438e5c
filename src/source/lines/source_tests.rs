use std::{collections::BTreeMap, io::Write};

use super::*;

/// Files in a directory of their own.
struct Files {
    _dir: tempfile::TempDir,
    inputs: Vec<LinesInput>,
}

impl Files {
    fn new(contents: &[&[u8]]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let write = |(n, content): (usize, &&[u8])| {
            let path = dir.path().join(format!("{n}.txt"));
            std::fs::write(&path, content).unwrap();
            LinesInput::File(path)
        };
        let inputs = contents.iter().enumerate().map(write).collect();
        Self { _dir: dir, inputs }
    }

    /// `count` files, file `f` with the lines `f:0`, `f:1` and so on.
    fn numbered(count: usize, lines: usize) -> Self {
        let content = |f: usize| (0..lines).map(|n| format!("{f}:{n}\n")).collect::<String>().into_bytes();
        let contents: Vec<_> = (0..count).map(content).collect();
        Self::new(&contents.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Lines that begin with `!` are no records.
    fn source(&self) -> LinesSource {
        LinesSource::new(self.inputs.clone(), |line| match line {
            [b'!', ..] => Err("it begins with !".into()),
            line => Ok(Record::value(line.to_vec())),
        })
    }
}

fn texts(records: Vec<Record>) -> impl Iterator<Item = String> {
    records.into_iter().map(|r| String::from_utf8(r.value.unwrap().to_vec()).unwrap())
}

async fn read(reader: &mut dyn SourceReader, batches: usize) -> Result<Vec<String>, SourceError> {
    let mut seen = Vec::new();
    for _ in 0..batches {
        match reader.next().await? {
            None => break,
            Some(records) => {
                assert!(!records.is_empty());
                seen.extend(texts(records));
            }
        }
    }
    Ok(seen)
}

async fn opened(source: &LinesSource, kept: &[SplitState]) -> Box<dyn SourceReader> {
    source.open(Subtask::ONLY, kept).await.unwrap()
}

#[tokio::test]
async fn a_restore_at_every_batch_boundary_gives_every_line_once() {
    let files = Files::numbered(3, 700);
    let whole = read(opened(&files.source(), &[]).await.as_mut(), usize::MAX).await.unwrap();
    assert_eq!(whole.len(), 2100);
    for stop in 0.. {
        let mut reader = opened(&files.source(), &[]).await;
        let mut seen = read(reader.as_mut(), stop).await.unwrap();
        let stopped_at = seen.len();
        let mut again = opened(&files.source(), &reader.snapshot()).await;
        seen.extend(read(again.as_mut(), usize::MAX).await.unwrap());
        assert_eq!(seen, whole, "after {stop} batches");
        if stopped_at == whole.len() {
            break;
        }
    }
}

#[tokio::test]
async fn a_job_is_rescaled_and_every_line_comes_once() {
    let files = Files::numbered(5, 600);
    for (before, after) in (1..=4).flat_map(|a| (1..=4).map(move |b| (a, b))) {
        let mut lines = BTreeMap::<String, usize>::new();
        let mut kept = Vec::new();
        for (total, batches) in [(before, 2), (after, usize::MAX)] {
            let mut states = Vec::new();
            for subtask in (0..total).map(|index| Subtask::new(index, total)) {
                let mut reader = files.source().open(subtask, &kept).await.unwrap();
                for line in read(reader.as_mut(), batches).await.unwrap() {
                    *lines.entry(line).or_default() += 1;
                }
                states.extend(reader.snapshot());
            }
            kept = states;
            assert_eq!(kept.len(), 5);
        }
        assert_eq!((lines.len(), lines.values().max()), (3000, Some(&1)), "{before} to {after}");
    }
}

#[tokio::test]
async fn it_stops_before_a_bad_line_and_says_where_that_is() {
    let files = Files::new(&[b"a\nb\n!c\nd\n"]);
    let source = files.source();
    let mut reader = opened(&source, &[]).await;
    assert_eq!(read(reader.as_mut(), 1).await.unwrap(), ["a", "b"]);
    for _ in 0..2 {
        let error = reader.next().await.unwrap_err();
        assert!(matches!(&error, SourceError::BadLine { line: 3, .. }), "{error}");
        assert!(error.to_string().ends_with("0.txt, line 3: it begins with !"), "{error}");
    }
    let kept = reader.snapshot();
    let forgiving = files.source().on_bad_line(OnBadLine::Skip);
    assert_eq!(read(opened(&forgiving, &kept).await.as_mut(), 9).await.unwrap(), ["d"]);
    let mut again = opened(&source, &kept).await;
    assert!(matches!(again.next().await, Err(SourceError::BadLine { line: 3, .. })), "it comes again");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_a_bad_line() {
    let files = Files::new(&[&[b"a\n".as_slice(), &[b'x'; 300_000], b"\nb\n"].concat()]);
    let source = files.source().max_line_bytes(1000);
    let mut reader = opened(&source, &[]).await;
    assert_eq!(read(reader.as_mut(), 1).await.unwrap(), ["a"]);
    let error = reader.next().await.unwrap_err();
    assert!(matches!(&error, SourceError::BadLine { line: 2, .. }), "{error}");
    let forgiving = source.on_bad_line(OnBadLine::Skip);
    assert_eq!(read(opened(&forgiving, &reader.snapshot()).await.as_mut(), 9).await.unwrap(), ["b"]);
    assert_eq!(read(opened(&forgiving, &[]).await.as_mut(), 9).await.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn a_file_that_is_another_one_is_refused_and_named() {
    let files = Files::new(&[b"a\nb\n"]);
    let mut reader = opened(&files.source(), &[]).await;
    read(reader.as_mut(), 1).await.unwrap();
    let LinesInput::File(path) = &files.inputs[0] else { panic!("a file") };
    std::fs::File::create(path).unwrap().write_all(b"x\nb\n").unwrap();
    let error = files.source().open(Subtask::ONLY, &reader.snapshot()).await.err().unwrap();
    let SourceError::Input { input, error: InputError::Differs { .. } } = &error else { panic!("{error}") };
    assert_eq!(*input, files.inputs[0].name());
    assert!(error.to_string().starts_with(input.as_str()), "{error}");
}

#[tokio::test]
async fn inputs_that_the_checkpoint_contradicts_or_that_repeat_are_refused() {
    let files = Files::numbered(2, 3);
    let kept = opened(&files.source(), &[]).await.snapshot();
    let fewer = LinesSource { inputs: files.inputs[..1].to_vec(), ..files.source() };
    let error = fewer.open(Subtask::ONLY, &kept).await.err().unwrap();
    assert!(matches!(&error, SourceError::Mismatch(what) if what.contains("1.txt")), "{error}");
    let twice = LinesSource { inputs: vec![files.inputs[0].clone(); 2], ..files.source() };
    let error = twice.open(Subtask::ONLY, &[]).await.err().unwrap();
    assert!(matches!(&error, SourceError::Settings(_)), "{error}");
    let damaged = [SplitState::new(files.inputs[0].name(), "something")];
    let error = files.source().open(Subtask::ONLY, &damaged).await.err().unwrap();
    assert!(matches!(&error, SourceError::State { .. }), "{error}");
}

#[tokio::test]
async fn a_missing_file_is_named_once() {
    let source = LinesSource::new([LinesInput::File("/nowhere/at/all".into())], |_| Ok(Record::default()));
    let error = source.open(Subtask::ONLY, &[]).await.err().unwrap().to_string();
    assert!(error.starts_with("/nowhere/at/all: ") && error.matches("/nowhere").count() == 1, "{error}");
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let long = [b"x".repeat(200_000), b"\n".to_vec()].concat();
    let lines: Vec<_> = (0..3000).map(|n| format!("{n}\n").into_bytes()).collect();
    let content: Vec<u8> = lines.chunks(1000).flat_map(|some| [&some.concat()[..], &long].concat()).collect();
    let files = Files::new(&[&content, b"one\n", b"", b"two"]);
    let source = files.source().on_bad_line(OnBadLine::Skip).max_line_bytes(1000);
    let mut reader = opened(&source, &[]).await;
    let mut seen = Vec::new();
    for tries in 0.. {
        if let Some(records) = reader.next().now_or_never() {
            let Some(records) = records.unwrap() else { break };
            seen.extend(texts(records));
        }
        if tries % 5 == 0 {
            // What is kept half way is always a line's end.
            let mut reader = opened(&source, &reader.snapshot()).await;
            let next = reader.next().await.unwrap();
            let wanted = (0..3000).map(|n| n.to_string()).chain(["one".into(), "two".into()]).nth(seen.len());
            assert_eq!(next.map(|records| texts(records).next().unwrap()), wanted);
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(seen.len(), 3002);
}

/// Opened from the start each time, it would never find its place.
#[tokio::test]
async fn opening_that_is_given_up_goes_on_where_it_was() {
    let files = Files::new(&[b"", &b"line\n".repeat(100_000)]);
    let mut reader = opened(&files.source(), &[]).await;
    let before = read(reader.as_mut(), 300).await.unwrap().len();
    let mut again = opened(&files.source(), &reader.snapshot()).await;
    for _ in 0..2000 {
        if let Some(records) = again.next().now_or_never() {
            let first = records.unwrap().unwrap().len();
            let rest = read(again.as_mut(), usize::MAX).await.unwrap().len();
            assert_eq!(before + first + rest, 100_000);
            return;
        }
        // For the thread that reads.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("it never opens");
}
