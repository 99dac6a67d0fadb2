//! Whether a model computes what it should: against recorded values, and against the training pass.
//!
//! May import every folder but `audit`. Nothing imports it but tests, lab and benchmarks.
//!
//! ```text
//! a directory of vectors -> vectors::models::check_dir -> vectors::VectorReport
//! backends::models, backends::prompts -> backends::compare -> backends::Agreement
//! Agreement, held to backends::AgreementLimits
//! ```

pub mod backends;
pub mod vectors;

/// The larger of two differences, where NaN is larger than everything.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
