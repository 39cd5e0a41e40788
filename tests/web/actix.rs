//! The middleware for actix-web: many requests on one thread, the blocking driver on others.

use actix_web::body::MessageBody;
use actix_web::http::header::RETRY_AFTER;
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use actix_web::{App, HttpRequest, HttpResponse, rt, web};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_sharded::blocking::ShardedConnectionManager;
use diesel_sharded::web::Refusal;
use diesel_sharded::web::actix::{RouteMiddleware, block};
use diesel_sharded::{Error, Route, Topology};
use futures_util::{StreamExt, future, stream};

use super::{busy_shard, gone, here, topology, unavailable};

fn customer(request: &HttpRequest) -> Option<i64> {
    request.match_info().get("customer")?.parse().ok()
}

fn by_customer(topology: &Topology) -> RouteMiddleware {
    RouteMiddleware::by_key(topology.clone(), "orders", customer).unwrap()
}

async fn look(topology: web::Data<Topology>) -> String {
    let first = here(&topology);
    for _ in 0..5 {
        rt::task::yield_now().await;
        assert_eq!(here(&topology), first);
    }
    format!("{first:?} {}", Route::stack_depth())
}

/// An application with one resource, `/{customer}`.
macro_rules! app {
    ($topology:expr, $middleware:expr, $handler:expr) => {
        init_service(
            App::new()
                .app_data(web::Data::new($topology.clone()))
                .service(web::resource("/{customer}").wrap($middleware).to($handler)),
        )
        .await
    };
}

fn ask(customer: impl ToString) -> TestRequest {
    TestRequest::get().uri(&format!("/{}", customer.to_string()))
}

#[actix_web::test]
async fn each_request_has_the_route_of_its_key_and_nothing_else() {
    let topology = topology();
    let app = app!(topology, by_customer(&topology), look);
    let requests = (0..200).map(async |i| {
        let response = call_service(&app, ask(i % 4).to_request()).await;
        (i % 4, read_body(response).await)
    });
    for (customer, body) in future::join_all(requests).await {
        let shard = ["a", "b"][customer % 2];
        assert_eq!(body, format!("Some({shard:?}) 1"));
    }
    assert_eq!(Route::stack_depth(), 0);
}

#[actix_web::test]
async fn what_cannot_be_routed_is_answered_in_plain_words() {
    let topology = topology();
    let app = app!(topology, by_customer(&topology), look);
    for (customer, status, text) in [
        ("seven", 400, "the request names no shard key"),
        ("5", 404, "no shard has the key of the request"),
        (
            "7",
            503,
            "shard c is not available at the moment, try again later",
        ),
    ] {
        let response = call_service(&app, ask(customer).to_request()).await;
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers().contains_key(RETRY_AFTER), status == 503);
        assert_eq!(read_body(response).await, text);
    }
    let own = by_customer(&topology)
        .refuse_with(|refusal| HttpResponse::ImATeapot().body(refusal.to_string()));
    let app = app!(topology, own, look);
    assert_eq!(call_service(&app, ask(5).to_request()).await.status(), 418);

    let optional = app!(topology, by_customer(&topology).optional(), look);
    let response = call_service(&optional, ask("none").to_request()).await;
    assert_eq!(read_body(response).await, "None 0");
    let empty = app!(
        topology,
        RouteMiddleware::empty_stack(topology.clone()),
        look
    );
    let response = call_service(&empty, ask(1).to_request()).await;
    assert_eq!(read_body(response).await, "None 0");
    assert!(RouteMiddleware::by_key(topology, "order", customer).is_err());
}

#[actix_web::test]
async fn shards_and_routes_in_headers() {
    fn header(request: &HttpRequest) -> Option<String> {
        Some(request.headers().get("x")?.to_str().ok()?.to_owned())
    }
    let topology = topology();
    let shard = app!(
        topology,
        RouteMiddleware::by_shard(topology.clone(), header),
        look
    );
    let response = call_service(&shard, ask(0).insert_header(("x", "b")).to_request()).await;
    assert_eq!(read_body(response).await, "Some(\"b\") 1");
    let response = call_service(&shard, ask(0).insert_header(("x", "z")).to_request()).await;
    assert_eq!(response.status(), 404);
    let route = app!(
        topology,
        RouteMiddleware::by_route(topology.clone(), header),
        look
    );
    let request = ask(0).insert_header(("x", "v1;shard=b"));
    let response = call_service(&route, request.to_request()).await;
    assert_eq!(read_body(response).await, "Some(\"b\") 1");
    let response = call_service(&route, ask(0).insert_header(("x", "b")).to_request()).await;
    assert_eq!(response.status(), 400);
}

#[actix_web::test]
async fn blocking_work_has_the_route_of_the_request_and_its_thread_keeps_nothing() {
    type Shards = ShardedConnectionManager<SqliteConnection>;
    async fn read(shards: web::Data<Shards>) -> actix_web::Result<String> {
        let bare = shards.clone();
        let whoami = move || {
            let name = diesel::dsl::sql::<Text>("(SELECT name FROM whoami)");
            diesel::select(name).get_result::<String>(&mut shards.get()?)
        };
        let carried = block(whoami).await?.map_err(Error::from);
        let bare = web::block(move || (bare.get().map(drop), Route::stack_depth())).await?;
        assert!(matches!(bare, (Err(Error::NoRoute { .. }), 0)), "{bare:?}");
        Ok(carried.map_err(Refusal::from)?)
    }
    let folder = tempfile::tempdir().unwrap();
    let mut builder = Shards::builder();
    for shard in ["a", "b"] {
        let file = folder.path().join(shard).display().to_string();
        let mut conn = SqliteConnection::establish(&file).unwrap();
        conn.batch_execute(&format!("CREATE TABLE whoami AS SELECT '{shard}' AS name"))
            .unwrap();
        builder = builder.shard(shard, file);
    }
    let shards = builder.build().unwrap();
    let by_name = RouteMiddleware::by_shard(shards.clone(), |request: &HttpRequest| {
        request.match_info().get("customer").map(str::to_owned)
    });
    let app = app!(shards, by_name, read);
    let requests = (0..100).map(async |i| {
        let shard = ["a", "b"][i % 2];
        let response = call_service(&app, ask(shard).to_request()).await;
        assert_eq!(read_body(response).await, shard);
    });
    future::join_all(requests).await;
}

#[actix_web::test]
async fn a_shard_that_is_down_is_answered_before_the_handler_once_that_is_known() {
    type Shards = ShardedConnectionManager<diesel::PgConnection>;
    async fn read(shards: web::Data<Shards>) -> actix_web::Result<String> {
        let read = block(move || {
            let refused = shards.get().map(drop);
            assert!(refused.as_ref().is_err_and(unavailable));
            refused
        });
        read.await?.map_err(Refusal::from)?;
        Ok("it is there".to_owned())
    }
    let shards = Shards::from_topology(&gone()).unwrap();
    let by_name = RouteMiddleware::by_shard(shards.clone(), |_: &HttpRequest| Some("gone"));
    let app = app!(shards, by_name, read);
    for _ in 0..2 {
        let response = call_service(&app, ask(1).to_request()).await;
        assert_eq!(response.status(), 503);
        let text = "shard gone is not available at the moment, try again later";
        assert_eq!(read_body(response).await, text);
    }
}

#[actix_web::test]
async fn an_exhausted_pool_is_answered_with_the_time_to_try_again() {
    type Shards = ShardedConnectionManager<SqliteConnection>;
    async fn read(shards: web::Data<Shards>) -> actix_web::Result<String> {
        let read = block(move || shards.get().map(drop)).await?;
        read.map_err(Refusal::from)?;
        Ok("it is free".to_owned())
    }
    let folder = tempfile::tempdir().unwrap();
    let shards = busy_shard(&folder);
    let _held = shards.get_on("busy").unwrap();
    let by_name = RouteMiddleware::by_shard(shards.clone(), |_: &HttpRequest| Some("busy"));
    let app = app!(shards, by_name, read);
    let response = call_service(&app, ask(1).to_request()).await;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers().get(RETRY_AFTER).unwrap(), "1");
    assert_eq!(
        read_body(response).await,
        "shard busy is busy, try again later"
    );
}

#[actix_web::test]
async fn a_streamed_body_is_read_under_the_route_of_its_request() {
    async fn pieces(topology: web::Data<Topology>) -> HttpResponse {
        let pieces = stream::iter(0..3).map(move |i| {
            let piece = format!("{i}{:?} ", here(&topology));
            Ok::<_, actix_web::Error>(web::Bytes::from(piece))
        });
        HttpResponse::Ok().streaming(pieces)
    }
    let topology = topology();
    let app = app!(topology, by_customer(&topology), pieces);
    let response = call_service(&app, ask(1).to_request()).await;
    let body = read_body(response).await;
    assert_eq!(body, "0Some(\"b\") 1Some(\"b\") 2Some(\"b\") ");
    // The size is that of the body inside.
    let whole = app!(topology, by_customer(&topology), look);
    let response = call_service(&whole, ask(1).to_request()).await;
    let size = response.into_body().size();
    assert_eq!(
        size,
        actix_web::body::BodySize::Sized("Some(\"b\") 1".len() as u64)
    );
}

/// All tasks of an actix worker share one thread.
#[actix_web::test]
async fn requests_are_immune_to_a_guard_that_another_task_holds_across_an_await() {
    let topology = topology();
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let holder = {
        let topology = topology.clone();
        rt::spawn(async move {
            let _guard = topology.route("d").unwrap().enter().unwrap();
            let _ = released.await;
        })
    };
    rt::task::yield_now().await;
    assert_eq!(here(&topology).as_deref(), Some("d"));
    let app = app!(topology, by_customer(&topology), look);
    let response = call_service(&app, ask(1).to_request()).await;
    assert_eq!(read_body(response).await, "Some(\"b\") 1");
    release.send(()).unwrap();
    holder.await.unwrap();
}
