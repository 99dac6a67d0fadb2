//! Texts from strangers: peer lists, addresses (in bytes as well), names and rates. None panics,
//! and what is read is written as what is read.
#![no_main]

use echo_protocol::control::requests::Peer;
use echo_protocol::net::fuzzing::{believable, is_local, network_of, seen_from_outside, without_peer};
use echo_protocol::net::peer_id::{addresses_of, key_of_peer, peer_of_key};
use echo_protocol::net::{AddrProtocol, Multiaddr, PeerId, dialable, outer_ip};
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{MAX_ENTRIES, MAX_LIST_BYTES, PeerList, Trust};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, text)) = input.split_first() else { return };
    if *kind == b'b' {
        return read_binary(text);
    }
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
    let addresses = addresses_of(&peer);
    for (address, via) in addresses.iter().zip(addresses.iter().cycle().skip(1)) {
        check_address(address, via);
    }
}

/// Two addresses as they come with the protocols of libp2p: in bytes, which say more than a text
/// can. The first byte is the length of the one.
fn read_binary(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let (one, other) = rest.split_at(rest.len().min((*length).into()));
    let [one, other] = [one, other].map(|bytes| Multiaddr::try_from(bytes.to_vec()).ok());
    if let Some(address) = one {
        check_address(&address, &other.unwrap_or_else(Multiaddr::empty));
    }
}

/// An address that a peer learns through a connection at another one.
fn check_address(address: &Multiaddr, via: &Multiaddr) {
    assert!(outer_ip(address).is_none_or(|ip| !ip.is_loopback() && !is_local(address)));
    let bare = without_peer(address.clone());
    if dialable(address) {
        // It has a form that is read the same again.
        let again: Multiaddr = address.to_string().parse().expect("what is dialled can be written");
        assert!(again.iter().eq(address.iter()), "{address}");
        assert!(!is_bound_to_a_peer(&bare) && without_peer(bare.clone()) == bare);
    }
    // A network is that of the IP, whatever stands behind it.
    assert_eq!(network_of(address), network_of(&bare));
    if let Some(host) = address.iter().next() {
        assert_eq!(network_of(address), network_of(&Multiaddr::from(host).with(AddrProtocol::Tcp(9))));
    }
    assert!(outer_ip(address).is_none() || network_of(address).is_some());
    if believable(address, via) {
        assert!(dialable(address) && network_of(address).is_some());
        let ip = |address: &Multiaddr| match address.iter().next() {
            Some(AddrProtocol::Ip4(ip)) => Some(std::net::IpAddr::V4(ip)),
            Some(AddrProtocol::Ip6(ip)) => Some(ip.to_canonical()),
            _ => None,
        };
        let (claimed, seen) = (ip(address).expect("names are not believed"), ip(via));
        assert!(!claimed.is_loopback() || seen.is_some_and(|seen| seen.is_loopback()));
        // Who is believed from afar is believed over any connection.
        if !claimed.is_loopback() && !is_local(address) {
            assert!(believable(address, &Multiaddr::empty()));
        }
    }
    if let Some(outside) = seen_from_outside(via, address) {
        assert_eq!(outside.iter().next(), via.iter().next());
        assert_eq!(outside.iter().skip(1).collect::<Vec<_>>(), address.iter().skip(1).collect::<Vec<_>>());
    }
}

/// Whether a peer stands at its end.
fn is_bound_to_a_peer(address: &Multiaddr) -> bool {
    matches!(address.iter().last(), Some(AddrProtocol::P2p(_)))
}
