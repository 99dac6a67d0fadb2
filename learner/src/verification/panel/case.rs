//! One group before its verifiers.

use std::collections::BTreeMap;

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;

use super::{Ruling, Said};

/// A group, and what each of its verifiers has said.
#[derive(Debug)]
pub(super) struct PanelCase {
    pub(super) deadline: UnixMillis,
    pub(super) bytes: usize,
    members: BTreeMap<PublicKey, Option<Said>>,
    ruled: bool,
}

impl PanelCase {
    pub(super) fn new(members: &[PublicKey], deadline: UnixMillis, bytes: usize) -> Self {
        let members = members.iter().map(|key| (*key, None)).collect();
        Self { deadline, bytes, members, ruled: false }
    }

    /// Whether it is decided already who looks.
    pub(super) fn is_ruled(&self) -> bool {
        self.ruled
    }

    /// Notes what a member says; false if `key` is no member, or has said something before.
    pub(super) fn says(&mut self, key: &PublicKey, said: Said) -> bool {
        match self.members.get_mut(key) {
            Some(open @ None) => {
                *open = Some(said);
                true
            }
            _ => false,
        }
    }

    /// Waits for a member no longer; false if `key` is no member, or has said something.
    pub(super) fn leaves(&mut self, key: &PublicKey) -> bool {
        let awaited = self.members.get(key).is_some_and(Option::is_none);
        if awaited {
            self.members.remove(key);
        }
        awaited
    }

    /// Members that have said nothing.
    pub(super) fn awaited(&self) -> impl Iterator<Item = PublicKey> + '_ {
        self.members.iter().filter(|(_, said)| said.is_none()).map(|(key, _)| *key)
    }

    /// Members that have vouched for the group or denounced it; true for the former.
    pub(super) fn verdicts(&self) -> impl Iterator<Item = (PublicKey, bool)> + '_ {
        self.members.iter().filter_map(|(key, said)| match said {
            Some(Said::Sound) => Some((*key, true)),
            Some(Said::Lie) => Some((*key, false)),
            Some(Said::Unable) | None => None,
        })
    }

    /// Members that could not tell.
    pub(super) fn unable(&self) -> impl Iterator<Item = PublicKey> + '_ {
        self.members.iter().filter(|(_, said)| **said == Some(Said::Unable)).map(|(key, _)| *key)
    }

    /// Decides, once, when it can be decided; when its time is `over`, it can.
    pub(super) fn rule(&mut self, k: usize, over: bool) -> Option<Ruling> {
        if self.ruled {
            return None;
        }
        let waiting = if over { 0 } else { self.awaited().count() };
        let vouching: Vec<PublicKey> =
            self.verdicts().filter(|(_, vouched)| *vouched).map(|(key, _)| key).collect();
        let doubted = self.members.values().any(|said| matches!(said, Some(Said::Lie | Said::Unable)));
        let ruling = if doubted || vouching.len() + waiting < k {
            Ruling::Open
        } else if waiting > 0 {
            return None;
        } else {
            Ruling::Vouched(vouching)
        };
        self.ruled = true;
        Some(ruling)
    }
}
