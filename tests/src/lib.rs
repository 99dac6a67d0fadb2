//! echo-lab: everything that looks at Echo as a whole.
//!
//! - [`network`] starts a local network of real processes; [`processes`] keeps them on a leash, [`binaries`] finds them;
//! - [`vectors`] compares Echo's numbers with reference data that others made;
//! - [`bench`] races against outside systems, on speed and memory;
//! - [`gpu`] packs a kit for machines with an NVIDIA card, and is what runs there;
//! - [`study`] tries what the papers claim with a tiny policy; [`delta_study`] measures what the deltas of a policy cost while it is trained;
//! - [`results`] renders the measured figures as a page, and records new ones;
//! - [`suite`] runs every test of the workspace, [`setup`] prepares a fresh machine for it;
//! - [`attack`] trains among liars, floods and slow lorises, and shows what they cost;
//! - [`liar`] takes part in a run as a node that lies, [`small_run`] is a network for tests to put it in;
//! - [`broadcast`] measures how a snapshot spreads, on hosts that [`netns`] makes up; [`simulate`] runs relay machines in simulated networks;
//! - [`trouble`] puts everyday trouble on real processes, and sees how they come through;
//! - [`live`] and [`plot`] show how training goes;
//! - [`console`] is how commands speak, to people and to scripts.
//!
//! The lab may import every crate of the house; nothing imports the lab.

pub mod attack;
pub mod bench;
pub mod binaries;
pub mod broadcast;
pub mod cargo;
mod character_policy;
pub mod console;
pub mod delta_study;
pub mod demo;
mod directory;
pub mod gpu;
pub mod liar;
pub mod live;
pub mod netns;
pub mod network;
pub mod plot;
mod practice;
pub mod processes;
pub mod results;
pub mod setup;
pub mod simulate;
pub mod small_run;
mod statistics;
pub mod study;
pub mod suite;
pub mod trouble;
pub mod vectors;
