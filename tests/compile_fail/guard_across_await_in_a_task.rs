//! A guard across an await: the task might go on in another thread.
use diesel_sharded::Topology;

async fn later() {}

fn check(topology: Topology) {
    tokio::spawn(async move {
        let _guard = topology.route("a").unwrap().enter().unwrap();
        later().await;
    });
}

fn main() {}
