//! A cluster that answers from a function, for tests of code that holds a client; and clients that mean no good.

mod flood;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

pub(crate) use flood::{HostileClient, flood};

/// A request as the API server would see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// Everything that was asked, in order.
pub(crate) type Log = Arc<Mutex<Vec<Asked>>>;

/// A client whose API server answers with `answer`, and what it was asked.
pub(crate) fn cluster(answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> (Client, Log) {
    let log = Log::default();
    let (answer, asked) = (Arc::new(answer), Arc::clone(&log));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap_or_default();
            let request = Asked {
                method: head.method.to_string(),
                path: head.uri.to_string(),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            let (status, value) = answer(&request);
            asked.lock().unwrap().push(request);
            Ok::<_, Infallible>(
                Response::builder().status(status).body(Body::from(value.to_string().into_bytes())).unwrap(),
            )
        }
    });
    (Client::new(service, "default"), log)
}

/// How an API server says no.
pub(crate) fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code,
    });
    (code, status)
}

/// A list of `items`.
pub(crate) fn list(items: Value) -> (u16, Value) {
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
}
