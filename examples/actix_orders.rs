//! The blocking driver in an actix-web application.
//!
//! ```text
//! cargo run --example actix_orders --features sqlite,bundled,actix
//!
//! curl -X POST localhost:3001/customers/7/orders/tea
//! curl localhost:3001/customers/7/orders
//! ```
//!
//! The middleware puts the route of the customer's shard in force for each request. Diesel blocks, so the
//! work is done on actix's thread pool; [`block`](diesel_sharded::web::actix::block) takes the route
//! along, which `web::block` alone would not.

use actix_web::{App, HttpServer};

/// The module is in `examples/actix_orders/`.
mod actix_orders {
    pub(crate) mod service;
}
use actix_orders::service;

#[actix_web::main]
async fn main() -> Result<(), diesel_sharded::BoxError> {
    // Gone with the process.
    let folder = tempfile::tempdir()?;
    let shards = service::open(folder.path())?;
    let resources = service::resources(&shards)?;
    let server = HttpServer::new(move || App::new().configure(resources.clone()));
    let server = server.bind(("127.0.0.1", 3001))?;
    println!("http://127.0.0.1:3001");
    server.run().await?;
    Ok(())
}
