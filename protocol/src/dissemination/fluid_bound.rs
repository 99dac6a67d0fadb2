//! The fluid bound: no protocol brings a snapshot to everyone sooner than T* = max{F/B0, F/d_min,
//! N·F/(B0 + ΣB_up)}. Bytes have no headers and links no delay.
//!
//! Who may be waited for, and what changes on the way, differs between those who ask. So each term is a
//! method of its own, and they take the largest.

/// A broadcast as a fluid: what has to be sent, and what may be sent in a second. A link of less than a
/// byte a second counts as one of a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidBroadcast {
    /// F: bytes that everyone receives.
    pub bytes: f64,
    /// N: how many receive them.
    pub nodes: f64,
    /// B0: bytes a second that the source may send.
    pub source_up: f64,
    /// ΣB_up: bytes a second that the nodes may send, all together.
    pub node_ups: f64,
}

impl FluidBroadcast {
    /// F/B0: seconds in which the source can have sent everything once.
    #[must_use]
    pub fn source_s(&self) -> f64 {
        self.bytes / self.source_up.max(1.0)
    }

    /// F/d: seconds in which a node can receive everything that may receive `down` bytes a second.
    #[must_use]
    pub fn downlink_s(&self, down: f64) -> f64 {
        self.bytes / down.max(1.0)
    }

    /// N·F/(B0 + ΣB_up): seconds in which all uplinks together can have sent what everyone receives.
    #[must_use]
    pub fn uplinks_s(&self) -> f64 {
        self.work() / self.capacity()
    }

    /// N·F: bytes that are received, of all nodes together.
    #[must_use]
    pub fn work(&self) -> f64 {
        self.bytes * self.nodes
    }

    /// B0 + ΣB_up: bytes a second of all uplinks together.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        (self.source_up + self.node_ups).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_are_those_of_the_bound() {
        let broadcast = FluidBroadcast { bytes: 1000.0, nodes: 10.0, source_up: 250.0, node_ups: 400.0 };
        assert_eq!((broadcast.source_s(), broadcast.downlink_s(100.0)), (4.0, 10.0));
        assert_eq!((broadcast.work(), broadcast.capacity()), (10_000.0, 650.0));
        assert_eq!(broadcast.uplinks_s(), 10_000.0 / 650.0);
    }

    #[test]
    fn without_links_it_takes_long_and_not_for_ever() {
        let none = FluidBroadcast { bytes: 1000.0, nodes: 1.0, source_up: 0.0, node_ups: 0.0 };
        assert_eq!([none.source_s(), none.downlink_s(0.0), none.uplinks_s()], [1000.0; 3]);
    }
}
