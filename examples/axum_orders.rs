//! A small order service: axum, four SQLite databases, one route for each request.
//!
//! ```text
//! cargo orders                     databases in a temporary folder, http://127.0.0.1:3000
//! cargo orders -- --port 8080 --data FOLDER
//!
//! curl -X POST localhost:3000/customers/7/orders -H 'content-type: application/json' -d '{"item":"tea","cents":450}'
//! curl localhost:3000/customers/7/orders
//! curl -X POST localhost:3000/customers/7/orders/1/pay
//! curl 'localhost:3000/debug/route?customer_id=7'
//! ```
//!
//! The customers are spread over the shards `order-0` to `order-3` by the hash of their number. A layer
//! reads it from the path and puts the route of its shard in force for the whole request, so that the
//! handlers just say `shards.get()`; paying is one transaction on that shard.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::net::TcpListener;

/// The modules are in `examples/axum_orders/`.
mod axum_orders {
    pub(crate) mod service;
    pub(crate) mod store;
}
use axum_orders::{service, store};

#[tokio::main]
async fn main() -> ExitCode {
    let Some((port, data)) = arguments() else {
        eprintln!("usage: axum_orders [--port PORT] [--data FOLDER]");
        return ExitCode::from(2);
    };
    match serve(port, data).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("axum_orders: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<(u16, Option<PathBuf>)> {
    let (mut port, mut data) = (3000, None);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next()?;
        match option.to_str()? {
            "--port" => port = value.to_str()?.parse().ok()?,
            "--data" => data = Some(PathBuf::from(value)),
            _ => return None,
        }
    }
    Some((port, data))
}

async fn serve(port: u16, data: Option<PathBuf>) -> Result<(), diesel_sharded::BoxError> {
    // Gone with the process where no folder was named.
    let temporary = tempfile::tempdir()?;
    let folder = data.as_deref().unwrap_or(temporary.path());
    let shards = store::open(folder).await?;
    let app = service::app(&shards)?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    println!(
        "http://{}, databases in {}",
        listener.local_addr()?,
        folder.display()
    );
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or(()) };
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await?;
    Ok(())
}
