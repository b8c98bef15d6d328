//! One port: the router over all doors, and the accept loop with its bounds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

use crate::answer::{Door, Problem};
use crate::house::App;
use crate::{a2a, acts, agui, link, obligations, reads};

/// Connections open at once; one more waits in the kernel's queue.
const CONNECTIONS: usize = 1024;
/// The largest request head, bytes.
const HEAD: usize = 64 * 1024;
/// How long a request head may take to arrive.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a peer may take none of what is written to it: then its place is free.
pub const WRITE_TIME: Duration = Duration::from_secs(30);

/// Every route of the port.
pub fn router(app: App) -> Router {
    let browsers = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST, Method::OPTIONS])
        // `*` does not cover Authorization (Fetch standard): what is asked for is named.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([HeaderName::from_static("wikala-run-id"), HeaderName::from_static("wikala-thread-id")])
        .max_age(Duration::from_secs(600));
    Router::new()
        .merge(reads::routes())
        .merge(acts::routes())
        .merge(obligations::routes())
        .merge(agui::routes())
        // Before the layer: one set after it would answer browsers' preflights with 405.
        .method_not_allowed_fallback(another_method)
        .layer(browsers)
        .merge(a2a::routes())
        .merge(link::routes())
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .fallback(|| async {
            Problem::door(Door::RouteUnknown, "route: not known, GET /.well-known/wikala.json lists them")
                .into_response()
        })
        .method_not_allowed_fallback(another_method)
        .with_state(app)
}

async fn another_method() -> Response {
    Problem::door(Door::MethodNotAllowed, "route: takes another method, `Allow` names those it takes").into_response()
}

/// Ready: the record answers, the desk answers, and the house is not closing.
async fn ready(State(app): State<App>) -> Response {
    let check = async {
        app.readers.read(|reader| reader.ready()).await?;
        app.desk.ask(|_, _| Ok(())).await
    };
    let (word, status) = if app.is_closing() {
        ("closing", StatusCode::SERVICE_UNAVAILABLE)
    } else {
        match tokio::time::timeout(Duration::from_secs(2), check).await {
            Ok(Ok(())) => ("ready", StatusCode::OK),
            _ => ("the record does not answer", StatusCode::SERVICE_UNAVAILABLE),
        }
    };
    (status, format!("{word}\n")).into_response()
}

/// Serves until `closing` says so, then finishes what is open within `grace`.
pub async fn serve(app: App, listener: TcpListener, mut closing: watch::Receiver<bool>, grace: Duration) {
    let write_time = app.settings.write_time;
    let router = router(app);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut open = tokio::task::JoinSet::new();
    loop {
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let (Ok(place), Ok((stream, peer))) = (place, accepted) else {
            // Out of descriptors, most likely: give the others a moment to close theirs.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (router, closing) = (router.clone(), closing.clone());
        open.spawn(async move {
            let _place = place;
            connection(router, stream, peer, write_time, closing).await;
        });
        while open.try_join_next().is_some() {}
    }
    drop(listener);
    let _ = tokio::time::timeout(grace, async { while open.join_next().await.is_some() {} }).await;
    open.abort_all();
}

async fn connection(
    router: Router,
    stream: tokio::net::TcpStream,
    peer: SocketAddr,
    write_time: Duration,
    mut closing: watch::Receiver<bool>,
) {
    let service = router.map_request(move |mut request: axum::http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(write_time));
    let connection =
        http.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service)).with_upgrades();
    tokio::pin!(connection);
    let close = async move {
        let _ = closing.wait_for(|closing| *closing).await;
    };
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = close => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
