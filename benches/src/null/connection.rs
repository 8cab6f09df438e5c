//! One connection: frames in, answers out, in their order and at their pace.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{Pace, Shared, answers, produce};

/// The largest frame that is read.
const MAX_FRAME: usize = 256 << 20;

/// Serves a connection until its client goes.
pub(super) fn serve(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    match shared.settings.pace {
        Pace::Instant => each(stream, shared, |answer| writer.write_all(&answer)),
        Pace::Serial(time) => each(stream, shared, |answer| {
            thread::sleep(time);
            writer.write_all(&answer)
        }),
        Pace::Delay(time) => later(stream, writer, shared, time),
    }
}

/// Reads on while answers wait.
fn later(stream: TcpStream, mut writer: TcpStream, shared: &Shared, time: Duration) -> io::Result<()> {
    let (answers, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    let writing = thread::spawn(move || {
        for (at, answer) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if writer.write_all(&answer).is_err() {
                return;
            }
        }
    });
    let result = each(stream, shared, |answer| {
        answers.send((Instant::now() + time, answer)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    });
    drop(answers);
    // It does not panic.
    _ = writing.join();
    result
}

fn each(
    mut stream: TcpStream,
    shared: &Shared,
    mut send: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if !(8..=MAX_FRAME).contains(&length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
        }
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        stream.read_exact(&mut buffer[..length])?;
        let answer = answer(&buffer[..length], shared)?;
        if !answer.is_empty() {
            send(framed(answer))?;
        }
    }
}

fn answer(frame: &[u8], shared: &Shared) -> io::Result<Vec<u8>> {
    let (key, version) = (i16::from_be_bytes([frame[0], frame[1]]), i16::from_be_bytes([frame[2], frame[3]]));
    let answer = if key == 0 { produce::answer(frame, shared) } else { answers::answer(frame, shared) };
    answer.ok_or_else(|| {
        let what = format!("a request of API {key}, version {version}, that is not understood");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

fn framed(answer: Vec<u8>) -> Vec<u8> {
    let mut frame = Vec::with_capacity(answer.len() + 4);
    frame.extend_from_slice(&(answer.len() as u32).to_be_bytes());
    frame.extend_from_slice(&answer);
    frame
}
