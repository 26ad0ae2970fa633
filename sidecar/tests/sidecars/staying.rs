//! Sessions end when what they rest on does.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sealane_sidecar::evidence::{Platforms, Provider, ProviderError, ProviderInput};
use sealane_sidecar::handoff::LaneFailure;
use sealane_simulated::Material;
use sealane_simulated::forge::{Authority, Dates, Recipe};
use sealane_types::{Product, Reason};
use serde_json::json;
use tokio::time::Instant;

use crate::client::{sender, try_sender};
use crate::support::{Plan, Sidecar, document, provider, signed, until};

/// Long enough for two sidecars to meet on a busy machine.
const LIFETIME: Duration = Duration::from_secs(12);

/// A chip whose certificate expires soon.
fn expiring_chip() -> &'static Material {
    static CHIP: OnceLock<Material> = OnceLock::new();
    CHIP.get_or_init(|| {
        let authority = Authority::generate().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let validity = Dates { from: now - Duration::from_secs(60), until: now + LIFETIME };
        authority.issue(&Recipe { validity, ..Recipe::new(Product::Genoa).unwrap() }).unwrap()
    })
}

fn open(input: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(provider(expiring_chip(), input))
}

#[tokio::test]
async fn evidence_that_expires_ends_its_sessions() {
    let mut document = document(1);
    for peer in ["embedder", "ranker"] {
        document["peers"][peer]["entries"][0]["root"] = json!(expiring_chip().fingerprint().to_string());
    }
    let chain = signed(&document, &[1, 2]);
    let plan = |plan: Plan| Plan {
        chain: chain.clone(),
        platforms: Platforms::production().with_simulated(open),
        ..plan
    };
    let receiver = plan(Plan::receiver()).start();
    let from = plan(Plan::sender(&[receiver.address])).start();
    let (_lane, _events) = sender(&from.lanes).await;
    let ended = |sidecar: &Sidecar| {
        let metrics = sidecar.node.render_metrics().unwrap();
        let mut ended = metrics.lines().filter(|line| line.starts_with("sealane_connections_ended_total"));
        ended.any(|line| line.contains(Reason::CollateralExpired.as_str()) && !line.ends_with(" 0"))
    };
    until("the end of the connection", || ended(&from) || ended(&receiver)).await;
    // And no other takes its place.
    let error = try_sender(&from.lanes, 1, Instant::now() + Duration::from_secs(20)).await.unwrap_err();
    assert_eq!((error.failure, error.reason), (LaneFailure::Refused, Reason::EvidenceExpired), "{error}");
}
