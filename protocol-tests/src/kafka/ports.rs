//! A block of ports per cluster, so that clusters that run at once can not collide.

use std::net::{Ipv4Addr, TcpListener};

use super::KafkaError;
use crate::cache::{self, FileLock};

/// Below the range from which systems take the source ports of outgoing connections: a node that was killed gets its port back.
const FIRST: u16 = 12_000;
const BLOCK: u16 = 8;
const BLOCKS: u16 = 2_500;

/// Eight neighbouring ports that nobody listens on, reserved against other launchers while this value lives.
#[derive(Debug)]
pub(crate) struct PortBlock {
    first: u16,
    _reservation: FileLock,
}

impl PortBlock {
    /// A free block, wherever one is.
    pub(crate) fn anywhere() -> Result<Self, KafkaError> {
        let random = super::launch::random_bytes()?;
        Self::take(u16::from_be_bytes([random[0], random[1]]))
    }

    /// Looks for a free block, from a start that `random` picks.
    pub(crate) fn take(random: u16) -> Result<Self, KafkaError> {
        for step in 0..BLOCKS {
            let first = FIRST + (random.wrapping_add(step) % BLOCKS) * BLOCK;
            let path = cache::folder().join(format!("ports/{first}"));
            let lock =
                FileLock::attempt(&path).map_err(KafkaError::io(format!("lock {}", path.display())))?;
            let Some(reservation) = lock else { continue };
            if free(first) {
                return Ok(Self { first, _reservation: reservation });
            }
        }
        Err(KafkaError::NoPorts { first: FIRST, last: FIRST + BLOCKS * BLOCK - 1 })
    }

    /// Where clients reach this node, counted from 1.
    pub(crate) fn broker(&self, node: u8) -> u16 {
        self.first + u16::from(node) - 1
    }

    /// Where the other nodes reach this node's controller.
    pub(crate) fn controller(&self, node: u8) -> u16 {
        self.first + BLOCK / 2 + u16::from(node) - 1
    }
}

fn free(first: u16) -> bool {
    (first..first + BLOCK).all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clusters_get_different_blocks() {
        let one = PortBlock::take(77).unwrap();
        let other = PortBlock::take(77).unwrap();
        assert_ne!(one.broker(1), other.broker(1));
    }

    #[test]
    fn a_block_with_a_listener_in_it_is_passed_over() {
        let first = PortBlock::take(901).unwrap().controller(2);
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        assert_ne!(PortBlock::take(901).unwrap().controller(2), first);
    }
}
