//! A plain TCP copy between hosts: what the links really carry.

use super::{Fabric, NetnsError};
use echo_protocol::wire::rate::BytesPerSec;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What passes first is not counted: full buckets, empty queues and TCP's slow start.
const WARM_UP: Duration = Duration::from_millis(400);
/// What passes within this time, after the warm-up, is counted.
const MEASURED: Duration = Duration::from_millis(1200);
/// Connecting and every single read and write end within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of one read or write.
const BLOCK: usize = 128 << 10;

/// What a copy came to.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Copied {
    /// Payload received, in bytes per second.
    pub bytes_per_s: f64,
    /// The same as a share of what the caps allow; `None` without caps. Headers take 4 to 5 %.
    pub share: Option<f64>,
}

impl Fabric {
    /// Copies for one and a half seconds from one host to others at once, one connection each.
    ///
    /// # Errors
    /// [`NetnsError::Copy`] when a connection fails, and [`NetnsError::Enter`].
    pub fn copy(&self, from: usize, to: &[usize]) -> Result<Copied, NetnsError> {
        let listeners = to.iter().map(|host| {
            let address = SocketAddr::from((self.address(*host), 0));
            let listener = self.enter(*host, || TcpListener::bind(address))?.map_err(NetnsError::Copy)?;
            let address = listener.local_addr().map_err(NetnsError::Copy)?;
            let stream = self.enter(from, || TcpStream::connect_timeout(&address, PATIENCE))?;
            let accepted = listener.accept().map_err(NetnsError::Copy)?.0;
            Ok((stream.map_err(NetnsError::Copy)?, accepted))
        });
        let pairs = listeners.collect::<Result<Vec<_>, NetnsError>>()?;
        let begun = Instant::now();
        let counts: Vec<io::Result<u64>> = std::thread::scope(|scope| {
            let readers: Vec<_> = pairs
                .into_iter()
                .map(|(stream, accepted)| {
                    scope.spawn(move || write(stream, begun));
                    scope.spawn(move || read(accepted, begun))
                })
                .collect();
            let ended = |reader: std::thread::ScopedJoinHandle<'_, io::Result<u64>>| {
                reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            readers.into_iter().map(ended).collect()
        });
        let total: u64 = counts.into_iter().sum::<io::Result<u64>>().map_err(NetnsError::Copy)?;
        let bytes_per_s = total as f64 / MEASURED.as_secs_f64();
        let share = self.allowed(from, to).map(|allowed| bytes_per_s / allowed.0 as f64);
        Ok(Copied { bytes_per_s, share })
    }

    /// What the caps allow between one host and others: the smaller of what one may send and what
    /// the others may receive.
    fn allowed(&self, from: usize, to: &[usize]) -> Option<BytesPerSec> {
        let down: Option<u64> = to.iter().map(|host| self.link(*host).down.map(|rate| rate.0)).sum();
        let up = self.link(from).up.map(|rate| rate.0);
        [up, down].into_iter().flatten().min().map(BytesPerSec)
    }
}

fn write(mut stream: TcpStream, begun: Instant) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let block = vec![0; BLOCK];
    while begun.elapsed() < WARM_UP + MEASURED {
        stream.write_all(&block)?;
    }
    Ok(())
}

/// Bytes that arrived within the measured time.
fn read(mut stream: TcpStream, begun: Instant) -> io::Result<u64> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut block, mut count) = (vec![0; BLOCK], 0);
    loop {
        let read = stream.read(&mut block)?;
        let now = begun.elapsed();
        if read == 0 || now > WARM_UP + MEASURED {
            return Ok(count);
        }
        if now > WARM_UP {
            count += read as u64;
        }
    }
}
