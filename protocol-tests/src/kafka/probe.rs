//! The few requests that prove what a broker is, written by hand on a plain socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::KafkaError;

const TIMEOUT: Duration = Duration::from_secs(3);
const CORRELATION: i32 = 0x0002_bc00;
const CLIENT: &str = "kafka-2pc-launcher";
/// No answer to these requests comes near this; something that sends more is not Kafka.
const LARGEST: usize = 16 << 20;

/// Answer to Metadata v2.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) brokers: Vec<Broker>,
    pub(crate) cluster_id: String,
    pub(crate) controller: i32,
    /// Per topic asked: its error code, and its partitions with their leaders, -1 for none.
    pub(crate) topics: Vec<(i16, Vec<(i32, i32)>)>,
}

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) node: i32,
    pub(crate) address: String,
}

/// Asks for all brokers and for these topics.
pub(crate) fn metadata(address: &str, topics: &[&str]) -> io::Result<Metadata> {
    let mut body = Vec::new();
    put_i32(&mut body, topics.len());
    topics.iter().for_each(|topic| put_string(&mut body, topic));
    let answer = call(address, Head::old(3, 2), &body)?;
    let mut at = Cursor(&answer);
    let brokers = at.list(|at| {
        let (node, host, port) = (at.i32()?, at.string()?, at.i32()?);
        at.string()?;
        Ok(Broker { node, address: format!("{host}:{port}") })
    })?;
    let (cluster_id, controller) = (at.string()?, at.i32()?);
    let topics = at.list(|at| {
        let error = at.i16()?;
        at.string()?;
        at.take(1)?;
        let leaders = at.list(|at| {
            at.i16()?;
            let (partition, leader) = (at.i32()?, at.i32()?);
            at.list(Cursor::i32)?;
            at.list(Cursor::i32)?;
            Ok((partition, leader))
        })?;
        Ok((error, leaders))
    })?;
    Ok(Metadata { brokers, cluster_id, controller, topics })
}

/// FindCoordinator v1 of a transactional id: error code and node.
pub(crate) fn find_coordinator(address: &str, transactional_id: &str) -> io::Result<(i16, i32)> {
    let mut body = Vec::new();
    put_string(&mut body, transactional_id);
    body.push(1);
    let answer = call(address, Head::old(10, 1), &body)?;
    let mut at = Cursor(&answer);
    at.i32()?;
    let error = at.i16()?;
    at.string()?;
    Ok((error, at.i32()?))
}

/// InitProducerId v0 of a transactional id: error code.
pub(crate) fn init_producer_id(address: &str, transactional_id: &str) -> io::Result<i16> {
    let mut body = Vec::new();
    put_string(&mut body, transactional_id);
    body.extend(10_000_i32.to_be_bytes());
    let answer = call(address, Head::old(22, 0), &body)?;
    let mut at = Cursor(&answer);
    at.i32()?;
    at.i16()
}

/// What CreateTopics v4 is told of a topic.
#[derive(Debug)]
pub(crate) struct NewTopic<'a> {
    pub(crate) name: &'a str,
    pub(crate) partitions: i32,
    /// Nodes per partition; empty lets the broker choose.
    pub(crate) assignment: &'a [Vec<i32>],
    pub(crate) configs: &'a [(String, String)],
}

/// CreateTopics v4: error code. Replication is the broker's default.
pub(crate) fn create_topic(address: &str, topic: &NewTopic<'_>) -> io::Result<i16> {
    let mut body = Vec::new();
    put_i32(&mut body, 1);
    put_string(&mut body, topic.name);
    let partitions = if topic.assignment.is_empty() { topic.partitions } else { -1 };
    body.extend(partitions.to_be_bytes());
    body.extend((-1_i16).to_be_bytes());
    put_i32(&mut body, topic.assignment.len());
    for (partition, nodes) in topic.assignment.iter().enumerate() {
        put_i32(&mut body, partition);
        put_i32(&mut body, nodes.len());
        nodes.iter().for_each(|node| body.extend(node.to_be_bytes()));
    }
    put_i32(&mut body, topic.configs.len());
    for (name, value) in topic.configs {
        put_string(&mut body, name);
        put_string(&mut body, value);
    }
    body.extend(10_000_i32.to_be_bytes());
    body.push(0);
    let answer = call(address, Head::old(19, 4), &body)?;
    let mut at = Cursor(&answer);
    at.i32()?;
    let errors = at.list(|at| {
        at.string()?;
        let error = at.i16()?;
        at.string()?;
        Ok(error)
    })?;
    errors.first().copied().ok_or_else(|| strange("an empty answer to CreateTopics"))
}

/// The finalized level of a feature by ApiVersions v3; 0 if the broker does not know it.
pub(crate) fn feature_level(address: &str, feature: &str) -> io::Result<i16> {
    let mut body = Vec::new();
    for word in [CLIENT, "0"] {
        put_compact_string(&mut body, word);
    }
    body.push(0);
    let answer = call(address, Head::flexible(18, 3), &body)?;
    let mut at = Cursor(&answer);
    let error = at.i16()?;
    if error != 0 {
        return Err(strange(&format!("ApiVersions error {error}")));
    }
    at.compact_list(|at| {
        at.take(6)?;
        at.skip_tags()
    })?;
    at.i32()?;
    for _ in 0..at.varint()? {
        let (tag, size) = (at.varint()?, at.varint()?);
        let mut field = Cursor(at.take(size)?);
        if tag != FINALIZED_FEATURES {
            continue;
        }
        let levels = field.compact_list(|at| {
            let (name, highest, _lowest) = (at.compact_string()?, at.i16()?, at.i16()?);
            at.skip_tags()?;
            Ok((name, highest))
        })?;
        return Ok(levels.iter().find(|(name, _)| name == feature).map_or(0, |(_, level)| *level));
    }
    Ok(0)
}

const FINALIZED_FEATURES: usize = 2;

pub(crate) struct Head {
    api: i16,
    version: i16,
    flexible: bool,
}

impl Head {
    /// A version with compact lengths and tagged fields.
    pub(crate) fn flexible(api: i16, version: i16) -> Self {
        Self { api, version, flexible: true }
    }

    fn old(api: i16, version: i16) -> Self {
        Self { api, version, flexible: false }
    }
}

/// One request on a connection of its own; the answer without its correlation id.
pub(crate) fn call(address: &str, head: Head, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    request.extend(head.api.to_be_bytes());
    request.extend(head.version.to_be_bytes());
    request.extend(CORRELATION.to_be_bytes());
    put_string(&mut request, CLIENT);
    if head.flexible {
        request.push(0);
    }
    request.extend(body);

    let mut socket = TcpStream::connect_timeout(&resolve(address)?, TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    let mut frame = Vec::new();
    put_i32(&mut frame, request.len());
    frame.extend(request);
    socket.write_all(&frame)?;

    let mut size = [0; 4];
    socket.read_exact(&mut size)?;
    let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if !(4..=LARGEST).contains(&size) {
        return Err(strange("not an answer of Kafka's"));
    }
    let mut answer = vec![0; size];
    socket.read_exact(&mut answer)?;
    if answer.drain(..4).as_slice() != CORRELATION.to_be_bytes() {
        return Err(strange("an answer to somebody else's request"));
    }
    Ok(answer)
}

/// Asks one address after the other until one answers.
pub(crate) fn any<T>(bootstrap: &str, ask: impl Fn(&str) -> io::Result<T>) -> Result<T, KafkaError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in bootstrap.split(',').map(str::trim) {
        match ask(address) {
            Ok(answer) => return Ok(answer),
            Err(e) => last = e,
        }
    }
    Err(KafkaError::Io { what: format!("ask {bootstrap}"), source: last })
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    address.to_socket_addrs()?.next().ok_or_else(|| strange("a name without an address"))
}

pub(crate) fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Lengths here are those of a few names: they fit.
fn put_i32(out: &mut Vec<u8>, number: usize) {
    out.extend(i32::try_from(number).unwrap_or(i32::MAX).to_be_bytes());
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend(i16::try_from(text.len()).unwrap_or(i16::MAX).to_be_bytes());
    out.extend(text.as_bytes());
}

pub(crate) fn put_compact_string(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len() + 1;
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or(0));
    out.extend(text.as_bytes());
}

/// Reads an answer from its front; whatever is too short or absurd is an error.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// An answer of a flexible version, behind the tagged fields of its header.
    pub(crate) fn flexible(answer: &'a [u8]) -> io::Result<Self> {
        let mut at = Self(answer);
        at.skip_tags()?;
        Ok(at)
    }

    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count).ok_or_else(|| strange("a short answer"))?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| strange("a short answer"))
    }

    pub(crate) fn i16(&mut self) -> io::Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> io::Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> io::Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A string; null is the empty one.
    fn string(&mut self) -> io::Result<String> {
        let size = usize::try_from(self.i16()?).unwrap_or(0);
        Ok(String::from_utf8_lossy(self.take(size)?).into_owned())
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> io::Result<T>) -> io::Result<Vec<T>> {
        let count = self.i32()?.max(0);
        (0..count).map(|_| item(self)).collect()
    }

    fn varint(&mut self) -> io::Result<usize> {
        let mut number = 0;
        for shift in (0..28).step_by(7) {
            let [byte] = self.array()?;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(strange("a long number"))
    }

    pub(crate) fn compact_string(&mut self) -> io::Result<String> {
        let size = self.varint()?.saturating_sub(1);
        Ok(String::from_utf8_lossy(self.take(size)?).into_owned())
    }

    pub(crate) fn compact_list<T>(
        &mut self,
        item: impl Fn(&mut Self) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        let count = self.varint()?.saturating_sub(1);
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn skip_tags(&mut self) -> io::Result<()> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let size = self.varint()?;
            self.take(size)?;
        }
        Ok(())
    }
}
