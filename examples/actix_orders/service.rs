//! The order service itself: what an application with the shards answers.

use std::path::Path;

use actix_web::{HttpRequest, HttpResponse, web};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::ShardedConnectionManager;
use diesel_sharded::web::Refusal;
use diesel_sharded::web::actix::{RouteMiddleware, block};
use diesel_sharded::{Error, KeyType, KeyspaceConfig, RuleSpec};

/// What the service works on.
pub(crate) type Shards = ShardedConnectionManager<SqliteConnection>;

/// The keyspace of the customers.
pub(crate) const KEYSPACE: &str = "orders";

/// Its shards, each a file of that name.
pub(crate) const SHARDS: [&str; 2] = ["order-0", "order-1"];

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

/// Opens the databases of a folder, and makes those that are not there.
pub(crate) fn open(folder: &Path) -> Result<Shards, diesel_sharded::BoxError> {
    let mut builder = Shards::builder();
    for shard in SHARDS {
        builder = builder.shard(shard, folder.join(shard).display().to_string());
    }
    let customers = RuleSpec::hash(SHARDS, 4096).key(KeyType::Integer);
    let shards = builder
        .keyspace(KEYSPACE, KeyspaceConfig::new(customers))
        .build()?;
    for shard in SHARDS {
        shards.get_on(shard)?.batch_execute(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE IF NOT EXISTS orders (
                 id INTEGER PRIMARY KEY, customer_id BIGINT NOT NULL, item TEXT NOT NULL)",
        )?;
    }
    Ok(shards)
}

/// The resources of the service: a configuration for [`App::configure`](actix_web::App::configure).
pub(crate) fn resources(
    shards: &Shards,
) -> Result<impl Fn(&mut web::ServiceConfig) + Clone + use<>, Error> {
    let by_customer = RouteMiddleware::by_key(shards.clone(), KEYSPACE, customer)?;
    let shards = web::Data::new(shards.clone());
    Ok(move |config: &mut web::ServiceConfig| {
        let customers = web::scope("/customers/{customer}")
            .wrap(by_customer.clone())
            // Resources and not `.route(..)`: those answer a wrong method with 404, these with 405.
            .service(web::resource("/orders").route(web::get().to(list)))
            .service(web::resource("/orders/{item}").route(web::post().to(create)));
        config.app_data(shards.clone()).service(customers);
    })
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
