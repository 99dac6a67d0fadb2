//! Signed messages taken apart, so that each part can be forged on its own.

use echo_protocol::wire::codec;
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::identity::{PublicKey, Signature};
use echo_protocol::wire::signed::ENVELOPE_BYTES;
use echo_protocol::work::trajectory::{MAX_GROUP_BYTES, TrajectoryGroup};
use serde::{Deserialize, Serialize};

/// The parts of a signed group, as they stand on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The group as it was encoded for signing.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
    /// Who claims to have signed.
    pub key: PublicKey,
    /// The signature over the body.
    pub signature: Signature,
}

impl Envelope {
    /// Takes signed bytes apart.
    ///
    /// # Errors
    /// When they are no envelope.
    pub fn open(bytes: &[u8]) -> Result<Self, CodecError> {
        codec::decode(bytes, MAX_GROUP_BYTES + ENVELOPE_BYTES)
    }

    /// Puts the parts together again, whether they match or not.
    ///
    /// # Errors
    /// When the body is longer than any group's.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self, MAX_GROUP_BYTES + ENVELOPE_BYTES)
    }

    /// Changes the group inside, and leaves the signature as it is.
    ///
    /// # Errors
    /// When the body is no group.
    pub fn alter(&mut self, change: impl FnOnce(&mut TrajectoryGroup)) -> Result<(), CodecError> {
        let mut group = codec::decode(&self.body, MAX_GROUP_BYTES)?;
        change(&mut group);
        self.body = codec::encode(&group, MAX_GROUP_BYTES)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::run::charter::RunId;
    use echo_protocol::wire::identity::NodeKey;
    use echo_protocol::wire::signed::{Signed, SignedError};
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::OrderCounter;

    #[test]
    fn an_envelope_is_what_goes_over_the_wire() {
        let key = NodeKey::from_secret([1; 32]);
        let run: RunId = codec::decode(&codec::encode(&key.public(), 64).unwrap(), 64).unwrap();
        let (lease, counter) = (LeaseId(0), OrderCounter(0));
        let group = TrajectoryGroup {
            run,
            lease,
            counter,
            node: key.public(),
            trajectories: Vec::new(),
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        let bytes = Signed::sign(&group, &key).unwrap().to_bytes();
        let mut envelope = Envelope::open(&bytes).unwrap();
        assert_eq!(envelope.to_bytes().unwrap(), bytes);
        envelope.alter(|group| group.counter = OrderCounter(1)).unwrap();
        let altered = Signed::<TrajectoryGroup>::from_bytes(&envelope.to_bytes().unwrap()).unwrap();
        assert!(matches!(altered.open(), Err(SignedError::Signature { .. })));
    }
}
