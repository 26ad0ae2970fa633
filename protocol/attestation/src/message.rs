//! The evidence message: everything a prover sends so that its evidence can be judged.

use sealane_types::{Digest, PodIdentity};

use crate::binding::MerklePath;
use crate::codec::{Reader, put_prefixed};
use crate::evidence::Evidence;
use crate::limits::{
    EVIDENCE_BYTES_MAX, MESSAGE_BYTES_MAX, PATH_DEPTH_MAX, POD_IDENTITY_BYTES_MAX, WORKLOAD_BYTES_MAX,
};
use crate::rejection::Rejection;
use crate::workload::StatedWorkload;

/// Encoded as: lp(pod identity) ‖ policy digest (32) ‖ leaves (u32) ‖ index (u32) ‖ path nodes (one byte) ‖
/// nodes (32 each) ‖ lp(evidence), then lp(workload) where a node agent states one, with nothing after it. Nothing in
/// it is believed before the evidence is shown to sign it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceMessage {
    /// The replica as it names itself.
    pub pod: PodIdentity,
    /// SHA-256 of the policy document that the prover runs under.
    pub policy: Digest,
    /// Where this handshake stands in the quote's tree.
    pub path: MerklePath,
    pub evidence: Evidence,
    /// What runs in the pod, where the evidence is its node's: signed by the same quote.
    pub workload: Option<StatedWorkload>,
}

impl EvidenceMessage {
    /// The bytes on the wire.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] when the evidence is larger than any verifier accepts.
    pub fn encode(&self) -> Result<Vec<u8>, Rejection> {
        let nodes =
            u8::try_from(self.path.siblings().len()).map_err(|_| Rejection::Malformed("path length"))?;
        let mut out = Vec::new();
        put_prefixed(&mut out, self.pod.as_str().as_bytes());
        out.extend_from_slice(self.policy.as_bytes());
        out.extend_from_slice(&self.path.leaves().to_be_bytes());
        out.extend_from_slice(&self.path.index().to_be_bytes());
        out.push(nodes);
        for node in self.path.siblings() {
            out.extend_from_slice(node);
        }
        put_prefixed(&mut out, &self.evidence.encode()?);
        if let Some(workload) = &self.workload {
            put_prefixed(&mut out, &workload.encode());
        }
        debug_assert_eq!(Self::decode(&out).as_ref(), Ok(self));
        Ok(out)
    }

    /// Reads exactly one encoded message.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] for anything that [`Self::encode`] does not write, paths that no tree has
    /// among it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::Malformed("evidence message encoding");
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(Rejection::Malformed("size of the evidence message"));
        }
        let mut reader = Reader::new(bytes);
        let pod = reader.prefixed(POD_IDENTITY_BYTES_MAX).ok_or(MALFORMED)?;
        let policy = reader.array().map(Digest::new).ok_or(MALFORMED)?;
        let path = read_path(&mut reader)?;
        let evidence = reader.prefixed(EVIDENCE_BYTES_MAX).ok_or(MALFORMED)?;
        let workload = if reader.is_empty() {
            None
        } else {
            Some(StatedWorkload::decode(reader.prefixed(WORKLOAD_BYTES_MAX).ok_or(MALFORMED)?)?)
        };
        if !reader.is_empty() {
            return Err(MALFORMED);
        }
        let pod = std::str::from_utf8(pod).map_err(|_| Rejection::Malformed("pod identity"))?;
        let pod = PodIdentity::try_from(pod.to_owned()).map_err(|_| Rejection::Malformed("pod identity"))?;
        Ok(Self { pod, policy, path, evidence: Evidence::decode(evidence)?, workload })
    }
}

fn read_path(reader: &mut Reader<'_>) -> Result<MerklePath, Rejection> {
    const MALFORMED: Rejection = Rejection::Malformed("path");
    let leaves = reader.u32().ok_or(MALFORMED)?;
    let index = reader.u32().ok_or(MALFORMED)?;
    let nodes = usize::from(reader.byte().ok_or(MALFORMED)?);
    if nodes > PATH_DEPTH_MAX {
        return Err(MALFORMED);
    }
    let mut siblings = Vec::with_capacity(nodes);
    for _ in 0..nodes {
        siblings.push(reader.array().ok_or(MALFORMED)?);
    }
    MerklePath::new(leaves, index, siblings).map_err(|_| MALFORMED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Format;

    fn sample() -> EvidenceMessage {
        EvidenceMessage {
            pod: PodIdentity::new("demo", "embedder-0", "6b5e").unwrap(),
            policy: Digest::new([3; 32]),
            path: MerklePath::new(3, 1, vec![[4; 32], [5; 32]]).unwrap(),
            evidence: Evidence {
                format: Format::SimulatedSevSnp,
                report: vec![7; 64],
                certificates: vec![vec![1]],
            },
            workload: None,
        }
    }

    fn stated() -> EvidenceMessage {
        let images = [("sealane".to_owned(), Digest::new([6; 32]))];
        let workload = StatedWorkload::new("embedder".to_owned(), images.into()).unwrap();
        EvidenceMessage { workload: Some(workload), ..sample() }
    }

    #[test]
    fn what_is_encoded_decodes() {
        for message in [sample(), stated()] {
            assert_eq!(EvidenceMessage::decode(&message.encode().unwrap()).unwrap(), message);
        }
    }

    #[test]
    fn one_encoding_only() {
        let bytes = sample().encode().unwrap();
        for length in 0..bytes.len() {
            assert!(EvidenceMessage::decode(&bytes[..length]).is_err(), "{length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(EvidenceMessage::decode(&longer).is_err());
        assert!(EvidenceMessage::decode(&vec![0; MESSAGE_BYTES_MAX + 1]).is_err());
        longer.extend_from_slice(&[0; 3]);
        assert!(EvidenceMessage::decode(&longer).is_err(), "a statement that is there is not empty");
        let stated = stated().encode().unwrap();
        for length in bytes.len() + 1..stated.len() {
            assert!(EvidenceMessage::decode(&stated[..length]).is_err(), "{length}");
        }
        assert!(EvidenceMessage::decode(&[&stated[..], &[0]].concat()).is_err());
    }

    #[test]
    fn the_longest_path_and_the_longest_message_are_read() {
        let path = MerklePath::new(4096, 0, vec![[4; 32]; PATH_DEPTH_MAX]).unwrap();
        let message = EvidenceMessage { path, ..sample() };
        assert_eq!(EvidenceMessage::decode(&message.encode().unwrap()), Ok(message));
        for (bytes, refused) in [
            (MESSAGE_BYTES_MAX, "evidence message encoding"),
            (MESSAGE_BYTES_MAX + 1, "size of the evidence message"),
        ] {
            assert_eq!(EvidenceMessage::decode(&vec![0xff; bytes]), Err(Rejection::Malformed(refused)));
        }
    }

    #[test]
    fn a_path_that_no_tree_has_is_refused() {
        let bytes = sample().encode().unwrap();
        let pod_end = 4 + "demo/embedder-0/6b5e".len();
        let index_at = pod_end + 32 + 4;
        let mut beyond = bytes.clone();
        beyond[index_at..index_at + 4].copy_from_slice(&3_u32.to_be_bytes());
        assert!(EvidenceMessage::decode(&beyond).is_err());
        let mut shorter_way = bytes;
        shorter_way[index_at..index_at + 4].copy_from_slice(&2_u32.to_be_bytes());
        assert!(EvidenceMessage::decode(&shorter_way).is_err());
    }
}
