//! The demo's last page: what flowed, over what, proven how, and how the cluster tells it.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{Carrier, NAMESPACE, progress::Report};
use crate::{kubectl::Kubectl, progress};

pub(super) fn print(kubectl: &Kubectl, report: &Report, carrier: Carrier) -> Result<()> {
    let session = kubectl.json(&["-n", NAMESPACE, "get", "transfersession", "activations"])?;
    let ranker = &report.ranker;
    let mismatches = ranker["mismatches"].as_u64();
    progress::print("");
    for (name, value) in rows(ranker, &session["status"], &report.running.peer["status"]) {
        progress::print(&format!("  {name:<22}{value}"));
    }
    for line in ranker["neighbours"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        progress::print(&format!("    {line}"));
    }
    progress::print(&format!("\n$ kubectl get sealane -n {NAMESPACE}      # while the pods ran"));
    progress::print(report.running.listing.trim_end());
    let carried = session["status"]["carrier"].as_str().unwrap_or("nothing");
    ensure!(carrier.is(carried), "the session asks for {carrier} and was carried by {carried}");
    ensure!(mismatches == Some(0), "the split model differs from the uncut one: {ranker}");
    ensure!(
        report.embedder["tensors"] == ranker["tensors"],
        "the embedder put {} tensors and the ranker took {}",
        report.embedder["tensors"],
        ranker["tensors"]
    );
    Ok(())
}

fn rows(ranker: &Value, session: &Value, peer: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let bytes = ranker["bytes"].as_f64().unwrap_or(0.0);
    let model = ranker["model_bytes"].as_f64().unwrap_or(0.0) / 1e6;
    let seconds = ranker["seconds"].as_f64().unwrap_or(0.0);
    let platform = text(&peer["platform"]);
    let simulated = if platform == "Simulated" { "  (software evidence: protects nothing)" } else { "" };
    let mut rows = vec![
        ("tensors", ranker["tensors"].to_string()),
        ("bytes", format!("{:.1} MB", bytes / 1e6)),
        (
            "model",
            format!("{model:.1} MB of activations in {seconds:.1} s, two halves of MiniLM on two nodes"),
        ),
    ];
    if let Some(rate) = ranker["stream"]["bytes_per_second"].as_f64() {
        let size = ranker["stream"]["bytes"].as_f64().unwrap_or(0.0) / 1e6;
        rows.push(("stream", format!("{:.2} GB/s over {size:.0} MB without the model between", rate / 1e9)));
    }
    let quantum = session["postQuantum"].as_bool().map_or("unknown", |on| if on { "yes" } else { "no" });
    rows.extend([
        ("result", format!("equal to the uncut model: {}", ranker["mismatches"].as_u64() == Some(0))),
        (
            "carrier",
            match session["carrierMode"].as_str() {
                Some(mode) => format!("{} ({mode})", text(&session["carrier"])),
                None => text(&session["carrier"]),
            },
        ),
        ("cipher", text(&session["cipher"])),
        ("post-quantum", format!("{quantum} (X25519 and ML-KEM-768)")),
        ("platform", format!("{platform}{simulated}")),
        ("assurance", text(&peer["assurance"])),
    ]);
    if let Some(micros) = session["handshakeMicros"].as_f64() {
        rows.push(("handshake", format!("{:.2} ms, evidence of both sides included", micros / 1e3)));
    }
    rows
}
