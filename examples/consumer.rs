//! A consumer of messages: the route travels in a header, and entering it is the first thing that the
//! consumer does.
//!
//! ```text
//! cargo run --example consumer --features async-sqlite,bundled
//! ```
//!
//! The producer writes the text form of the route in force into the header of each message. The consumer
//! lives in another task, here behind a channel, in earnest behind a broker and in another process; it
//! reads the route, which checks it against its own topology, and handles the message under it. A
//! message whose route it cannot honour is put aside: it is never handled on some other shard.

/// The module is in `examples/consumer/`.
mod consumer {
    pub(crate) mod queue;
}

#[tokio::main]
async fn main() -> Result<(), diesel_sharded::BoxError> {
    let folder = tempfile::tempdir()?;
    let report = consumer::queue::run(folder.path(), 1_000).await?;
    println!(
        "{} messages handled, {} put aside",
        report.handled,
        report.aside.len()
    );
    for (message, reason) in &report.aside {
        println!("  {message}: {reason}");
    }
    assert_eq!(report.handled, 1_000);
    assert_eq!(report.on_wrong_shard, 0);
    Ok(())
}
