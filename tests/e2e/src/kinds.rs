//! Tensors of every kind, from Peer `left` on node1 to Peer `right` on node2 through session `lane`.

use anyhow::{Result, ensure};

use crate::{Sandbox, Workload};

const TENSORS: &str = include_str!("../programs/kinds/tensors.py");
const SEND: &str = include_str!("../programs/kinds/send.py");
const TAKE: &str = include_str!("../programs/kinds/take.py");

/// Who sends them, and who takes them and looks whether they are whole.
#[must_use]
pub fn every_kind() -> [Workload; 2] {
    [("left", "node1", SEND), ("right", "node2", TAKE)]
        .map(|(app, node, program)| Workload::new(app, node, program).file("tensors.py", TENSORS))
}

impl Sandbox {
    /// Waits until both have come to their end, and all of them have arrived whole.
    ///
    /// # Errors
    /// One failed, with its output, or did not end in time.
    pub async fn all_arrived(&self) -> Result<()> {
        let log = self.finish("right").await?;
        ensure!(log.contains("took 23 tensors"), "{log}");
        self.finish("left").await?;
        self.condition("transfersession/lane", "Complete", "True").await?;
        Ok(())
    }
}
