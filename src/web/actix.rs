//! The middleware for actix-web, and the blocking driver inside its handlers.
//!
//! actix polls all requests of a worker on one thread, so nothing of a request may stay in the thread
//! between two polls; [`RouteMiddleware`] sees to that. The blocking driver belongs into [`block`],
//! which takes the route of the request along to the thread pool.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready};
use actix_web::error::BlockingError;
use actix_web::http::StatusCode;
use actix_web::http::header::{ContentType, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use pin_project_lite::pin_project;

use super::rule::{Named, Rule};
use super::{Refusal, ShardSource};
use crate::error::Error;
use crate::key::ToShardKey;
use crate::route::{CapturedRoutes, IntoRoutes, Route, Routed};

type Answer = dyn Fn(Refusal) -> HttpResponse + Send + Sync;

/// Gives each request of an actix application a route stack of its own, with the route of its shard.
///
/// The closure reads the shard key (or the name of the shard, or a route's text form) from a header, a
/// path parameter (wrap the resource or scope that has it), or an extension of the request; see
/// [`Refusal`] for the answers to requests that cannot be routed.
///
/// ```
/// use actix_web::{App, HttpRequest, HttpResponse, test, web};
/// use diesel_sharded::web::actix::RouteMiddleware;
/// use diesel_sharded::{KeyType, KeyspaceConfig, Route, RuleSpec, Topology};
///
/// # #[actix_web::main]
/// # async fn main() -> Result<(), diesel_sharded::Error> {
/// let topology = Topology::builder()
///     .shard("order-0", "order-0.db")
///     .shard("order-1", "order-1.db")
///     .keyspace("orders", KeyspaceConfig::new(RuleSpec::hash(["order-0", "order-1"], 64).key(KeyType::Integer)))
///     .build()?;
/// let by_customer = RouteMiddleware::by_key(topology, "orders", |request: &HttpRequest| {
///     request.match_info().get("customer").and_then(|id| id.parse::<i64>().ok())
/// })?;
/// let app = App::new().service(
///     web::resource("/customers/{customer}")
///         .wrap(by_customer)
///         .to(async || HttpResponse::Ok().body(Route::stack_depth().to_string())),
/// );
/// let app = test::init_service(app).await;
/// let request = test::TestRequest::get().uri("/customers/7").to_request();
/// assert_eq!(test::call_and_read_body(&app, request).await, "1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct RouteMiddleware {
    rule: Rule<HttpRequest>,
    answer: Option<Arc<Answer>>,
}

impl RouteMiddleware {
    /// Routes by a shard key of this keyspace.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn by_key<K, N>(
        source: impl ShardSource,
        keyspace: impl AsRef<str>,
        key: impl Fn(&HttpRequest) -> N + Send + Sync + 'static,
    ) -> Result<Self, Error>
    where
        K: ToShardKey,
        N: Named<K>,
    {
        Rule::by_key(source, keyspace.as_ref(), key).map(Self::new)
    }

    /// Routes by the name of a shard.
    pub fn by_shard<S, N>(
        source: impl ShardSource,
        shard: impl Fn(&HttpRequest) -> N + Send + Sync + 'static,
    ) -> Self
    where
        S: AsRef<str>,
        N: Named<S>,
    {
        Self::new(Rule::by_shard(source, shard))
    }

    /// Routes by the text form of a route, which another service has sent along; it is checked
    /// against the topology of today.
    pub fn by_route<S, N>(
        source: impl ShardSource,
        text: impl Fn(&HttpRequest) -> N + Send + Sync + 'static,
    ) -> Self
    where
        S: AsRef<str>,
        N: Named<S>,
    {
        Self::new(Rule::by_route(source, text))
    }

    /// Gives each request an empty stack and no route: for services that route inside their handlers.
    pub fn empty_stack(source: impl ShardSource) -> Self {
        Self::new(Rule::empty_stack(source))
    }

    fn new(rule: Rule<HttpRequest>) -> Self {
        Self { rule, answer: None }
    }

    /// Lets a request in that names no key (the closure says `None`): it runs with an empty stack, so
    /// that its checkouts take the default shard or fail with [`Error::NoRoute`]. Defaults to 400, as
    /// which an `Err` of the closure is answered all the same.
    pub fn optional(mut self) -> Self {
        self.rule = self.rule.optional();
        self
    }

    /// Makes the response to a request that is not let in. Defaults to the text of the refusal, as
    /// plain text.
    pub fn refuse_with(
        mut self,
        answer: impl Fn(Refusal) -> HttpResponse + Send + Sync + 'static,
    ) -> Self {
        self.answer = Some(Arc::new(answer));
        self
    }
}

impl fmt::Debug for RouteMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteMiddleware")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

/// Runs a closure on actix's thread pool for blocking work, under the route of this request.
///
/// `actix_web::web::block` alone would start it with an empty stack.
///
/// ```no_run
/// # use actix_web::{HttpResponse, web};
/// # use diesel_sharded::blocking::ShardedConnectionManager;
/// # use diesel_sharded::web::{Refusal, actix::block};
/// # type Shards = ShardedConnectionManager<diesel::SqliteConnection>;
/// async fn handler(shards: web::Data<Shards>) -> actix_web::Result<HttpResponse> {
///     let shard = block(move || Ok::<_, diesel_sharded::Error>(shards.get()?.shard()))
///         .await?
///         .map_err(Refusal::from)?;
///     Ok(HttpResponse::Ok().body(shard.map(|name| name.to_string()).unwrap_or_default()))
/// }
/// ```
///
/// # Errors
///
/// [`BlockingError`] when the pool is shut down or the closure panics.
pub fn block<T, E>(
    f: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> impl Future<Output = Result<Result<T, E>, BlockingError>>
where
    T: Send + 'static,
    E: From<diesel::result::Error> + Send + 'static,
{
    actix_web::web::block(Route::capture().wrap(f))
}

/// So that a handler may answer with it by `?`.
impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header(ContentType::plaintext());
        if let Some(seconds) = self.retry_after() {
            response.insert_header((RETRY_AFTER, seconds));
        }
        response.body(self.message().to_owned())
    }
}

impl<S, B> Transform<S, ServiceRequest> for RouteMiddleware
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = actix_web::Error>,
    B: MessageBody,
{
    type Response = ServiceResponse<EitherBody<Routed<B>>>;
    type Error = actix_web::Error;
    type Transform = RouteService<S>;
    type InitError = ();
    type Future = Ready<Result<RouteService<S>, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(RouteService {
            inner,
            middleware: self.clone(),
        }))
    }
}

/// A service behind a [`RouteMiddleware`].
#[derive(Debug)]
pub struct RouteService<S> {
    inner: S,
    middleware: RouteMiddleware,
}

impl<S, B> Service<ServiceRequest> for RouteService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = actix_web::Error>,
    B: MessageBody,
{
    type Response = ServiceResponse<EitherBody<Routed<B>>>;
    type Error = actix_web::Error;
    type Future = RouteFuture<S::Future>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let kind = match self.middleware.rule.route_of(request.request()) {
            Ok(route) => {
                let routes = route.map_or_else(CapturedRoutes::none, IntoRoutes::into_routes);
                // What the service does before it gives its future has the route too.
                let future = Routed::made_in(&routes, || self.inner.call(request));
                Kind::Service { future, routes }
            }
            Err(refusal) => {
                let response = match &self.middleware.answer {
                    Some(answer) => answer(refusal),
                    None => refusal.error_response(),
                };
                Kind::Refused {
                    response: Some(request.into_response(response)),
                }
            }
        };
        RouteFuture { kind }
    }
}

pin_project! {
    /// The future of a [`RouteService`].
    pub struct RouteFuture<F> {
        #[pin]
        kind: Kind<F>,
    }
}

impl<F> fmt::Debug for RouteFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteFuture").finish_non_exhaustive()
    }
}

pin_project! {
    #[project = Projected]
    enum Kind<F> {
        Service {
            #[pin]
            future: Routed<F>,
            routes: CapturedRoutes,
        },
        Refused {
            response: Option<ServiceResponse>,
        },
    }
}

impl<F, B> Future for RouteFuture<F>
where
    F: Future<Output = Result<ServiceResponse<B>, actix_web::Error>>,
{
    type Output = Result<ServiceResponse<EitherBody<Routed<B>>>, actix_web::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            Projected::Service { future, routes } => {
                let response = ready!(future.poll(context))?;
                // The body is polled after this future is done: a stack of its own for it.
                let routed = |_: &mut _, body| EitherBody::left(Routed::new(body, routes));
                Poll::Ready(Ok(response.map_body(routed)))
            }
            Projected::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response.map_into_right_body())),
                None => Poll::Pending,
            },
        }
    }
}

impl<B: MessageBody> MessageBody for Routed<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.inner().map_or(BodySize::None, MessageBody::size)
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<actix_web::web::Bytes, B::Error>>> {
        self.with_inner(|body| body.poll_next(context))
            .unwrap_or(Poll::Ready(None))
    }
}
