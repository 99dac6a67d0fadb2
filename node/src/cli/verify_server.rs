//! `echo-node verify-server`: programs judged for other processes of this machine.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::state::data_dir::DataDir;

/// What `echo-node verify-server` is asked.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct VerifyServer {
    /// Where to listen: a path of at most 107 bytes
    #[arg(long)]
    pub socket: PathBuf,
    /// Also let in processes of this user, by its number (repeat); your own always may
    #[arg(long = "allow-uid", value_name = "UID")]
    pub allow_uid: Vec<u32>,
    /// Programs that run at one time [default: half of the cores]
    #[arg(long)]
    pub workers: Option<NonZeroUsize>,
    /// Where test data is kept [default: tests in the data directory]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Most test data that is kept; beyond it, what was not used for longest goes
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = bytes)]
    pub store_bytes: u64,
}

/// Reads a size: bytes, or with a unit.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "" => Some(0),
        "KiB" => Some(10),
        "MiB" => Some(20),
        "GiB" => Some(30),
        _ => None,
    };
    let size =
        number.parse::<u64>().ok().zip(scale).and_then(|(number, scale)| number.checked_mul(1 << scale));
    size.filter(|size| *size > 0)
        .ok_or_else(|| "write a whole number above 0 of bytes, or with KiB, MiB or GiB behind it".into())
}

/// Serves until `stop` is cancelled. Blocks while it starts and ends.
///
/// # Errors
/// When this system cannot isolate programs (all that is missing, each with its mend), the store
/// cannot be opened, or nobody can listen at the socket.
#[cfg(target_os = "linux")]
pub async fn serve(options: &VerifyServer, data: &DataDir, stop: &CancellationToken) -> anyhow::Result<()> {
    use std::sync::Arc;

    use echo_sandbox::isolation::{Requirements, Sandbox};
    use echo_sandbox::programs::server::Server;
    use echo_sandbox::programs::service::{QueueLimits, Service};
    use echo_sandbox::programs::{Judge, TestStore};

    let judge = Judge::new(Arc::new(Sandbox::open(&Requirements::default())?));
    let languages: Vec<_> = judge.tools().languages().map(|language| language.name()).collect();
    for (_, lack) in judge.tools().lacks() {
        tracing::warn!("{}: {}", lack.what, lack.mend);
    }
    let store = options.store.clone().unwrap_or_else(|| data.tests());
    let store = Arc::new(TestStore::open(&store, options.store_bytes)?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.workers.or(NonZeroUsize::new(cores / 2)).unwrap_or(NonZeroUsize::MIN);
    let kept = store.bytes();
    let isolation = judge.isolation().clone();
    let service = Arc::new(Service::start(Arc::new(judge), store, workers, QueueLimits::default()));
    let server = Server::start(&options.socket, Arc::clone(&service), &options.allow_uid)?;
    tracing::info!(
        socket = %server.path().display(),
        %workers,
        languages = languages.join(", "),
        kept_bytes = kept,
        %isolation,
        "judging programs; stop with Ctrl-C"
    );
    let mut reported = 0;
    while stop.run_until_cancelled(tokio::time::sleep(TELL_EVERY)).await.is_some() {
        let load = service.load();
        if load.finished != reported {
            reported = load.finished;
            tracing::info!(requests = load.finished, waiting = load.admitted, "judged");
        }
    }
    // Who waits is told before the connections end; then the runs that go on are waited for, until
    // their limits at worst.
    service.close();
    drop(server);
    tracing::info!(requests = service.load().finished, "stopping");
    Ok(())
}

/// How often the log says what was judged, if anything was.
#[cfg(target_os = "linux")]
const TELL_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// Refuses, and says why.
///
/// # Errors
/// Always: programs are isolated on Linux alone.
#[cfg(not(target_os = "linux"))]
pub async fn serve(_: &VerifyServer, _: &DataDir, _: &CancellationToken) -> anyhow::Result<()> {
    echo_sandbox::programs::Judge::shared()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("1024"), Ok(1024));
        assert_eq!(bytes("3MiB"), Ok(3 << 20));
        assert_eq!(bytes("2 GiB"), Ok(2 << 30));
        for wrong in ["", "0", "GiB", "-1", "1.5GiB", "1GB", "99999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_client_is_served_until_the_server_is_stopped() {
        use echo_sandbox::programs::checkers::Checker;
        use echo_sandbox::programs::server::Client;
        use echo_sandbox::programs::service::JudgeRequest;
        use echo_sandbox::programs::{
            Checking, JudgeOptions, Language, ProgramVerdict, Submission, Suite, Test,
        };

        let dir = tempfile::tempdir().unwrap();
        let options = VerifyServer {
            socket: dir.path().join("verify.sock"),
            allow_uid: Vec::new(),
            workers: NonZeroUsize::new(1),
            store: None,
            store_bytes: 1 << 20,
        };
        let socket = options.socket.clone();
        let ask = move || {
            // Until it listens: opening the sandbox takes a moment.
            let mut client = loop {
                match Client::connect(&socket) {
                    Ok(client) => break client,
                    Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
                }
            };
            let put = |client: &mut Client, text: &str| client.put(text.as_bytes()).unwrap();
            let test = Test { input: put(&mut client, "2 3"), answer: put(&mut client, "5") };
            let suite = Suite::new(vec![test], Checking::Stock(Checker::Ncmp));
            let source = "print(sum(map(int, input().split())))".to_owned();
            let submission = Submission { language: Language::Python, source };
            let request = JudgeRequest::Program { submission, suite, options: JudgeOptions::default() };
            let reports = client.judge(request).unwrap();
            reports.map(|report| report.unwrap().verdict).collect::<Vec<_>>()
        };
        let (data, stop) = (DataDir::new(dir.path().join("data")), CancellationToken::new());
        let asking = async {
            let verdicts = tokio::task::spawn_blocking(ask).await.unwrap();
            stop.cancel();
            verdicts
        };
        let (served, verdicts) = tokio::join!(serve(&options, &data, &stop), asking);
        served.expect("this test runs a program, for which this machine lacks what follows");
        assert_eq!(verdicts, [ProgramVerdict::Accepted]);
        assert!(!options.socket.exists());
        assert!(data.tests().is_dir());
    }
}
