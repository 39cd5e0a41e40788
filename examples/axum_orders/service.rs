//! The HTTP side: who a request is for, and what it is answered.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use diesel_sharded::web::{Refusal, RouteLayer};
use diesel_sharded::{Error, Explanation};

use super::store::{self, KEYSPACE, NewOrder, Order, PayError, Shards};

/// The whole service.
pub(crate) fn app(shards: &Shards) -> Result<Router, Error> {
    let customers = Router::new()
        .route("/customers/{customer}/orders", post(create).get(list))
        .route("/customers/{customer}/orders/{order}/pay", post(pay))
        // Around these routes alone: what is no path or no method of theirs stays 404 or 405.
        .route_layer(RouteLayer::by_key(shards.clone(), KEYSPACE, customer_of)?);
    let app = Router::new()
        // Asks about a customer without being for one, so it is outside of the layer.
        .route("/debug/route", get(route))
        .merge(customers)
        .with_state(shards.clone());
    Ok(app)
}

/// The shard key of a request: `/customers/{customer}/..`.
fn customer_of(request: &Parts) -> Result<i64, &'static str> {
    let rest = request.uri.path().strip_prefix("/customers/");
    let customer = rest.and_then(|rest| rest.split('/').next());
    let customer = customer.ok_or("the path names no customer")?;
    customer.parse().map_err(|_| "a customer is a number")
}

/// Everything that a handler may fail with.
enum Failed {
    Sharded(Error),
    Pay(PayError),
    NegativePrice,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Sharded(error)
    }
}

impl From<diesel::result::Error> for Failed {
    fn from(error: diesel::result::Error) -> Self {
        Self::Sharded(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let error = match self {
            Self::Sharded(error) | Self::Pay(PayError::Other(error)) => error,
            Self::Pay(PayError::NoSuchOrder) => {
                return (StatusCode::NOT_FOUND, "there is no such order").into_response();
            }
            Self::Pay(PayError::PaidAlready) => {
                return (StatusCode::CONFLICT, "the order is paid already").into_response();
            }
            Self::NegativePrice => {
                let text = "`cents` has to be 0 or more";
                return (StatusCode::UNPROCESSABLE_ENTITY, text).into_response();
            }
        };
        // The same answers as the layer's: 503 for a shard that is down, and so on.
        let refusal = Refusal::from(error);
        if refusal.status() == 500 {
            eprintln!("{:?}", refusal.error());
        }
        http::Response::<String>::from(refusal).into_response()
    }
}

async fn create(
    State(shards): State<Shards>,
    Path(customer): Path<i64>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failed> {
    if new.cents < 0 {
        return Err(Failed::NegativePrice);
    }
    // The layer has put the route of the customer's shard in force.
    let mut conn = shards.get().await?;
    let order = store::create(&mut conn, customer, new).await?;
    Ok((StatusCode::CREATED, Json(order)))
}

async fn list(
    State(shards): State<Shards>,
    Path(customer): Path<i64>,
) -> Result<Json<Vec<Order>>, Failed> {
    let mut conn = shards.get().await?;
    Ok(Json(store::list(&mut conn, customer).await?))
}

async fn pay(
    State(shards): State<Shards>,
    Path((customer, order)): Path<(i64, i64)>,
) -> Result<Json<Order>, Failed> {
    // `immediate`: takes SQLite's write lock at BEGIN, so that two payments of one order come one after
    // the other and the second sees the first.
    let paid = shards
        .keyspace(KEYSPACE)?
        .transaction_builder(&customer)
        .immediate()
        .run(async |conn| store::pay(conn, customer, order).await)
        .await;
    paid.map(Json).map_err(Failed::Pay)
}

#[derive(serde::Deserialize)]
struct Customer {
    customer_id: i64,
}

/// Where a customer's rows are, and why.
#[derive(serde::Serialize)]
struct Place {
    shard: String,
    table: String,
    reason: Explanation,
}

async fn route(
    State(shards): State<Shards>,
    Query(Customer { customer_id }): Query<Customer>,
) -> Result<Json<Place>, Failed> {
    let reason = shards.topology().explain(KEYSPACE, &customer_id)?;
    // The physical table; where the keyspace splits none it is the logical one.
    let split = reason
        .tables
        .iter()
        .find(|(logical, _)| logical == "orders");
    Ok(Json(Place {
        shard: reason.shard.to_string(),
        table: split.map_or_else(|| "orders".to_owned(), |(_, physical)| physical.clone()),
        reason,
    }))
}
