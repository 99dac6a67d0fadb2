//! Texts from strangers: peer lists, addresses, names and rates. None panics, and what is read is written as what is read.
#![no_main]

use echo_protocol::content::ContentId;
use echo_protocol::control::Peer;
use echo_protocol::identity::{NodeKey, PublicKey};
use echo_protocol::net::peer::{addresses_of, key_of_peer, peer_of_key};
use echo_protocol::net::{Multiaddr, PeerId, dialable, outer_ip};
use echo_protocol::peer_list::{self, MAX_ENTRIES, MAX_LIST_BYTES, PeerList, Trust};
use echo_protocol::rate::BytesPerSec;
use echo_protocol::time::UnixMillis;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, text)) = input.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    match *kind {
        b'l' => open_list(text),
        b's' => sign_list(text),
        b'a' => read_address(text),
        b'p' => {
            if let Ok(peer) = text.parse::<PeerId>() {
                let key = key_of_peer(&peer);
                assert!(key.is_none_or(|key| peer_of_key(&key).as_ref().and_then(key_of_peer) == Some(key)));
            }
        }
        b'r' => {
            if let Ok(rate) = text.parse::<BytesPerSec>() {
                assert!(rate.0 > 0 && rate.to_string().parse() == Ok(rate));
            }
        }
        b'h' => {
            let (key, id) = (PublicKey::from_hex(text), ContentId::from_hex(text));
            assert_eq!(key.is_some(), id.is_some());
            assert!(key.is_none_or(|key| key.to_string() == text.to_ascii_lowercase()));
            assert!(id.is_none_or(|id| id.to_string() == text.to_ascii_lowercase()));
        }
        _ => {}
    }
});

/// A list as it comes. No input can hold the signature of a key that is made up here.
fn open_list(text: &str) {
    if let Ok((list, keeper)) = peer_list::read(text) {
        assert!(text.len() <= MAX_LIST_BYTES && list.peers.len() <= MAX_ENTRIES);
        assert_ne!(keeper, keeper_key().public());
    }
}

/// The text under a signature, which is anybody's for a node that has not seen a keeper yet.
fn sign_list(text: &str) {
    let Ok(list) = toml::from_str::<PeerList>(text) else { return };
    let key = keeper_key();
    let Ok(signed) = peer_list::sign(&list, &key) else { return };
    if signed.len() > MAX_LIST_BYTES {
        return;
    }
    assert_eq!(peer_list::read(&signed), Ok((list.clone(), key.public())));
    assert_eq!(list.learners().count(), list.runs.len());
    let mut trust = Trust::default();
    let opened = peer_list::open(&signed, UnixMillis(0), &mut trust);
    assert_eq!(opened.is_ok(), list.expires > 0);
    if opened.is_ok() {
        assert_eq!((trust.seen, trust.keeper), (list.version, Some(key.public().to_string())));
        let other = NodeKey::from_secret([4; 32]);
        let posed = peer_list::sign(&list, &other).expect("it could be signed before");
        let mut trust = Trust { keeper: Some(key.public().to_string()), ..Trust::default() };
        assert!(peer_list::open(&posed, UnixMillis(0), &mut trust).is_err());
    }
}

fn keeper_key() -> NodeKey {
    NodeKey::from_secret([3; 32])
}

fn read_address(text: &str) {
    let peer = Peer { key: keeper_key().public(), addresses: text.lines().map(str::to_owned).collect() };
    for address in addresses_of(&peer) {
        assert!(outer_ip(&address).is_none_or(|ip| !ip.is_loopback()));
        // An address that is dialled has a form that is read the same again.
        if dialable(&address) {
            assert_eq!(address.to_string().parse::<Multiaddr>().ok(), Some(address));
        }
    }
}
