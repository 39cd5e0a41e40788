//! The layer for tower services, as axum uses it and by itself.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ::tower::{Layer, Service, ServiceExt, service_fn};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use diesel_sharded::blocking::ShardedConnectionManager;
use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
use diesel_sharded::web::{Refusal, RouteLayer};
use diesel_sharded::{FutureExt, KeyspaceConfig, Route, RuleSpec, ShardState, Topology};
use futures_util::stream;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::{builder, busy_shard, gone, here, topology, unavailable};

fn customer(request: &Parts) -> Result<i64, String> {
    let Some(id) = request.headers.get("x-customer-id") else {
        return Err("the header x-customer-id is missing".to_owned());
    };
    let id = id.to_str().map_err(|error| error.to_string())?;
    id.parse()
        .map_err(|_| "x-customer-id is no number".to_owned())
}

fn ask(customer: impl ToString) -> Request<Body> {
    Request::builder()
        .header("x-customer-id", customer.to_string())
        .body(Body::empty())
        .unwrap()
}

/// Answers with the shard whose route is in force, after a few polls.
fn app(topology: &Topology, layer: RouteLayer) -> Router {
    async fn look(State(topology): State<Topology>) -> String {
        let first = here(&topology);
        for _ in 0..5 {
            yield_now().await;
            assert_eq!(here(&topology), first);
        }
        format!("{first:?} {}", Route::stack_depth())
    }
    Router::new()
        .route("/", get(look))
        .with_state(topology.clone())
        .layer(layer)
}

fn by_customer(topology: &Topology) -> RouteLayer {
    RouteLayer::by_key(topology.clone(), "orders", customer).unwrap()
}

/// Status and text of the answer, of a service that does not fail.
async fn answer(app: &Router, request: Request<Body>) -> (u16, String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.into()).unwrap())
}

#[tokio::test]
async fn the_route_of_a_request_means_the_physical_tables_of_its_key() {
    let sharded = builder()
        .keyspace(
            "carts",
            KeyspaceConfig::new(RuleSpec::hash(["a", "b"], 64)).table("carts", "customer_id", 8),
        )
        .build()
        .unwrap();
    async fn look(State(topology): State<Topology>) -> String {
        topology.route_in_force().unwrap().to_string()
    }
    let app = Router::new()
        .route("/", get(look))
        .with_state(sharded.clone())
        .layer(RouteLayer::by_key(sharded.clone(), "carts", customer).unwrap());
    let urls = ShardedConnectionManager::<diesel::SqliteConnection>::from_topology(&sharded);
    let carts = urls.unwrap().keyspace("carts").unwrap();
    for key in 0..50_i64 {
        let by_keyspace = carts.route(&key).unwrap().to_string();
        assert_eq!(
            sharded.route_for("carts", &key).unwrap().to_string(),
            by_keyspace
        );
        assert_eq!(answer(&app, ask(key)).await, (200, by_keyspace));
    }
}

#[tokio::test]
async fn each_request_has_the_route_of_its_key_and_nothing_else() {
    let topology = topology();
    let app = app(&topology, by_customer(&topology));
    let mut requests = tokio::task::JoinSet::new();
    for i in 0..1_000 {
        let app = app.clone();
        requests.spawn(async move { (i % 4, answer(&app, ask(i % 4)).await) });
    }
    while let Some(ended) = requests.join_next().await {
        let (customer, answer) = ended.unwrap();
        let shard = ["a", "b"][customer % 2];
        assert_eq!(answer, (200, format!("Some({shard:?}) 1")));
    }
    assert_eq!(Route::stack_depth(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_on_several_workers_do_not_mix() {
    let topology = topology();
    let app = app(&topology, by_customer(&topology));
    let requests: Vec<_> = (0..1_000)
        .map(|i| {
            let app = app.clone();
            tokio::spawn(async move { (i % 4, answer(&app, ask(i % 4)).await) })
        })
        .collect();
    for request in requests {
        let (customer, answer) = request.await.unwrap();
        let shard = ["a", "b"][customer % 2];
        assert_eq!(answer, (200, format!("Some({shard:?}) 1")));
    }
}

#[tokio::test]
async fn what_cannot_be_routed_is_answered_in_plain_words_and_tells_nothing_else() {
    let topology = topology();
    let app = app(&topology, by_customer(&topology));
    let none = Request::new(Body::empty());
    for (request, status, text) in [
        (none, 400, "the header x-customer-id is missing"),
        (ask("seven"), 400, "x-customer-id is no number"),
        (ask(5), 404, "no shard has the key of the request"),
        (
            ask(7),
            503,
            "shard c is not available at the moment, try again later",
        ),
    ] {
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status);
        let headers = response.headers().clone();
        assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(headers.contains_key("retry-after"), status == 503);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, text);
    }
    let opened = builder()
        .shard_state("c", ShardState::Open)
        .build()
        .unwrap();
    let app = self::app(&opened, by_customer(&opened));
    assert_eq!(answer(&app, ask(7)).await.0, 200);
}

#[tokio::test]
async fn a_key_of_the_wrong_type_a_shard_or_route_that_is_unknown() {
    let topology = topology();
    let header = |name: &'static str| {
        move |request: &Parts| {
            let value = request.headers.get(name)?;
            Some(value.to_str().ok()?.to_owned())
        }
    };
    let text_key =
        RouteLayer::by_key::<String, _>(topology.clone(), "orders", header("x")).unwrap();
    let shard = RouteLayer::by_shard(topology.clone(), header("x"));
    let route = RouteLayer::by_route(topology.clone(), header("x"));
    let request = |value: &str| {
        let request = Request::builder().header("x", value);
        request.body(Body::empty()).unwrap()
    };
    let none = || Request::new(Body::empty());

    let text_key = app(&topology, text_key);
    assert_eq!(answer(&text_key, request("word")).await.0, 400);
    let (status, text) = answer(&text_key, none()).await;
    assert_eq!(
        (status, text.as_str()),
        (400, "the request names no shard key")
    );

    let shard = app(&topology, shard);
    assert_eq!(
        answer(&shard, request("b")).await,
        (200, "Some(\"b\") 1".to_owned())
    );
    let unknown = answer(&shard, request("bb")).await;
    assert_eq!(unknown, (404, "there is no shard \"bb\"".to_owned()));
    assert_eq!(answer(&shard, none()).await.1, "the request names no shard");

    let route = app(&topology, route);
    let known = answer(&route, request("v1;shard=a")).await;
    assert_eq!(known, (200, "Some(\"a\") 1".to_owned()));
    assert_eq!(answer(&route, request("a")).await.0, 400);
    assert_eq!(answer(&route, request("v1;shard=z")).await.0, 404);
    assert_eq!(answer(&route, request("v1;shard=a;class=z")).await.0, 400);
    assert_eq!(answer(&route, request("v1;shard=c")).await.0, 503);
    assert!(RouteLayer::by_key(topology, "order", customer).is_err());
}

#[tokio::test]
async fn a_request_without_a_key_runs_with_an_empty_stack_where_it_may() {
    let topology = topology();
    let optional = RouteLayer::by_key(topology.clone(), "orders", |request: &Parts| {
        customer(request).ok()
    });
    let app = app(&topology, optional.unwrap().optional());
    // Whatever surrounds the service is not seen by it.
    async {
        let none = answer(&app, Request::new(Body::empty())).await;
        assert_eq!(none, (200, "None 0".to_owned()));
        assert_eq!(answer(&app, ask(1)).await.1, "Some(\"b\") 1");
        let empty = self::app(&topology, RouteLayer::empty_stack(topology.clone()));
        assert_eq!(answer(&empty, ask(1)).await.1, "None 0");
    }
    .with_route(topology.route("a").unwrap())
    .await;
}

#[tokio::test]
async fn the_answer_may_be_the_applications_own() {
    let topology = topology();
    let layer = by_customer(&topology).refuse_with(|refusal| {
        assert!(refusal.error().is_some());
        Response::builder()
            .status(418)
            .body(format!("{{\"error\":{:?}}}", refusal.message()))
            .unwrap()
    });
    let (status, text) = answer(&app(&topology, layer), ask(5)).await;
    assert_eq!(status, 418);
    assert_eq!(text, "{\"error\":\"no shard has the key of the request\"}");
}

#[tokio::test]
async fn a_shard_that_is_down_is_answered_before_the_handler_once_that_is_known() {
    let topology = gone();
    let (calls, shards) = (
        Arc::new(AtomicUsize::new(0)),
        AsyncShardedConnectionManager::<diesel_async::AsyncPgConnection>::from_topology(&topology),
    );
    let shards = shards.await.unwrap();
    let layer = RouteLayer::by_shard(shards.clone(), |_: &Parts| Some("gone"));
    let counted = Arc::clone(&calls);
    let handler = async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        match shards.get().await {
            Ok(_) => "it is there".into_response(),
            Err(error) => {
                assert!(unavailable(&error), "{error}");
                Response::<String>::from(Refusal::from(error)).into_response()
            }
        }
    };
    let app = Router::new().route("/", get(handler)).layer(layer);
    // The first finds it out, the next ones are told.
    for _ in 0..3 {
        let (status, text) = answer(&app, Request::new(Body::empty())).await;
        assert_eq!(status, 503, "{text}");
        assert_eq!(
            text,
            "shard gone is not available at the moment, try again later"
        );
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_exhausted_pool_is_answered_with_the_time_to_try_again() {
    let folder = tempfile::tempdir().unwrap();
    let shards = busy_shard(&folder);
    let _held = shards.get_on("busy").unwrap();
    let layer = RouteLayer::by_shard(shards.clone(), |_: &Parts| Some("busy"));
    let handler = async move || match shards.get() {
        Ok(_) => "it is free".into_response(),
        Err(error) => Response::<String>::from(Refusal::from(error)).into_response(),
    };
    let app = Router::new().route("/", get(handler)).layer(layer);
    let response = app.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "shard busy is busy, try again later");
}

#[tokio::test]
async fn the_blocking_manager_knows_what_is_down_too() {
    let topology = gone();
    let shards = ShardedConnectionManager::<diesel::PgConnection>::from_topology(&topology);
    let shards = shards.unwrap();
    let layer = RouteLayer::by_shard(shards.clone(), |_: &Parts| Some("gone"));
    let app = app(&topology, layer);
    assert_eq!(answer(&app, Request::new(Body::empty())).await.0, 200);
    assert!(unavailable(&shards.get_on("gone").map(drop).unwrap_err()));
    assert_eq!(answer(&app, Request::new(Body::empty())).await.0, 503);
}

#[tokio::test]
async fn a_streamed_body_is_read_under_the_route_of_its_request() {
    struct LooksInDrop(Topology, Arc<Mutex<Option<String>>>);
    impl Drop for LooksInDrop {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = here(&self.0);
        }
    }
    let topology = topology();
    let dropped = Arc::new(Mutex::new(None));
    let (inner, seen) = (topology.clone(), Arc::clone(&dropped));
    let service = service_fn(move |_: Request<Body>| {
        let look = LooksInDrop(inner.clone(), Arc::clone(&seen));
        let chunks = stream::iter(0..3).map(move |i| {
            let look = &look; // the whole of it is in the closure
            Ok::<_, Infallible>(format!("{i}{:?} ", here(&look.0)))
        });
        let body = Body::from_stream(chunks);
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    use futures_util::StreamExt as _;
    let service = by_customer(&topology).layer(service);

    let response = service.clone().oneshot(ask(1)).await.unwrap();
    assert_eq!(here(&topology), None);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "0Some(\"b\") 1Some(\"b\") 2Some(\"b\") ");
    assert_eq!(dropped.lock().unwrap().take().as_deref(), Some("b"));

    // The client goes away after the first piece.
    let mut body = service.oneshot(ask(0)).await.unwrap().into_body();
    let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(piece, "0Some(\"a\") ");
    drop(body);
    assert_eq!(dropped.lock().unwrap().take().as_deref(), Some("a"));
    assert_eq!(Route::stack_depth(), 0);
}

#[tokio::test]
async fn what_a_service_does_in_its_call_has_the_route_too() {
    let topology = topology();
    let inner = topology.clone();
    let mut service = by_customer(&topology).layer(service_fn(move |_: Request<Body>| {
        let shard = here(&inner);
        async move { Ok::<_, Infallible>(Response::new(format!("{shard:?}"))) }
    }));
    let ready = service.ready().await.unwrap();
    let response = ready.call(ask(1)).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "Some(\"b\")");
}

#[tokio::test]
async fn a_request_whose_client_goes_away_leaves_nothing() {
    let topology = topology();
    let inner = topology.clone();
    let service = by_customer(&topology).layer(service_fn(move |_: Request<Body>| {
        let topology = inner.clone();
        async move {
            assert_eq!(here(&topology).as_deref(), Some("b"));
            std::future::pending::<()>().await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    }));
    let request = tokio::spawn(service.oneshot(ask(1)));
    yield_now().await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    assert_eq!(Route::stack_depth(), 0);
}

/// A guard that somebody holds across an await leaks into bare tasks of its thread, not into requests.
#[test]
fn requests_are_immune_to_a_guard_that_another_task_holds_across_an_await() {
    let topology = topology();
    let local = LocalSet::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(local.run_until(async {
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let holder = {
            let topology = topology.clone();
            spawn_local(async move {
                let _guard = topology.route("d").unwrap().enter().unwrap();
                let _ = released.await;
            })
        };
        yield_now().await;
        assert_eq!(here(&topology).as_deref(), Some("d"));
        let by_key = app(&topology, by_customer(&topology));
        assert_eq!(answer(&by_key, ask(1)).await.1, "Some(\"b\") 1");
        let empty = app(&topology, RouteLayer::empty_stack(topology.clone()));
        assert_eq!(answer(&empty, ask(1)).await.1, "None 0");
        release.send(()).unwrap();
        holder.await.unwrap();
    }));
}
