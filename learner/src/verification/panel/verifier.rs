//! One verifier on offer.

use std::collections::BTreeSet;

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::work::verification::{MAX_CAPACITY, Offer};

use crate::reputation::NetworkPrefix;

/// What is known of a verifier while it is connected.
#[derive(Debug)]
pub(super) struct PanelVerifier {
    pub(super) network: Option<NetworkPrefix>,
    held: BTreeSet<PolicyVersion>,
    /// Groups that it offers to take at once.
    capacity: usize,
    /// Groups that it is trusted with at once.
    allowance: usize,
    /// Groups that it has and did not report on, late or not.
    asked: BTreeSet<ContentId>,
}

impl PanelVerifier {
    pub(super) fn new(network: Option<NetworkPrefix>, offer: &Offer) -> Self {
        let mut verifier =
            Self { network, held: BTreeSet::new(), capacity: 0, allowance: 1, asked: BTreeSet::new() };
        verifier.offers(offer);
        verifier
    }

    pub(super) fn offers(&mut self, offer: &Offer) {
        self.capacity = offer.capacity.min(MAX_CAPACITY) as usize;
        self.held = offer.held.iter().copied().collect();
    }

    /// Whether it can look at a group under these versions now.
    pub(super) fn takes(&self, versions: &BTreeSet<PolicyVersion>) -> bool {
        self.asked.len() < self.capacity.min(self.allowance) && versions.is_subset(&self.held)
    }

    pub(super) fn asked(&self) -> &BTreeSet<ContentId> {
        &self.asked
    }

    pub(super) fn ask(&mut self, group: ContentId) {
        self.asked.insert(group);
    }

    /// Notes a report; false if nobody has asked for it.
    pub(super) fn reported(&mut self, group: &ContentId) -> bool {
        self.asked.remove(group)
    }

    pub(super) fn was_in_time(&mut self) {
        self.allowance = (self.allowance + 1).min(MAX_CAPACITY as usize);
    }

    pub(super) fn was_late(&mut self) {
        self.allowance = 1;
    }
}
