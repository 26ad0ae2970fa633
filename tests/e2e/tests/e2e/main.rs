//! The tests that need a cluster, as one program. `.config/nextest.toml` picks those that run alone, or one at a
//! time, by a part of their whole names (`chart_`, `cluster_`, `operator_`, `node_`, `scale_`), so no module has such a part in its own
//! name.

mod admit;
mod af_xdp;
mod agent;
mod benchmark;
mod chart;
mod external;
mod faults;
mod faults_alone;
mod faults_cluster;
mod faults_long;
mod fit;
mod forward;
mod gitops;
mod grpc;
mod inference;
mod inject;
mod lifecycle;
mod matrix;
mod mixed;
mod operator;
mod outage;
mod policy;
mod scale;
mod stream;
mod torch;
mod verify;
