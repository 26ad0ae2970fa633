//! An agent as guest-components serve it, on loopback, around a platform of the tests.

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::routing::get;
use sealane_attestation::{Collateral, Evidence, inspect};
use sealane_fixtures::keys::MATERIAL;
use sealane_simulated::Platform;
use sealane_types::{Digest, UnixSeconds};
use serde_json::{Value, json};
use sev::firmware::guest::AttestationReport;
use sev::parser::ByteParser as _;
use tokio::net::{TcpListener, TcpSocket};

use super::*;

const REQUEST: QuoteRequest = QuoteRequest {
    report_data: [7; 64],
    tree_root: [8; 32],
    own_static: [9; 32],
    policy: Digest::new([0; 32]),
    trust: Digest::new([0; 32]),
    leaves: 1,
};

/// How an agent goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Takes what it is given for text, as releases before `encoding` did.
    Text,
    Refuses,
    Babbles,
}

#[derive(Clone)]
struct Agent {
    platform: std::sync::Arc<Platform>,
    fault: Fault,
}

async fn evidence(
    State(agent): State<Agent>,
    RawQuery(asked): RawQuery,
) -> Result<axum::Json<Value>, StatusCode> {
    let asked = asked.unwrap();
    let asked = asked.strip_prefix("runtime_data=").unwrap().strip_suffix("&encoding=base64").unwrap();
    let mut data = [0; 64];
    match agent.fault {
        Fault::Refuses => return Err(StatusCode::INTERNAL_SERVER_ERROR),
        Fault::Babbles => return Ok(axum::Json(json!({"svn": "1", "report_data": asked}))),
        Fault::Text => data.copy_from_slice(&asked.as_bytes()[..64]),
        Fault::None => data.copy_from_slice(&URL_SAFE_NO_PAD.decode(asked).unwrap()),
    }
    let quote = agent.platform.quote(data).unwrap();
    let report = AttestationReport::from_bytes(&quote.report).unwrap();
    let names = ["VCEK", "ASK", "ARK"];
    let chain = quote.certificates.iter().zip(names).rev();
    let chain: Vec<Value> = chain.map(|(data, name)| json!({"cert_type": name, "data": data})).collect();
    Ok(axum::Json(json!({"attestation_report": report, "cert_chain": chain})))
}

async fn agent(fault: Fault) -> (CocoAgent, Agent) {
    let platform = Platform::new(MATERIAL.clone(), None).unwrap();
    let served = Agent { platform: platform.into(), fault };
    let router = Router::new().route("/aa/evidence", get(evidence)).with_state(served.clone());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (CocoAgent::new(address), served)
}

#[tokio::test]
async fn a_report_comes_back_as_the_platform_signed_it() {
    let (agent, served) = agent(Fault::None).await;
    assert_eq!(agent.format().await.unwrap(), Format::SevSnp);
    let quote = agent.quote(REQUEST).await.unwrap();
    // The chip's signature holds over what was put together again, so it is the same, bit for bit.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let evidence = Evidence {
        format: Format::SimulatedSevSnp,
        report: quote.report,
        certificates: quote.certificates.clone(),
    };
    let claims =
        inspect(&evidence, &Collateral::empty().allowing_simulated(), UnixSeconds(now.as_secs())).unwrap();
    assert_eq!(claims.report_data(), Some(&REQUEST.report_data));
    let signed = served.platform.quote(REQUEST.report_data).unwrap();
    assert_eq!(quote.certificates, signed.certificates, "whatever their order on the way");
}

#[tokio::test]
async fn what_an_agent_gets_wrong_is_told() {
    for (fault, told) in [
        (Fault::Text, "does not carry what it was asked for"),
        (Fault::Refuses, "refused to quote"),
        (Fault::Babbles, "platform or release that Sealane does not know"),
    ] {
        let (agent, _) = agent(fault).await;
        let error = agent.quote(REQUEST).await.unwrap_err().to_string();
        assert!(error.contains(told), "{fault:?}: {error}");
    }
    // Bound, so that nobody else takes its port, and not listening.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let error = CocoAgent::new(nobody.local_addr().unwrap()).format().await.unwrap_err().to_string();
    assert!(error.contains("agent.guest_components_rest_api=all"), "{error}");
}

#[test]
fn a_tdx_quote_travels_as_it_is() {
    let body =
        json!({"cc_eventlog": null, "quote": base64::engine::general_purpose::STANDARD.encode([4; 632])});
    let (format, quote) = answer::read(body.to_string().as_bytes()).unwrap();
    assert_eq!((format, quote.report), (Format::Tdx, vec![4; 632]));
    let issuers = json!({"cert_type": "ASK", "data": [1, 2]});
    assert!(answer::read(json!({"quote": "%", "cert_chain": [issuers]}).to_string().as_bytes()).is_err());
}
