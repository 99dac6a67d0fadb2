use super::*;
use crate::testing;

/// Parts that do nothing but end, or not.
async fn supervisor(
    dir: &std::path::Path,
    session: impl Future<Output = Result<Ending, NodeError>> + Send + 'static,
    worker: impl Future<Output = Result<(), NodeError>> + Send + 'static,
) -> Supervisor {
    let (host, _events) = testing::host(90, Vec::new()).await;
    Supervisor {
        host,
        outbox: Outbox::open(dir, &testing::run_id(), &testing::learner_key().public()).unwrap(),
        node_state: Arc::default(),
        session: tokio::spawn(session),
        worker: tokio::spawn(worker),
        stop_worker: CancellationToken::new(),
        returning: tokio::spawn(async {}),
        services: JoinSet::new(),
    }
}

#[tokio::test]
async fn a_worker_that_runs_out_of_orders_as_the_session_ends_is_no_defect() {
    let dir = tempfile::tempdir().unwrap();
    let session = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(Ending::Rechartered(Box::new(testing::charter())))
    };
    let supervisor = supervisor(dir.path(), session, async { Ok(()) }).await;
    let ended = supervisor.run(&CancellationToken::new()).await.unwrap();
    assert!(matches!(ended, Some(Ending::Rechartered(_))), "{ended:?}");
}

#[tokio::test]
async fn a_stopped_node_does_not_wait_for_what_takes_long() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = supervisor(dir.path(), std::future::pending(), std::future::pending()).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let ended = tokio::time::timeout(STOP_WITHIN * 10, supervisor.run(&stop)).await;
    assert!(matches!(ended, Ok(Ok(None))), "{ended:?}");
}
