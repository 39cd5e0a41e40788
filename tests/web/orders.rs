//! The order service of the examples, over real HTTP: thousands of requests at once, some of whose
//! clients go away, and not one row on a shard that is not its customer's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diesel::prelude::*;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

#[path = "../../examples/axum_orders/service.rs"]
mod service;
#[path = "../../examples/axum_orders/store.rs"]
mod store;

use super::http::{ask, ask_json, send};
use store::{KEYSPACE, SHARDS, Shards, orders, payments};

async fn start(shards: &Shards) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = service::app(shards).unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn create_list_pay_and_ask_where() {
    let folder = tempfile::tempdir().unwrap();
    let shards = store::open(folder.path()).await.unwrap();
    let server = start(&shards).await;

    let tea = json!({ "item": "tea", "cents": 450 }).to_string();
    let (status, order) = ask_json(server, "POST", "/customers/7/orders", &tea).await;
    assert_eq!(status, 201);
    assert_eq!(order["customer_id"], 7);
    let (status, list) = ask_json(server, "GET", "/customers/7/orders", "").await;
    assert_eq!((status, &list), (200, &json!([order])));
    let pay = format!("/customers/7/orders/{}/pay", order["id"]);
    let (status, paid) = ask_json(server, "POST", &pay, "").await;
    assert_eq!((status, &paid["paid"]), (200, &json!(true)));
    assert_eq!(ask(server, "POST", &pay, "").await.0, 409);
    assert_eq!(
        ask(server, "POST", "/customers/7/orders/99/pay", "")
            .await
            .0,
        404
    );
    // Another customer's order is none of his, on whatever shard it is.
    let other = format!("/customers/8/orders/{}/pay", order["id"]);
    assert_eq!(ask(server, "POST", &other, "").await.0, 404);

    let (status, place) = ask_json(server, "GET", "/debug/route?customer_id=7", "").await;
    assert_eq!(status, 200);
    let shard = shards.topology().locate(KEYSPACE, &7).unwrap().shard();
    assert_eq!(place["shard"], shard.as_str());
    assert_eq!(place["table"], "orders");
    assert_eq!(place["reason"]["algorithm"], "hash");

    let (status, text) = ask(server, "GET", "/customers/seven/orders", "").await;
    assert_eq!((status, text.as_str()), (400, "a customer is a number"));
    assert_eq!(ask(server, "GET", "/debug/route", "").await.0, 400);
}

#[tokio::test]
async fn what_is_no_resource_no_method_or_no_price_is_answered_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let shards = store::open(folder.path()).await.unwrap();
    let server = start(&shards).await;

    for unknown in ["/nix", "/", "/customers", "/customers/7/nix", "/debug"] {
        assert_eq!(ask(server, "GET", unknown, "").await.0, 404, "{unknown}");
    }
    for (method, path) in [
        ("DELETE", "/customers/7/orders"),
        ("GET", "/customers/7/orders/1/pay"),
        ("POST", "/debug/route"),
    ] {
        assert_eq!(ask(server, method, path, "").await.0, 405, "{path}");
    }
    let owed = json!({ "item": "tea", "cents": -1 }).to_string();
    let (status, text) = ask(server, "POST", "/customers/7/orders", &owed).await;
    assert_eq!(
        (status, text.as_str()),
        (422, "`cents` has to be 0 or more")
    );
    let free = json!({ "item": "sample", "cents": 0 }).to_string();
    let (status, order) = ask_json(server, "POST", "/customers/7/orders", &free).await;
    assert_eq!(status, 201);
    let (_, list) = ask_json(server, "GET", "/customers/7/orders", "").await;
    assert_eq!(list, json!([order]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_requests_of_which_some_are_cancelled_put_no_row_on_a_wrong_shard() {
    const CUSTOMERS: i64 = 300;
    const REQUESTS: i64 = 3_000;

    let folder = tempfile::tempdir().unwrap();
    let shards = store::open(folder.path()).await.unwrap();
    let server = start(&shards).await;
    // So many sockets at once; the rest of the tasks stand in line.
    let sockets = Arc::new(Semaphore::new(200));
    let cancelled = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for i in 0..REQUESTS {
        let (sockets, cancelled) = (Arc::clone(&sockets), Arc::clone(&cancelled));
        clients.spawn(async move {
            let _socket = sockets.acquire().await.unwrap();
            let customer = i % CUSTOMERS;
            let path = format!("/customers/{customer}/orders");
            let new = json!({ "item": i.to_string(), "cents": customer }).to_string();
            if i % 5 == 0 {
                // This client sends its request and goes away.
                drop(send(server, "POST", &path, &new).await);
                cancelled.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let (status, order) = ask_json(server, "POST", &path, &new).await;
            assert_eq!(
                (status, &order["item"]),
                (201, &json!(i.to_string())),
                "{order}"
            );
            let pay = format!("{path}/{}/pay", order["id"]);
            if i % 5 == 1 {
                drop(send(server, "POST", &pay, "").await);
                cancelled.fetch_add(1, Ordering::Relaxed);
            } else if i % 5 == 2 {
                // Two at once: one of them pays.
                let (one, two) =
                    tokio::join!(ask(server, "POST", &pay, ""), ask(server, "POST", &pay, ""));
                assert_eq!(BTreeSet::from([one.0, two.0]), BTreeSet::from([200, 409]));
            }
            let (status, list) = ask_json(server, "GET", &path, "").await;
            assert_eq!(status, 200);
            let rows = list.as_array().unwrap();
            assert!(
                rows.iter().all(|row| row["customer_id"] == customer),
                "{list}"
            );
            assert!(
                rows.iter()
                    .any(|row| row["item"].as_str() == Some(&i.to_string())),
                "{list}"
            );
            Some(i)
        });
    }
    let mut acknowledged = BTreeSet::new();
    while let Some(client) = clients.join_next().await {
        acknowledged.extend(client.unwrap());
    }
    assert_eq!(cancelled.load(Ordering::Relaxed), REQUESTS as u64 / 5 * 2);

    // Past the service and past the crate: what is in the files.
    let (mut wrong, mut written) = (0, BTreeMap::new());
    for shard in SHARDS {
        let file = folder.path().join(format!("{shard}.db"));
        let mut conn = SqliteConnection::establish(file.to_str().unwrap()).unwrap();
        let rows: Vec<(i64, i64, String, bool)> = orders::table
            .select((orders::id, orders::customer_id, orders::item, orders::paid))
            .load(&mut conn)
            .unwrap();
        let paid: BTreeMap<i64, i64> = payments::table
            .select((payments::order_id, payments::customer_id))
            .load(&mut conn)
            .unwrap()
            .into_iter()
            .collect();
        for (id, customer, item, is_paid) in rows {
            let owner = shards.topology().locate(KEYSPACE, &customer).unwrap();
            wrong += u32::from(owner.shard().as_str() != shard);
            // Marked and paid stand or fall together.
            assert_eq!(paid.contains_key(&id), is_paid, "order {id} on {shard}");
            assert!(paid.get(&id).is_none_or(|payer| *payer == customer));
            let item: i64 = item.parse().unwrap();
            assert_eq!(item % CUSTOMERS, customer);
            let twice = written.insert(item, shard);
            assert_eq!(twice, None, "order {item} was written twice");
        }
    }
    assert_eq!(wrong, 0, "rows on a wrong shard");
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|item| !written.contains_key(item))
        .collect();
    assert!(lost.is_empty(), "acknowledged and gone: {lost:?}");

    // Whoever went away has left no connection in use.
    let status = shards.status();
    for node in &status.nodes {
        assert!(node.connections <= node.max_size);
    }
    for shard in SHARDS {
        let all = shards.status().nodes.iter().map(|node| node.max_size).max();
        let mut held = Vec::new();
        for _ in 0..all.unwrap() {
            held.push(shards.get_on(shard).await.unwrap());
        }
    }
}
