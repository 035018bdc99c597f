//! HTTP: requests by POST, the upgrade to a WebSocket, and the files of the web page.
//!
//! Parsing HTTP is hyper's business. What is ours: nothing happens before `Host` and `Origin` have been checked,
//! nothing but static files is given without the token, and there are no CORS headers, so that no other page gets to see
//! an answer.

use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::time::timeout;

use crate::access::Denied;
use crate::conversation::{Conversation, Expected, News};
use crate::outbox::Outbox;
use crate::server::Connection;
use crate::stalls::Patient;
use crate::websocket;

/// Bytes of the head of a request.
const HEAD_BYTES: usize = 64 << 10;

/// What the page may load, and from where: its own files, and answers to its questions. Text of a guest that became markup
/// by mistake could still not run anything; and where the browser knows trusted types, no text can become markup.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";

/// A file of the web page, part of the program.
#[derive(Clone, Copy, Debug)]
pub struct StaticFile {
    /// As in the URL, with the slash: `/page.js`; `/` for the page itself.
    pub path: &'static str,
    /// The media type, with its character set.
    pub content_type: &'static str,
    /// The contents.
    pub bytes: &'static [u8],
}

impl StaticFile {
    /// What tells its versions apart.
    fn tag(&self) -> String {
        format!("\"{:08x}-{:x}\"", crc32fast::hash(self.bytes), self.bytes.len())
    }
}

/// What there is to see before there is a page.
pub(crate) const SIGNPOST: &[StaticFile] = &[StaticFile {
    path: "/",
    content_type: "text/plain; charset=utf-8",
    bytes: b"This is Retrospect, a time-travel debugger, serving a recording.\n\
             POST JSON-RPC 2.0 requests to /rpc or open a WebSocket at /ws;\n\
             the method system.describe lists what there is to ask.\n",
}];

/// Serves a connection to its end, or until it becomes a WebSocket, which then lives on its own.
pub(crate) async fn serve<S>(stream: BufReader<Patient<S>>, connection: Arc<Connection>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &connection.core.limits;
    let mut stopping = connection.stopping.clone();
    let routes = Router::new()
        .route("/rpc", post(answer_request))
        .route("/ws", get(open_websocket))
        .fallback(give_file)
        .layer(DefaultBodyLimit::max(limits.request_bytes))
        .with_state(connection.clone());
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.introduction)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .with_upgrades();
    tokio::pin!(serving);
    // Errors are the client's: it went away or does not speak HTTP, and has been told so.
    tokio::select! {
        _ = &mut serving => {}
        () = stopping.wait() => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
}

async fn answer_request(
    State(connection): State<Arc<Connection>>,
    request: Request,
) -> Result<Response, Response> {
    let headers = request.headers();
    connection.access.check_page(headers).map_err(denied)?;
    connection.access.check_token(headers, None).map_err(denied)?;
    if !is_json(headers) {
        let message = "the Content-Type must be application/json\n";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_response());
    }
    let limits = &connection.core.limits;
    // What is announced as too large need not be waited for.
    if request.body().size_hint().lower() > limits.request_bytes as u64 {
        return Err(StatusCode::PAYLOAD_TOO_LARGE.into_response());
    }
    let body = timeout(limits.request_time, Bytes::from_request(request, &()))
        .await
        .map_err(|_| StatusCode::REQUEST_TIMEOUT.into_response())?
        .map_err(IntoResponse::into_response)?;
    let (outbox, mut outgoing) = Outbox::new(limits.unfetched_bytes);
    // Dropped with this future when the client goes away, which cancels its requests.
    let conversation = Conversation::new(&connection.core, outbox, News::Impossible);
    if conversation.receive(&body) == Expected::Nothing {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let answer = outgoing.next().await.unwrap_or_default();
    let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((head, answer).into_response())
}

async fn open_websocket(
    State(connection): State<Arc<Connection>>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Response> {
    connection.access.check_page(&headers).map_err(denied)?;
    connection.access.check_token(&headers, uri.query()).map_err(denied)?;
    let limit = connection.core.limits.request_bytes;
    let upgrade = upgrade.max_message_size(limit).max_frame_size(limit);
    Ok(upgrade.on_upgrade(move |socket| websocket::serve(socket, connection)))
}

async fn give_file(
    State(connection): State<Arc<Connection>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Response> {
    connection.access.check_page(&headers).map_err(denied)?;
    let file = connection.files.iter().find(|file| file.path == uri.path());
    let file = file.ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    if !matches!(method, Method::GET | Method::HEAD) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response());
    }
    let tag = file.tag();
    let head = [
        (CONTENT_TYPE, file.content_type),
        (CACHE_CONTROL, "no-cache"),
        (ETAG, &tag),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The page's address has the token in it.
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    ];
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag)) {
        return Ok((StatusCode::NOT_MODIFIED, head).into_response());
    }
    Ok((head, file.bytes).into_response())
}

fn denied(reason: Denied) -> Response {
    let message = format!("{reason}\n");
    match reason {
        Denied::Token => {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], message).into_response()
        }
        Denied::Host | Denied::Origin => (StatusCode::FORBIDDEN, message).into_response(),
    }
}

/// Pages of others cannot send this type without asking first, and we never say yes.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}
