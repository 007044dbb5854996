//! The HTTP side: a WebSocket for who asks for an upgrade, the information document, the landing page.

mod landing;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_MAX_AGE, ALLOW, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
        SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_VERSION, UPGRADE, VARY,
        X_CONTENT_TYPE_OPTIONS,
    },
    server::conn::http1,
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::{
    Info, Limits, connection,
    relay::{Phase, Relay},
    server::Pass,
    transport::websocket::{
        self, Settings,
        handshake::{DEFLATE, Handshake, HandshakeError},
    },
};

type Answer = Response<Full<Bytes>>;

/// What is asked for by who wants the information document (NIP-11).
const NOSTR_JSON: &str = "application/nostr+json";

/// The documents that the configuration decides, written once.
pub(crate) struct Documents {
    info: Info,
    information: Bytes,
}

impl Documents {
    pub(crate) fn new(info: Info, limits: &Limits) -> Self {
        Self {
            information: info.document(limits).into(),
            info,
        }
    }
}

/// Serves one connection, until it ends or is a WebSocket of its own.
pub(crate) async fn serve(relay: Arc<Relay>, stream: TcpStream, pass: Pass) {
    // The connection's place goes along with the upgrade, and stays with it.
    let pass = Arc::new(pass);
    let service = {
        let relay = Arc::clone(&relay);
        service_fn(move |request| {
            let answer = answer(&relay, &pass, request);
            async move { Ok::<_, Infallible>(answer) }
        })
    };
    let limits = &relay.limits;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.request_timeout())
        .max_buf_size(limits.request_head_bytes);
    let connection = http
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = relay.reached(Phase::Draining) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = relay.reached(Phase::Ended) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection failed");
    }
}

/// Answers one request.
fn answer(relay: &Arc<Relay>, pass: &Arc<Pass>, mut request: Request<Incoming>) -> Answer {
    match Handshake::read(request.method(), request.version(), request.headers()) {
        Some(Ok(handshake)) => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(upgraded(
                Arc::clone(relay),
                Arc::clone(pass),
                upgrade,
                handshake.deflate,
            ));
            return switching(&handshake);
        }
        Some(Err(HandshakeError::Version)) => {
            let mut answer = plain(
                StatusCode::UPGRADE_REQUIRED,
                "this relay speaks WebSocket, version 13\n",
            );
            answer
                .headers_mut()
                .insert(UPGRADE, HeaderValue::from_static("websocket"));
            answer
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("upgrade"));
            answer
                .headers_mut()
                .insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            return answer;
        }
        Some(Err(HandshakeError::Malformed(reason))) => return plain(StatusCode::BAD_REQUEST, reason),
        None => {}
    }
    match *request.method() {
        Method::OPTIONS => preflight(),
        // Hyper sends no body to HEAD.
        Method::GET | Method::HEAD => page(relay, request.headers(), request.uri().path()),
        _ => {
            let mut answer = plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "GET, HEAD and OPTIONS are answered here\n",
            );
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            answer
        }
    }
}

fn page(relay: &Relay, headers: &HeaderMap, path: &str) -> Answer {
    if accepts_nostr_json(headers) {
        let mut answer = with_type(relay.documents.information.clone(), NOSTR_JSON);
        allow_everyone(&mut answer);
        return answer;
    }
    match path {
        "/" => {
            let page = landing::page(
                &relay.documents.info,
                &relay.limits,
                &relay.counters,
                relay.started,
            );
            let mut answer = with_type(page.into(), "text/html; charset=utf-8");
            let headers = answer.headers_mut();
            headers.insert(
                CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(landing::CONTENT_POLICY),
            );
            headers.insert(VARY, HeaderValue::from_static("accept"));
            answer
        }
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        _ => plain(
            StatusCode::NOT_FOUND,
            "nothing is here; the relay's page is at /\n",
        ),
    }
}

/// Waits for the socket and makes it a connection of the relay.
async fn upgraded(relay: Arc<Relay>, pass: Arc<Pass>, upgrade: OnUpgrade, deflate: bool) {
    let Ok(upgraded) = upgrade.await else { return };
    let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() else {
        unreachable!("the socket is what this server gave to hyper");
    };
    let settings = Settings {
        message_max: relay.limits.message_bytes,
        deflate: deflate.then(|| Arc::clone(&relay.deflate)),
        deflate_from: relay.limits.deflate_from_bytes,
        stall: relay.limits.stall_timeout(),
    };
    let (source, sink) = websocket::split(parts.io.into_inner(), parts.read_buf, settings);
    connection::run(relay, source, sink).await;
    drop(pass);
}

fn switching(handshake: &Handshake) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    let accept = HeaderValue::from_str(&handshake.accept).expect("base64 is a header value");
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if handshake.deflate {
        headers.insert(SEC_WEBSOCKET_EXTENSIONS, DEFLATE);
    }
    answer
}

/// CORS: any page may read the document (NIP-11).
fn preflight() -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    allow_everyone(&mut answer);
    answer
        .headers_mut()
        .insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    answer
}

fn allow_everyone(answer: &mut Answer) {
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, OPTIONS"),
    );
    headers.insert(VARY, HeaderValue::from_static("accept"));
}

/// Whether the document is named among what is accepted, parameters aside.
fn accepts_nostr_json(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| {
            value.split(',').any(|item| {
                item.split(';')
                    .next()
                    .is_some_and(|media| media.trim().eq_ignore_ascii_case(NOSTR_JSON))
            })
        })
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = with_type(Bytes::from_static(text.as_bytes()), "text/plain; charset=utf-8");
    *answer.status_mut() = status;
    answer
}

fn with_type(body: Bytes, media: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(body));
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media));
    answer
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
