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
//! work is done on actix's thread pool; [`block`] takes the route along, which `web::block` alone would
//! not.

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::ShardedConnectionManager;
use diesel_sharded::web::Refusal;
use diesel_sharded::web::actix::{RouteMiddleware, block};
use diesel_sharded::{Error, KeyType, KeyspaceConfig, RuleSpec};

type Shards = ShardedConnectionManager<SqliteConnection>;

const SHARDS: [&str; 2] = ["order-0", "order-1"];

diesel::table! {
    /// The orders of a shard's customers.
    orders (id) {
        /// Counted by each shard for itself.
        id -> BigInt,
        /// The shard key.
        customer_id -> BigInt,
        /// What was ordered.
        item -> Text,
    }
}

#[actix_web::main]
async fn main() -> Result<(), diesel_sharded::BoxError> {
    let folder = tempfile::tempdir()?;
    let mut builder = Shards::builder();
    for shard in SHARDS {
        builder = builder.shard(shard, folder.path().join(shard).display().to_string());
    }
    let customers = RuleSpec::hash(SHARDS, 4096).key(KeyType::Integer);
    let shards = builder
        .keyspace("orders", KeyspaceConfig::new(customers))
        .build()?;
    for shard in SHARDS {
        shards.get_on(shard)?.batch_execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id BIGINT NOT NULL, item TEXT NOT NULL)",
        )?;
    }
    let by_customer = RouteMiddleware::by_key(shards.clone(), "orders", customer)?;
    println!("http://127.0.0.1:3001");
    HttpServer::new(move || {
        let customers = web::scope("/customers/{customer}")
            .wrap(by_customer.clone())
            .route("/orders", web::get().to(list))
            .route("/orders/{item}", web::post().to(create));
        App::new()
            .app_data(web::Data::new(shards.clone()))
            .service(customers)
    })
    .bind(("127.0.0.1", 3001))?
    .run()
    .await?;
    Ok(())
}

/// The shard key of a request.
fn customer(request: &HttpRequest) -> Result<i64, &'static str> {
    let customer = request.match_info().get("customer");
    let customer = customer.ok_or("the path names no customer")?;
    customer.parse().map_err(|_| "a customer is a number")
}

async fn create(
    shards: web::Data<Shards>,
    path: web::Path<(i64, String)>,
) -> actix_web::Result<HttpResponse> {
    let (customer, item) = path.into_inner();
    let created = block(move || {
        diesel::insert_into(orders::table)
            .values((orders::customer_id.eq(customer), orders::item.eq(item)))
            .execute(&mut shards.get()?)
            .map_err(Error::from)
    });
    created.await?.map_err(Refusal::from)?;
    Ok(HttpResponse::Created().finish())
}

async fn list(
    shards: web::Data<Shards>,
    customer: web::Path<i64>,
) -> actix_web::Result<web::Json<Vec<String>>> {
    let customer = customer.into_inner();
    let items = block(move || {
        orders::table
            .filter(orders::customer_id.eq(customer))
            .order(orders::id)
            .select(orders::item)
            .load(&mut shards.get()?)
            .map_err(Error::from)
    });
    Ok(web::Json(items.await?.map_err(Refusal::from)?))
}
