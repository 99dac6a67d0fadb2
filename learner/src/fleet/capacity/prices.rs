//! What nodes cost: by the operator's word, or by their own.

use echo_protocol::control::heartbeat::Offer;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::price::Price;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewest digits of a key that name a node.
const KEY_DIGITS: usize = 8;

/// `[fleet] prices`: dollars an hour by a node's key (or its first digits, at least 8), label, or class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(BTreeMap<String, f64>);

impl Prices {
    /// The same from names and dollars an hour.
    pub fn new(prices: impl IntoIterator<Item = (String, f64)>) -> Self {
        Self(prices.into_iter().collect())
    }

    /// What a node costs in dollars an hour. The operator's word goes before the node's own.
    pub fn of(&self, node: &PublicKey, offer: &Offer) -> f64 {
        let declared = || offer.micro_usd_per_hour.map_or(0.0, |micro| Price(micro).usd_per_hour());
        self.name_of(node, offer).and_then(|name| self.0.get(name).copied()).unwrap_or_else(declared)
    }

    /// The name under which the operator knows a node's price: first its key, then its label, then its class.
    pub fn name_of(&self, node: &PublicKey, offer: &Offer) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        let named = |name: &Option<String>| {
            name.as_ref().and_then(|name| self.0.get_key_value(name)).map(|(name, _)| name.as_str())
        };
        self.name_of_key(node).or_else(|| named(&offer.label)).or_else(|| named(&offer.class))
    }

    /// The name if it is that of the key. Of eight digits, one key in four billion has it.
    pub(super) fn name_of_key(&self, node: &PublicKey) -> Option<&str> {
        let key = node.to_string();
        let is_key = |name: &&String| name.len() >= KEY_DIGITS && key.starts_with(&name.to_ascii_lowercase());
        self.0.keys().find(is_key).map(String::as_str)
    }

    /// Names and dollars an hour.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, price)| (name.as_str(), *price))
    }

    /// The first price that is none.
    pub(in crate::fleet) fn wrong(&self) -> Option<f64> {
        self.0.values().copied().find(|price| !(0.0..=1e6).contains(price))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_word_goes_before_the_nodes_own() {
        let node = PublicKey::from_bytes([0xab; 32]);
        let offer = |label: Option<&str>, price| Offer {
            label: label.map(str::to_owned),
            class: Some("cuda".into()),
            micro_usd_per_hour: price,
        };
        let none = Prices::default();
        assert_eq!(none.of(&node, &Offer::default()), 0.0, "volunteers cost nothing");
        assert_eq!(none.of(&node, &offer(None, Some(350_000))), 0.35);
        let of_class = Prices::new([("cuda".to_owned(), 0.5)]);
        assert_eq!(of_class.of(&node, &offer(None, Some(1))), 0.5);
        let of_label = Prices::new([("cuda".to_owned(), 0.5), ("rented".to_owned(), 2.0)]);
        assert_eq!(of_label.of(&node, &offer(Some("rented"), None)), 2.0);
        let digits = node.to_string()[..8].to_owned();
        let of_key = Prices::new([(digits.clone(), 0.0), ("rented".to_owned(), 2.0)]);
        assert_eq!(of_key.of(&node, &offer(Some("rented"), Some(9))), 0.0);
        assert_eq!(of_key.name_of(&node, &offer(Some("rented"), None)), Some(digits.as_str()));
        assert_eq!(Prices::new([("x".to_owned(), f64::NAN)]).wrong().map(f64::is_nan), Some(true));
    }
}
