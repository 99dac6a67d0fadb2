//! Other engines, driven as `cargo lab bench rollout` drives ours: each run is a process that
//! prints one JSON line.
//!
//! - `echo-peers gguf DIR FILE`: the model of a Hugging Face directory as the GGUF that llama.cpp
//!   reads, the same numbers in bf16;
//! - `echo-peers candle TASK`, `echo-peers llama TASK`: prefill and decode as [`task::PeerTask`] says.

mod candle;
mod gguf;
mod llama;
mod task;
#[cfg(test)]
mod tests;

use anyhow::bail;
use std::path::Path;
use task::PeerTask;

/// candle asks for new memory for every tensor. From the system's allocator a third of its
/// time went into pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rates = match words.as_slice() {
        ["gguf", dir, file] => return gguf::write(Path::new(dir), Path::new(file)),
        ["candle", task] => candle::run(&PeerTask::read(Path::new(task))?)?,
        ["llama", task] => llama::run(&PeerTask::read(Path::new(task))?)?,
        _ => bail!("usage: echo-peers gguf DIR FILE | candle TASK | llama TASK"),
    };
    println!("{}", serde_json::to_string(&rates)?);
    Ok(())
}
