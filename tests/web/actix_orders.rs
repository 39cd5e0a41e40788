//! The actix example over real HTTP: many requests at once on few threads, some of whose clients go
//! away, and not one row on a shard that is not its customer's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer};
use diesel::prelude::*;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

#[path = "../../examples/actix_orders/service.rs"]
mod service;

use super::http::{ask, ask_json, send};
use service::{KEYSPACE, SHARDS, Shards, orders};

/// The example's server on two threads of its own.
fn start(shards: &Shards) -> (SocketAddr, ServerHandle) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let resources = service::resources(shards).unwrap();
    let server = HttpServer::new(move || App::new().configure(resources.clone()))
        .workers(2)
        .disable_signals()
        .listen(listener)
        .unwrap()
        .run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    (address, handle)
}

#[actix_web::test]
async fn orders_are_created_and_listed_where_their_customer_is() {
    let folder = tempfile::tempdir().unwrap();
    let shards = service::open(folder.path()).unwrap();
    let (server, handle) = start(&shards);
    for (customer, item) in [(7, "tea"), (8, "milk"), (7, "bread")] {
        let path = format!("/customers/{customer}/orders/{item}");
        assert_eq!(ask(server, "POST", &path, "").await.0, 201);
    }
    let list = ask_json(server, "GET", "/customers/7/orders", "").await;
    assert_eq!(list, (200, json!(["tea", "bread"])));
    let (status, text) = ask(server, "GET", "/customers/seven/orders", "").await;
    assert_eq!((status, text.as_str()), (400, "a customer is a number"));
    handle.stop(true).await;
}

#[actix_web::test]
async fn what_is_no_resource_or_no_method_is_answered_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let shards = service::open(folder.path()).unwrap();
    let (server, handle) = start(&shards);
    for unknown in ["/nix", "/customers/7", "/customers/7/nix"] {
        assert_eq!(ask(server, "GET", unknown, "").await.0, 404, "{unknown}");
    }
    for (method, path) in [
        ("DELETE", "/customers/7/orders"),
        ("POST", "/customers/7/orders"),
        ("GET", "/customers/7/orders/tea"),
    ] {
        assert_eq!(ask(server, method, path, "").await.0, 405, "{path}");
    }
    handle.stop(true).await;
}

#[actix_web::test]
async fn many_requests_of_which_some_are_cancelled_put_no_row_on_a_wrong_shard() {
    const CUSTOMERS: i64 = 100;
    const REQUESTS: i64 = 2_000;

    let folder = tempfile::tempdir().unwrap();
    let shards = service::open(folder.path()).unwrap();
    let (server, handle) = start(&shards);
    // So many sockets at once; the rest of the tasks stand in line.
    let sockets = Arc::new(Semaphore::new(100));
    let mut clients = JoinSet::new();
    for i in 0..REQUESTS {
        let sockets = Arc::clone(&sockets);
        clients.spawn_local(async move {
            let _socket = sockets.acquire().await.unwrap();
            let path = format!("/customers/{}/orders", i % CUSTOMERS);
            let new = format!("{path}/{i}");
            if i % 4 == 0 {
                // This client sends its request and goes away.
                drop(send(server, "POST", &new, "").await);
                return None;
            }
            let (status, text) = ask(server, "POST", &new, "").await;
            assert_eq!(status, 201, "{text}");
            let (status, list) = ask_json(server, "GET", &path, "").await;
            assert_eq!(status, 200, "{list}");
            let items: Vec<i64> = list
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item.as_str().unwrap().parse().unwrap())
                .collect();
            assert!(items.iter().all(|item| item % CUSTOMERS == i % CUSTOMERS));
            assert!(items.contains(&i), "{items:?}");
            Some(i)
        });
    }
    let mut acknowledged = BTreeSet::new();
    while let Some(client) = clients.join_next().await {
        acknowledged.extend(client.unwrap());
    }
    assert_eq!(acknowledged.len() as i64, REQUESTS / 4 * 3);
    // What was begun is ended before the files are looked at.
    handle.stop(true).await;

    let mut written = BTreeMap::new();
    for shard in SHARDS {
        let file = folder.path().join(shard);
        let mut conn = SqliteConnection::establish(file.to_str().unwrap()).unwrap();
        let rows: Vec<(i64, String)> = orders::table
            .select((orders::customer_id, orders::item))
            .load(&mut conn)
            .unwrap();
        for (customer, item) in rows {
            let owner = shards.topology().locate(KEYSPACE, &customer).unwrap();
            assert_eq!(owner.shard(), shard, "the row of customer {customer}");
            let item: i64 = item.parse().unwrap();
            assert_eq!(item % CUSTOMERS, customer);
            assert_eq!(
                written.insert(item, shard),
                None,
                "{item} was written twice"
            );
        }
    }
    for item in acknowledged {
        assert!(written.contains_key(&item), "{item} was acknowledged");
    }
}
