//! Length-prefixed frames over a stream of bytes.
//!
//! A frame is its body's length as an unsigned 32-bit big-endian number, then the body. The
//! reader names the longest body that it takes; a longer one is refused when its four bytes of
//! length have been read.

use std::io;
use std::time::Duration;

use futures::io::{Chain, Cursor, copy, sink};
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// Bytes of the length in front of every body.
pub const FRAME_HEADER: usize = 4;

/// The buffer of a body grows by at most this many bytes ahead of what has arrived.
pub const FRAME_STEP: usize = 64 * 1024;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is above the cap. Nothing was allocated, and the stream is useless from here on.
    #[error("a frame of {len} bytes is longer than the {cap} bytes allowed here; close the stream")]
    TooLarge {
        /// The length that the frame says, in bytes.
        len: u64,
        /// The longest body allowed, in bytes.
        cap: usize,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended after {got} of a frame's {want} bytes; the sender went away")]
    Truncated {
        /// Bytes that arrived of the part being read.
        got: usize,
        /// Bytes that this part has.
        want: usize,
    },
    /// A frame has begun and does not end.
    #[error("a frame was not whole {} s after its first byte; the sender is too slow for this stream", .within.as_secs())]
    Slow {
        /// How long it was waited for.
        within: Duration,
    },
    /// Reading from or writing to the stream failed.
    #[error("the stream failed within a frame: {0}")]
    Io(#[from] io::Error),
}

/// Reads one frame of at most `cap` bytes. `None` when the stream ended cleanly, between two frames.
///
/// The buffer grows only as bytes arrive, so a sender who lies about the length reserves no memory.
///
/// # Errors
/// [`FrameError`]; after any of them the stream must be closed.
pub async fn read_frame<S>(stream: &mut S, cap: usize) -> Result<Option<Vec<u8>>, FrameError>
where
    S: AsyncRead + Unpin,
{
    let Some(len) = read_length(stream, cap).await? else { return Ok(None) };
    let mut body = Vec::new();
    read_up_to(stream, &mut body, len, len).await?;
    Ok(Some(body))
}

/// The length of the next body. `None` when the stream ended before it.
async fn read_length<S>(stream: &mut S, cap: usize) -> Result<Option<usize>, FrameError>
where
    S: AsyncRead + Unpin,
{
    let mut header = [0u8; FRAME_HEADER];
    let mut got = 0;
    while got < FRAME_HEADER {
        match stream.read(&mut header[got..]).await? {
            0 if got == 0 => return Ok(None),
            0 => return Err(FrameError::Truncated { got, want: FRAME_HEADER }),
            n => got += n,
        }
    }
    let announced = u32::from_be_bytes(header);
    match usize::try_from(announced) {
        Ok(len) if len <= cap => Ok(Some(len)),
        _ => Err(FrameError::TooLarge { len: announced.into(), cap }),
    }
}

/// Reads on until `body`, which is to have `len` bytes in the end, has its first `end`.
async fn read_up_to<S>(stream: &mut S, body: &mut Vec<u8>, end: usize, len: usize) -> Result<(), FrameError>
where
    S: AsyncRead + Unpin,
{
    let mut filled = body.len();
    while filled < end {
        if filled == body.len() {
            body.resize(end.min(filled + FRAME_STEP), 0);
        }
        match stream.read(&mut body[filled..]).await? {
            0 => return Err(FrameError::Truncated { got: filled, want: len }),
            n => filled += n,
        }
    }
    Ok(())
}

/// A frame of which the reader looked at the beginning first.
#[derive(Debug, PartialEq, Eq)]
pub enum ScreenedFrame<R> {
    /// All of it.
    Whole(Vec<u8>),
    /// It was read, and nothing of it was kept.
    Refused {
        /// Why, as the reader said.
        why: R,
        /// Bytes of its body.
        len: usize,
    },
}

/// [`read_frame_within`], where `refuse` looks at the first `beginning` bytes (all, of a shorter frame)
/// before the rest comes into memory. What it refuses is read past, so that the stream can go on.
///
/// # Errors
/// As for [`read_frame_within`].
pub async fn read_screened_frame<S, R>(
    stream: &mut S,
    cap: usize,
    within: Duration,
    beginning: usize,
    refuse: impl FnOnce(&[u8]) -> Option<R>,
) -> Result<Option<ScreenedFrame<R>>, FrameError>
where
    S: AsyncRead + Unpin,
{
    let Some(mut stream) = first_byte(stream).await? else { return Ok(None) };
    let screened = async {
        let Some(len) = read_length(&mut stream, cap).await? else { return Ok(None) };
        let mut body = Vec::new();
        read_up_to(&mut stream, &mut body, len.min(beginning), len).await?;
        let Some(why) = refuse(&body) else {
            read_up_to(&mut stream, &mut body, len, len).await?;
            return Ok(Some(ScreenedFrame::Whole(body)));
        };
        let rest = (len - body.len()) as u64;
        let passed = copy((&mut stream).take(rest), &mut sink()).await?;
        if passed < rest {
            return Err(FrameError::Truncated { got: body.len() + passed as usize, want: len });
        }
        Ok::<_, FrameError>(Some(ScreenedFrame::Refused { why, len }))
    };
    timeout(within, screened).await.unwrap_or(Err(FrameError::Slow { within }))
}

/// A stream whose first byte has been read.
type FirstByteThen<'a, S> = Chain<Cursor<[u8; 1]>, &'a mut S>;

/// Waits for the first byte of a frame, however long it takes. `None` when the stream ended.
async fn first_byte<S>(stream: &mut S) -> Result<Option<FirstByteThen<'_, S>>, FrameError>
where
    S: AsyncRead + Unpin,
{
    let mut first = [0u8; 1];
    let is_there = stream.read(&mut first).await? > 0;
    Ok(is_there.then(|| Cursor::new(first).chain(stream)))
}

/// [`read_frame`], for a frame that has to be whole `within` this time after its first byte. That
/// one may take as long as it likes.
///
/// # Errors
/// [`FrameError::Slow`], and those of [`read_frame`].
pub async fn read_frame_within<S>(
    stream: &mut S,
    cap: usize,
    within: Duration,
) -> Result<Option<Vec<u8>>, FrameError>
where
    S: AsyncRead + Unpin,
{
    let Some(mut whole) = first_byte(stream).await? else { return Ok(None) };
    timeout(within, read_frame(&mut whole, cap)).await.unwrap_or(Err(FrameError::Slow { within }))
}

/// Writes `body` as one frame and flushes it.
///
/// # Errors
/// [`FrameError::TooLarge`] before anything is written, if `body` is longer than `cap` (or than 4 GiB);
/// [`FrameError::Io`] if the stream fails.
pub async fn write_frame<S>(stream: &mut S, body: &[u8], cap: usize) -> Result<(), FrameError>
where
    S: AsyncWrite + Unpin,
{
    let len = match u32::try_from(body.len()) {
        Ok(len) if body.len() <= cap => len,
        _ => return Err(FrameError::TooLarge { len: body.len() as u64, cap }),
    };
    let header = len.to_be_bytes();
    if body.len() <= FRAME_STEP {
        // One write: two would be two packets, two records of TLS and two wake-ups of the reader.
        stream.write_all(&[&header, body].concat()).await?;
    } else {
        stream.write_all(&header).await?;
        stream.write_all(body).await?;
    }
    stream.flush().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures::executor::block_on;
    use proptest::prelude::*;

    use super::*;

    /// Gives `bytes` and records the largest buffer that the reader offered.
    struct Watched {
        bytes: Cursor<Vec<u8>>,
        largest: usize,
    }

    impl Watched {
        fn new(bytes: Vec<u8>) -> Self {
            Self { bytes: Cursor::new(bytes), largest: 0 }
        }
    }

    impl AsyncRead for Watched {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.largest = self.largest.max(buf.len());
            Pin::new(&mut self.bytes).poll_read(cx, buf)
        }
    }

    #[test]
    fn a_gigabyte_prefix_is_refused_before_any_buffer_exists() {
        let mut stream = Watched::new(0x4000_0000u32.to_be_bytes().to_vec());
        let error = block_on(read_frame(&mut stream, 1024)).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { len: 0x4000_0000, cap: 1024 }), "{error}");
        assert_eq!(stream.largest, FRAME_HEADER);
    }

    #[test]
    fn a_lying_length_reserves_no_more_than_a_step() {
        let mut bytes = 0x4000_0000u32.to_be_bytes().to_vec();
        bytes.extend([7; 100]);
        let mut stream = Watched::new(bytes);
        let error = block_on(read_frame(&mut stream, usize::MAX)).unwrap_err();
        assert!(matches!(error, FrameError::Truncated { got: 100, want: 0x4000_0000 }), "{error}");
        assert_eq!(stream.largest, FRAME_STEP);
    }

    #[test]
    fn the_end_is_clean_only_between_frames() {
        let read = |bytes: &[u8]| block_on(read_frame(&mut Cursor::new(bytes.to_vec()), 16));
        assert!(read(&[]).unwrap().is_none());
        assert!(matches!(read(&[0, 0]), Err(FrameError::Truncated { got: 2, want: 4 })));
        assert!(matches!(read(&[0, 0, 0, 3, 1]), Err(FrameError::Truncated { got: 1, want: 3 })));
        assert_eq!(read(&[0, 0, 0, 0]).unwrap().unwrap(), Vec::<u8>::new());
    }

    #[test]
    fn the_writer_keeps_to_the_cap_too() {
        let mut out = Cursor::new(Vec::new());
        let error = block_on(write_frame(&mut out, &[0; 17], 16)).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { len: 17, cap: 16 }));
        assert!(out.into_inner().is_empty());
    }

    #[tokio::test]
    async fn a_refused_frame_is_read_past_without_room_for_it() {
        let (cap, within) = (1 << 20, Duration::from_secs(9));
        let mut wire = Cursor::new(Vec::new());
        write_frame(&mut wire, &vec![7; cap], cap).await.unwrap();
        write_frame(&mut wire, b"next", cap).await.unwrap();
        let mut stream = Watched::new(wire.into_inner());
        let refuse = |beginning: &[u8]| Some(beginning.len());
        let first = read_screened_frame(&mut stream, cap, within, 100, refuse).await.unwrap();
        assert_eq!(first, Some(ScreenedFrame::Refused { why: 100, len: cap }));
        assert!(stream.largest < FRAME_STEP, "{}", stream.largest);
        let take = |_: &[u8]| None::<()>;
        let second = read_screened_frame(&mut stream, cap, within, 100, take).await.unwrap();
        assert_eq!(second, Some(ScreenedFrame::Whole(b"next".to_vec())));
    }

    proptest! {
        #[test]
        fn frames_come_back_as_they_were(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200_000), 0..4)) {
            let mut wire = Cursor::new(Vec::new());
            for body in &bodies {
                block_on(write_frame(&mut wire, body, 200_000)).unwrap();
            }
            wire.set_position(0);
            for body in &bodies {
                prop_assert_eq!(block_on(read_frame(&mut wire, 200_000)).unwrap(), Some(body.clone()));
            }
            prop_assert!(block_on(read_frame(&mut wire, 200_000)).unwrap().is_none());
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), cap in 0usize..400) {
            let mut wire = Cursor::new(bytes);
            while let Ok(Some(body)) = block_on(read_frame(&mut wire, cap)) {
                prop_assert!(body.len() <= cap);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_trickles_is_given_up_and_silence_between_frames_is_not() {
        let (mut near, far) = tokio::io::duplex(64);
        let mut far = tokio_util::compat::TokioAsyncReadCompatExt::compat(far);
        let within = Duration::from_secs(10);
        let (read, ()) = futures::join!(read_frame_within(&mut far, 100, within), async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            tokio::io::AsyncWriteExt::write_all(&mut near, &[0, 0, 0, 2, 7, 8]).await.unwrap();
        });
        assert_eq!(read.unwrap(), Some(vec![7, 8]));
        let (slow, ()) = futures::join!(read_frame_within(&mut far, 100, within), async {
            for byte in [0, 0, 0, 50, 1, 1] {
                tokio::io::AsyncWriteExt::write_all(&mut near, &[byte]).await.unwrap();
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
        });
        assert!(matches!(slow, Err(FrameError::Slow { .. })), "{slow:?}");
        drop(near);
    }
}
