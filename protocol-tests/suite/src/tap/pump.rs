//! One tapped connection.

use std::collections::VecDeque;
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::net::Stream;
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::frame::{DEFAULT_MAX_FRAME_BYTES, FrameDecoder, RequestHeader, decode_response_header};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use super::{Act, Answer, Gate, Held, Mangled, Sent, Tap, codes};

/// A request whose answer has not come.
struct Pending {
    api: Api,
    version: i16,
    drop_answer: bool,
    gate: Option<Gate>,
}

struct Pump {
    tap: Tap,
    number: u64,
    address: (String, u16),
    pending: VecDeque<Pending>,
    /// Nothing more goes to the client.
    silent: bool,
}

/// Whether the connection lives on.
#[derive(PartialEq, Eq)]
enum Next {
    Open,
    Closed,
}

/// Carries bytes both ways until either side closes, or a plan says so.
pub(super) async fn run(
    tap: Tap,
    number: u64,
    client: DuplexStream,
    broker: Box<dyn Stream>,
    address: (String, u16),
) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_broker, mut to_broker) = tokio::io::split(broker);
    let (mut requests, mut answers) = (BytesMut::new(), BytesMut::new());
    let mut cut = tap.0.cut.subscribe();
    let mut pump = Pump { tap, number, address, pending: VecDeque::new(), silent: false };
    loop {
        let next = tokio::select! {
            _ = cut.changed() => Ok(Next::Closed),
            read = from_client.read_buf(&mut requests) => match read {
                Ok(bytes) if bytes > 0 => pump.forward(&mut requests, &mut to_broker).await,
                _ => Ok(Next::Closed),
            },
            read = from_broker.read_buf(&mut answers) => match read {
                Ok(bytes) if bytes > 0 => pump.back(&mut answers, &mut to_client).await,
                _ => Ok(Next::Closed),
            },
        };
        // An error of a side that has gone ends the connection, as its end does.
        if !matches!(next, Ok(Next::Open)) {
            return;
        }
    }
}

impl Pump {
    async fn forward(
        &mut self,
        buffer: &mut BytesMut,
        broker: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<Next> {
        let decoder = FrameDecoder::requests(DEFAULT_MAX_FRAME_BYTES);
        while let Some(frame) = decoder.next_frame(buffer).map_err(io::Error::other)? {
            let mut body = frame.clone();
            let header = RequestHeader::decode(&mut body).map_err(io::Error::other)?;
            let (api, version) = (header.api, header.version);
            let mut pending = Pending { api, version, drop_answer: false, gate: None };
            let mut sent = framed(&frame);
            let order = self.tap.next_order();
            match self.tap.on_request(Sent {
                connection: self.number,
                api,
                version,
                order,
                at: Instant::now(),
                body,
            }) {
                None => {}
                Some(Act::ApplyThenDrop) => pending.drop_answer = true,
                Some(Act::PauseAnswer(gate)) => pending.gate = Some(gate),
                Some(Act::Drop) => return Ok(Next::Closed),
                Some(Act::Damage) => sent = damaged(&sent),
                Some(Act::Cut(bytes)) => {
                    broker.write_all(&sent[..bytes.min(sent.len())]).await?;
                    return Ok(Next::Closed);
                }
                Some(Act::Pause(gate)) => {
                    let _ = gate.reached.send(());
                    let _ = gate.open.await;
                }
                Some(Act::Hold(told)) => {
                    let _ = told.send(Held {
                        net: self.tap.1.clone(),
                        address: self.address.clone(),
                        api,
                        version,
                        frame,
                    });
                    return Ok(Next::Closed);
                }
            }
            self.pending.push_back(pending);
            broker.write_all(&sent).await?;
        }
        Ok(Next::Open)
    }

    async fn back(
        &mut self,
        buffer: &mut BytesMut,
        client: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<Next> {
        while let Some(frame) = FrameDecoder::default().next_frame(buffer).map_err(io::Error::other)? {
            let Some(pending) = self.pending.pop_front() else { return Ok(Next::Closed) };
            if pending.drop_answer {
                return Ok(Next::Closed);
            }
            if let Some(gate) = pending.gate {
                let mut cut = self.tap.0.cut.subscribe();
                let _ = gate.reached.send(());
                tokio::select! {
                    _ = gate.open => {}
                    _ = cut.changed() => return Ok(Next::Closed),
                }
            }
            let frame = self.tap.change(pending.api, pending.version, frame);
            let mut body = frame.clone();
            let header = decode_response_header(&mut body, pending.api, pending.version);
            // What can't be read is the client's to judge.
            let codes = header.ok().and_then(|_| codes(pending.api, pending.version, body.clone()).ok());
            self.tap.on_answer(Answer {
                connection: self.number,
                body,
                api: pending.api,
                version: pending.version,
                order: self.tap.next_order(),
                at: Instant::now(),
                codes: codes.unwrap_or_default(),
            });
            if self.silent {
                continue;
            }
            match self.tap.mangled(pending.api, pending.version, &frame) {
                None => client.write_all(&framed(&frame)).await?,
                Some(mangled) => self.send(mangled, client).await?,
            }
        }
        Ok(Next::Open)
    }

    async fn send(&mut self, mangled: Mangled, client: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        self.silent = mangled.last;
        let Some(pace) = mangled.pace else { return client.write_all(&mangled.bytes).await };
        for byte in &mangled.bytes {
            client.write_all(std::slice::from_ref(byte)).await?;
            tokio::time::sleep(pace).await;
        }
        Ok(())
    }
}

/// One bit of it is another one, four bytes before the end.
fn damaged(whole: &Bytes) -> Bytes {
    let mut bytes = BytesMut::from(&whole[..]);
    let at = bytes.len().saturating_sub(4);
    bytes[at] ^= 0x40;
    bytes.freeze()
}

/// A frame's content with its length before it.
pub(super) fn framed(content: &Bytes) -> Bytes {
    let mut whole = BytesMut::with_capacity(content.len() + 4);
    whole.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
    whole.put_slice(content);
    whole.freeze()
}
