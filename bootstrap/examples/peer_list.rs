//! Signs a peer list as its keeper does, and opens it as a node does. Three lists are refused.
//!
//! ```sh
//! cargo run -p echo-bootstrap --example peer_list
//! ```
//!
//! A peer list is all that a volunteer is given: where to find the network, and whose runs the
//! keeper vouches for. A node trusts the first keeper whose list it opens.

use anyhow::ensure;
use echo_bootstrap::lists::sign::sign_file;
use echo_protocol::net::peer_id_of;
use echo_protocol::program::{clock, keyfile};
use echo_protocol::run::peer_list::{self, PeerList, Trust};
use echo_protocol::wire::identity::NodeKey;

fn main() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (draft, key) = (dir.path().join("list.toml"), dir.path().join("keeper.key"));
    let now = clock::wall();

    // The keeper writes a draft: the boot nodes, and the runs that can be joined.
    let boot_node = peer_id_of(NodeKey::generate()?.secret());
    let learner = NodeKey::generate()?.public();
    let text = format!(
        r#"
        network = "example"
        version = 7
        expires_in = "30d"
        peers = ["/ip4/203.0.113.5/tcp/4160/p2p/{boot_node}"]

        [[runs]]
        name = "addition"
        learner = "{learner}"
        "#
    );
    std::fs::write(&draft, text)?;

    // Signing makes the keeper's key at the first use. `echo-bootstrap sign-list` does the same.
    let signed = sign_file(&draft, &key, None, now)?;
    println!("{}\n", signed.summary(&key, now));
    println!("{}", signed.text);

    // A node opens it: signature, keeper, network, expiry, version. It remembers whom it trusts.
    let mut trust = Trust::default();
    let list = peer_list::open(&signed.text, now, &mut trust)?;
    println!("opened: version {}, {} run, trusted from now on:", list.version, list.runs.len());
    println!("  {}", trust.keeper.as_deref().unwrap_or("nobody"));

    // Whoever hands the list on can change nothing in it.
    refused("altered", &signed.text.replace("203.0.113.5", "203.0.113.6"), &mut trust)?;
    // An old list may name peers that were since removed.
    let keeper = keyfile::load_or_create(&key)?;
    let older = PeerList { version: 6, ..list.clone() };
    refused("older", &peer_list::sign(&older, &keeper)?, &mut trust)?;
    // Another keeper may sign what they like, and this node does not listen.
    refused("of another keeper", &peer_list::sign(&list, &NodeKey::generate()?)?, &mut trust)
}

/// Says why a node refuses a list.
fn refused(what: &str, text: &str, trust: &mut Trust) -> anyhow::Result<()> {
    let opened = peer_list::open(text, clock::wall(), trust);
    ensure!(opened.is_err(), "a list that is {what} was opened");
    if let Err(error) = opened {
        println!("{what}: {error}");
    }
    Ok(())
}
