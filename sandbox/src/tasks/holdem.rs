//! No-limit Texas hold'em.

pub mod action;
pub mod card;
pub mod evaluator;
pub mod pots;
pub mod replay;
pub mod stakes;
pub mod table;
pub mod vectors;
