//! A model as files hold it: its shape, its weights, and the numbers it is computed in.
//!
//! May import `text`, for the names of tokenizer files. No other folder.
//!
//! ```text
//! config.json         -> config::ModelConfig
//! model.safetensors   -> weights::Weights, checked against the shape
//! a snapshot's pieces -> weights::ImageWriter -> weights::Weights
//! precision::Precision: what a backend makes of them
//! export::export      -> a directory that transformers opens
//! ```

pub mod config;
pub mod dtype;
pub mod export;
pub mod precision;
pub mod weights;
