//! What a stream's bytes cost on the wire.

use crate::net::transport::tls::{AROUND_RECORD, RECORD_BYTES};

/// Bytes that a connection's layers add to what a stream carries, seen by a link with Ethernet
/// headers and an MTU of
/// 1500. A narrower path costs a little more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    /// Added to every write: the header of the multiplexer.
    per_write: u64,
    /// What one record of the encryption holds.
    record: u64,
    /// Added to every record.
    per_record: u64,
    /// What one packet holds.
    packet: u64,
    /// Added to every packet.
    per_packet: u64,
}

impl Framing {
    /// TCP with timestamps (66 bytes with IPv4 and Ethernet); TLS records; and a yamux header of 12
    /// bytes, which has a record of its own.
    pub(super) const TCP: Self = Self {
        per_write: 12 + AROUND_RECORD as u64,
        record: RECORD_BYTES as u64,
        per_record: AROUND_RECORD as u64,
        packet: 1448,
        per_packet: 66,
    };
    /// QUIC in datagrams of 1452 bytes: 42 bytes below, and about 38 of packet header, tag and stream frame.
    pub(super) const QUIC: Self =
        Self { per_write: 0, record: u64::MAX, per_record: 0, packet: 1414, per_packet: 80 };

    /// What a write of `bytes` puts on the wire if it shares its packets with nothing else.
    pub(super) fn sent(self, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        let bytes = bytes + self.per_write + bytes.div_ceil(self.record) * self.per_record;
        bytes + bytes.div_ceil(self.packet) * self.per_packet
    }

    /// What has come over the wire for `bytes` that were read. Reads know nothing of packets, so
    /// this is a share.
    pub(super) fn received(self, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        bytes + bytes * self.per_packet / self.packet
    }
}

/// Acknowledgements: this part of what goes one way comes back the other way. Both TCP and QUIC
/// acknowledge every other packet or less often.
pub(super) const ACK_SHARE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_costs_about_five_percent_and_a_small_one_a_packet() {
        assert_eq!(Framing::TCP.sent(10_000), 10_000 + 56 + 7 * 66);
        assert_eq!(Framing::TCP.sent(64 * 1024), 64 * 1024 + 34 + 5 * 22 + 46 * 66);
        assert_eq!(Framing::TCP.sent(1), 1 + 56 + 66);
        assert_eq!(Framing::QUIC.sent(1414), 1494);
        assert_eq!(Framing::QUIC.received(1_414_000), 1_494_000);
    }
}
