//! What is kept of a run: a value of the ConfigMap `BENCHMARK-results`, in JSON, under the key `RUN.json`.

use serde::{Deserialize, Serialize};

use crate::seal::{OpenError, RunPublicKey, Sealed};
use crate::summary::{Place, Site, Summary};

/// The nodes of a run, and what came back from each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    pub run: String,
    /// RFC 3339, UTC.
    pub began: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    pub nodes: Vec<NodeRecord>,
}

/// One node of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeRecord {
    pub pool: String,
    pub node: String,
    /// Where the other end was, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Site>,
    /// What the node's pod said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Record {
    /// The key of the ConfigMap that holds the run.
    #[must_use]
    pub fn key_of(run: &str) -> String {
        format!("{run}.json")
    }

    /// The summaries of all nodes that have one, each signed with the key of this run for its own place.
    ///
    /// # Errors
    /// The first that is not.
    pub fn open(&self, key: &RunPublicKey) -> Result<Vec<Summary>, OpenError> {
        let sealed = self.nodes.iter().filter_map(|node| Some((node, node.sealed.as_ref()?)));
        sealed.map(|(node, sealed)| Sealed::new(sealed).open(key, &self.place(node))).collect()
    }

    /// What the figures of `node` belong to.
    #[must_use]
    pub fn place(&self, node: &NodeRecord) -> Place {
        let NodeRecord { pool, node, server, .. } = node;
        Place { run: self.run.clone(), pool: pool.clone(), node: node.clone(), server: server.clone() }
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::seal::RunKey;
    use crate::summary::tests::summary;

    #[test]
    fn a_result_belongs_to_its_run_and_node() {
        let key = RunKey::new(Zeroizing::new([1; 32]));
        let sealed = key.seal(summary()).unwrap().to_string();
        let Place { run, pool, node, server } = summary().place;
        let record = Record {
            run,
            nodes: vec![
                NodeRecord {
                    pool: pool.clone(),
                    node,
                    server: server.clone(),
                    sealed: Some(sealed.clone()),
                    failure: None,
                },
                NodeRecord {
                    pool,
                    node: "node-1".to_owned(),
                    server,
                    sealed: None,
                    failure: Some("gone".to_owned()),
                },
            ],
            ..Record::default()
        };
        let public = key.public().unwrap();
        assert_eq!(record.open(&public).unwrap(), [summary()]);
        // Another node's figures under its own name, and another run's.
        let mut forged = record.clone();
        forged.nodes[1].sealed = Some(sealed);
        assert!(matches!(forged.open(&public), Err(OpenError::Elsewhere { .. })));
        let renamed = Record { run: "7f3a-1-2".to_owned(), ..record };
        assert!(matches!(renamed.open(&public), Err(OpenError::Elsewhere { .. })));
    }
}
