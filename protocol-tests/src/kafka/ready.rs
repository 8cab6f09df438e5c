//! Proof that the cluster that answers is the one that was started, and that it can serve transactions.

use std::collections::BTreeMap;

use super::KafkaError;
use super::probe::{self, Metadata};
use super::properties::TRANSACTION_PARTITIONS;

/// Who must answer.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The id that every node must say.
    pub cluster_id: String,
    /// The live nodes: number and address.
    pub nodes: BTreeMap<u8, String>,
}

/// Asks every node, once: do they all belong to this cluster, see exactly the live nodes, and are all transaction coordinators loaded?
///
/// `Ok(Some(..))` says what is still missing.
///
/// # Errors
/// [`KafkaError::OtherCluster`] when somebody else answers: waiting would not help.
pub fn prove(expected: &Expected) -> Result<Option<String>, KafkaError> {
    for address in expected.nodes.values() {
        let metadata = match probe::metadata(address, &[]) {
            Ok(metadata) => metadata,
            Err(e) => return Ok(Some(format!("{address}: {e}"))),
        };
        if metadata.cluster_id != expected.cluster_id {
            return Err(KafkaError::OtherCluster {
                address: address.clone(),
                found: metadata.cluster_id,
                expected: expected.cluster_id.clone(),
            });
        }
        if let Some(missing) = members(expected, &metadata) {
            return Ok(Some(format!("{address}: {missing}")));
        }
    }
    Ok(coordinators(expected))
}

/// A dead broker stays listed until its session ends, and so the lists must be equal, not only long enough.
fn members(expected: &Expected, metadata: &Metadata) -> Option<String> {
    let mut listed: Vec<_> = metadata.brokers.iter().map(|broker| broker.node).collect();
    listed.sort_unstable();
    let live: Vec<_> = expected.nodes.keys().map(|node| i32::from(*node)).collect();
    if listed != live {
        return Some(format!("knows nodes {listed:?}, live are {live:?}"));
    }
    (metadata.controller < 0).then(|| "has no controller".to_owned())
}

/// One id per partition of the transaction log, so that every coordinator is asked, not only a lucky one.
fn coordinators(expected: &Expected) -> Option<String> {
    for id in id_per_partition() {
        if let Some(missing) = coordinator(expected, &id) {
            return Some(format!("transactional id {id}: {missing}"));
        }
    }
    None
}

fn coordinator(expected: &Expected, id: &str) -> Option<String> {
    let any = expected.nodes.values().next()?;
    let (error, node) = match probe::find_coordinator(any, id) {
        Ok(found) => found,
        Err(e) => return Some(format!("FindCoordinator: {e}")),
    };
    if error != 0 {
        return Some(format!("FindCoordinator: error {error}"));
    }
    let Some(address) = u8::try_from(node).ok().and_then(|node| expected.nodes.get(&node)) else {
        return Some(format!("its coordinator, node {node}, is not live"));
    };
    match probe::init_producer_id(address, id) {
        Ok(0) => None,
        Ok(error) => Some(format!("InitProducerId: error {error}")),
        Err(e) => Some(format!("InitProducerId: {e}")),
    }
}

fn id_per_partition() -> Vec<String> {
    let mut found = BTreeMap::new();
    for number in 0.. {
        let id = format!("launcher-ready-{number}");
        found.entry(transaction_partition(&id)).or_insert(id);
        if found.len() == TRANSACTION_PARTITIONS as usize {
            break;
        }
    }
    found.into_values().collect()
}

/// As `TransactionStateManager.partitionFor`: Java's string hash without its sign, modulo the partitions.
fn transaction_partition(id: &str) -> u32 {
    let hash =
        id.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    (hash & 0x7fff_ffff) % TRANSACTION_PARTITIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_ids_cover_every_partition() {
        let mut partitions: Vec<_> = id_per_partition().iter().map(|id| transaction_partition(id)).collect();
        partitions.sort_unstable();
        assert_eq!(partitions, (0..TRANSACTION_PARTITIONS).collect::<Vec<_>>());
    }

    #[test]
    fn the_hash_is_javas() {
        // "hello".hashCode() == 99162322
        assert_eq!(transaction_partition("hello"), 99_162_322 % TRANSACTION_PARTITIONS);
    }
}
