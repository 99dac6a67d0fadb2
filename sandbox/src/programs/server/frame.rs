//! Frames: four bytes of length, big-endian, and that many bytes of CBOR.

use std::io::{self, Read, Write};

use echo_protocol::wire::codec;
use echo_protocol::wire::codec::CodecError;
use serde::{Serialize, de::DeserializeOwned};

/// Bytes of test data in one call.
pub const MAX_PUT_BYTES: usize = 16 << 20;

/// Bytes of a frame.
pub const MAX_FRAME_BYTES: usize = MAX_PUT_BYTES + (64 << 10);

/// Why a frame did not come or go.
#[derive(Debug, thiserror::Error)]
pub enum ServerFrameError {
    /// The connection ended or broke.
    #[error("the connection to the verification server: {0}; connect again")]
    Connection(#[from] io::Error),
    /// Not a frame, or not what was expected in it.
    #[error(
        "the other side does not speak this version of the protocol: {0}; use the same release on both sides"
    )]
    Codec(#[from] CodecError),
}

/// Sends a message as one frame, refused when it exceeds [`MAX_FRAME_BYTES`].
pub(crate) fn write<T: Serialize>(stream: &mut impl Write, message: &T) -> Result<(), ServerFrameError> {
    let bytes = codec::encode(message, MAX_FRAME_BYTES)?;
    let length = u32::try_from(bytes.len()).expect("a frame is shorter than 4 GiB");
    stream.write_all(&[&length.to_be_bytes(), bytes.as_slice()].concat())?;
    Ok(())
}

/// The length that a frame begins with; `None` at the end of the connection.
pub(crate) fn read_length(stream: &mut impl Read) -> Result<Option<usize>, ServerFrameError> {
    let mut length = [0; 4];
    // The first byte alone, to tell an end between frames from one within.
    if stream.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[1..])?;
    let len = u32::from_be_bytes(length) as usize;
    if len > MAX_FRAME_BYTES {
        return Err(CodecError::TooLarge { len, cap: MAX_FRAME_BYTES }.into());
    }
    Ok(Some(len))
}

/// The message of `length` bytes. Memory grows as they arrive.
pub(crate) fn read_message<T: DeserializeOwned>(
    stream: &mut impl Read,
    length: usize,
) -> Result<T, ServerFrameError> {
    let mut bytes = Vec::new();
    if stream.take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(codec::decode(&bytes, MAX_FRAME_BYTES)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::server::{ClientCall, ServerReply};
    use proptest::prelude::*;

    #[test]
    fn frames_come_back_and_lies_are_refused() {
        let mut bytes = Vec::new();
        write(&mut bytes, &ClientCall::Hello { protocol: "x".into() }).unwrap();
        let mut stream = bytes.as_slice();
        let length = read_length(&mut stream).unwrap().unwrap();
        assert_eq!(
            read_message::<ClientCall>(&mut stream, length).unwrap(),
            ClientCall::Hello { protocol: "x".into() }
        );
        assert!(read_length(&mut stream).unwrap().is_none());
        assert!(matches!(read_length(&mut [0xff; 8].as_slice()), Err(ServerFrameError::Codec(_))));
        assert!(matches!(read_length(&mut [0, 0].as_slice()), Err(ServerFrameError::Connection(_))));
        let cut = read_message::<ClientCall>(&mut &bytes[4..6], MAX_FRAME_BYTES);
        assert!(matches!(cut, Err(ServerFrameError::Connection(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_message::<ClientCall>(&mut bytes.as_slice(), bytes.len());
            let _ = read_message::<ServerReply>(&mut bytes.as_slice(), bytes.len());
        }
    }
}
