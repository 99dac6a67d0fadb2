//! echo-bootstrap: the first peer that a volunteer meets, and the tool that signs peer lists.
//!
//! A volunteer is given one file, a signed peer list. It names bootstrap nodes, which know the
//! way to everybody else, and the learners that the keeper of the list vouches for. This crate is
//! both halves of that:
//!
//! - [`node`]: a peer that stays up, answers questions about the DHT, and does no work of any run;
//! - [`lists`]: drafts in TOML to signed lists, and what a list says and whether to believe it.
//!
//! A bootstrap node relays no gossip, holds no snapshot and sees no trajectory: it is
//! trusted with addresses only.

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod lists;
pub mod node;
mod publish;
