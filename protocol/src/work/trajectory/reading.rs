//! How a group is read: its head before all else, and nothing that exceeds its limit.
//!
//! A frame of 8 MB comes from anybody. What it costs to read has to be a small multiple of its length, and
//! who is heard is decided before that.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::{MAX_OMEGA_ENTRIES, MetaValue, Omega, Trajectory};
use crate::run::charter::{MAX_GROUP_SIZE, RunId};
use crate::wire::codec;
use crate::wire::identity::PublicKey;
use crate::work::lease::LeaseId;
use crate::work::order::OrderCounter;

/// What a group begins with: who made it, and for which order. Nothing of it is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// The run that the order belongs to.
    pub run: RunId,
    /// The lease under which the work was done.
    pub lease: LeaseId,
    /// The order's number.
    pub counter: OrderCounter,
    /// Who says that it did the work.
    pub node: PublicKey,
}

impl GroupHead {
    /// Reads the first four fields of an encoded group, in any order, and nothing behind them. `None` where
    /// something else comes first.
    pub fn read(group: &[u8]) -> Option<Self> {
        let mut fields = Fields::default();
        codec::read_prefix(group, &mut fields);
        Some(Self { run: fields.run?, lease: fields.lease?, counter: fields.counter?, node: fields.node? })
    }
}

#[derive(Default)]
struct Fields {
    run: Option<RunId>,
    lease: Option<LeaseId>,
    counter: Option<OrderCounter>,
    node: Option<PublicKey>,
}

/// How many fields a head has.
const HEAD_FIELDS: usize = 4;

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum FieldName {
    Run,
    Lease,
    Counter,
    Node,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for &mut Fields {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Fields {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a group of trajectories")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        for _ in 0..HEAD_FIELDS {
            match map.next_key::<FieldName>()? {
                Some(FieldName::Run) => self.run = Some(map.next_value()?),
                Some(FieldName::Lease) => self.lease = Some(map.next_value()?),
                Some(FieldName::Counter) => self.counter = Some(map.next_value()?),
                Some(FieldName::Node) => self.node = Some(map.next_value()?),
                Some(FieldName::Other) | None => break,
            }
        }
        Ok(())
    }
}

/// At most one trajectory more than a group may have, which its form is then refused for.
pub(super) fn trajectories<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Trajectory>, D::Error> {
    deserializer.deserialize_seq(Trajectories)
}

struct Trajectories;

impl<'de> Visitor<'de> for Trajectories {
    type Value = Vec<Trajectory>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("trajectories")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Trajectory>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() <= MAX_GROUP_SIZE as usize {
            match seq.next_element()? {
                Some(trajectory) => kept.push(trajectory),
                None => return Ok(kept),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept)
    }
}

/// At most one entry more than Ω may have, which its form is then refused for.
pub(super) fn omega<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Omega, D::Error> {
    deserializer.deserialize_map(Entries)
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Omega;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Omega, A::Error> {
        let mut omega = Omega::new();
        while omega.len() <= MAX_OMEGA_ENTRIES {
            match map.next_entry()? {
                Some((key, value)) => drop(omega.insert(key, value)),
                None => return Ok(omega),
            }
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(omega)
    }
}

impl<'de> Deserialize<'de> for MetaValue {
    /// By the value's own type. A derived reader of such an enum would copy every value first.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Value)
    }
}

struct Value;

impl Visitor<'_> for Value {
    type Value = MetaValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a flag, a number or a text")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<MetaValue, E> {
        Ok(MetaValue::Flag(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<MetaValue, E> {
        Ok(MetaValue::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<MetaValue, E> {
        Ok(i64::try_from(value).map_or(MetaValue::Number(value as f64), MetaValue::Integer))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<MetaValue, E> {
        Ok(MetaValue::Number(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<MetaValue, E> {
        Ok(MetaValue::Text(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::version::PolicyVersion;
    use crate::wire::content_id::ContentId;
    use crate::wire::identity::NodeKey;
    use crate::work::trajectory::{MAX_GROUP_BYTES, TrajectoryGroup, VersionSpan};

    fn group(omega: Omega, trajectories: usize) -> TrajectoryGroup {
        let trajectory = Trajectory {
            response: vec![1],
            turns: Vec::new(),
            logprobs: vec![-0.5],
            raw_logprobs: Vec::new(),
            versions: vec![VersionSpan { version: PolicyVersion(3), tokens: 1 }],
            reward: 1.0,
            stopped: true,
            omega,
        };
        TrajectoryGroup {
            run: codec::decode(&codec::encode(&ContentId::of(b"a run"), 64).unwrap(), 64).unwrap(),
            lease: LeaseId(7),
            counter: OrderCounter(9),
            node: NodeKey::from_secret([1; 32]).public(),
            trajectories: vec![trajectory; trajectories],
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        }
    }

    #[test]
    fn the_head_is_read_alone_whatever_follows() {
        let group = group(Omega::new(), 2);
        let mut bytes = codec::encode(&group, MAX_GROUP_BYTES).unwrap();
        let head = GroupHead { run: group.run, lease: group.lease, counter: group.counter, node: group.node };
        assert_eq!(GroupHead::read(&bytes), Some(head));
        bytes.truncate(bytes.len() / 2);
        bytes.extend([0xff; 64]);
        assert_eq!(GroupHead::read(&bytes), Some(head), "what follows is not looked at");
        assert!(codec::decode::<TrajectoryGroup>(&bytes, MAX_GROUP_BYTES).is_err());
        for nonsense in [&b""[..], &[0xa1, 0x61, b'z', 0x00], &[0x9f; 40], &bytes[..20]] {
            assert_eq!(GroupHead::read(nonsense), None);
        }
    }

    #[test]
    fn of_a_frame_of_seven_megabytes_no_more_is_kept_than_a_group_may_have() {
        let entries = (0..600_000u32).map(|n| (format!("{n}"), MetaValue::Integer(1))).collect();
        let bytes = codec::encode(&group(entries, 1), MAX_GROUP_BYTES).unwrap();
        assert!(bytes.len() > 4 << 20);
        let read: TrajectoryGroup = codec::decode(&bytes, MAX_GROUP_BYTES).unwrap();
        assert_eq!(read.trajectories[0].omega.len(), MAX_OMEGA_ENTRIES + 1);
        let bytes = codec::encode(&group(Omega::new(), 80_000), MAX_GROUP_BYTES).unwrap();
        assert!(bytes.len() > 5 << 20);
        let read: TrajectoryGroup = codec::decode(&bytes, MAX_GROUP_BYTES).unwrap();
        assert_eq!(read.trajectories.len(), MAX_GROUP_SIZE as usize + 1);
    }

    #[test]
    fn every_kind_of_value_is_read_as_it_was_written() {
        let omega = Omega::from([
            ("flag".to_owned(), MetaValue::Flag(true)),
            ("less".to_owned(), MetaValue::Integer(-3)),
            ("more".to_owned(), MetaValue::Integer(1 << 40)),
            ("part".to_owned(), MetaValue::Number(0.5)),
            ("text".to_owned(), MetaValue::Text("ä".into())),
        ]);
        let group = group(omega, 1);
        let bytes = codec::encode(&group, MAX_GROUP_BYTES).unwrap();
        assert_eq!(codec::decode::<TrajectoryGroup>(&bytes, MAX_GROUP_BYTES).unwrap(), group);
        let json = serde_json::to_string(&group.trajectories[0].omega).unwrap();
        assert_eq!(serde_json::from_str::<Omega>(&json).unwrap(), group.trajectories[0].omega);
    }
}
