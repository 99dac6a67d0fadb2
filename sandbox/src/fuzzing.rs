//! What the fuzz targets reach and nobody else does: readers that are private, and what they cost.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::programs::functions::frames;
use crate::programs::server::frame;
pub use crate::tasks::code::fuzzing::{CodeRow, code_definition, code_program, code_rows};
use crate::tasks::math::{self, MathJudgement, MathOptions, Parsed};

/// What an end of a [server](crate::programs::server)'s connection reads: the messages
/// that `stream` begins with.
pub fn server_messages<T: DeserializeOwned>(mut stream: &[u8]) -> Vec<T> {
    let next = || {
        let length = frame::read_length(&mut stream).ok()??;
        frame::read_message(&mut stream, length).ok()
    };
    std::iter::from_fn(next).collect()
}

/// What an end of a server's connection writes; `None` when a message is too long for a frame.
pub fn server_stream<T: Serialize>(messages: &[T]) -> Option<Vec<u8>> {
    let mut stream = Vec::new();
    messages.iter().try_for_each(|message| frame::write(&mut stream, message)).ok()?;
    Some(stream)
}

/// The frames that an interpreter's channel begins with.
pub fn function_frames(channel: &[u8]) -> Vec<&[u8]> {
    frames::read(channel).collect()
}

/// Reads a message as a zygote and as its host do, and panics unless what was read arrives a second
/// time as it was.
#[cfg(target_os = "linux")]
pub fn zygote_message(kind: u8, body: &[u8]) {
    crate::isolation::zygote_message(kind, body);
}

/// [`math::judge`], and the steps that each of its parts took: reading the response, reading the
/// gold answer, comparing them.
pub fn judge_counted(gold: &str, response: &str, options: &MathOptions) -> (MathJudgement, [u32; 3]) {
    math::fuzzing::judge_counted(gold, response, options)
}

/// Whether a mathematical answer that is a number is taken for itself with `more` added to it, by
/// its value. `None` where that cannot be told: it is no number, or too large or too inexact a one,
/// or the budget ends.
pub fn equals_with(answer: &Parsed, more: i64, options: &MathOptions) -> Option<bool> {
    math::fuzzing::equals_with(answer, more, options)
}
