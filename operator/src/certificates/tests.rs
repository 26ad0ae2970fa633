use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use time::macros::datetime;

use super::*;
use crate::testing::{Asked, cluster, failure};

const NOW: OffsetDateTime = datetime!(2026-11-20 07:00 UTC);

/// An API server with two webhook configurations and room for one Secret.
fn server() -> impl Fn(&Asked) -> (u16, Value) {
    let secret: Mutex<Option<Value>> = Mutex::default();
    let bundle: Mutex<std::collections::BTreeMap<String, Value>> = Mutex::default();
    move |asked| {
        let mut secret = secret.lock().unwrap();
        let path = asked.path.split('?').next().unwrap_or_default();
        if path.contains("/secrets") {
            return match (asked.method.as_str(), secret.is_some()) {
                ("GET", false) => failure(404, "NotFound"),
                ("POST", false) | ("PUT", true) => {
                    let mut stored = asked.body.clone();
                    stored["metadata"]["resourceVersion"] = json!("7");
                    *secret = Some(stored.clone());
                    (200, stored)
                }
                ("GET", true) => (200, secret.clone().unwrap_or_default()),
                _ => failure(409, "Conflict"),
            };
        }
        let mut bundles = bundle.lock().unwrap();
        if asked.method == "PATCH" {
            let written = asked.body["webhooks"][0]["clientConfig"]["caBundle"].clone();
            bundles.insert(path.to_owned(), written);
        }
        let webhook = json!({
            "name": "w", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"caBundle": bundles.get(path)},
        });
        (200, json!({"metadata": {"name": "c"}, "webhooks": [webhook]}))
    }
}

fn methods(log: &crate::testing::Log) -> Vec<String> {
    log.lock().unwrap().drain(..).map(|asked| asked.method).collect()
}

#[tokio::test]
async fn the_first_sync_makes_everything_and_the_second_nothing() {
    let (client, log) = cluster(server());
    let certificates = Certificates::new(client, "sealane-system");
    let bundle = certificates.bundle();
    assert!(bundle.borrow().is_empty());
    certificates.sync(NOW).await.unwrap();
    assert_eq!(methods(&log), ["GET", "POST", "GET", "PATCH", "GET", "PATCH"]);
    assert!(bundle.borrow().starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(certificates.resolver().is_loaded());
    certificates.sync(NOW).await.unwrap();
    assert_eq!(methods(&log), ["GET", "GET", "GET"]);
    // Two thirds of the leaf's life later the Secret is replaced; the authority, and so the bundle, stays.
    certificates.sync(NOW + time::Duration::days(61)).await.unwrap();
    assert_eq!(methods(&log), ["GET", "PUT", "GET", "GET"]);
}

#[tokio::test]
async fn a_second_replica_uses_what_the_first_made() {
    let (client, _) = cluster(server());
    let (first, second) = (Certificates::new(client.clone(), "n"), Certificates::new(client, "n"));
    first.sync(NOW).await.unwrap();
    second.sync(NOW).await.unwrap();
    assert_eq!(*first.bundle().borrow(), *second.bundle().borrow());
}

#[tokio::test]
async fn a_lost_race_is_an_error_and_nothing_is_served_that_was_not_written() {
    let (client, _) = cluster(|asked| match asked.method.as_str() {
        "GET" => failure(404, "NotFound"),
        _ => failure(409, "Conflict"),
    });
    let certificates = Certificates::new(client, "n");
    assert!(certificates.sync(NOW).await.is_err());
    assert!(!certificates.resolver().is_loaded() && certificates.bundle().borrow().is_empty());
}

#[tokio::test]
async fn a_damaged_secret_is_named() {
    let (client, _) = cluster(|_| (200, json!({"data": {CERTIFICATES_KEY: "e30="}})));
    let error = Certificates::new(client, "n").sync(NOW).await.unwrap_err();
    assert!(error.to_string().contains(CERTIFICATES_SECRET), "{error}");
}

/// As [`server`], whose Secret somebody deletes between two looks.
fn forgetful(deleted: Arc<AtomicBool>) -> impl Fn(&Asked) -> (u16, Value) {
    let generations = [server(), server()];
    move |asked| generations[usize::from(deleted.load(Ordering::SeqCst))](asked)
}

#[tokio::test]
async fn a_secret_that_was_deleted_comes_back_with_the_authority_that_pods_trust() {
    let deleted = Arc::<AtomicBool>::default();
    let (client, log) = cluster(forgetful(Arc::clone(&deleted)));
    let (first, second) = (Certificates::new(client.clone(), "n"), Certificates::new(client.clone(), "n"));
    first.sync(NOW).await.unwrap();
    second.sync(NOW).await.unwrap();
    let trusted = first.bundle().borrow().clone();
    methods(&log);
    deleted.store(true, Ordering::SeqCst);
    second.sync(NOW).await.unwrap();
    assert_eq!(methods(&log)[..2], ["GET", "POST"], "it is written again");
    first.sync(NOW).await.unwrap();
    let replacement = Certificates::new(client, "n");
    replacement.sync(NOW).await.unwrap();
    for process in [&first, &second, &replacement] {
        assert_eq!(*process.bundle().borrow(), trusted);
    }
    assert_eq!(methods(&log).iter().filter(|method| *method == "POST").count(), 0);
}

#[tokio::test]
async fn replicas_whose_clocks_differ_by_minutes_keep_what_the_other_made() {
    for skew in [-5, 5].map(time::Duration::minutes) {
        let (client, log) = cluster(server());
        let (first, second) = (Certificates::new(client.clone(), "n"), Certificates::new(client, "n"));
        first.sync(NOW + skew).await.unwrap();
        second.sync(NOW - skew).await.unwrap();
        first.sync(NOW + skew).await.unwrap();
        assert_eq!(*first.bundle().borrow(), *second.bundle().borrow());
        let written = methods(&log).into_iter().filter(|method| ["POST", "PUT"].contains(&method.as_str()));
        assert_eq!(written.collect::<Vec<_>>(), ["POST"], "{skew}");
    }
}
