//! The consumer of messages of the examples.

#[path = "../../examples/consumer/queue.rs"]
mod queue;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_handled_under_their_own_route_or_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let report = queue::run(folder.path(), 300).await.unwrap();
    assert_eq!(report.handled, 300);
    assert_eq!(report.on_wrong_shard, 0);
    let reasons: Vec<&str> = report.aside.iter().map(|(_, why)| why.as_str()).collect();
    let [none, no_route, gone, newer] = reasons[..] else {
        panic!("{reasons:?}");
    };
    assert!(none.contains("has no route"));
    assert!(no_route.contains("is not a route"), "{no_route}");
    assert!(gone.contains("unknown shard"), "{gone}");
    assert!(newer.contains("version"), "{newer}");
}
