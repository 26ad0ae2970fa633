//! The ledger of one pod, held open from its node: it can still be read when the pod is gone.

use std::{fmt, process::Stdio};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdout, Command},
};

use crate::{Cluster, ledger::Book};

/// Waits for the ledger, opens it, and prints all of it once asked to.
const SCRIPT: &str = r#"until [ -e "$0/ledger.jsonl" ]; do sleep 0.1; done
exec 3< "$0/ledger.jsonl"; echo held; read -r _; cat <&3"#;

pub(crate) struct Hold {
    pub(crate) peer: String,
    pub(crate) pod: String,
    node: String,
    folder: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("pod", &self.pod).finish_non_exhaustive()
    }
}

impl Hold {
    /// Holds the ledger of `pod`, which has `uid` and runs on `node`, as soon as there is one.
    pub(crate) async fn begin(
        cluster: &Cluster,
        peer: &str,
        pod: &str,
        node: &str,
        uid: &str,
    ) -> Result<Self> {
        let folder = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/ledger");
        let (program, arguments) = cluster.on_node(node, &["sh", "-c", SCRIPT, &folder])?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("reaching into a node")?;
        let mut output = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut line = String::new();
        let held = tokio::time::timeout(crate::PATIENCE, output.read_line(&mut line)).await;
        held.with_context(|| format!("{pod} began no ledger"))??;
        ensure!(line.trim() == "held", "the ledger of {pod} cannot be held");
        let (peer, pod, node) = (peer.to_owned(), pod.to_owned(), node.to_owned());
        Ok(Self { peer, pod, node, folder, child, output })
    }

    /// How many lines of the ledger have `event`.
    pub(crate) async fn count(&self, cluster: &Cluster, event: &str) -> Result<u64> {
        let pattern = format!("\"event\": \"{event}\"");
        let script = r#"grep -c -F "$1" "$0/ledger.jsonl" || [ $? = 1 ]"#;
        let count = cluster.node(&self.node, &["sh", "-c", script, &self.folder, &pattern]).await?;
        count.trim().parse().with_context(|| format!("counting in the ledger of {}: {count:?}", self.pod))
    }

    /// Makes a file beside the ledger, which is how programs are told something.
    pub(crate) async fn tell(&self, cluster: &Cluster, word: &str) -> Result<()> {
        cluster.node(&self.node, &["touch", &format!("{}/{word}", self.folder)]).await?;
        Ok(())
    }

    /// Writes a file beside the ledger, which is there whole or not at all.
    pub(crate) async fn write(&self, cluster: &Cluster, file: &str, text: &str) -> Result<()> {
        let script = r#"printf %s "$2" > "$0/.$1" && mv "$0/.$1" "$0/$1""#;
        cluster.node(&self.node, &["sh", "-c", script, &self.folder, file, text]).await?;
        Ok(())
    }

    /// The whole ledger.
    pub(crate) async fn finish(mut self) -> Result<Book> {
        let mut input = self.child.stdin.take().context("a pipe")?;
        input.write_all(b"\n").await.context("asking for a ledger")?;
        drop(input);
        let mut text = String::new();
        self.output.read_to_string(&mut text).await.context("reading a ledger")?;
        self.child.wait().await.context("reading a ledger")?;
        Book::parse(&self.peer, &self.pod, &text)
    }
}
