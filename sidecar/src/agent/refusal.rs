//! Why the agent does not quote for a caller.

use sealane_attestation::Unstatable;
use sealane_types::Digest;

use super::kubelet::KubeletError;
use super::runtime::RuntimeError;
use crate::evidence::ProviderError;

/// Each is told to the caller, whoever it is: what is in it, a process of the pod may know.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    // The caller.
    #[error("this node's kernel has no SO_PEERPIDFD (Linux 6.5): nobody can tell safely who calls")]
    KernelTooOld,
    #[error("the calling process has ended")]
    Gone,
    #[error("the calling process cannot be seen: the agent has to run with hostPID")]
    Invisible,
    #[error("the calling process is in no container of a pod")]
    NoContainer,
    #[error("this socket belongs to another pod")]
    OtherPod,
    #[error("only the container `sealane` gets evidence, and container `{0}` asked")]
    OtherContainer(String),
    #[error("the image of container `sealane` is {0}, which is not among the agent's sidecarDigests")]
    OtherSidecar(Digest),
    #[error("the image of container `{0}` is not given by digest in the pod's spec")]
    ImageByTag(String),
    #[error("container `{container}` runs, or ran, another image than {image}, which the pod asks for")]
    OtherImage { container: String, image: Digest },
    #[error(
        "the container runtime knows no digest of the image of container `{0}`: it was loaded on the node, or removed from it"
    )]
    UnknownImage(String),
    #[error("the kubelet and the container runtime know the pod by different names")]
    OtherNames,
    #[error("the workload cannot be stated")]
    Unstatable(#[from] Unstatable),
    #[error("the pod's names are none that Kubernetes gives")]
    Names,
    #[error("the question cannot be read: {0}")]
    Malformed(String),

    // What time helps against.
    #[error("the kubelet does not list the pod yet")]
    UnknownPod,
    #[error("the container runtime does not list the caller's container as running")]
    UnknownContainer,
    // The kubelet's list is up to a second older.
    #[error("container `{0}` is in the pod, which does not ask for it")]
    UndeclaredContainer(String),
    #[error("too many questions from this pod")]
    TooOften,
    #[error("too many questions on this node")]
    Busy,
    #[error("kubelet, container runtime and platform together took too long")]
    TooSlow,

    // The node.
    #[error("the kubelet could not be asked")]
    Kubelet(#[from] KubeletError),
    #[error("the container runtime could not be asked")]
    Runtime(#[from] RuntimeError),
    #[error("the node gives no evidence")]
    Platform(#[from] ProviderError),
}

impl Refusal {
    /// Whether the same question may be answered in a moment.
    pub(super) const fn passes(&self) -> bool {
        matches!(
            self,
            Self::UnknownPod
                | Self::UnknownContainer
                | Self::UndeclaredContainer(_)
                | Self::TooOften
                | Self::Busy
                | Self::TooSlow
                | Self::Kubelet(_)
                | Self::Runtime(_)
        )
    }

    /// The refusal and its causes, in one line.
    pub(super) fn words(&self) -> String {
        let mut words = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            words = format!("{words}: {cause}");
            source = cause.source();
        }
        words
    }
}
