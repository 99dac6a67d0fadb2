//! The record on disk, peer by peer, and the newest receipts of each.

use std::sync::Arc;

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::receipt::Receipt;

use super::{Changes, NetworkPrefix, NetworkRecord, PeerRecord, Record, RecordConfig};
use crate::storage::{ObjectStoreError, Store, Tree, WriteBatch, seal, unseal};

/// Receipts that are kept of each peer, one for each remainder of its order by this number. A
/// node sends a group again whose answer was lost, and then gets its receipt; it has fewer
/// than these under way.
pub const RECEIPTS_KEPT: u64 = 64;

/// The only key of [`Tree::RecordHead`].
const HEAD: &[u8] = b"head";

/// Where a record is kept.
pub struct RecordJournal {
    store: Arc<dyn Store>,
}

impl RecordJournal {
    /// The journal in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The record as of the last [`RecordJournal::save`] that became durable, or later. A peer
    /// whose record is damaged is a stranger.
    ///
    /// # Errors
    /// When the store fails.
    pub fn load(&self, config: RecordConfig) -> Result<Record, ObjectStoreError> {
        let mut record = Record::new(config);
        let head = self.store.get(Tree::RecordHead, HEAD)?;
        // Without it the operator's journal is followed again, which comes to the same.
        record.decided = head.and_then(|head| unseal(&head)).unwrap_or(0);
        self.store.visit(Tree::Peers, &mut |key, value| match (
            <[u8; 32]>::try_from(key),
            unseal::<PeerRecord>(&value),
        ) {
            (Ok(peer), Some(kept)) => record.restore(PublicKey::from_bytes(peer), kept),
            _ => tracing::warn!(key = hex::encode(key), "the record of a peer is damaged and forgotten"),
        })?;
        self.store.visit(
            Tree::Networks,
            &mut |key, value| match unseal::<(NetworkPrefix, NetworkRecord)>(&value) {
                Some((network, kept)) if network.key() == *key => {
                    record.networks.insert(network, kept);
                }
                _ => {
                    tracing::warn!(key = hex::encode(key), "the record of a network is damaged and forgotten")
                }
            },
        )?;
        record.bound_networks();
        Ok(record)
    }

    /// Writes what has changed, and `receipts` with it. Durable with the next flush of the store;
    /// after an error the next call writes the same changes again.
    ///
    /// # Errors
    /// When the store fails.
    pub fn save(&self, record: &mut Record, receipts: &[Receipt]) -> Result<(), ObjectStoreError> {
        let mut batch = WriteBatch::default();
        for peer in &record.changes.peers {
            match record.peers.get(peer) {
                Some(kept) => batch.put(Tree::Peers, peer.as_bytes(), seal(kept)?),
                None => self.forget(peer, &mut batch)?,
            }
        }
        for network in &record.changes.networks {
            match record.networks.get(network) {
                Some(kept) => batch.put(Tree::Networks, &network.key(), seal(&(network, kept))?),
                None => batch.remove(Tree::Networks, &network.key()),
            }
        }
        if record.changes.decided {
            batch.put(Tree::RecordHead, HEAD, seal(&record.decided)?);
        }
        for receipt in receipts {
            batch.put(Tree::Receipts, &slot(&receipt.node, receipt.counter.0), seal(receipt)?);
        }
        if !batch.is_empty() {
            self.store.apply(&batch)?;
        }
        record.changes = Changes::default();
        Ok(())
    }

    /// Makes what was saved durable.
    ///
    /// # Errors
    /// When the store fails.
    pub fn flush(&self) -> Result<(), ObjectStoreError> {
        self.store.flush()
    }

    /// The receipt for an order that this node delivered lately.
    ///
    /// # Errors
    /// When the store fails.
    pub fn receipt(
        &self,
        node: &PublicKey,
        counter: OrderCounter,
    ) -> Result<Option<Receipt>, ObjectStoreError> {
        let kept = self.store.get(Tree::Receipts, &slot(node, counter.0))?;
        let receipt: Option<Receipt> = kept.and_then(|kept| unseal(&kept));
        Ok(receipt.filter(|receipt| receipt.node == *node && receipt.counter == counter))
    }

    fn forget(&self, peer: &PublicKey, batch: &mut WriteBatch) -> Result<(), ObjectStoreError> {
        let kept = self.store.get(Tree::Peers, peer.as_bytes())?;
        batch.remove(Tree::Peers, peer.as_bytes());
        let kept: Option<PeerRecord> = kept.and_then(|kept| unseal(&kept));
        if kept.is_some_and(|kept| kept.has_receipts()) {
            (0..RECEIPTS_KEPT).for_each(|counter| batch.remove(Tree::Receipts, &slot(peer, counter)));
        }
        Ok(())
    }
}

/// The key of a receipt: `node ‖ remainder`, so a node's oldest is written over.
fn slot(node: &PublicKey, counter: u64) -> [u8; 33] {
    let mut key = [0; 33];
    key[..32].copy_from_slice(node.as_bytes());
    key[32] = (counter % RECEIPTS_KEPT) as u8;
    key
}
