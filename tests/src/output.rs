//! What commands print and draw: lines for people, one JSON object for scripts, and pictures.
//!
//! Imports no other folder of the lab.
//!
//! ```text
//! command ── say ──► console ──► standard output, or standard error with --json
//!    │                  ▲
//!    ├── show ──► live ─┘        a block that redraws itself, or a line every 5 seconds
//!    └── rows ──► plot ──► PNG
//! ```

pub mod console;
pub mod live;
pub mod plot;
