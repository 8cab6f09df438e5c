use std::io::Write;

use super::*;

const MAX: usize = 1 << 20;

fn file(content: &[u8]) -> (tempfile::NamedTempFile, LinesInput) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    let source = LinesInput::File(file.path().to_owned());
    (file, source)
}

async fn lines(input: &mut Input, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < most {
        match input.next_line().await.unwrap() {
            Some(line) => lines.push(String::from_utf8_lossy(line).into_owned()),
            None => break,
        }
    }
    lines
}

async fn consumed(content: &[u8], count: usize) -> InputPosition {
    let (_file, source) = file(content);
    let mut input = Input::open(&source, InputPosition::default(), MAX).await.unwrap();
    assert_eq!(lines(&mut input, count).await.len(), count);
    input.position().clone()
}

async fn reopened(content: &[u8], position: InputPosition) -> Result<Vec<String>, InputError> {
    let (_file, source) = file(content);
    let mut input = Input::open(&source, position, MAX).await?;
    Ok(lines(&mut input, usize::MAX).await)
}

#[tokio::test]
async fn lines_come_without_their_ends_and_also_the_last_one() {
    let all = reopened(b"a\n\nb\r\nlast", InputPosition::default()).await.unwrap();
    assert_eq!(all, ["a", "", "b\r", "last"]);
    assert_eq!(reopened(b"", InputPosition::default()).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_position_is_found_again_and_goes_on_behind_it() {
    let content: Vec<u8> = (0..50_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
    let position = consumed(&content, 30_000).await;
    let rest = reopened(&content, position.clone()).await.unwrap();
    assert_eq!((rest.len(), rest[0].as_str()), (20_000, "line 30000"));
    let end = consumed(&content, 50_000).await;
    assert_eq!(reopened(&content, end).await.unwrap().len(), 0, "a finished input gives nothing more");
}

#[tokio::test]
async fn an_input_that_differs_before_the_position_is_refused() {
    let position = consumed(b"a\nb\nc\n", 2).await;
    assert!(matches!(reopened(b"a\nX\nc\n", position.clone()).await, Err(InputError::Differs { .. })));
    assert!(matches!(
        reopened(b"a\n", position).await,
        Err(InputError::Shorter { found: 2, consumed: 4, lines: 2 })
    ));
}

#[tokio::test]
async fn a_last_line_that_got_its_end_later_is_not_written_twice() {
    let position = consumed(b"a\nb", 2).await;
    assert_eq!(reopened(b"a\nb\nc\n", position.clone()).await.unwrap(), ["c"]);
    assert_eq!(reopened(b"a\nb", position.clone()).await.unwrap().len(), 0);
    assert!(matches!(reopened(b"a\nbb\n", position).await, Err(InputError::LineGrew { line: 2 })));
}

#[tokio::test]
async fn a_line_without_an_end_does_not_fill_the_memory() {
    let (_file, source) = file(&vec![b'x'; 300_000]);
    let mut input = Input::open(&source, InputPosition::default(), 100_000).await.unwrap();
    assert!(matches!(input.next_line().await, Err(InputError::LineTooLong { line: 1, .. })));
}

#[tokio::test]
async fn a_line_that_is_too_long_can_be_passed_over_and_does_not_break_the_hash() {
    let long = [b"a\n".as_slice(), &[b'x'; 300_000], b"\nb\n", &[b'y'; 300_000]].concat();
    let (_file, source) = file(&long);
    let mut input = Input::open(&source, InputPosition::default(), 100_000).await.unwrap();
    assert_eq!(lines(&mut input, 1).await, ["a"]);
    assert!(matches!(input.next_line().await, Err(InputError::LineTooLong { line: 2, .. })));
    assert_eq!((input.position().bytes, input.position_before_last().bytes), (2, 2));
    input.pass_line().await.unwrap();
    assert_eq!(lines(&mut input, 1).await, ["b"]);
    let position = input.position().clone();
    assert!(matches!(input.next_line().await, Err(InputError::LineTooLong { line: 4, .. })));
    input.pass_line().await.unwrap();
    assert_eq!(input.next_line().await.unwrap(), None, "the last one had no end");
    assert_eq!((input.position().bytes, input.position().lines), (long.len() as u64, 4));
    let end = input.position().clone();
    assert_eq!(reopened(&long, end).await.unwrap().len(), 0);
    assert_eq!(reopened(&long, position).await.unwrap().len(), 1);
}

/// The reader's thread may have sent nothing yet, so that a single poll gives up anywhere.
#[tokio::test]
async fn passing_over_a_line_can_be_given_up_at_any_moment() {
    let long = [vec![b'x'; 600_000], b"\nb\n".to_vec()].concat();
    let (_file, source) = file(&long);
    let mut input = Input::open(&source, InputPosition::default(), 100_000).await.unwrap();
    assert!(matches!(input.next_line().await, Err(InputError::LineTooLong { line: 1, .. })));
    while futures::FutureExt::now_or_never(input.pass_line()).is_none() {
        assert_eq!(input.position().bytes, 0, "it is passed as a whole");
        assert_eq!(input.ready_line().unwrap(), None);
        tokio::task::yield_now().await;
    }
    assert_eq!((input.position().bytes, input.position().lines), (600_001, 1));
    assert_eq!(lines(&mut input, 2).await, ["b"]);

    let (_file, source) = file(&long);
    let mut input = Input::open(&source, InputPosition::default(), 100_000).await.unwrap();
    assert!(matches!(input.next_line().await, Err(InputError::LineTooLong { .. })));
    _ = futures::FutureExt::now_or_never(input.pass_line());
    assert_eq!(lines(&mut input, 1).await, ["b"], "the next call goes on with it");
}

#[tokio::test]
async fn a_named_pipe_cannot_be_read_again() {
    let (kept, source) = file(b"a\n");
    assert!(source.is_seekable());
    drop(kept);
    assert!(!source.is_seekable() && !LinesInput::Stdin.is_seekable());
    assert!(!LinesInput::File("/dev/null".into()).is_seekable());
}

#[tokio::test]
async fn a_missing_file_and_a_directory_are_named() {
    for path in ["/nowhere/at/all", "/"] {
        let source = LinesInput::File(path.into());
        let error = Input::open(&source, InputPosition::default(), MAX).await.unwrap_err();
        assert!(error.to_string().starts_with(path), "{error}");
    }
}

/// The address 0 is never mapped, so that reading there fails.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_read_that_fails_is_not_the_end_of_the_input() {
    let source = LinesInput::File("/proc/self/mem".into());
    let mut input = Input::open(&source, InputPosition::default(), MAX).await.unwrap();
    for _ in 0..3 {
        assert!(matches!(input.next_line().await, Err(InputError::Io { .. })));
    }
}

#[tokio::test]
async fn a_file_that_is_cut_while_it_is_read_is_not_one_that_ends() {
    let (file, source) = file(&b"0123456789abcdef\n".repeat(100_000));
    let mut input = Input::open(&source, InputPosition::default(), MAX).await.unwrap();
    assert_eq!(lines(&mut input, 3).await.len(), 3);
    file.as_file().set_len(1000).unwrap();
    let error = loop {
        match input.next_line().await {
            Ok(line) => assert_eq!(line, Some(&b"0123456789abcdef"[..]), "half a line, or an end"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("it was cut to 1000 bytes when"), "{error}");
    assert!(input.next_line().await.is_err(), "it stays so");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_calls_itself_empty_is_read_to_its_end() {
    let source = LinesInput::File("/proc/self/status".into());
    let mut input = Input::open(&source, InputPosition::default(), MAX).await.unwrap();
    assert!(lines(&mut input, usize::MAX).await.len() > 3);
}
